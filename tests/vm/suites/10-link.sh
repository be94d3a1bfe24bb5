#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# guest: --smp 1
#
# Devices over every kind of interface; what is refused, and how; how a port follows its
# interface; a bond that loses a member under traffic; two namespaces joined by tun interfaces; unloading.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/examples.sh
. "$(dirname "$0")/../lib/examples.sh"
# shellcheck source=../lib/link.sh
. "$(dirname "$0")/../lib/link.sh"

rate_of() { cat "/sys/class/infiniband/$1/ports/1/rate"; }

# one_kind KIND NETDEV ADDRESS: a device over an interface that is up, used by its own address.
one_kind() {
	local kind=$1 netdev=$2 addr=$3
	check "add over $kind" link_add k0 - "$netdev" || return
	check "$kind: the port is active" until_true 5 state_is k0 ACTIVE
	check "$kind: the link shows its interface" has_netdev k0 "$netdev"
	check "$kind: a GID of its own" gid_is_set k0
	check_says "$kind: ibv_devinfo finds it" 'transport:[[:space:]]+iWARP' ibv_devinfo -d k0
	if [ "$kind" != lo ] || [ "$DEV_TYPE" = kiwarp ]; then
		pair "$kind: rping to its own address" 7174 - - \
			rping -s -a "$addr" -C 2 -- rping -c -a "$addr" -C 2
	fi
	check "$kind: delete" rdma link delete k0
	check "$kind: nothing is left" no_device k0
}

make_kinds() {
	modprobe -a virtio_net dummy bonding bridge 8021q veth ip_gre ipip sit wireguard tun 2>/dev/null
	until_true 10 test -e /sys/class/net/eth0 || die "no eth0"
	ip link set eth0 up
	ip addr add 10.2.0.1/24 dev eth0
	ip link add link eth0 name eth0.7 type vlan id 7
	ip addr add 10.2.1.1/24 dev eth0.7
	ip link add dum0 type dummy
	ip addr add 10.2.2.1/24 dev dum0
	ip link add slave0 type dummy
	ip link add bond0 type bond mode active-backup miimon 100
	ip link set slave0 master bond0
	ip addr add 10.2.3.1/24 dev bond0
	ip link add br0 type bridge
	ip link add port0 type dummy
	ip link set port0 master br0
	ip addr add 10.2.4.1/24 dev br0
	ip link add ve0 type veth peer name ve1
	ip addr add 10.2.5.1/24 dev ve0
	ip link add gre1 type gre local 10.2.0.1 remote 10.2.0.2
	ip addr add 10.2.6.1/24 dev gre1
	ip link add ipip1 type ipip local 10.2.0.1 remote 10.2.0.2
	ip addr add 10.2.7.1/24 dev ipip1
	ip link add sit1 type sit local 10.2.0.1 remote 10.2.0.2
	ip addr add fd02:8::1/64 dev sit1 nodad
	ip link add wg0 type wireguard
	ip addr add 10.2.9.1/24 dev wg0
	ip link add wg1 type wireguard
	ip tuntap add tun0 mode tun
	ip addr add 10.2.10.1/24 dev tun0
	local i
	for i in eth0.7 dum0 slave0 bond0 port0 br0 ve0 ve1 gre1 ipip1 sit1 wg0 wg1; do
		ip link set $i up
	done
}

kinds() {
	one_kind Ethernet eth0 10.2.0.1
	one_kind VLAN eth0.7 10.2.1.1
	one_kind dummy dum0 10.2.2.1
	one_kind bond bond0 10.2.3.1
	one_kind bridge br0 10.2.4.1
	one_kind veth ve0 10.2.5.1
	one_kind lo lo 127.0.0.1
	[ "$DEV_TYPE" != kiwarp ] || tunnels
}

# Interfaces without a hardware address of an Ethernet's length.
tunnels() {
	one_kind GRE gre1 10.2.6.1
	one_kind IPIP ipip1 10.2.7.1
	one_kind SIT sit1 fd02:8::1
	one_kind WireGuard wg0 10.2.9.1
	# tun0 has a carrier while a program holds it.
	start tun - python3 -c 'import fcntl, struct, time
tun = open("/dev/net/tun", "r+b", buffering=0)
fcntl.ioctl(tun, 0x400454ca, struct.pack("16sH22x", b"tun0", 0x1001))
time.sleep(3600)'
	ip link set tun0 up
	one_kind tun tun0 10.2.10.1
	check "tun: a device again" link_add k0 - tun0
	check "tun: the port is active again" until_true 5 state_is k0 ACTIVE
	stop tun
	check "tun: no program holds the interface: the port is down" until_true 5 state_is k0 DOWN
	check "tun: delete it, too" rdma link delete k0
	gids_of_tunnels
}

gids_of_tunnels() {
	local i names=()
	for i in gre1 ipip1 sit1 wg0 wg1; do
		names+=("t-$i")
		link_add "t-$i" - $i || not_ok "a device over $i"
	done
	check "tunnels: no two have the same GID" gids_differ "${names[@]}"
	for i in "${names[@]}"; do rdma link delete "$i"; done
}

# refusals WHAT NETDEV: what a device over it is not, and is not disturbed by.
refusals() {
	local what=$1 netdev=$2
	check "${what}a device over $netdev" link_add k0 - "$netdev"
	check_fails "${what}a second device over the same interface" 'File exists' link_add k1 - "$netdev"
	check_fails "${what}the same name again" 'File exists|Too many open files' link_add k0 - br0
	check_fails "${what}a missing interface" 'No such device' link_add k1 - nothere
	[ -e /sys/class/net/can0 ] || { modprobe vcan && ip link add can0 type vcan; }
	[ "$DEV_TYPE" != kiwarp ] ||
		check_fails "${what}an interface that has no IP" 'Operation not supported' link_add k1 - can0
	check_fails "${what}a pattern for a name" 'Invalid argument' link_add 'k%d' - br0
	check_fails "${what}an empty name" 'Invalid argument' link_add '' - br0
	check_fails "${what}a name of 70 characters" 'policy validation' \
		link_add "$(printf 'n%.0s' {1..70})" - br0
	check_fails "${what}deleting what is not there" 'No such device|Wrong device name' \
		rdma link delete k9
	check "${what}the first device is undisturbed" state_is k0 ACTIVE
	check "${what}delete it" rdma link delete k0
}

port_follows() {
	check "a device over ve0" link_add k0 - ve0
	until_true 5 state_is k0 ACTIVE
	watch_events k0 || not_ok "ibv_asyncwatch starts" "$log"
	follows_state veth k0 - ve0
	ip link set ve1 down
	check "carrier lost: port down" until_true 5 state_is k0 DOWN
	[ "$DEV_TYPE" != kiwarp ] ||
		check "carrier lost: IBV_EVENT_PORT_ERR" until_true 5 told PORT_ERR 2
	ip link set ve1 up
	check "carrier back: port active" until_true 5 state_is k0 ACTIVE
	[ "$DEV_TYPE" != kiwarp ] ||
		check "carrier back: IBV_EVENT_PORT_ACTIVE" until_true 5 told PORT_ACTIVE 2
	follows_mtu veth k0 - ve0
	follows_name veth k0 - ve0
	note "rate over veth: $(rate_of k0)"
	# Ethernet's 10 Gb/s is what veth reports.
	check_says "the rate is the interface's speed" '^10 Gb/sec' rate_of k0
	pair "rping after all that" 7174 - - \
		rping -s -a 10.2.5.1 -C 2 -- rping -c -a 10.2.5.1 -C 2
	[ "$DEV_TYPE" != kiwarp ] || none_came_twice veth 2
	follows_removal veth k0 ip link del ve0
	end_watch
}

devinfo_of() { ibv_devinfo -v -d "$1" | tee "$OUT/devinfo"; }

# true_values WHAT NETDEV
true_values() {
	local what=$1 netdev=$2
	check "${what}a device over $netdev" link_add k0 - "$netdev"
	check "${what}ibv_devinfo -v" devinfo_of k0
	local line
	for line in 'max_qp_wr:[[:space:]]+16384' 'max_sge:[[:space:]]+16' 'phys_port_cnt:[[:space:]]+1' \
		'max_mtu:[[:space:]]+4096' 'link_layer:[[:space:]]+Ethernet' 'state:[[:space:]]+PORT_ACTIVE' \
		'vendor_id:[[:space:]]+0x24b57' 'vendor_part_id:[[:space:]]+19287' \
		'atomic_cap:[[:space:]]+ATOMIC_NONE' 'max_srq:[[:space:]]+131072' 'max_mw:[[:space:]]+1048576'; do
		check "${what}ibv_devinfo -v says ${line//\[\[:space:]]+/ }" grep -qE "$line" "$OUT/devinfo"
	done
	check "${what}delete it" rdma link delete k0
}

# What rdma shows of the objects of a connection that is up. rping has a queue pair, a completion
# queue and some regions at either end.
details() { # WHAT NETDEV ADDR
	local what=$1 netdev=$2 addr=$3 re=${3//./\\.}
	check "${what}a device over $netdev" link_add k0 - "$netdev"
	until_true 5 state_is k0 ACTIVE
	start held-server - rping -s -a "$addr" -p 7176 -C 10000000
	wait_server held-server - 7176 || not_ok "rping's server listens" "$server_log"
	start held-client - rping -c -a "$addr" -p 7176 -C 10000000
	until_true 20 shows_peer 7176
	check_says "${what}details: the peer of a queue pair" \
		"state RTS .*drv_stream open drv_local $re:[0-9]+ drv_peer $re:7176 " unfolded rdma -dd resource show qp
	check_says "${what}details: and the other end's" "drv_local $re:7176 drv_peer $re:[0-9]+ " \
		unfolded rdma -dd resource show qp
	check_says "${what}details: what it sends next" 'drv_tx_send_msn [1-9][0-9]* drv_tx_read_msn [1-9]' \
		unfolded rdma -dd resource show qp
	check_says "${what}details: its queues" 'drv_sq_entries [1-9][0-9]* drv_sq_posted [1-9].*drv_rq_posted [1-9]' \
		unfolded rdma -dd resource show qp
	check_says "${what}details: the same as JSON" "\"drv_peer\":\"$re:7176\"" \
		rdma -j -dd resource show qp
	check_says "${what}details: a completion queue" 'drv_entries [1-9][0-9]* drv_unpolled [0-9]+ drv_completions [1-9]' \
		unfolded rdma -dd resource show cq
	check_says "${what}details: a region" 'drv_access 0x[0-9a-f]+ drv_bytes 64 drv_extents 1 drv_valid 1 drv_fast 0' \
		unfolded rdma -dd resource show mr
	stop held-client
	stop held-server
	check "${what}details: delete it" rdma link delete k0
}

shows_peer() { rdma -dd resource show qp | grep -q "drv_peer [0-9.]*:$1 "; }

churn() { # NETDEV
	local i
	for i in {1..40}; do
		link_add "c$i" - "$1" || return
		rdma link delete "c$i" || return
	done
}

namespace_goes() { # WHAT TYPE
	local what=$1
	ip netns add gone
	ip link add gn0 netns gone type "$2"
	ip -n gone link set gn0 up
	check "${what}a device in a namespace" link_add g0 gone gn0
	ip netns del gone
	check "${what}the namespace goes, and the device with it" until_true 20 no_device g0
}

# A process in the middle of a system call on a device holds up its end for as long as it likes. A new
# device that it is in the way of is waited for, but not for ever.
held_up() { # WHAT TYPE
	local what=$1
	ip netns add later
	ip link add dum1 type "$2"
	ip link set dum1 up
	check "${what}a device over dum1" link_add k0 - dum1
	LIMIT=600 start stall - python3 -B "$TOP/tests/vm/tenants/stall.py" k0
	check "${what}held up: a process stays in a system call" until_true 60 grep -q stalled "$server_log"
	ip link set dum1 netns later
	check_fails "${what}held up: adding the device where the interface is now" \
		'File exists|Too many open files' link_add k0 later dum1
	stop stall
	check "${what}held up: it is added when the process has gone" link_add k0 later dum1
	ip netns del later
	check "${what}held up: it goes" until_true 20 no_device k0
}

# A bond at either end of two wires, m0 and m1, between two namespaces.
make_bonds() {
	local ns n=0
	for ns in a b; do
		ip netns add "$ns" || return
		# rdma_cm tells interfaces by number across namespaces.
		n=$((n + 1))
		ip -n "$ns" link add bond9 index "40$n" type bond mode active-backup miimon 20 &&
			ip -n "$ns" addr add "10.3.0.$n/24" dev bond9 && ip -n "$ns" link set bond9 up || return
	done
	for n in 0 1; do
		ip link add "m$n" netns a type veth peer name "m$n" netns b || return
		for ns in a b; do ip -n "$ns" link set "m$n" master bond9 && ip -n "$ns" link set "m$n" up || return; done
	done
	for ns in a b; do
		until_true 20 takes_member "$ns" m0 || return
	done
}

# takes_member NS MEMBER: it can be the one in use, and is from here on.
takes_member() { ip -n "$1" link set bond9 type bond active_slave "$2"; }
uses_member() {
	[ "$(in_ns a cat /sys/class/net/bond9/bonding/active_slave)" = "$1" ] &&
		[ "$(in_ns b cat /sys/class/net/bond9/bonding/active_slave)" = "$1" ]
}
came_by() { in_ns b cat "/sys/class/net/$1/statistics/rx_bytes"; }

# Half of a transfer can go by m0, so that it is under way when m0 is lost.
swallows_half() {
	ip netns exec b nft -f - <<-END
		table netdev wire {
			chain half {
				type filter hook ingress device "m0" priority 0;
				quota over 3000000 bytes drop
			}
		}
	END
}

bond_loses_member() {
	local message
	check "bond: two of two members" make_bonds
	check "bond: a device at either end" link_add n0 a bond9
	link_add n1 b bond9 || not_ok "bond: the other device"
	check "bond: a port is active" until_true 5 state_is n0 ACTIVE
	check "bond: the other is" until_true 5 state_is n1 ACTIVE
	check "bond: its first member takes half of a transfer" swallows_half
	start bond-server b rping -s -a 10.3.0.2 -p 7178 -C 100 -S 65535 -V
	wait_server bond-server b 7178 || not_ok "rping's server listens" "$server_log"
	start bond-client a rping -c -a 10.3.0.2 -p 7178 -C 100 -S 65535 -V
	message=$server_log
	check "bond: half has gone by it" until_true 30 is_more 3000000 came_by m0
	check "bond: the transfer is under way" not_gone bond-client
	ip -n a link set m0 down
	check "bond: a member is lost, the other takes over" until_true 20 uses_member m1
	check "bond: the transfer completes" await bond-client || said "$message" client
	check "bond: at the server, too" await bond-server
	check "bond: the rest went by the other member" is_more 3000000 came_by m1
	ip -n a link set m0 up
	ip -n b link set m1 nomaster
	ip -n a link set m1 nomaster
	ip netns exec b nft flush ruleset
	check "bond: a member taken away, the other takes over" until_true 20 uses_member m0
	pair "bond: rping by the member that is left" 7178 b a \
		rping -s -a 10.3.0.2 -p 7178 -C 2 -- rping -c -a 10.3.0.2 -p 7178 -C 2
	check "bond: its devices go" rdma link delete n0
	rdma link delete n1
	ip netns del a
	ip netns del b
}

# An interface may change its namespace while its program holds it, and keeps its number.
make_tuns() {
	local ns n=0
	start tuns - python3 -B "$TOP/tests/vm/lib/tun_pair.py" ta tb
	tuns_log=$server_log
	until_true 20 grep -q joined "$tuns_log" || { cat "$tuns_log"; return 1; }
	for ns in a b; do
		n=$((n + 1))
		ip netns add "$ns" && ip link set "t$ns" netns "$ns" &&
			ip -n "$ns" addr add "10.4.0.$n/24" dev "t$ns" &&
			ip -n "$ns" addr add "fd04::$n/64" dev "t$ns" nodad && ip -n "$ns" link set "t$ns" up || return
	done
}

# came_through NS: bytes that the program has handed to the interface there.
came_through() { in_ns "$1" cat "/sys/class/net/t$1/statistics/rx_bytes"; }

# Both ends of a connection end when their devices go.
tuns_go() {
	start held-server a rping -s -a 10.4.0.1 -p 7180 -C 10000000
	wait_server held-server a 7180 || not_ok "rping's server listens" "$server_log"
	start held-client b rping -c -a 10.4.0.1 -p 7180 -C 10000000
	check "tun: a connection" until_true 20 shows_peer 7180
	watch_events n0 || not_ok "ibv_asyncwatch starts" "$log"
	follows_removal "tun: its program ends" n0 stop tuns
	end_watch
	check "tun: so does the other device" until_true 10 no_device n1
	check "tun: the client ends" until_true 20 gone "${jobs[held-client]}"
	check "tun: the server ends" until_true 20 gone "${jobs[held-server]}"
	await held-client
	await held-server
}

joined_by_tun() {
	local verify=$TOP/build/host/tests/vm/kiwarp-verify
	check "tun: two joined, each in a namespace" make_tuns
	check "tun: a device at either end" link_add n0 a ta
	link_add n1 b tb || not_ok "tun: the other device"
	check "tun: a port is active" until_true 5 state_is n0 ACTIVE
	check "tun: the other is" until_true 5 state_is n1 ACTIVE
	check "tun: the two GIDs differ" gids_differ n0 n1
	check "tun: the extensions of RFC 7306 are on" extensions 1 n0 n1
	rping_pair "tun: rping, IPv4" a b 10.4.0.1 -C 20 -v -V
	rping_pair "tun: rping, IPv6" b a fd04::2 -C 20 -v -V
	rping_pair "tun: rping with its longest messages" a b 10.4.0.1 -C 3 -S 65535 -V
	pair "tun: all operations, every byte checked" 7182 a b \
		"$verify" --server 10.4.0.1 --port 7182 --wait event -- \
		"$verify" --client 10.4.0.1 --port 7182 --wait event --ops 1000 --max-size 32k
	check "tun: the bytes went through the program to a" is_more 100000 came_through a
	check "tun: and to b" is_more 100000 came_through b
	tuns_go
	ip netns del a
	ip netns del b
}

not_gone() { ! gone "${jobs[$1]}"; }

# Devices go when the module does; interfaces must be free to go afterwards.
unload() {
	local i tunnels=()
	[ "$DEV_TYPE" != kiwarp ] || tunnels=(gre1 wg0 tun0)
	for i in eth0 eth0.7 dum0 bond0 br0 lo "${tunnels[@]}"; do
		check "a device over $i" link_add "u-$i" - "$i"
	done
	teardown_pair
	ip link del eth0.7
	ip link del dum0
	ip link del bond0
	ip link del br0
	for i in "${tunnels[@]}"; do ip link del "$i"; done
	for i in eth0.7 dum0 bond0 br0 "${tunnels[@]}"; do
		check "$i is not held" test ! -e "/sys/class/net/$i"
	done
	load_modules
	check "the module loads again" link_add k0 - lo
	check "and unloads again" rmmod "$DEV_TYPE"
}

load_modules
make_kinds
kinds
refusals "" dum0
if [ "$DEV_TYPE" = kiwarp ]; then
	refusals "WireGuard: " wg0
	true_values "" eth0
	true_values "WireGuard: " wg0
	details "" dum0 10.2.2.1
	details "WireGuard: " wg0 10.2.9.1
	held_up "" dummy
	held_up "WireGuard: " wireguard
	check "WireGuard: 40 times add and delete" churn wg0
	namespace_goes "WireGuard: " wireguard
fi
port_follows
if [ "$DEV_TYPE" = kiwarp ]; then
	bond_loses_member
	joined_by_tun
fi
check "40 times add and delete" churn dum0
namespace_goes "" dummy
unload
finish
