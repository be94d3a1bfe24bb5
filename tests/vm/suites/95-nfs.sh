#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# NFS over RDMA, the kernel's server and client both over Kiwarp, with the commands of
# Documentation/nfs.md: data intact, over bad wires and broken connections, too.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/nfs.sh
. "$(dirname "$0")/../lib/nfs.sh"

TIME_LIMIT=240

# Every file of the tree, as the server has it and as the client reads it after a remount.
same_tree() {
	diff -r --no-dereference "$1" "$MOUNT/tree" && diff -r --no-dereference "$1" "$FOLDER/tree"
}

copy_tree() { mountpoint -q "$MOUNT" && cp -a /run/tree "$MOUNT/tree" && sync -f "$MOUNT"; }

# connects: how often the client's transport has connected.
connects() { sed -n 's/.*xprt:\trdma [0-9]* [0-9]* \([0-9]*\) .*/\1/p' /proc/self/mountstats; }

fio_through_flap() {
	fio_nfs flap --rw=randrw --bs=8k --size=1m --iodepth=8 --numjobs=2 --time_based \
		--runtime=8 &
	local job=$!
	sleep 2
	cut_wire 2
	wait "$job"
}

# The connection dies of the cut, and the client makes another.
fio_through_cut() {
	local before
	nfs_load || return
	before=$(connects)
	ip link set va down
	until_true 30 connection_gone 20049 || { echo "the connection stays"; return 1; }
	wire_up
	until_true 60 is_more "$before" connects || { echo "it is not made again"; return 1; }
	until_true 60 nfs_flows && fio_stop load
}

modules_gone() { nfs_client_gone && nfs_server_gone; }

make_wire
load_modules
modprobe brd rd_nr=1 rd_size=131072 || die "no RAM disk"
check "a file system to give away" make_export /dev/ram0
add_devices nfs
for NETDEV in va vb; do check "$NETDEV notices dead connections" howto nfs impatient; done

check "configure the server" howto nfs configure
check_says "start the server" '^rdma 20049' howto nfs start
check "it listens" wait_listen - 20049
check "mount by RDMA, version 4.2" mounted_by_rdma || die "there is nothing to test"

make_tree /run/tree
check "copy a tree" copy_tree
check "unmount" howto nfs unmount
check "mount again" mounted_by_rdma
check "the tree is what was copied" same_tree /run/tree

check "small random blocks, verified" fio_nfs small --rw=randwrite --bsrange=512-16k \
	--blockalign=512 --size=512k --iodepth=1 --numjobs=2
check "large blocks in order, verified" fio_nfs large --rw=write --bs=1m --size=8m --iodepth=4
check "all sizes at random, verified" fio_nfs sizes --rw=randwrite --bsrange=512-1m \
	--blockalign=512 --size=8m --iodepth=32 --numjobs=2
check "buffered, verified" fio_nfs buffered --direct=0 --ioengine=psync --rw=randwrite \
	--bs=64k --size=4m --end_fsync=1

on_bad_wires fio_nfs
check "the link goes down and up, verified" fio_through_flap
check "the connection breaks and is made again, verified" fio_through_cut
check "nothing was wrong on the wire" no_wire_errors

nfs_devices_removed
check "unmount at the end" howto nfs unmount
check "version 3" howto nfs mount3
check "version 3, verified" fio_nfs three --rw=randwrite --bs=32k --size=2m --iodepth=4
check "unmount version 3" howto nfs unmount
check "stop the server" howto nfs stop
check "its other parts" stop_rest
check "nothing is left on the devices" until_true 20 nothing_left
check "the consumers' modules are unloaded" modules_gone
for NETDEV in va vb; do check "$NETDEV's device goes" howto nfs device-down; done
howto_all_ran nfs
teardown_pair
finish
