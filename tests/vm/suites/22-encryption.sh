#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Kiwarp inside WireGuard and IPsec, and through relays that speak TLS, with the commands of
# Documentation/encryption.md: rdma_cm's examples between two namespaces, siw as the peer, how a device
# follows its tunnel, what the wire then shows, NVMe over Fabrics, certificates that are not known, and
# relays that end. SIW_KO names siw's module.
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

# capture NAME NS COMMAND...: what crosses the wire at va meanwhile, as a file. There is room for 256 packets
# that tcpdump has not seen yet: it would lose them, and then nothing can be said of the stream.
capture() {
	local file=$OUT/$1.pcap ns=$2
	shift 2
	start capture "$ns" tcpdump -U -B 65536 -i va -w "$file" --immediate-mode
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

devices() {
	link_add da a va && link_add db b vb
	check "the port of da is active" until_true 10 active da
	check "the port of db is active" until_true 10 active db
}

rdmacm_over_ipsec() {
	local ns
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
}

# The kernel's count of connections for which it has made records (Tx), or read them (Rx).
tls_stat() { in_ns "$1" sed -n "s/^$2[[:space:]]*//p" /proc/net/tls_stat; }
tls_counted() { local n; n=$(tls_stat "$1" "$2"); echo "$2 $n"; [ "$n" -gt 0 ]; }
tls_not_counted() { [ "$(tls_stat "$@")" = 0 ]; }

is_tls() { python3 "$TOP/tests/vm/lib/tls_check.py" "$1"; }

# tls_captured WHAT FILE ADDRESS: rping, and what the wire has of it.
tls_captured() {
	capture "$2" a rping_pair "rping, captured through relays, $1" a b "$3" -C 20 -v
	check "$1: the wire has this port only" only "$OUT/$2.pcap" "tcp port 7174"
	check "$1: it carries TLS records and nothing else" is_tls "$OUT/$2.pcap"
	check "$1: nothing of it is plain" hides "$OUT/$2.pcap" $ping_text
	check "$1: nor is what MPA begins with" hides "$OUT/$2.pcap" 'MPA ID Re'
}

rdmacm_over_tls() {
	local ns
	tls_ports=7174,7471,18515-18530
	capture before-tls a rping_pair "rping, captured without relays" a b 10.1.0.1 -C 20 -v
	check_fails "without relays these are no TLS records" 'what is no TLS' is_tls "$OUT/before-tls.pcap"
	check "without relays MPA's first frames are on the wire" shows "$OUT/before-tls.pcap" 'MPA ID Re'
	for ns in a b; do check "TLS at $ns: key and certificate" tls_keys $ns; done
	for ns in a b; do
		check "TLS at $ns: the redirection" at $ns tls-redirect
		check "TLS at $ns: the relay" tls_begins $ns
		check "TLS at $ns: the kernel has encrypted nothing yet" tls_not_counted $ns TlsTxSw
	done
	tls_captured TLS tls 10.1.0.1
	for ns in a b; do check "TLS at $ns: the kernel has encrypted" tls_counted $ns TlsTxSw; done
	tls_captured "TLS, IPv6" tls6 fd01::1
	examples "TLS, IPv4" a b 10.1.0.1 ip
	examples "TLS, IPv6" b a fd01::2 ipv6
	wildcard TLS a b 10.1.0.1 fd01::1
	port=18515
	pair_perftest "TLS: ib_write_bw" a b 10.1.0.1 ib_write_bw -s 65536 -n 101
	pair_perftest "TLS: ib_read_bw" b a 10.1.0.2 ib_read_bw -e -s 65536 -n 101
	tls_keeps_out
	tls_relay_ends a
	tls_relay_ends b -KILL
	[ -z "${SIW_KO:-}" ] || siw_over_tls
	tls_1_2
	for ns in a b; do check "TLS at $ns ends" at $ns tls-down; done
	rping_pair "rping, when the relays are gone" a b 10.1.0.1 -C 2
}

# Whoever cannot connect is told so, and ends by itself: with the exit code 255.
tls_no_way() { # WHAT
	check_says "$1: no connection" 'RDMA_CM_EVENT_REJECTED' rping_is_told
}

rping_is_told() {
	in_ns b timeout -k 5 "$TIME_LIMIT" rping -c -a 10.1.0.1 -C 2
	[ $? = 255 ]
}

# One listener, which the last client of all reaches.
tls_keeps_out() {
	start "TLS, server" a rping -s -a 10.1.0.1 -C 2
	wait_server "TLS, server" a 7174 || not_ok "rping listens" "$server_log"
	check_fails "TLS: the relay's own ports are closed" 'refused' \
		in_ns b bash -c 'echo >/dev/tcp/10.1.0.1/842'
	check_fails "TLS: also on their own machine" 'refused' in_ns b bash -c 'echo >/dev/tcp/127.0.0.1/841'
	tls_of_others
	tls_unknown "a certificate that the listener's relay does not know" b
	tls_unknown "a certificate that the client's relay does not know" a
	check "TLS: a client without redirection" in_ns b nft delete table inet kiwarp_tls
	tls_no_way "TLS: a client without redirection"
	check "TLS: the client is redirected again" at b tls-redirect
	check "TLS: the listener's relay ends" tls_ends a
	capture no-relay a tls_no_way_captured "TLS: no relay at the listener"
	check "TLS: no relay at the listener: nothing was sent" says_nothing "$OUT/no-relay.pcap"
	check "TLS: the listener's relay is back" tls_begins a
	check "TLS: the client's relay ends" tls_ends b
	capture no-relay-b a tls_no_way_captured "TLS: no relay at the client"
	check "TLS: no relay at the client: nothing was sent" says_nothing "$OUT/no-relay-b.pcap"
	check "TLS: the client's relay is back" tls_begins b
	check "TLS: then the same listener is reached" in_ns b rping -c -a 10.1.0.1 -C 2
	check "TLS: it has served that client alone, and ends" until_true 20 gone "${jobs["TLS, server"]}"
	stop "TLS, server"
}

# A port that nobody has and nothing redirects is what the capture has to show.
tls_no_way_captured() {
	check_fails "$1: another port is refused" 'refused' in_ns b bash -c 'echo >/dev/tcp/10.1.0.1/9'
	tls_no_way "$1"
}

# What another machine has on such a port is not led to the relay of one that forwards to it: here nobody has it.
tls_of_others() {
	in_ns a sysctl -qw net.ipv4.ip_forward=1
	ip -n a route add unreachable 10.1.9.0/24
	ip -n b route add 10.1.9.0/24 via 10.1.0.1
	in_ns b nft delete table inet kiwarp_tls
	check_fails "TLS: the port of a third machine is not the relay's" 'No route to host' \
		in_ns b bash -c 'echo >/dev/tcp/10.1.9.9/7174'
	check "TLS: b is redirected again" at b tls-redirect
	ip -n b route del 10.1.9.0/24
	ip -n a route del unreachable 10.1.9.0/24
	in_ns a sysctl -qw net.ipv4.ip_forward=0
}

# Segments, and none with data.
says_nothing() {
	tcpdump -nr "$1" tcp 2>/dev/null
	[ "$(packets "$1" 'tcp dst port 9')" -gt 0 ] || return
	[ "$(packets "$1" 'tcp and not tcp[tcpflags] & (tcp-syn|tcp-rst) != 0')" = 0 ]
}

# tls_unknown WHAT END: END makes itself another key, of which the other end does not hear.
tls_unknown() {
	local peer
	peer=$(other_end "$2")
	cp "$KEYS/relay-$peer.peer.pem" "$KEYS/known.pem"
	check "TLS: a new key at $2" tls_keys "$2"
	cp "$KEYS/relay-$peer.peer.pem" "$KEYS/new.pem"
	cp "$KEYS/known.pem" "$KEYS/relay-$peer.peer.pem"
	check "TLS: the relay at $2 takes it" tls_again "$2"
	tls_no_way "TLS: $1"
	cp "$KEYS/new.pem" "$KEYS/relay-$peer.peer.pem"
	check "TLS: the relay at $peer knows it" tls_again "$peer"
}

tls_again() { tls_ends "$1" && tls_begins "$1"; }

# tls_relay_ends END [SIGNAL]: in the middle of a transfer both ends of which see that.
tls_relay_ends() {
	local end=$1 client_said server_said
	start "TLS, server" a rping -s -a 10.1.0.1 -v -C 1000000
	server_said=$server_log
	wait_server "TLS, server" a 7174 || not_ok "rping listens" "$server_log"
	start "TLS, client" b rping -c -a 10.1.0.1 -v -C 1000000
	client_said=$server_log
	check "TLS: much is transferred before the relay at $end ends" until_true 20 pinged "$client_said" 20
	check_says "TLS: the client sees the listener's address" 'dst-addr 10\.1\.0\.1:7174' addresses db
	check_says "TLS: the listener sees one of its own machine" 'dst-addr 10\.1\.0\.1:' addresses da
	check "TLS: the relay at $end ends (${2:--TERM})" tls_ends "$@"
	check "TLS: the client sees the end" until_true 20 gone "${jobs["TLS, client"]}"
	check "TLS: the server sees the end" until_true 20 gone "${jobs["TLS, server"]}"
	check_says "TLS: the client is told" 'DISCONNECT EVENT' cat "$client_said"
	check_says "TLS: the server is told" 'DISCONNECT EVENT' cat "$server_said"
	stop "TLS, client"
	stop "TLS, server"
	check "TLS: the relay at $end is back" tls_begins "$end"
	rping_pair "TLS: rping after that" a b 10.1.0.1 -C 2
}

# Those of a device's connections.
addresses() { unfolded rdma resource show cm_id link "$1" | grep 'state CONNECT'; }

pinged() { [ "$(grep -c 'ping data' "$1")" -gt "$2" ]; }

# siw takes the place of Kiwarp's device at b.
siw_over_tls() {
	local counted
	check "siw, TLS: Kiwarp's device goes" rdma link delete db
	load_siw
	check "siw, TLS: its device" link_add siw_b b vb siw
	check "siw, TLS: its port is active" until_true 10 active siw_b
	counted=$(tls_stat a TlsTxSw)
	rping_pair "siw, TLS: rping, Kiwarp serves" a b 10.1.0.1 -C 20 -V
	rping_pair "siw, TLS: rping, siw serves" b a 10.1.0.2 -C 20 -V
	check_says "siw, TLS: both connections were encrypted" "^$((counted + 2))$" tls_stat a TlsTxSw
	check "siw, TLS: it is unloaded" rmmod siw
	check "siw, TLS: Kiwarp's device is back" link_add db b vb
	check "siw, TLS: its port is active again" until_true 10 active db
}

# Of TLS 1.3 OpenSSL 3.0 has the kernel make records, and reads them itself.
tls_1_2() {
	local ns
	for ns in a b; do
		sed -i 's/^sslVersionMin = .*/sslVersion = TLSv1.2/' $KEYS/relay-$ns.conf
		check "TLS 1.2 at $ns: the kernel has decrypted nothing yet" tls_not_counted $ns TlsRxSw
		tls_ends $ns
		in_ns $ns stunnel4 $KEYS/relay-$ns.conf
		check "TLS 1.2 at $ns: the relay" wait_listen $ns 842
	done
	rping_pair "TLS 1.2: rping" a b 10.1.0.1 -C 20 -V
	for ns in a b; do check "TLS 1.2 at $ns: the kernel has decrypted" tls_counted $ns TlsRxSw; done
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
devices
rdmacm_over_ipsec
rdmacm_over_tls
rdma link delete da
rdma link delete db
howto_all_ran encryption
nvme_over_wireguard
nvme_over_ipsec
teardown_pair
finish
