#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# RDMA network block devices, server and client over Kiwarp, with the commands of
# Documentation/rnbd.md: I/O of all sizes with checksums, what one end writes read at the other, bad
# wires, connections broken with one path and with two. RNBD_KO names the folder where scripts/rnbd
# has built the modules as Debian's source has them, RNBD_PATCHED_KO that of the patched ones.
# guest: --uml --mem 1024
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/storage.sh
. "$(dirname "$0")/../lib/storage.sh"

TIME_LIMIT=240
export NETDEV=va TARGET=10.1.0.1 PORT=1234 DISK=/dev/ram0 SESSION=client1 OTHER=10.1.1.1
export MODULES=$RNBD_KO
disk=/dev/rnbd0
paths=/sys/class/rtrs-client/$SESSION/paths
first="$paths/ip:10.1.0.2@ip:10.1.0.1"

fio_rnbd() {
	local name=$1
	shift
	fio_on "$disk" --name="$name" "$@"
}

disk_gone() { [ ! -e /sys/block/rnbd0 ]; }

# same_bytes: the client reads what the server has.
same_bytes() { cmp <(dd if="$disk" bs=1M iflag=direct status=none) "$DISK"; }

server_writes() {
	dd if=/dev/urandom of="$DISK" bs=1M count=8 seek=16 oflag=direct status=none && same_bytes
}

rnbd_load() { # NAME
	fio_load "$1" --filename="$disk" --allow_file_create=0 --offset_increment=2m && until_true 60 flows
}

flows() { grows ios_done "$disk"; }

path_is() { # PATH STATE
	local state
	read -r state <"$1/state" && [ "$state" = "$2" ]
}

# No path is left: what is on its way fails, and so does what comes.
broken() {
	ss -K dst "$TARGET" dport = ":$PORT"
	until_true 30 path_is "$first" disconnected
}

# RTRS would try again by itself, after half a minute. A server that has not done away with the old
# session refuses the new one ("Session in wrong state"), and the write fails with ENOTCONN.
reconnects() { # PATH
	until_true 30 reconnect_once "$1"
}

reconnect_once() { # PATH
	path_is "$1" connected || { echo 1 >"$1/reconnect"; } 2>/dev/null
}

disk_is() { # STATE
	local state
	read -r state </sys/block/rnbd0/rnbd/state && [ "$state" = "$1" ]
}

one_path() {
	check "one path: the load" rnbd_load one
	check "one path: its connections are killed" broken
	check "one path: I/O ends, with an error" fio_gives_up one
	check "one path: it is connected again" reconnects "$first"
	check "one path: the disk is there again" until_true 30 disk_is open
	check "one path: I/O as before" fio_rnbd again --rw=randwrite --bsrange=4k-64k --size=2m
}

fails_over() {
	broken || return
	until_true 30 flows || { echo "no I/O by the other path"; return 1; }
	reconnects "$first"
}

two_paths() {
	check "$1: a second path, to $OTHER" howto rnbd second-path
	check_says "$1: both are connected" '^2$' connected_paths
	check "$1: the load" rnbd_load two
	check "$1: the first path is broken under load, I/O goes on, it comes back" fails_over
	check "$1: no error, no wrong checksum" fio_stop two
}

connected_paths() { howto rnbd paths | grep -c ':connected$'; }

bring_up() { # WHAT BLOCK
	check "$1: the server" howto rnbd "$2"
	check "$1: it listens" wait_listen - $PORT
	check "$1: the client" howto rnbd client
	check "$1: the disk is mapped" howto rnbd map
	check_says "$1: it is there" '^rnbd0 .* 64M' howto rnbd find
}

take_down() { # WHAT
	check "$1: unmapped" howto rnbd unmap
	check "$1: the disk is gone" until_true 20 disk_gone
	check "$1: the client's modules go" until_true 20 howto rnbd client-down
	check "$1: the server's modules go" until_true 20 howto rnbd server-down
	check "$1: nothing is left" until_true 20 nothing_left
}

sizes() { # WHAT
	check "$1: all sizes at random, verified" fio_rnbd sizes --rw=randwrite --bsrange=512-1m \
		--blockalign=512 --size=6m --iodepth=16 --numjobs=2 --offset_increment=8m
	check "$1: the server has what the client wrote" same_bytes
	check "$1: the client reads what the server writes" server_writes
}

# other_addresses: a second address for either end of the wire.
other_addresses() {
	ip addr add 10.1.1.1/32 dev va && ip addr add 10.1.1.2/32 dev vb &&
		ip rule add pref 2 to 10.1.1.1 lookup 101 && ip rule add pref 2 to 10.1.1.2 lookup 102 &&
		ip route add 10.1.1.1 dev vb src 10.1.1.2 table 101 &&
		ip route add 10.1.1.2 dev va src 10.1.1.1 table 102
}

make_wire
other_addresses || die "no other addresses"
load_modules
modprobe brd rd_nr=1 rd_size=65536 || die "no RAM disk"
add_devices rnbd

bring_up "as shipped" server
sizes "as shipped"
on_bad_wires fio_rnbd
check "unmapped" howto rnbd unmap
check "the disk is gone" until_true 20 disk_gone
check "mapped again" howto rnbd map
check "the server still has what the client reads" same_bytes
one_path
two_paths "as shipped"
take_down "as shipped"

check "RTRS's core goes" rmmod rtrs_core
# As shipped, the server takes addresses of different families for equal.
MODULES=$RNBD_PATCHED_KO OTHER=fd01::1
check "the patched one comes" insmod "$MODULES/rtrs-core.ko"
bring_up "always_invalidate" server-patched
sizes "always_invalidate"
two_paths "always_invalidate"
take_down "always_invalidate"

check "nothing was wrong on the wire" no_wire_errors
for NETDEV in va vb; do check "$NETDEV's device goes" howto rnbd device-down; done
howto_all_ran rnbd
teardown_pair
finish
