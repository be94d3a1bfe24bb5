#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# What completed arrives: a sender that ends at once behind its last completion, in each way that
# there is, in both directions, on wires that take their time and that lose packets.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"

arrival=$TOP/build/host/tests/vm/kiwarp-arrival
port=18800
TIME_LIMIT=150

# A wire with nothing on it.
impair() {
	tc -n a qdisc del dev va root 2>/dev/null
	tc -n b qdisc del dev vb root 2>/dev/null
	tc -n a qdisc replace dev va root netem limit 100000 "$@" &&
		tc -n b qdisc replace dev vb root netem limit 100000 "$@"
}

# arrives WHAT SENDER ARG...: SENDER is client or server.
arrives() {
	local what=$1 sender=$2 c=() s=()
	shift 2
	port=$((port + 1))
	if [ "$sender" = client ]; then c=(--send); else s=(--send); fi
	pair "$what, the $sender sends" $port a b \
		"$arrival" --server 10.1.0.1 --port $port "${s[@]}" "$@" -- \
		"$arrival" --client 10.1.0.1 --port $port "${c[@]}" "$@"
}

every_end() { # WHAT
	local end side
	for end in destroy exit kill; do
		for side in client server; do
			arrives "$1, $end, 64 B" $side --end $end --count 200 --size 64
			arrives "$1, $end, 64 KiB" $side --end $end --count 100 --size 65536
		done
	done
}

setup_pair
impair delay 20ms
every_end "20 ms"
impair delay 1ms
every_end "1 ms"
# What still comes from the peer is no reason to throw away what goes to it.
arrives "1 ms, both send, destroy" client --back --end destroy --count 100 --size 65536
arrives "1 ms, both send, kill" server --back --end kill --count 100 --size 65536
impair delay 1ms loss 2%
arrives "loss, destroy, 64 B" client --end destroy --count 200 --size 64
arrives "loss, exit, 64 KiB" server --end exit --count 100 --size 65536
arrives "loss, kill, 64 KiB" client --end kill --count 100 --size 65536

# A wire that takes a minute for what TCP has: the socket is there without the queue pair.
impair rate 8kbit
setting=/sys/class/infiniband/db/settings/linger_timeout_ms
counter=/sys/class/infiniband/db/ports/1/hw_counters/linger_resets

# User-Mode Linux has no cgroups of this kind.
group=/sys/fs/cgroup/sender
in_group=()
if grep -q cgroup2 /proc/filesystems; then
	mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup
	echo +memory >/sys/fs/cgroup/cgroup.subtree_control
	mkdir $group
	in_group=(sh -c "echo \$\$ >/proc/1/root$group/cgroup.procs && exec \"\$@\"" sh)
fi
# Bytes of sockets, as far as the kernel has added them up; a group without processes.
of_sockets() { awk '$1 == "sock" { print $2 }' "$group/memory.stat"; }
charged() { ! grep -q . "$group/cgroup.procs" && [ "$(of_sockets)" -ge 65536 ]; }
not_charged() { [ "$(of_sockets)" = 0 ]; }

lingers() { ip netns exec b ss -Htn state fin-wait-1 | grep -q .; }
no_more() { ! lingers; }

leave() { # WHAT: a sender that ends with 64 KiB in TCP
	port=$((port + 1))
	LIMIT=900 start counting a "$arrival" --server 10.1.0.1 --port "$port" --count 1 --size 65536
	wait_server counting a "$port"
	check "$1: all completes" in_ns b "${in_group[@]}" "$arrival" --client 10.1.0.1 --port $port --send \
		--end kill --count 1 --size 65536
	check "$1: the socket lingers" until_true 10 lingers
	check "$1: no queue pair is left" bash -c '! rdma resource show qp link db/1 | grep -q "type RC"'
}

before=$(cat $counter)
echo 600000 >$setting
leave "no time"
[ ${#in_group[@]} = 0 ] || check "the sender's cgroup is charged on" until_true 20 charged
check "sockets that linger keep their time" lingers
stop counting
ip netns exec b ss -K state fin-wait-1 >/dev/null
check "what the connection's end leaves is gone" until_true 10 no_more
[ ${#in_group[@]} = 0 ] || check "and is no longer charged" until_true 20 not_charged
impair rate 8kbit
echo 500 >$setting
leave_short() {
	port=$((port + 1))
	LIMIT=900 start counting a "$arrival" --server 10.1.0.1 --port "$port" --count 1 --size 65536
	wait_server counting a "$port"
	in_ns b "$arrival" --client 10.1.0.1 --port "$port" --send --end exit --count 1 --size 65536
}
check "all completes, with little time to linger" leave_short
check "the time is over: reset" until_true 30 no_more
check "and counted" test "$(cat $counter)" -gt "$before"
stop counting
echo 600000 >$setting
leave "a device that goes"
check "rdma link delete" rdma link delete db
check "ends what lingers" no_more
stop counting
link_add db b vb || not_ok "a device anew"
until_true 10 active db
echo 600000 >$setting
leave "a module that goes"
stop counting
teardown_pair
finish
