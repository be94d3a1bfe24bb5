#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Network namespaces, shared (each sees every device) and exclusive (a device is in one of them):
# what is seen and used where, devices and interfaces that move, namespaces deleted under load.
# guest: --uml --mem 1024
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"

programs=$TOP/build/host/tests/vm
peer=$TOP/tests/vm/tenants/tcp_peer.py
mode=shared
port=18900
LIMIT=600
# What kiwarp-killtest says with its exit code.
all_came_back=0 device_went=5
declare -A slog clog

# make_ns NS N: a namespace at the router r, so that the interfaces of others stay when one goes.
# They have the same number and name in each: nobody is to confuse them. Neighbours are known: rdma_cm
# does not ask again when a busy machine loses the answer.
make_ns() {
	ip netns add "$1" || die "ip netns"
	ip link add eth0 index 50 address "02:00:00:00:00:0$2" netns "$1" type veth \
		peer name "r$1" address "02:00:00:00:01:0$2" netns r || die "veth"
	ip -n r addr add "10.$2.0.254/24" dev "r$1"
	ip -n r link set "r$1" up
	ip -n r neigh add "10.$2.0.1" lladdr "02:00:00:00:00:0$2" dev "r$1" nud permanent
	ip -n "$1" link set lo up
	address_in "$1" "$2"
}

address_in() {
	ip -n "$1" link set eth0 up &&
		ip -n "$1" addr add "10.$2.0.1/24" dev eth0 &&
		ip -n "$1" route add default via "10.$2.0.254" &&
		ip -n "$1" neigh add "10.$2.0.254" lladdr "02:00:00:00:01:0$2" dev eth0 nud permanent
}

make_world() {
	ip netns add r || die "ip netns"
	ip netns exec r sysctl -qw net.ipv4.ip_forward=1
	make_ns a 1
	make_ns b 2
	make_ns c 3
}

# arm NS: a device that its namespace may use.
arm() {
	link_add "d$1" "$1" eth0 || return
	[ "$mode" = shared ] || rdma dev set "d$1" netns "$1" || return
	until_true 20 active_in "$1" "d$1"
}

in_sysfs() { in_ns "$1" test -e "/sys/class/infiniband/$2"; }
not_in_sysfs() { ! in_sysfs "$@"; }
nowhere() { unseen_in - "$1" && not_in_sysfs - "$1"; }
set_in() { in_ns "$1" sh -c "echo $4 >/sys/class/infiniband/$2/settings/$3"; }

# The router's end of the interface goes with the namespace, and that when nothing holds it.
wire_is_gone() { ! ip -n r link show "r$1"; }
wire_is_there() { ip -n r link show "r$1"; }

# As engines end a container: its processes are killed, and its namespace has no name any more.
end_ns() {
	local pids
	pids=$(ip netns pids "$1")
	# shellcheck disable=SC2086
	[ -z "$pids" ] || kill -9 $pids
	ip netns del "$1"
}

end_world() {
	local ns name
	for name in "${!jobs[@]}"; do stop "$name"; done
	for ns in a b c d; do
		[ ! -e /run/netns/$ns ] || end_ns $ns
		until_true 60 wire_is_gone $ns || not_ok "$mode: the wire of $ns goes"
	done
	ip netns del r
	check "$mode: nothing is held on any device" until_true 20 nothing_held
	check "$mode: all devices went with their interfaces" until_true 20 no_devices
}

nothing_held() {
	! rdma resource show | grep -qE '(pd|cq|qp|cm_id|mr|ctx|srq) [1-9]'
}

# It is refused while there is another namespace: what was deleted has been freed.
change_mode() {
	check "$mode: all namespaces are freed" until_true 60 rdma system set netns "$1"
	mode=$1
	check_says "$mode: the mode" "netns $mode" rdma system show
}

rping_between() { # WHAT SERVER_NS CLIENT_NS ADDR
	port=$((port + 1))
	pair "$1" $port "$2" "$3" rping -s -a "$4" -p $port -C 5 -V -- \
		rping -c -a "$4" -p $port -C 5 -V
}

# flow NAME SERVER_NS CLIENT_NS ADDR: traffic without end.
flow() {
	port=$((port + 1))
	start "$1 server" "$2" "$programs/kiwarp-killtest" --server "$4" --port "$port"
	slog[$1]=$server_log
	wait_server "$1 server" "$2" "$port" || return
	start "$1 client" "$3" "$programs/kiwarp-killtest" --client "$4" --port "$port" --qps 2
	clog[$1]=$server_log
	until_true 60 flowing "$1"
}

flowing() { grep -q flowing "${slog[$1]}" && grep -q flowing "${clog[$1]}"; }

# Bytes that the connection past b has brought to a.
past_b_bytes() {
	in_ns a ss -Htin state established "sport = :18810" | sed -n 's/.* bytes_received:\([0-9]*\).*/\1/p'
}

undisturbed() {
	! gone "${jobs["past b client"]}" && ! gone "${jobs["past b server"]}" && grows past_b_bytes
}

# ends WHAT JOB CODE...: the program ends by itself, with one of the exit codes.
ends() {
	local rc codes=" ${*:3} "
	if ! until_true 30 gone "${jobs[$2]}"; then
		not_ok "$1: it does not end"
		return
	fi
	await "$2"
	rc=$?
	if [[ $codes == *" $rc "* ]]; then ok "$1"; else not_ok "$1 (exit code $rc, not$codes)"; fi
}

# server NAME NS PORT: a listener on all of a namespace's addresses.
server() {
	start "$1" "$2" rping -s -P -p "$3"
	wait_server "$1" "$2" "$3"
}

silent() { # NAME NS ADDR PORT
	start "$1" "$2" python3 -B "$peer" silent "$3" "$4" 20
	until_true 60 grep -q there "$server_log"
}

# Everything that b can have: connections both ways, listeners, peers that say nothing. The load comes
# last: a machine with one CPU and checkers takes long for whatever comes after it.
occupy() {
	check "$mode: a connection past b" bystander
	check "$mode: a listener in b" server "listener in b" b 18800
	check "$mode: a listener in a" server "listener in a" a 18801
	check "$mode: half-open connections to b" silent "half-open to b" a 10.2.0.1 18800
	check "$mode: half-open connections from b" silent "half-open from b" b 10.1.0.1 18801
	check "$mode: traffic from a to b" flow "a to b" b a 10.2.0.1
	check "$mode: traffic from b to a" flow "b to a" a b 10.1.0.1
}

bystander() {
	start "past b server" a rping -s -a 10.1.0.1 -p 18810 -C 100000000 -V
	wait_server "past b server" a 18810 || return
	start "past b client" c rping -c -a 10.1.0.1 -p 18810 -C 100000000 -V
	until_true 60 connected a 18810
}

connected() { in_ns "$1" ss -Htn state established "sport = :$2" | grep -q .; }

# vacated WHAT CODE: what occupy() started has ended, in b with that exit code if it is not killed.
vacated() {
	local name
	check "$1: other traffic has not noticed" undisturbed
	ends "$1: the client of b's server gets all its work back" "a to b client" $all_came_back
	ends "$1: so does the server of b's client" "b to a server" $all_came_back
	if [ "$2" != killed ]; then
		# The end of the connection, which its peer has noticed already, may be first.
		ends "$1: the server in b learns it" "a to b server" "$2" $all_came_back
		ends "$1: the client in b learns it" "b to a client" "$2" $all_came_back
	fi
	for name in "${!jobs[@]}"; do stop "$name"; done
}

deleted_under_load() {
	occupy
	check "$mode: b is deleted under load" end_ns b
	check "$mode: it goes" until_true 60 wire_is_gone b
	check "$mode: its device goes with it" until_true 20 nowhere db
	vacated "$mode, deleted" killed
	make_ns b 2
	check "$mode: a new b" arm b
	rping_between "$mode: rping to the new b" b c 10.2.0.1
}

lingers() { in_ns "$1" ss -Htn state fin-wait-1 | grep -q .; }

# leave NS: a sender to a that ends with most of 40 KiB in TCP, on a wire that takes 40 s for them. They
# wait at the router, not in the sender's interface, where each packet would hold its socket.
leave() {
	port=$((port + 1))
	in_ns r tc qdisc replace dev ra root netem limit 100000 rate 8kbit
	start "counting $1" a "$programs/kiwarp-arrival" --server 10.1.0.1 --port "$port" --count 1 --size 40960
	wait_server "counting $1" a "$port" || return
	in_ns "$1" "$programs/kiwarp-arrival" --client 10.1.0.1 --port "$port" --send --end kill \
		--count 1 --size 40960
}

leave_lingering() { leave "$1" && until_true 10 lingers "$1"; }

# The sender gets no more answers: TCP by itself gives up after a quarter of an hour.
dead_wire() { in_ns r tc qdisc replace dev ra root netem limit 100000 loss 100%; }

good_wire() { in_ns r tc qdisc del dev ra root; }

# Namespaces are freed in the order in which they lost their last user.
later_one_is_freed() {
	make_ns d 4 && ip netns del d && until_true 60 wire_is_gone d
}

deleted_with_lingering() {
	set_in b db linger_timeout_ms 600000
	check "$mode: a connection of b lingers" leave_lingering b
	dead_wire
	check "$mode: b is deleted" end_ns b
	check "$mode: others are freed meanwhile" later_one_is_freed
	check "$mode: what lingers keeps the namespace" wire_is_there b
	check "$mode: the host takes the interface away" ip -n r link del rb
	check "$mode: the device goes with it" until_true 20 nowhere db
	stop "counting b"
	good_wire
	make_ns b 2
	check "$mode: a new b after that" arm b
	set_in b db linger_timeout_ms 500
	check "$mode: one of b may linger for a short time" leave b
	dead_wire
	check "$mode: b is deleted again" end_ns b
	check "$mode: then it goes by itself" until_true 60 wire_is_gone b
	stop "counting b"
	good_wire
	make_ns b 2
	check "$mode: and a new b" arm b
}

move_interface() { ip -n b link set eth0 netns d && link_add db d eth0; }

# The device goes when its interface moves, which takes a while if somebody has it open who does not
# listen. Another of the same name can be made over the interface at once.
interface_moves() {
	local user
	ip netns add d
	set_in a da user_timeout_ms 2000
	check "$mode: traffic from b" flow "b to a" a b 10.1.0.1
	user=$(pgrep -f "^$programs/kiwarp-killtest --client 10.1.0.1")
	kill -STOP "$user"
	check "$mode: b's interface moves, and has a new device at once" move_interface
	kill -CONT "$user"
	ends "$mode: the user of the old one learns it" "b to a client" $device_went
	ends "$mode: its peer gets all its work back, in its time" "b to a server" $all_came_back
	[ "$mode" = shared ] || rdma dev set db netns d
	check "$mode: the new place of the interface" address_in d 2
	check "$mode: the new device is active" until_true 10 active_in d db
	rping_between "$mode: rping to the new place" d c 10.2.0.1
	end_ns d
	check "$mode: the interface and its device go" until_true 60 nowhere db
	ip netns del b
	make_ns b 2
	check "$mode: b with an interface again" arm b
}

shared_mode() {
	make_world
	for ns in a b c; do check "shared: a device in $ns" arm $ns; done
	check "shared: c sees a's device" seen_in c da
	check "shared: also in sysfs" in_sysfs c da
	check_says "shared: and its settings" '^1$' in_ns c cat /sys/class/infiniband/da/settings/crc
	check_says "shared: but it has none of its addresses" 'Cannot assign requested address' \
		refused_in c rping -s -a 10.1.0.1 -p 18850
	rping_between "shared: rping between interfaces of one number" a b 10.1.0.1
	check_fails "shared: no device can move" 'not supported' rdma dev set da netns b
	deleted_under_load
	deleted_with_lingering
	interface_moves
	end_world
}

# refused_in NS COMMAND...: for programs with an exit code of 255.
refused_in() { ! in_ns "$1" timeout -k 5 "$TIME_LIMIT" "${@:2}"; }

# rdma_cm listens on each device by itself. The port is a socket on the interface.
has_port() { in_ns "$1" ss -Hltn "sport = :$3" | grep -q "%$2:"; }
has_no_port() { ! has_port "$@"; }

# A listener on all addresses, of a namespace that has the interface and not yet the device. Of the
# devices that it has the one over lo is the first.
devices_come_and_go() {
	check "exclusive: a device over a's interface" link_add da a eth0
	check "exclusive: it is in the first namespace" seen_in - da
	check "exclusive: not in a" unseen_in a da
	check "exclusive: a device over a's lo" link_add dl a lo
	check "exclusive: a has it" rdma dev set dl netns a
	start watcher - ibv_asyncwatch -d da
	watcher_log=$server_log
	check "exclusive: a process of the first namespace opens one" \
		until_true 20 grep -q "async" "$watcher_log"
	start listener a rping -s -P -p 18860
	check "exclusive: a listener in a" until_true 20 has_port a lo 18860
	check "exclusive: it has no port on a device that is not in a" has_no_port a eth0 18860
	check "exclusive: the device moves to a" rdma dev set da netns a
	check "exclusive: the listener has a port on it" until_true 20 has_port a eth0 18860
	check "exclusive: who had the device open learns that it went" \
		until_true 20 grep -q DEVICE_FATAL "$watcher_log"
	stop watcher
	check "exclusive: it is active" until_true 20 active_in a da
	check "exclusive: a device in b" arm b
	check "exclusive: a client is served" in_ns b rping -c -a 10.1.0.1 -p 18860 -C 3
	check "exclusive: the device moves back" in_ns a rdma dev set da netns first
	check "exclusive: the listener has no port on it any more" has_no_port a eth0 18860
	check "exclusive: but on the other" has_port a lo 18860
	check "exclusive: the first namespace sees the device" seen_in - da
	stop listener
	check "exclusive: the device moves to a once more" rdma dev set da netns a
	check "exclusive: it is active again" until_true 20 active_in a da
}

open_file() { # NS DEVICE
	local file
	file=$(grep -lx "$2" /sys/class/infiniband_verbs/uverbs*/ibdev) || return
	file=${file%/ibdev}
	in_ns "$1" sh -c "exec 3<>/dev/infiniband/${file##*/}"
}

isolation() {
	local ns
	for ns in - b c; do
		check "exclusive: $ns does not see a's device" unseen_in $ns da
		check "exclusive: nor in sysfs ($ns)" not_in_sysfs $ns da
		check_says "exclusive: ibv_devinfo does not find it in $ns" "wasn't found" \
			refused_in $ns ibv_devinfo -d da
		check_fails "exclusive: its file cannot be opened in $ns" 'Operation not permitted' \
			open_file $ns da
		check_fails "exclusive: it cannot be deleted in $ns" . in_ns $ns rdma link delete da
		check_fails "exclusive: nor taken away" . in_ns $ns rdma dev set da netns b
	done
	check "exclusive: in a its file can be opened" open_file a da
	check_says "exclusive: in a ibv_devinfo finds it" 'PORT_ACTIVE' in_ns a ibv_devinfo -d da
	check "exclusive: in a it is in sysfs" in_sysfs a da
	check_says "exclusive: with its settings" '^1$' in_ns a cat /sys/class/infiniband/da/settings/crc
}

use_it() {
	check "exclusive: renamed in its namespace" in_ns a rdma dev set da name kw0
	check "exclusive: seen so" seen_in a kw0
	rping_between "exclusive: rping to a" a b 10.1.0.1
	rping_between "exclusive: rping from a" b a 10.2.0.1
	pair_perftest "exclusive: ib_write_bw" a b 10.1.0.1 ib_write_bw -n 100 -s 65536
	check "exclusive: its name again" in_ns a rdma dev set kw0 name da
}

# A device that arrives in a namespace lets connections linger there.
lingers_after_move() {
	check "exclusive: a connection lingers on a device that moved" leave_lingering b
	good_wire
	check "exclusive: all of it arrives" await "counting b"
}

moves_under_load() {
	occupy
	check "exclusive: b's device moves to c under load" in_ns b rdma dev set db netns c
	check "exclusive: c sees it" seen_in c db
	check "exclusive: b does not" unseen_in b db
	vacated "exclusive, moved" $device_went
	check "exclusive: c cannot use what b's interface has" refused_in c rping -s -a 10.2.0.1 -p 18870
	check "exclusive: it moves back" in_ns c rdma dev set db netns b
	check "exclusive: it is active again" until_true 20 active_in b db
	rping_between "exclusive: rping over it" b a 10.2.0.1
}

exclusive_mode() {
	make_world
	# The RDMA tool knows namespaces by names alone.
	ip netns attach first 1
	devices_come_and_go
	check "exclusive: a device in c" arm c
	isolation
	use_it
	lingers_after_move
	moves_under_load
	deleted_under_load
	deleted_with_lingering
	interface_moves
	ip netns del first
	end_world
}

load_modules
shared_mode
change_mode exclusive
exclusive_mode
change_mode shared
teardown_pair
finish
