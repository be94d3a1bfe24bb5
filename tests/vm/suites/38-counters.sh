#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# guest: --uml --mem 1024
#
# Counters of queue pairs: what "rdma statistic qp" binds, shows and unbinds, against known numbers of
# messages; and that the port's counters are right meanwhile and afterwards.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"

subject=$TOP/build/host/tests/interop/kiwarp-subject
declare -A to from

# subject NAME NS ADDRESS PORT: starts the program that does what ask says.
subject() {
	# $OUT may be the host's, by 9p, which has no pipes.
	local name=$1 pipe=/run/$1 in out
	mkfifo "$pipe.in" "$pipe.out" || die mkfifo
	exec {in}<>"$pipe.in" {out}<>"$pipe.out"
	to[$name]=$in from[$name]=$out
	ip netns exec "$2" "$subject" "$3" "$4" <"$pipe.in" >"$pipe.out" 2>&1 &
	jobs[$name]=$!
	answer "$name" || die "$name: $said"
}

# answer NAME: the next line that it says, in $said.
answer() {
	read -r -t "$TIME_LIMIT" -u "${from[$1]}" said && [[ $said == ok* ]]
}

# ask NAME COMMAND...: it must succeed.
ask() {
	local name=$1
	shift
	printf '%s\n' "$*" >&"${to[$name]}"
	answer "$name" || { note "$name: $*: $said"; return 1; }
}

# ask_for NAME PATTERN COMMAND...: and its answer must match.
ask_for() {
	local pattern=$2
	ask "$1" "${@:3}" || return
	[[ $said =~ $pattern ]] || { note "$1: ${*:3}: $said"; return 1; }
}

qps_of() { rdma resource show qp link "$1" | sed -n 's/.* lqpn \([0-9]*\) .*/\1/p' | sort; }

# connect NAME LINK: to far; qp[LINK] is the number of NAME's queue pair. Both ends have received then,
# and nothing is sent but what is asked for.
declare -A qp
connect() {
	local name=$1 link=$2 before
	before=$(qps_of da)
	ask "$name" prepare "$link" 10.1.0.2 7201 &&
		ask_for "$name" 'ok 0' connect "$link" &&
		ask_for far CONNECT_REQUEST request "$link" 60000 &&
		ask_for far 'ok 0' accept "$link" &&
		ask_for "$name" ESTABLISHED event "$link" 60000 &&
		ask_for far ESTABLISHED event "$link" 60000 &&
		sends "$name" far "$link" 1 && sends far "$name" "$link" 1 || return
	qp[$link]=$(comm -13 <(echo "$before") <(qps_of da))
	note "$link is ${qp[$link]}"
	[ "$(wc -w <<<"${qp[$link]}")" = 1 ]
}

# all COMMANDS: for check.
all() { eval "$1"; }

# What one message of 100 bytes is on the wire: length, headers, payload, pad and CRC.
SEND=$((2 + 18 + 100 + 4))
WRITE=$((2 + 14 + 100 + 4))
READ=$((2 + 18 + 28 + 4))

# sends FROM TO LINK N: so many Sends of 100 bytes.
sends() {
	local i
	for ((i = 0; i < $4; i++)); do
		ask_for "$2" 'ok 0' recv "$3" "$i" box:0:100 || return
		ask_for "$1" 'ok 0' send "$3" "$i" box:0:100 || return
		ask_for "$1" "ok $i:0:" completions "$3" send 1 60000 || return
		ask_for "$2" "ok $i:0:" completions "$3" recv 1 60000 || return
	done
}

# rdmas write|read LINK N: as sends, by near.
rdmas() {
	local i
	for ((i = 0; i < $3; i++)); do
		ask_for near 'ok 0' "$1" "$2" "$i" "$far_rkey" "$far_addr" box:0:100 || return
		ask_for near "ok $i:0:" completions "$2" send 1 60000 || return
	done
}

# counters: one line for each counter that is bound, the numbers of its queue pairs at the end.
counters() {
	local all
	all=$(rdma statistic qp show link da/1) || return
	[ -z "$all" ] || awk '/^link/ { if (l) print l; l = "" }
		{ l = l " " $0 } END { if (l) print l }' <<<"$all"
}

# figures CNTN NAME VALUE...: what the counter shows. A pass counts behind its completions.
figures() {
	local cntn=$1 line
	shift
	line=$(counters | grep " cntn $cntn ")
	printf '%s\n' "$line"
	while [ $# -gt 0 ]; do
		grep -qE " $1 $2( |\$)" <<<"$line" || return
		shift 2
	done
}
shows() { until_true 5 figures "$@" || { figures "$@"; false; }; }

# cntn_of LINK: the counter to which its queue pair is bound.
cntn_of() {
	counters | sed -nE "s/.* cntn ([0-9]+) .*LQPN.*[<, ]${qp[$1]}[,>].*/\1/p"
}
unbound() { counters >/dev/null && [ -z "$(cntn_of "$1")" ]; }
no_counter() {
	local all
	all=$(counters) && ! grep cntn <<<"$all"
}
# There are counters, and none of them shows such a figure.
shows_no() {
	local all
	all=$(counters) && grep -q cntn <<<"$all" && ! grep -E " $1" <<<"$all"
}
mode_is() { rdma statistic qp mode link da/1 | grep -E "auto $1"; }

port() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"; }
port_is() { [ "$(port "$1" "$2")" = "$3" ]; }
# port_shows DEV NAME VALUE
port_shows() { until_true 5 port_is "$@" || { port "$1" "$2"; false; }; }

bind_qp() { rdma statistic qp bind link da/1 lqpn "$1" ${2:+cntn "$2"}; }
unbind_qp() { rdma statistic qp unbind link da/1 cntn "$1" lqpn "$2"; }

apart() {
	local one two other=$((RANDOM + 1000))
	check "bind a queue pair" bind_qp "${qp[one]}"
	check "bind another" bind_qp "${qp[two]}"
	one=$(cntn_of one) two=$(cntn_of two)
	note "counters $one and $two"
	check "each has a counter of its own" test -n "$one" -a -n "$two" -a "$one" != "$two"
	check "both begin with 0" shows "$one" tx_fpdus 0 tx_octets 0 rx_fpdus 0 rx_octets 0
	check_fails "a queue pair that is bound is not bound to another counter" 'Invalid argument' \
		bind_qp "${qp[one]}" "$two"
	check_fails "a queue pair that does not exist" 'No such file' bind_qp 16777215
	check_fails "a counter that does not exist" 'No such file' bind_qp "${qp[three]}" $other
	check_fails "unbind it from the wrong counter" 'Invalid argument' unbind_qp "$two" "${qp[one]}"
	check_fails "auto mode while they are bound" 'busy|bound' \
		rdma statistic qp set link da/1 auto type on

	local sent received
	sent=$(port da tx_fpdus) received=$(port da rx_octets)
	check "7 Sends by one, 2 to it" all 'sends near far one 7 && sends far near one 2'
	check "5 Writes and 3 Reads by two" all 'rdmas write two 5 && rdmas read two 3'
	check "4 Sends by a third, which is not bound" sends near far three 4
	check "one's counter has one's" shows "$one" tx_fpdus 7 tx_octets $((7 * SEND)) \
		rx_fpdus 2 rx_octets $((2 * SEND)) rx_crc_errors 0
	check "two's counter has two's" shows "$two" tx_fpdus 8 \
		tx_octets $((5 * WRITE + 3 * READ)) rx_fpdus 3 rx_octets $((3 * WRITE))
	check "the port has all: FPDUs" port_shows da tx_fpdus $((sent + 7 + 8 + 4))
	check "the port has all: bytes" port_shows da rx_octets $((received + 2 * SEND + 3 * WRITE))
	check "what only a device counts is not shown" shows_no conn_established

	check "unbind one" unbind_qp "$one" "${qp[one]}"
	check "its counter is gone" unbound one
	check_fails "unbind it once more" 'Invalid argument|No such' unbind_qp "$one" "${qp[one]}"
	check "6 Sends by it are no one's" sends near far one 6
	check "two's counter does not change" shows "$two" tx_fpdus 8
	check "the port still has all" port_shows da tx_fpdus $((sent + 7 + 8 + 4 + 6))

	check "bind one to two's counter" bind_qp "${qp[one]}" "$two"
	check "1 Send by each" all 'sends near far one 1 && sends near far two 1'
	check "the counter has the sum" shows "$two" tx_fpdus $((8 + 2))
	check "unbind two" unbind_qp "$two" "${qp[two]}"
	check "1 Send by each once more" all 'sends near far one 1 && sends near far two 1'
	check "the counter has what both were bound for" shows "$two" tx_fpdus $((8 + 2 + 1))
	check "bind two to a new counter" bind_qp "${qp[two]}"
	check "it begins with 0" shows "$(cntn_of two)" tx_fpdus 0 rx_fpdus 0
	check "the port has all" port_shows da tx_fpdus $((sent + 7 + 8 + 4 + 6 + 4))
	check "a queue pair is destroyed that is bound" ask near forget two
	check "its counter is gone" unbound two
	check "the port still has all of it" port_shows da tx_fpdus $((sent + 7 + 8 + 4 + 6 + 4))
	check "unbind the last" unbind_qp "$two" "${qp[one]}"
	check "no counter is left" no_counter
}

automatic() {
	local mine its
	check "auto mode is off" mode_is off
	check "one counter for each process" rdma statistic qp set link da/1 auto pid on
	check "auto mode is on" mode_is 'pid on'
	check_fails "no queue pair can be bound by hand" 'Invalid argument' bind_qp "${qp[one]}"
	check "no counter without a new queue pair" no_counter
	check "a process connects twice" all 'connect near four && connect near five'
	check "another connects" connect other six
	mine=$(cntn_of four) its=$(cntn_of six)
	note "counters $mine and $its"
	check "the process has one counter" test -n "$mine" -a "$mine" = "$(cntn_of five)"
	check "the other process has another" test -n "$its" -a "$mine" != "$its"
	check "3 and 2 Sends to the one" all 'sends far near four 3 && sends far near five 2'
	check "4 Sends to the other" sends far other six 4
	# Each connection has received one more when it began.
	check "the one's counter has both connections'" shows "$mine" rx_fpdus $((3 + 2 + 2)) \
		rx_octets $(((3 + 2 + 2) * SEND))
	check "the other's has its own" shows "$its" rx_fpdus $((4 + 1)) rx_octets $(((4 + 1) * SEND))
	check_fails "none can be unbound by hand" 'Invalid argument' unbind_qp "$mine" "${qp[four]}"
	check "auto mode off" rdma statistic qp set link da/1 auto off
	stop other
	check "a process ends: its counter goes" until_true 10 unbound six
	check "the other process closes" all 'ask near forget four && ask near forget five'
	check "no counter is left" until_true 10 no_counter
}

# bound_transfer: one that ends well; n is how often its queue pair was bound and unbound meanwhile.
bound_transfer() {
	local number before
	start "rping, server" b rping -s -a 10.1.0.2 -p 7300 -C 500 -S 40000
	wait_listen b 7300 || return
	before=$(qps_of da)
	start "rping, client" a rping -c -a 10.1.0.2 -p 7300 -C 500 -S 40000
	until gone "${jobs["rping, client"]}"; do
		number=$(comm -13 <(echo "$before") <(qps_of da))
		[ -n "$number" ] && bind_qp "$number" && qp[load]=$number &&
			unbind_qp "$(cntn_of load)" "$number" && n=$((n + 1))
	done 2>/dev/null
	await "rping, client" && await "rping, server"
}

# Queue pairs are bound and unbound while they transmit: no FPDU is lost or counted twice.
under_load() {
	local sent received n=0 tries=0
	sent=$(($(port da tx_octets) - $(port db rx_octets)))
	received=$(($(port da rx_octets) - $(port db tx_octets)))
	# How often during one transfer is a matter of speed.
	while [ $n -lt 4 ] && [ $tries -lt 100 ]; do
		tries=$((tries + 1))
		bound_transfer || break
	done
	note "bound and unbound $n times in $tries transfers"
	check "queue pairs were bound under load" test $n -gt 3
	check "all that was sent was counted once" balanced da db $sent
	check "all that was received was counted once" balanced db da $((-received))
}
balanced() { # FROM TO DIFFERENCE
	until_true 5 balanced_now "$@" || { port "$1" tx_octets; port "$2" rx_octets; echo "$3"; false; }
}
balanced_now() { [ $(($(port "$1" tx_octets) - $(port "$2" rx_octets))) = "$3" ]; }

setup_pair
subject far b 10.1.0.2 7201
subject near a 10.1.0.1 7202
subject other a 10.1.0.1 7203
for name in far near other; do
	ask $name mr box 4096 local_write,remote_write,remote_read || die "$said"
	[ $name != far ] || read -r _ far_addr far_rkey <<<"$said"
done
check "connect" all 'connect near one && connect near two && connect near three' || die "no connection"
apart
automatic
under_load
stop near
stop far
teardown_pair
finish
