#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Kiwarp inside WireGuard and IPsec, with the commands of Documentation/encryption.md: rdma_cm's
# examples between two namespaces, what the wire then shows, and NVMe over Fabrics.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/examples.sh
. "$(dirname "$0")/../lib/examples.sh"
# shellcheck source=../lib/nvme.sh
. "$(dirname "$0")/../lib/nvme.sh"

KEYS=/run/keys

# at NS BLOCK: a block of the page at one end. The ends are a and b on the wire.
at() {
	local ns=$1 block=$2
	case $ns in
	a) export HERE=10.1.0.1 THERE=10.1.0.2 INSIDE=10.20.0.1 INSIDE6=fd20::1 PEER=10.20.0.2 PEER6=fd20::2 ;;
	b) export HERE=10.1.0.2 THERE=10.1.0.1 INSIDE=10.20.0.2 INSIDE6=fd20::2 PEER=10.20.0.1 PEER6=fd20::1 ;;
	esac
	export KEY=$KEYS/$ns DEVICE=kw_wg_$ns PEER_KEY
	PEER_KEY=$(cat "$KEYS/$([ "$ns" = a ] && echo b || echo a).pub" 2>/dev/null || echo none)
	howto encryption "$block" "${3:-$ns}"
}

# The device's name has to differ between the namespaces.
wireguard_at() {
	check "WireGuard at $1: the tunnel" at "$1" wireguard
	check "WireGuard at $1: the device" at "$1" device
	check "WireGuard at $1: the port is active" until_true 10 active "kw_wg_$1"
}

# capture NAME COMMAND...: what crosses the wire meanwhile, as a file.
capture() {
	local file=$OUT/$1.pcap
	shift
	start capture a tcpdump -U -i va -w "$file" --immediate-mode
	until_true 20 grep -q 'listening on' "$server_log"
	"$@"
	pkill -INT -x tcpdump
	await capture
}

# rping -v sends "rdma-ping-N: " and the alphabet.
says_plaintext() { grep -aq 'rdma-ping-' "$1"; }
says_none() { [ "$(packets "$1" ip)" -gt 20 ] && ! says_plaintext "$1"; }

# packets FILE FILTER: how many of the file match.
packets() { tcpdump -r "$1" "$2" 2>/dev/null | wc -l; }
only() { [ "$(packets "$1" "$2")" -gt 20 ] && [ "$(packets "$1" "not ($2) and not arp and not icmp6")" = 0 ]; }

rdmacm_over_wireguard() {
	make_net
	mkdir -p $KEYS
	local ns
	for ns in a b; do
		check "WireGuard at $ns: its keys" at $ns keys
	done
	for ns in a b; do wireguard_at $ns; done
	examples "WireGuard, IPv4" a b 10.20.0.1 ip
	examples "WireGuard, IPv6" b a fd20::2 ipv6
	capture wireguard rping_pair "rping, captured inside WireGuard" a b 10.20.0.1 -C 20 -v
	check "WireGuard: the wire has UDP only" only "$OUT/wireguard.pcap" "udp port 51820"
	check "WireGuard: nothing of it is plain" says_none "$OUT/wireguard.pcap"
	for ns in a b; do
		check "WireGuard at $ns: the device goes" rdma link delete kw_wg_$ns
		check "WireGuard at $ns: the tunnel goes" at $ns wireguard-down
	done
}

rdmacm_over_ipsec() {
	link_add da a va && link_add db b vb
	check "the port of da is active" until_true 10 active da
	check "the port of db is active" until_true 10 active db
	capture plain rping_pair "rping, captured without encryption" a b 10.1.0.1 -C 20 -v
	check "without encryption the text is on the wire" says_plaintext "$OUT/plain.pcap"
	local ns
	for ns in a b; do check "IPsec at $ns" at $ns ipsec; done
	capture ipsec rping_pair "rping, captured inside IPsec" a b 10.1.0.1 -C 20 -v
	check "IPsec: the wire has ESP only" only "$OUT/ipsec.pcap" esp
	check "IPsec: nothing of it is plain" says_none "$OUT/ipsec.pcap"
	rping_pair "rping with its longest messages inside IPsec" b a 10.1.0.2 -C 3 -S 65535 -V
	for ns in a b; do check "IPsec at $ns ends" at $ns ipsec-down; done
	rdma link delete da
	rdma link delete db
}

# The kernel's target and host are both in the first namespace. A WireGuard interface that is moved
# there keeps its socket where it was made: va and vb are joined by a wire of two other namespaces.
wireguard_wire() {
	local ns other
	for ns in a b; do
		other=$([ $ns = a ] && echo b || echo a)
		ip -n $ns link add wg$ns type wireguard
		ip -n $ns link set wg$ns netns 1
		ip link set wg$ns name v$ns
		wg set v$ns private-key $KEYS/$ns listen-port 51820 peer "$(cat "$KEYS/$other.pub")" \
			endpoint "10.1.0.$([ $ns = a ] && echo 2 || echo 1):51820" allowed-ips 0.0.0.0/0,::/0
	done
	join_wire
}

nvme_verified() {
	check "$1: the host connects" howto nvme connect
	check "$1: the disk appears" until_true 60 have_disk
	check "$1: I/O, verified" fio_nvme --name=all --rw=randwrite --bsrange=512-128k \
		--blockalign=512 --iodepth=16 --size=2m
	check "$1: disconnected" howto nvme disconnect
	check "$1: the disk is gone" until_true 60 nvme_gone
	check "$1: the target goes" howto nvme target-down
	check "$1: nothing is left on the devices" until_true 20 nothing_left
}

nvme_over_wireguard() {
	wireguard_wire
	nvme_up
	nvme_verified "NVMe inside WireGuard"
	check "NVMe inside WireGuard: packets were encrypted" grows_over_wireguard
}

grows_over_wireguard() { [ "$(wg show va transfer | awk '{ print $2 + $3 }')" -gt 2000000 ]; }

load_modules
modprobe -a wireguard esp4 xfrm_user xfrm_algo authenc gcm rfc4106 2>/dev/null
rdmacm_over_wireguard
rdmacm_over_ipsec
howto_all_ran encryption
nvme_over_wireguard
finish
