#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# guest: --smp 1
#
# Tenants of one host: what an ordinary user, or somebody on the network, can take from the others.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"

tenants=$TOP/build/host/tests/vm/kiwarp-tenants
peer=$TOP/tests/vm/tenants/tcp_peer.py
as_user=(setpriv --reuid=2000 --regid=2000 --clear-groups)

# peers NAME MODE PORT COUNT [SOURCE]: as many connections from namespace b.
peers() {
	LIMIT=300 start "$1" b python3 -B "$peer" "$2" 10.1.0.1 "${@:3}"
	peers_log=$server_log
	until_true 90 grep -q there "$peers_log"
}

process_events_and_rings() {
	absorb "completion events" "${as_user[@]}" "$tenants" --device da --events
	absorb "rings" "${as_user[@]}" "$tenants" --device da --rings
}

doorbells() {
	absorb "doorbells" ip netns exec a "$tenants" --doorbells 10.1.0.1
}

async_events() {
	absorb "asynchronous events" ip netns exec a "$tenants" --async 10.1.0.1
}

counted() { [ "$(cat "/sys/class/infiniband/da/ports/1/hw_counters/$1")" -ge "$2" ]; }

# What arrives at a passive end, and what is allocated for it, is the listener's.
group=/sys/fs/cgroup/tenant
charged() { awk -v what="$1" -v least="$2" '$1 == what { exit $2 < least }' "$group/memory.stat"; }
accepted_by() { ip netns exec a ss -Htne state established "sport = :$2" | grep -q "uid:$1"; }

# What a user's limit does not allow is not allocated and freed again.
nothing_allocated() {
	local peak
	peak=$(cat "$group.ring/memory.peak")
	echo "$peak bytes at most"
	[ "$peak" -lt $((24 << 20)) ]
}

huge_ring() {
	mkdir $group.ring
	absorb "a huge ring" sh -c "echo \$\$ >$group.ring/cgroup.procs && exec \"\$@\"" sh \
		"${as_user[@]}" "$tenants" --device da --huge-ring
	check "its memory was never allocated" nothing_allocated
	rmdir $group.ring
}

who_pays() {
	# User-Mode Linux has none.
	grep -q cgroup2 /proc/filesystems || return
	mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup
	echo +memory >/sys/fs/cgroup/cgroup.subtree_control
	huge_ring
	mkdir $group
	start tenant a sh -c "echo \$\$ >/proc/1/root$group/cgroup.procs && exec \"\$@\"" sh \
		"${as_user[@]}" rping -s -P -a 10.1.0.1 -p 7300
	wait_server tenant a 7300 || die "no listener"
	check "four peers send half an FPDU" peers half partial 7300 4
	check "accepted sockets are the listener's user's" accepted_by 2000 7300
	check "what they hold is charged to the listener's cgroup" until_true 20 charged sock 80000
	grep -E '^(sock|kernel|slab|percpu) ' "$group/memory.stat" | sed 's/^/# /'
	stop half
	stop tenant
	accept_retry
}

# A cgroup that has nothing left: new peers wait, and are accepted once it has memory again, without
# another that connects. The process is not to be killed for it.
queued() { [ "$(ip netns exec a ss -Hltn "sport = :$1" | awk '{ print $2 }')" -ge "$2" ]; }

accept_retry() {
	local max=$group/memory.max
	start poor a sh -c "echo \$\$ >/proc/1/root$group/cgroup.procs &&
		echo -1000 >/proc/self/oom_score_adj && exec \"\$@\"" sh \
		"${as_user[@]}" rping -s -P -a 10.1.0.1 -p 7302
	wait_server poor a 7302 || die "no listener"
	echo 0 >"$max"
	# Peers that stay use up what was charged beforehand.
	LIMIT=300 start hoard b python3 -B "$peer" silent 10.1.0.1 7302 300
	check "with its cgroup at the limit a listener tries again" until_true 60 \
		counted conn_accept_retries 2
	check "and peers wait" until_true 20 queued 7302 1
	LIMIT=300 start client b rping -c -a 10.1.0.1 -p 7302 -C 1
	echo max >"$max"
	check "later it accepts who has waited" await client
	stop hoard
	stop poor
}

# A device that comes later than its listeners: rdma_cm, which makes them, acts for the processes. A
# port that somebody has taken meanwhile is missing, and nothing else.
listens_late() { rdma resource show cm_id | grep -q "LISTEN.*:$1\b"; }
start_late() { # NAME PORT
	start "$1" a sh -c "[ ! -d /proc/1/root$group ] || echo \$\$ >/proc/1/root$group/cgroup.procs
		exec \"\$@\"" sh "${as_user[@]}" rping -s -P -a 0.0.0.0 -p "$2"
	until_true 30 listens_late "$2"
}

late_device() {
	check "the device goes" rdma link delete da
	check "a process listens on all that come" start_late early 7310
	check "another likewise" start_late robbed 7311
	LIMIT=300 start robber a "${as_user[@]}" python3 -B -m http.server 7311
	wait_server robber a 7311 || die "no listener"
	check "the device comes" link_add da a va
	check "its port is active" until_true 10 active da
	check_says "a port that was taken is reported" 'no listener on port 7311: error -98' dmesg
	check "four peers send half an FPDU to who listened early" peers late partial 7310 4
	check "their sockets are its user's" accepted_by 2000 7310
	if [ -d $group ]; then
		check "what they hold is charged to its cgroup" until_true 20 charged sock 80000
	fi
	stop late
	check "it serves a client" ip netns exec b rping -c -a 10.1.0.1 -p 7310 -C 1
	stop early
	stop robbed
	stop robber
}

# Whoever asks is answered, and TCP's handshake needs no second try: its first would be after a second.
ask() { ip netns exec b timeout 60 python3 -B "$peer" ask 10.1.0.1 "$@"; }

evictions() { cat /sys/class/infiniband/da/ports/1/hw_counters/conn_evicted; }
more_evictions() { [ "$(evictions)" -ge $((evicted + $1)) ]; }

# Peers that connect and say nothing, new ones all the time, take no place from others. They could
# stay for long.
silent_peers() {
	local i evicted seconds
	echo 600000 >/sys/class/infiniband/da/settings/start_timeout_ms
	start server a rping -s -P -a 10.1.0.1 -p 7301
	wait_server server a 7301 || die "no listener"
	for i in 2 3; do
		check "5000 silent peers of 10.1.0.$i connect" peers "silent$i" silent 7301 5000 "10.1.0.$i"
	done
	evicted=$(evictions) seconds=$(date +%s)
	check_says "ten clients are answered beside them, at once" '^SYNs sent again: 0$' \
		ask 7301 10 10.1.0.4
	check "new ones came meanwhile" until_true 60 more_evictions 1000
	note "$(($(evictions) - evicted)) new ones in $(($(date +%s) - seconds)) s"
	check "a client of an address of theirs is served beside them" \
		ip netns exec b rping -c -a 10.1.0.1 -p 7301 -C 1
	check "the oldest gave way" counted conn_evicted 5000
	stop silent2
	stop silent3
	check "a client is served after them" \
		ip netns exec b rping -c -a 10.1.0.1 -p 7301 -C 1
	stop server
}

# Requests of one peer, which the consumer does not answer, leave places for others.
many_requests() {
	echo 600000 >/sys/class/infiniband/da/settings/offer_timeout_ms
	start slow a "$tenants" --slow 10.1.0.1
	local slow_log=$server_log
	wait_server slow a 7303 || die "no listener"
	check "one peer sends 200 requests" peers many requests 7303 200 10.1.0.2
	check "its share comes to the consumer" until_true 20 grep -q 'held 32' "$slow_log"
	check_says "which answers others beside them" 'SYNs sent again' \
		ask 7303 3 10.1.0.3 10.1.0.4 10.1.0.5
	stop many
	stop slow
}

setup_pair
for i in 3 4 5; do ip -n b addr add 10.1.0.$i/24 dev vb; done
process_events_and_rings
doorbells
async_events
who_pays
late_device
silent_peers
many_requests
teardown_pair
finish
