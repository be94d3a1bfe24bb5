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
	# What arrives by an end is for this machine; what this machine sends to an end's
	# address leaves by the other; only then come the addresses that are local.
	wire_rules va vb 10.1.0 101
	sysctl -q net.ipv6.conf.{va,vb}.accept_dad=0
	ip_batch <<-'EOF'
		rule add pref 9 lookup local
		rule del pref 0
	EOF
	ip_batch -6 <<-'EOF'
		rule add pref 1 iif va lookup local
		rule add pref 1 iif vb lookup local
		rule add pref 9 lookup local
		rule del pref 0
		rule add pref 2 to fd01::1 lookup 101
		rule add pref 2 to fd01::2 lookup 102
	EOF
	wire_up
}

# leave_wire: what make_wire and join_wire have made is taken away.
leave_wire() {
	local dev
	for dev in va vb; do
		[ ! -e /sys/class/net/$dev ] || ip link del $dev
	done
	ip rule add pref 0 lookup local
	ip -6 rule add pref 0 lookup local
	ip rule flush
	ip -6 rule flush
	ip rule add pref 32766 lookup main
	ip -6 rule add pref 32766 lookup main
}

# wire_rules A B NET TABLE: what is for NET.1 of A or NET.2 of B is looked up in TABLE and the next.
wire_rules() {
	local dev
	for dev in "$1" "$2"; do
		sysctl -q "net.ipv4.conf.$dev.accept_local=1" "net.ipv4.conf.$dev.rp_filter=0"
	done
	ip_batch <<-EOF
		rule add pref 1 iif $1 lookup local
		rule add pref 1 iif $2 lookup local
		rule add pref 2 to $3.1 lookup $4
		rule add pref 2 to $3.2 lookup $(($4 + 1))
	EOF
}

# wire_routes A B NET TABLE: prints the commands for the addresses, and for the routes of those tables.
wire_routes() {
	cat <<-EOF
		addr replace $3.1/32 dev $1
		addr replace $3.2/32 dev $2
		link set $1 up
		link set $2 up
		route replace $3.1 dev $2 src $3.2 table $4
		route replace $3.2 dev $1 src $3.1 table $(($4 + 1))
	EOF
}

# An interface that goes down takes its routes along.
wire_up() {
	{
		wire_routes va vb 10.1.0 101
		cat <<-'EOF'
			addr replace fd01::1/128 dev va nodad
			addr replace fd01::2/128 dev vb nodad
			route replace fd01::1 dev vb src fd01::2 table 101
			route replace fd01::2 dev va src fd01::1 table 102
		EOF
	} | ip_batch
}

# make_second_wire: another, beside the first: vc (10.1.1.1) and vd (10.1.1.2).
make_second_wire() {
	ip link add vc mtu 1500 type veth peer name vd mtu 1500 || die "veth"
	wire_rules vc vd 10.1.1 103
	second_wire_up
}

second_wire_up() { wire_routes vc vd 10.1.1 103 | ip_batch; }

# plug_cable ADDRESS: eth0, which another guest's is joined to.
plug_cable() {
	modprobe virtio_net
	until_true 10 test -e /sys/class/net/eth0 || die "no eth0"
	ip addr add "$1" dev eth0
	ip link set eth0 up
}
