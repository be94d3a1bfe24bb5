#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# guest: --smp 1
#
# perftest over rdma_cm: write, read, send and atomic operations, bandwidth and latency, polling and sleeping on
# events, sizes from 2 bytes to 8 MiB, both directions, 1 and 16 queue pairs. PATCHED_PERFTEST names
# the folder where scripts/perftest has built it with its patches. PARTS: some of the parts. ROUNDS of those
# that waited for ever now and then without the patches [1].
# shellcheck source=../lib/lib.sh disable=SC2046
. "$(dirname "$0")/../lib/lib.sh"

port=18515
# The longest messages take their time where every byte is emulated.
TIME_LIMIT=${TIME_LIMIT_PERF:-180}

# perf WHAT ROWS PROGRAM ARG...: the run ends well on both sides and its table has ROWS rows.
perf() {
	local what=$1 rows=$2
	shift 2
	pair_perftest "$what" a b 10.1.0.1 "$@" || return
	local seen
	# A clock that perftest can not make out gives "inf"; no figure is judged here.
	seen=$(grep -cE '^ *[0-9]+ +[0-9]+ +([0-9.]+|inf) ' "$log")
	[ "$seen" = "$rows" ] || not_ok "$what: $seen of $rows rows in the table" "$log"
}

# has_option PROGRAM OPTION: Debian's perftest has all that are asked for; without one, facts would be
# missing. Not by a pipe: the programs' --help exits with 1.
has_option() {
	[[ $("$1" --help 2>&1) == *"$2"* ]] && return
	not_ok "$1 has the option $2"
	return 1
}

# Every power of two from 2 to 2^23.
all=23

# On iWARP, ib_send_bw lets its client send only as many messages ahead as the server's receive
# queue holds; the server opens that window again by RDMA Writes of its count into the client's
# memory, the last one for the last message. Several ways to wait for ever come with it, on any
# device, siw among them, and all are perftest's:
# - A client that sleeps on events (-e) does not notice being written to: once the window is
#   closed and its own sends have completed, nothing wakes it. With an odd number of messages
#   under 512 the receive queue gets one place more than that, and the window never closes.
# - Between the sizes of -a the client sets its copy of the count back after a handshake on
#   another connection, which may overtake the last Write of the size before: that a Write has
#   completed says nothing of the peer's memory on iWARP. The window then appears to be closed
#   beyond all counts. So messages of each size get a run of their own.
# - In both directions at once (-b), whoever has to send a count first waits until its own sends
#   leave room for one, and reckons with a full batch of completions (-Q) for the last, shorter
#   one: more completed than sent is no room at all. So one batch (whole) has all.
# - With --use-srq and several queue pairs the server takes a receive's number for that of the queue
#   pair that has used it, and opens the wrong windows. It is tried with one.
# What patches/perftest cure of this, the part "patched" runs.
whole() { # MESSAGES
	printf -- '-n %d -t %d -Q %d' "$1" "$1" "$1"
}

send_sizes() { # WHAT STEP ARG...
	local what=$1 step=$2 power
	shift 2
	for ((power = 1; power <= all; power += step)); do
		perf "ib_send_bw$what, 2^$power bytes" 1 ib_send_bw "$@" -s $((1 << power)) \
			$(whole $((power < 20 ? 11 : 5)))
	done
}

bandwidth() {
	local verb=$1 bw=ib_$1_bw
	perf "$bw, polling" 1 "$bw" -s 65536 -n 101
	perf "$bw, small messages" 1 "$bw" -s 64 -n 1000
	perf "$bw, both directions" 1 "$bw" -b -s 65536 $(whole 101)
	perf "$bw, 16 queue pairs" 1 "$bw" -q 16 -s 16384 -n 41 -t 16
	perf "$bw, 16 queue pairs, both directions" 1 "$bw" -q 16 -b -s 16384 $(whole 21)
	perf "$bw, lists of 8 work requests" 1 "$bw" -l 8 -s 4096 -n 400
	# All others post by ibv_wr_*(), if perftest can.
	if has_option "$bw" --use_old_post_send; then
		perf "$bw, ibv_post_send()" 1 "$bw" --use_old_post_send -s 65536 -n 101
		perf "$bw, ibv_post_send(), both directions" 1 "$bw" --use_old_post_send -b -s 64 $(whole 101)
	fi
	case $verb in
	write) perf "$bw, all sizes" "$all" "$bw" -a -n 5 -t 5 ;;
	read) perf "$bw, both directions, all sizes" "$all" "$bw" -b -a -n 5 -t 5 ;;
	send)
		perf "$bw, shared receive queue" 1 "$bw" --use-srq -s 4096 -n 101
		send_sizes "" 4
		send_sizes ", both directions" 11 -b
		;;
	esac
}

# Events are for completions, and nobody gets one for being written to: perftest has -e for
# send and read alone.
bandwidth_events() {
	local verb=$1 bw=ib_$1_bw
	perf "$bw, events" 1 "$bw" -e -s 65536 -n 101
	perf "$bw, events, both directions" 1 "$bw" -e -b -s 65536 $(whole 101)
	perf "$bw, events, 16 queue pairs" 1 "$bw" -e -q 16 -s 16384 $(whole 41)
	[ "$verb" != send ] || send_sizes ", events" 11 -e
	# It takes 16 completions for an event, and does not look again before the next.
	[ "$verb" != send ] || perf "$bw, events, more completions than it polls" 1 \
		"$bw" -e -Q 1 -s 64 -n 1001 -r 1001
}

latency() {
	local verb=$1 lat=ib_$1_lat
	perf "$lat, polling" 1 "$lat" -s 64 -n 300
	if has_option "$lat" --use_old_post_send; then
		perf "$lat, ibv_post_send()" 1 "$lat" --use_old_post_send -s 64 -n 300
	fi
	case $verb in
	write) perf "$lat, all sizes" "$all" "$lat" -a -n 5 ;;
	read) perf "$lat, events" 1 "$lat" -e -s 64 -n 300 ;;
	send)
		perf "$lat, events, all sizes" "$all" "$lat" -e -a -n 5
		perf "$lat, shared receive queue" 1 "$lat" --use-srq -s 64 -n 300
		;;
	esac
}

# How many TCP segments have come, one for all that came in one socket buffer.
segments_in() {
	# shellcheck disable=SC2016
	in_ns a awk '$1 == "Tcp:" {
		if (at) print $at
		for (i = 2; i <= NF; i++) if ($i == "InSegs") at = i
	}' /proc/net/snmp
}

# segments WHAT SEGMENTS: sets seen to how many come in a ping-pong of messages of three segments.
segments() {
	local dev before
	for dev in da db; do
		echo "$2" >"/sys/class/infiniband/$dev/settings/ack_segments"
	done
	before=$(segments_in)
	perf "ib_send_lat, 4 KiB, ack_segments $2, $1" 1 ib_send_lat -e -s 4096 -n 300
	seen=$(($(segments_in) - before))
}

# With the peer's answer comes its acknowledgment, unless TCP is to have its way (ack_segments 0).
# Where this machine is so busy that most answers take longer than a tick there is no difference:
# then once more.
acknowledgments() {
	local try off
	for try in 1 2 3; do
		segments "try $try" 0
		off=$seen
		segments "try $try" 4
		[ $((off - seen)) -lt 100 ] || break
	done
	check "messages that are answered are acknowledged with the answer" fewer "$off" "$seen"
}

fewer() {
	echo "$1 segments came, $2 with ack_segments 4"
	[ $(($1 - $2)) -ge 100 ]
}

# What patches/perftest cure: a client that has closed its window, with four receives at the server
# every three messages; credits where queue pairs share their receives.
patched() {
	local PATH=$PATCHED_PERFTEST:$PATH round
	check "perftest is the patched one" [ "$(type -P ib_send_bw)" = "$PATCHED_PERFTEST/ib_send_bw" ]
	for ((round = 1; round <= ${ROUNDS:-1}; round++)); do
		perf "patched ib_send_bw, events, even count, round $round" 1 ib_send_bw -e -s 65536 -n 100
		perf "patched ib_send_bw, events, four receives, round $round" 1 ib_send_bw -e -s 64 -r 4 -n 200
		perf "patched ib_send_bw, events, four receives, both directions, round $round" 1 \
			ib_send_bw -e -b -s 64 -r 4 -n 200
		perf "patched ib_send_bw, 16 queue pairs that share receives, round $round" 1 \
			ib_send_bw --use-srq -q 16 -s 4096 -n 100
		perf "patched ib_send_bw, events, 16 queue pairs that share receives, round $round" 1 \
			ib_send_bw -e --use-srq -q 16 -s 4096 -n 100
	done
	perf "patched ib_send_bw, two receives" 1 ib_send_bw -s 64 -r 2 -n 100
}

# Debian 12's perftest does not know Writes with Immediate.
immediates() {
	local PATH=$PATCHED_PERFTEST:$PATH
	echo 1 | tee /sys/class/infiniband/d[ab]/settings/immediate >/dev/null
	perf "ib_write_bw, immediates" 1 ib_write_bw --write_with_imm -s 65536 -n 101
	perf "ib_write_bw, immediates, ibv_post_send()" 1 \
		ib_write_bw --write_with_imm --use_old_post_send -s 65536 -n 101
	perf "ib_write_bw, immediates, both directions" 1 ib_write_bw --write_with_imm -b -s 64 $(whole 101)
	perf "ib_write_lat, immediates" 1 ib_write_lat --write_with_imm -s 64 -n 300
	echo 0 | tee /sys/class/infiniband/d[ab]/settings/immediate >/dev/null
}

# perftest's are eight bytes, and have tables of one row.
atomic() {
	local dev kind
	for dev in da db; do echo 1 >"/sys/class/infiniband/$dev/settings/atomics"; done
	for kind in FETCH_AND_ADD CMP_AND_SWAP; do
		perf "ib_atomic_bw, $kind" 1 ib_atomic_bw -A "$kind" -n 300
		perf "ib_atomic_lat, $kind" 1 ib_atomic_lat -A "$kind" -n 200
	done
	if has_option ib_atomic_bw --use_old_post_send; then
		perf "ib_atomic_bw, ibv_post_send()" 1 ib_atomic_bw --use_old_post_send -n 300
	fi
	perf "ib_atomic_bw, both directions" 1 ib_atomic_bw -b $(whole 101)
	perf "ib_atomic_bw, 16 queue pairs" 1 ib_atomic_bw -q 16 $(whole 41)
	for dev in da db; do echo 0 >"/sys/class/infiniband/$dev/settings/atomics"; done
}

verbs() {
	local verb
	for verb in ${VERBS:-write read send}; do
		bandwidth "$verb"
		[ "$verb" = write ] || bandwidth_events "$verb"
		latency "$verb"
	done
}

setup_pair
parts=(verbs acknowledgments atomic)
if [ -n "${PATCHED_PERFTEST:-}" ]; then
	parts+=(patched immediates)
else
	note "without PATCHED_PERFTEST, what patches/perftest cure is left out, and Writes with Immediate"
fi
for part in ${PARTS:-${parts[@]}}; do
	$part
done
teardown_pair
finish
