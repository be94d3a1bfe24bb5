# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# The kernel's own RDMA consumers (nvmet, nvme-rdma, isert, iser) live in the first network
# namespace, both ends of them. Here both ends of a veth pair are in it, too, and what one end
# sends to the other's address goes over the pair nevertheless, so that it can be cut or impaired.

# make_wire [MTU]: va (10.1.0.1, fd01::1) and vb (10.1.0.2, fd01::2).
make_wire() {
	ip link add va mtu "${1:-1500}" type veth peer name vb mtu "${1:-1500}" || die "veth"
	join_wire
}

# join_wire: the addresses and routes for va and vb, which are there and lead to each other.
join_wire() {
	local dev family
	# What arrives by an end is for this machine; what this machine sends to an end's
	# address leaves by the other; only then come the addresses that are local.
	for family in -4 -6; do
		ip $family rule add pref 1 iif va lookup local
		ip $family rule add pref 1 iif vb lookup local
		ip $family rule add pref 9 lookup local
		ip $family rule del pref 0
	done
	ip rule add pref 2 to 10.1.0.1 lookup 101
	ip rule add pref 2 to 10.1.0.2 lookup 102
	ip -6 rule add pref 2 to fd01::1 lookup 101
	ip -6 rule add pref 2 to fd01::2 lookup 102
	for dev in va vb; do
		sysctl -q "net.ipv4.conf.$dev.accept_local=1" "net.ipv4.conf.$dev.rp_filter=0" \
			"net.ipv6.conf.$dev.accept_dad=0"
	done
	wire_up
}

# An interface that goes down takes its routes along.
wire_up() {
	ip addr replace 10.1.0.1/32 dev va
	ip addr replace 10.1.0.2/32 dev vb
	ip addr replace fd01::1/128 dev va nodad
	ip addr replace fd01::2/128 dev vb nodad
	ip link set va up
	ip link set vb up
	ip route replace 10.1.0.1 dev vb src 10.1.0.2 table 101
	ip route replace 10.1.0.2 dev va src 10.1.0.1 table 102
	ip -6 route replace fd01::1 dev vb src fd01::2 table 101
	ip -6 route replace fd01::2 dev va src fd01::1 table 102
}

# plug_cable ADDRESS: eth0, which another guest's is joined to.
plug_cable() {
	modprobe virtio_net
	until_true 10 test -e /sys/class/net/eth0 || die "no eth0"
	ip addr add "$1" dev eth0
	ip link set eth0 up
}
