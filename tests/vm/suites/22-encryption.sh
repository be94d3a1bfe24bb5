#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Kiwarp inside WireGuard and IPsec, with the commands of Documentation/encryption.md: rdma_cm's
# examples between two namespaces, siw as the peer, how a device follows its tunnel, what the wire
# then shows, and NVMe over Fabrics. SIW_KO names siw's module.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/examples.sh
. "$(dirname "$0")/../lib/examples.sh"
# shellcheck source=../lib/link.sh
. "$(dirname "$0")/../lib/link.sh"
# shellcheck source=../lib/nvme.sh
. "$(dirname "$0")/../lib/nvme.sh"
# shellcheck source=../lib/encryption.sh
. "$(dirname "$0")/../lib/encryption.sh"

# The device's name has to differ between the namespaces.
device_at() {
	check "WireGuard at $1: the device" at "$1" device
	check "WireGuard at $1: the port is active" until_true 10 active "kw_wg_$1"
}

# capture NAME NS COMMAND...: what crosses the wire at va meanwhile, as a file.
capture() {
	local file=$OUT/$1.pcap ns=$2
	shift 2
	start capture "$ns" tcpdump -U -i va -w "$file" --immediate-mode
	until_true 20 grep -q 'listening on' "$server_log"
	"$@"
	pkill -INT -x tcpdump
	await capture
}

# shows FILE TEXT: it can be read in what was captured.
shows() { grep -aqF -- "$2" "$1"; }
hides() { [ "$(packets "$1" "ip or ip6")" -gt 20 ] && ! shows "$@"; }

# rping -v sends this and the alphabet.
ping_text=rdma-ping-

# packets FILE FILTER: how many of the file match.
packets() { tcpdump -r "$1" "$2" 2>/dev/null | wc -l; }
only() { [ "$(packets "$1" "$2")" -gt 20 ] && [ "$(packets "$1" "not ($2) and not arp and not icmp6")" = 0 ]; }

rdmacm_over_wireguard() {
	local ns
	for ns in a b; do
		check "WireGuard at $ns: its keys" at $ns keys
	done
	for ns in a b; do
		check "WireGuard at $ns: the tunnel" at $ns wireguard
		device_at $ns
	done
	check "WireGuard: the two GIDs differ" gids_differ kw_wg_a kw_wg_b
	examples "WireGuard, IPv4" a b 10.20.0.1 ip
	examples "WireGuard, IPv6" b a fd20::2 ipv6
	wildcard WireGuard a b 10.20.0.1 fd20::1
	capture wireguard a rping_pair "rping, captured inside WireGuard" a b 10.20.0.1 -C 20 -v
	check "WireGuard: the wire has UDP only" only "$OUT/wireguard.pcap" "udp port 51820"
	check "WireGuard: nothing of it is plain" hides "$OUT/wireguard.pcap" $ping_text
	[ -z "${SIW_KO:-}" ] || siw_over_wireguard
	follows_tunnel
	check "WireGuard at b: the device goes" rdma link delete kw_wg_b
	check "WireGuard at b: the tunnel goes" at b wireguard-down
}

wireguard_over_ipv6() {
	local ns
	outside=fd01::
	for ns in a b; do
		check "WireGuard over IPv6 at $ns: the tunnel" at $ns wireguard
		device_at $ns
	done
	capture wireguard6 a rping_pair "rping, captured inside WireGuard over IPv6" a b 10.20.0.1 -C 20 -v
	check "WireGuard over IPv6: the wire has nothing else" only "$OUT/wireguard6.pcap" "ip6 and udp port 51820"
	check "WireGuard over IPv6: nothing of it is plain" hides "$OUT/wireguard6.pcap" $ping_text
	for ns in a b; do
		check "WireGuard over IPv6 at $ns: the device goes" rdma link delete kw_wg_$ns
		check "WireGuard over IPv6 at $ns: the tunnel goes" at $ns wireguard-down
	done
	outside=10.1.0.
}

# siw takes the place of Kiwarp's device at b.
siw_over_wireguard() {
	check "siw inside WireGuard: Kiwarp's device goes" rdma link delete kw_wg_b
	load_siw
	check "siw inside WireGuard: its device" link_add siw_wg_b b wg0 siw
	check "siw inside WireGuard: its port is active" until_true 10 active siw_wg_b
	rping_pair "siw inside WireGuard: rping, Kiwarp serves" a b 10.20.0.1 -C 20 -V
	rping_pair "siw inside WireGuard: rping, siw serves" b a 10.20.0.2 -C 20 -V
	rping_pair "siw inside WireGuard: rping with its longest messages" a b 10.20.0.1 -C 3 -S 65535 -V
	check "siw inside WireGuard: it is unloaded" rmmod siw
	device_at b
}

# What 10-link shows of veth. A tunnel that is up has a carrier.
follows_tunnel() {
	watch_events kw_wg_a || not_ok "ibv_asyncwatch starts" "$log"
	follows_state WireGuard kw_wg_a a wg0
	follows_mtu WireGuard kw_wg_a a wg0
	follows_name WireGuard kw_wg_a a wg0
	rping_pair "WireGuard: rping after all that" a b 10.20.0.1 -C 2
	none_came_twice WireGuard 1
	follows_removal WireGuard kw_wg_a at a wireguard-down
	end_watch
}

rdmacm_over_ipsec() {
	local ns
	link_add da a va && link_add db b vb
	check "the port of da is active" until_true 10 active da
	check "the port of db is active" until_true 10 active db
	capture plain a rping_pair "rping, captured without encryption" a b 10.1.0.1 -C 20 -v
	check "without encryption the text is on the wire" shows "$OUT/plain.pcap" $ping_text
	for ns in a b; do check "IPsec at $ns" at $ns ipsec; done
	capture ipsec a rping_pair "rping, captured inside IPsec" a b 10.1.0.1 -C 20 -v
	check "IPsec: the wire has ESP only" only "$OUT/ipsec.pcap" esp
	check "IPsec: nothing of it is plain" hides "$OUT/ipsec.pcap" $ping_text
	examples "IPsec, IPv4" b a 10.1.0.2 ip
	for ns in a b; do check "IPsec at $ns ends" at $ns ipsec-down; done
	outside=fd01::
	for ns in a b; do check "IPsec, IPv6, at $ns" at $ns ipsec; done
	capture ipsec6 a rping_pair "rping, captured inside IPsec, IPv6" a b fd01::1 -C 20 -v
	check "IPsec, IPv6: the wire has ESP only" only "$OUT/ipsec6.pcap" esp
	examples "IPsec, IPv6" b a fd01::2 ipv6
	for ns in a b; do check "IPsec, IPv6, at $ns ends" at $ns ipsec-down; done
	outside=10.1.0.
	rdma link delete da
	rdma link delete db
}

# The kernel's target and host are both in the first namespace. A WireGuard interface that is moved
# there keeps its socket where it was made: va and vb are joined by a wire of two other namespaces.
wireguard_wire() {
	local end
	for end in a b; do
		ip -n $end link add wg$end type wireguard
		ip -n $end link set wg$end netns 1
		ip link set wg$end name v$end
		wg_end $end - v$end "10.1.0.$(number "$(other_end $end)")"
	done
	join_wire
}

# The NVMe capsule that connects a queue names the disk.
nvme_connects() { # WHAT FILE NS
	capture "$2" "$3" check "$1: the host connects" howto nvme connect
	check "$1: the disk appears" until_true 60 have_disk
}

nvme_disconnects() { # WHAT
	check "$1: disconnected" howto nvme disconnect
	check "$1: the disk is gone" until_true 60 nvme_gone
}

nvme_verified() { # WHAT FILE NS FILTER
	nvme_connects "$1" "$2" "$3"
	check "$1: the wire has nothing else" only "$OUT/$2.pcap" "$4"
	check "$1: nothing of it is plain" hides "$OUT/$2.pcap" "$NQN"
	check "$1: I/O, verified" fio_nvme --name=all --rw=randwrite --bsrange=512-128k \
		--blockalign=512 --iodepth=16 --size=2m
	nvme_disconnects "$1"
}

# nvme_ends WHAT: the target and the devices go.
nvme_ends() {
	check "$1: the target goes" howto nvme target-down
	check "$1: nothing is left on the devices" until_true 20 nothing_left
	NETDEV=vb check "$1: the host's device goes" howto nvme device-down
	NETDEV=va check "$1: the target's device goes" howto nvme device-down
}

nvme_over_wireguard() {
	wireguard_wire
	nvme_up
	nvme_verified "NVMe inside WireGuard" nvme-wireguard a "udp port 51820"
	check "NVMe inside WireGuard: packets were encrypted" grows_over_wireguard
	nvme_ends "NVMe inside WireGuard"
	leave_wire
}

grows_over_wireguard() { [ "$(wg show va transfer | awk '{ print $2 + $3 }')" -gt 2000000 ]; }

# One machine is both ends: the associations are the same, the other end's policies are not.
ipsec_at_both() {
	local way from to dir
	at a ipsec - || return
	for way in "10.1.0.2 10.1.0.1 out" "10.1.0.1 10.1.0.2 in"; do
		read -r from to dir <<<"$way"
		ip xfrm policy add src "$from" dst "$to" proto tcp dir "$dir" \
			tmpl src "$from" dst "$to" proto esp mode transport || return
	done
}

# 2 MB were written, and read back.
grew_by_io() { ip -s xfrm state; [ "$(esp_bytes -)" -gt 2000000 ]; }

nvme_over_ipsec() {
	make_wire
	nvme_up
	nvme_connects "NVMe without encryption" nvme-plain -
	check "NVMe without encryption: the disk's name is on the wire" shows "$OUT/nvme-plain.pcap" "$NQN"
	nvme_disconnects "NVMe without encryption"
	check "NVMe inside IPsec: it is set up" ipsec_at_both
	nvme_verified "NVMe inside IPsec" nvme-ipsec - esp
	check "NVMe inside IPsec: either way's bytes were encrypted" grew_by_io
	check "NVMe inside IPsec: it ends" at a ipsec-down -
	nvme_ends "NVMe inside IPsec"
	leave_wire
}

load_modules
encryption_modules
make_net
rdmacm_over_wireguard
wireguard_over_ipv6
rdmacm_over_ipsec
howto_all_ran encryption
nvme_over_wireguard
nvme_over_ipsec
teardown_pair
finish
