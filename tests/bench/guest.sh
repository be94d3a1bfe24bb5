#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# The guest's part of scripts/bench: does what the plan in $OUT/plan says, a script of the calls
# below that scripts/bench has written. What a measurement printed is in $OUT/run/INDEX; a line
# "done INDEX EXIT-CODE MILLISECONDS" tells of its end, "missing INDEX REASON" that there is none,
# "finished" of the end of all, "gave up" that the rest needs another machine.
# shellcheck source=../vm/lib/lib.sh
. "$(dirname "$0")/../vm/lib/lib.sh"
# shellcheck source=../vm/lib/encryption.sh
. "$(dirname "$0")/../vm/lib/encryption.sh"
# shellcheck source=disks.sh
. "$(dirname "$0")/disks.sh"

TIME_LIMIT=${BENCH_TIME_LIMIT:-120}
port=18515
net='' module='' broken='' profile=''

# What an experiment prints is for its log; what the host reads goes to the script's own output.
exec 3>&1

# use_net MTU [wireguard|ipsec|relays|tls|delay TIME|cards]: a veth pair between the namespaces a and b, or what is
# encrypted on it, or one on which programs can encrypt, or one that takes so long in each direction; or the guest's
# two cards; 65536 is lo's, between the processes of one namespace, by an address of a dummy interface.
use_net() {
	leave_net
	server_ns=a client_ns=b
	if [ "$1" = 65536 ]; then
		server_ns=- client_ns=-
		ip link add va mtu 65535 type dummy || die "dummy"
		ip addr add 10.1.0.1/24 dev va
		ip link set va up
		net=dummy
	elif [ "${2:-}" = cards ]; then
		use_cards "$1"
		net=cards
	else
		make_net "$1"
		net=namespaces
		[ -z "${2:-}" ] || "inside_$2" "${@:3}" >"$LOGS/$2" 2>&1 || die "no $2"
	fi
}

# use_cards MTU: each in a namespace, in the place of an end of a veth pair.
use_cards() {
	modprobe e1000e || die "no e1000e"
	until_true 10 card 2 || die "the guest has no cards"
	ip netns add a
	ip netns add b
	ip link set "$(card 1)" netns a name va mtu "$1"
	ip link set "$(card 2)" netns b name vb mtu "$1"
	end_of_net a 1
	end_of_net b 2
	until_true 10 carrier a va || die "no carrier"
	until_true 10 carrier b vb || die "no carrier"
}

carrier() { ip -n "$1" link show "$2" | grep -q 'state UP'; }

# A card outlives its namespace: the first one gets it back.
leave_cards() {
	ip -n a link set va netns 1 name card1
	ip -n b link set vb netns 1 name card2
	ip netns del a
	ip netns del b
}

inside_tls() { encryption_modules; modprobe tls; }

# On the ports that next_port gives. To wait for the host's files takes minutes of this machine's clock: that is over
# before a program's time limit counts.
inside_relays() {
	modprobe -a tls chacha20poly1305 nft_chain_nat nft_redir nft_ct nft_reject_inet nft_fib_inet
	nft list ruleset
	stunnel4 -version
	openssl version
	inside_tls_relays 18515-31826
}

# inside_delay TIME: more packets are on their way than netem holds by itself.
inside_delay() {
	modprobe sch_netem && ip netns exec a tc qdisc add dev va root netem delay "$1" limit 1000000 &&
		ip netns exec b tc qdisc add dev vb root netem delay "$1" limit 1000000
}

# use_wire MTU: the same for consumers in the kernel, which live in the first namespace.
use_wire() {
	leave_net
	make_wire "$1"
	server_ns=- client_ns=-
	net=wire
}

leave_net() {
	case $net in
	namespaces) leave_relays; ip netns del a; ip netns del b; until_true 10 no_interface va ;;
	dummy) ip link del va ;;
	cards) leave_cards ;;
	wire) leave_wire ;;
	esac
	net=''
}

# Processes keep their namespaces.
leave_relays() {
	local ns
	for ns in a b; do
		[ ! -e /run/stunnel4/relay-$ns.pid ] || tls_ends $ns
	done
}

no_interface() { [ ! -e "/sys/class/net/$1" ]; }

# use_device TYPE MODULE PROVIDER [SETTING=VALUE...]: its module and a device at each end.
use_device() {
	local type=$1 setting
	(load_file "$2") || { broken="insmod $2 failed"; return; }
	module=$type
	export RDMAV_DRIVERS=$3
	add_device da "$server_ns" va
	[ "$net" = dummy ] || add_device db "$client_ns" vb
	shift 3
	for setting in "$@"; do
		set_to "${setting%%=*}" "${setting#*=}"
	done
}

set_to() { # SETTING VALUE
	local dev
	for dev in /sys/class/infiniband/d[ab]; do
		echo "$2" >"$dev/settings/$1" || broken="no setting $1"
	done
}

# with SETTING COMMAND...: a measurement of what is off by default; of devices without settings as they are.
with() {
	local setting=$1 broken=$broken
	shift
	if [ ! -e /sys/class/infiniband/da/settings ]; then
		"$@"
		return
	fi
	set_to "$setting" 1
	"$@"
	set_to "$setting" 0
}

add_device() { # NAME NS NETDEV
	if ! link_add "$@" "$module" || ! until_true 10 active "$1"; then
		broken="no device of type $module"
	fi
}

leave_device() {
	local name
	for name in "${!jobs[@]}"; do stop "$name"; done
	for name in da db; do
		[ ! -e /sys/class/infiniband/$name ] || timeout 10 rdma link delete $name
	done
	if [ -n "$module" ] && ! until_true 5 rmmod "$module"; then
		# What still holds it may hold on for ever: the rest is for another machine.
		echo "gave up" >&3
		exit 1
	fi
	module='' broken=''
}

# With "profile=PERIOD" in the plan: one sample in so many instructions, of all that runs while a
# measurement transfers. perf's clock stands still for good once the CPU has halted, and a CPU that
# is kept from halting makes each wait for the host's files take minutes: perf is ready before the
# measurement starts, and told to begin when there is no waiting any more.
start_profile() {
	[ -n "$profile" ] || return 0
	echo 0 >/proc/sys/kernel/kptr_restrict
	# The kernel is not to thin out the samples when it finds that they take long.
	echo 0 >/proc/sys/kernel/perf_cpu_time_max_percent
	rm -f /dev/shm/perf.*
	mkfifo /dev/shm/perf.{control,answer,pause}
	# It looks at each file of /lib/modules, thousands on the host, to no use: kallsyms has the names.
	# shellcheck disable=SC2016
	unshare -m bash -c 'mount -t tmpfs none /lib/modules && exec perf record "$@"' perf -B -N \
		-m 1024 -q -a -D -1 --control fifo:/dev/shm/perf.control,/dev/shm/perf.answer \
		-e cpu-clock -c "$profile" -o /dev/shm/perf.data -- sleep 100000 >"$LOGS/perf" 2>&1 &
	perf_pid=$!
	echo ping >/dev/shm/perf.control
	read -r </dev/shm/perf.answer
	begin_sampling &
	sampling=$!
}

received() { # how many packets were received
	local count total=0
	while read -r count _; do
		total=$((total + 16#$count))
	done </proc/net/softnet_stat
	echo $total
}

begin_sampling() {
	local before now
	now=$(received)
	exec 4<>/dev/shm/perf.pause
	until before=$now; read -r -t 0.01 -u 4; now=$(received); ((now - before >= 50)); do :; done
	echo enable >/dev/shm/perf.control
}

end_profile() { # INDEX
	[ -n "$profile" ] || return 0
	kill "$sampling" 2>/dev/null
	kill -INT "$perf_pid"
	wait "$sampling" "$perf_pid"
	# The host, whose files are the guest's, reads them many times faster.
	cp /dev/shm/perf.data "$OUT/run/$1.perf"
	cat /proc/kallsyms >"$OUT/run/$1.kallsyms"
}

clock() { date +%s%N; }

# finished INDEX CODE STARTED
finished() { printf 'done %s %s %s\n' "$1" "$2" $((($(clock) - $3) / 1000000)) >&3; }

# next_port: the first of 256, as each of up to 64 processes wants four. Below those that connections get.
next_port() { port=$((18515 + (port - 18515 + 256) % 13312)); }

# measure INDEX SERVER... -- CLIENT...: @PORT@ stands for a free port.
measure() {
	local index=$1 at rc=0 args=() word
	shift
	[ -z "$broken" ] || { printf 'missing %s %s\n' "$index" "$broken" >&3; return; }
	next_port
	for word in "$@"; do
		args+=("${word//@PORT@/$port}")
	done
	start_profile "$index"
	at=$(clock)
	pair "$index" $port "$server_ns" "$client_ns" "${args[@]}" >"$LOGS/pair" 2>&1 || rc=1
	end_profile "$index"
	cat "$log" >"$OUT/run/$index.out"
	[ $rc = 0 ] || { cat "$LOGS/pair" >>"$OUT/run/$index.out"; }
	finished "$index" $rc "$at"
}

# transfer INDEX SERVER... -- CLIENT...: the same for clients that wait for a listener themselves, with
# nothing started that can be spared: it is done many times.
transfer() {
	local index=$1 at rc=0 server=() client=() in_server=() in_client=() target
	shift
	[ -z "$broken" ] || { printf 'missing %s %s\n' "$index" "$broken" >&3; return; }
	next_port
	while [ "$1" != -- ]; do
		server+=("${1//@PORT@/$port}")
		shift
	done
	shift
	client=("${@//@PORT@/$port}")
	[ "$server_ns" = - ] || in_server=(ip netns exec "$server_ns")
	[ "$client_ns" = - ] || in_client=(ip netns exec "$client_ns")
	at=$(clock)
	"${in_server[@]}" timeout -k 5 "$TIME_LIMIT" "${server[@]}" >"$OUT/run/$index.server" 2>&1 </dev/null &
	target=$!
	"${in_client[@]}" timeout -k 5 "$TIME_LIMIT" "${client[@]}" >"$OUT/run/$index.out" 2>&1 </dev/null || {
		rc=$?
		kill "$target"
	}
	wait "$target" || rc=1
	[ $rc = 0 ] || cat "$OUT/run/$index.server" >>"$OUT/run/$index.out"
	finished "$index" $rc "$at"
}

# tidy: what is free is to be seen as free, before what a measurement uses in addition is counted.
tidy() {
	local shrink
	echo 3 >/proc/sys/vm/drop_caches
	for shrink in /sys/kernel/slab/*/shrink; do
		echo 1 >"$shrink"
	done
}

# alone INDEX COMMAND...: without a server.
alone() {
	local index=$1 at rc=0
	shift
	[ -z "$broken" ] || { printf 'missing %s %s\n' "$index" "$broken" >&3; return; }
	start_profile "$index"
	at=$(clock)
	timeout -k 5 "$TIME_LIMIT" "$@" >"$OUT/run/$index.out" 2>&1 </dev/null || rc=$?
	end_profile "$index"
	finished "$index" $rc "$at"
}

# obey TERMINAL: scripts in $OUT, whose names come over a line to the host, until it says "end".
obey() {
	local step
	stty -F "$1" -echo
	exec 5<"$1"
	echo ready >&3
	while read -r step <&5 && [ "$step" != end ]; do
		# shellcheck source=/dev/null
		. "$OUT/$step"
		echo "obeyed $step" >&3
	done
	exec 5<&-
}

# Both ends of a rsocket sleep, as all others do: without this they poll for 10 us before.
no_polling() {
	mount -t tmpfs none /etc/rdma && mkdir /etc/rdma/rsocket &&
		echo 0 >/etc/rdma/rsocket/polling_time
}

mkdir -p "$OUT/run"
ulimit -n 65536
no_polling || die "rsockets cannot be told not to poll"
# Each queue pair has a mapping.
echo 1000000 >/proc/sys/vm/max_map_count
# shellcheck source=/dev/null
. "$OUT/plan"
leave_device
leave_net
echo finished >&3
