#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# NVMe over Fabrics, iSCSI and NFS over Kiwarp in a kernel with KASAN, lockdep and kmemleak: data
# intact, controllers reset under load, the devices of either end taken away under load and
# added again, all unloaded; not one report.
# guest: --uml --mem 1024
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=nvme.sh
. "$(dirname "$0")/nvme.sh"
# shellcheck source=iser.sh
. "$(dirname "$0")/iser.sh"
# shellcheck source=nfs.sh
. "$(dirname "$0")/nfs.sh"

export DISK=/dev/nullb0

checkers() {
	local tree
	for tree in kmemleak debug_objects; do
		[ -e "/sys/kernel/debug/$tree" ] || { echo "no $tree"; return 1; }
	done
	[ "$(sed -n 's/.*debug_locks: *//p' /proc/lockdep_stats)" = 1 ] &&
		grep -q ' kasan_report$' /proc/kallsyms
}

fio_nvme_verify() {
	local name=$1
	shift
	fio_nvme --name="$name" "$@"
}

nvme_all() {
	check "NVMe: the target, a null block device with memory" howto nvme target
	check "NVMe: it listens" wait_listen - "$PORT"
	check "NVMe: connected" howto nvme connect
	check "NVMe: I/O of all sizes" fio_nvme \
		--name=small --rw=randwrite --bs=512 --iodepth=4 --size=512k \
		--name=mixed --rw=randwrite --bsrange=4k-1m --iodepth=32 --size=32m --offset=1m
	on_bad_wires fio_nvme_verify
	under_load "NVMe: three controller resets under load" resets 3
	under_load "NVMe: the target's device deleted under load, and added" target_device_removed
	gone_for_good "NVMe: the host's device deleted under load" rdma link delete kw_vb
	check "NVMe: the host's device added again" add_iser_device vb
	check "NVMe: connected again" howto nvme connect
	check "NVMe: I/O once more" fio_nvme --name=again --rw=randwrite --bs=64k --size=8m
	check "NVMe: disconnected" howto nvme disconnect
	check "NVMe: the target goes" howto nvme target-down
	check "NVMe: nothing is left" until_true 20 nothing_left
}

iscsi_all() {
	check "iSCSI: the target" howto iser target
	check "iSCSI: start the initiator" howto iser initiator
	check_says "iSCSI: discovered" "$TARGET:3260,1 $IQN" howto iser discover
	check "iSCSI: dead connections are noticed soon" impatient
	check_says "iSCSI: logged in by RDMA" 'Iface Transport: iser' howto iser login
	check "iSCSI: the disk appears" until_true 60 scsi_disk
	check "iSCSI: I/O of all sizes" fio_scsi sizes --rw=randwrite --bsrange=512-1m \
		--blockalign=512 --size=16m --iodepth=32
	iser_devices_removed
	check "iSCSI: logged out" howto iser logout
	check "iSCSI: the disk is gone" until_true 60 scsi_gone
	check "iSCSI: the target goes" howto iser target-down
	check "iSCSI: nothing is left" until_true 20 nothing_left
}

nfs_all() {
	modprobe brd rd_nr=1 rd_size=131072 || return
	check "NFS: a file system to give away" make_export /dev/ram0
	check "NFS: the server's configuration" howto nfs configure
	check "NFS: the server" howto nfs start
	check "NFS: mounted by RDMA" mounted_by_rdma || return
	check "NFS: I/O of all sizes" fio_nfs sizes --rw=randwrite --bsrange=512-1m \
		--blockalign=512 --size=16m --iodepth=32
	nfs_devices_removed
	check "NFS: unmounted" howto nfs unmount
	check "NFS: the server goes" howto nfs stop
	check "NFS: its other parts" stop_rest
	check "NFS: nothing is left" until_true 20 nothing_left
}

modules_gone() {
	stop_iscsid && consumers_gone && iser_gone && nfs_client_gone && nfs_server_gone
}

check "the checkers are there" checkers
make_wire
howto_modprobe
modprobe null_blk nr_devices=1 memory_backed=1 gb=1 || die "no null block device"
check "the server's device" add_iser_device va
check "the client's device" add_iser_device vb
nvme_all
iscsi_all
nfs_all
check "the consumers' modules are unloaded" modules_gone
for NETDEV in va vb; do check "$NETDEV's device goes" howto nvme device-down; done
teardown_pair kiwarp
check "the checkers still look" checkers
finish
