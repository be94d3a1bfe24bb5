#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# NVMe over Fabrics, iSCSI and NFS by RDMA between two machines: this guest uses what the other
# one gives away.
# guest: --mem 1024
# peer: guests-server.sh
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/guests.sh
. "$(dirname "$0")/../lib/guests.sh"

tree=(kernel Documentation)

# The other guest has set all up, or is told that it may go.
tell_peer() { echo "$1" >"/dev/tcp/$TARGET/4421"; }

all_sizes() { # COMMAND...
	"$@" --name=small --rw=randwrite --bs=512 --iodepth=1 --size=32k \
		--name=mixed --rw=randwrite --bsrange=4k-128k --iodepth=16 --size=4m --offset=1m \
		--name=large --rw=write --bs=1m --iodepth=8 --size=8m --offset=8m
}

nvme_host() {
	check_says "NVMe: the target is discovered" "subnqn: +$NQN" howto nvme discover
	check "NVMe: connected" howto nvme connect
	check "NVMe: I/O of all sizes" all_sizes fio_nvme
	check "NVMe: a file system" howto nvme filesystem
	check "NVMe: files are copied" copy_sources /mnt/nvme "${tree[@]}"
	check "NVMe: unmounted" howto nvme unmount
	check "NVMe: checked: clean" fsck.ext4 -fn "$(nvme_disk)"
	check "NVMe: mounted" mount "$(nvme_disk)" /mnt/nvme
	check "NVMe: all files are what they were" same_sources /mnt/nvme "${tree[@]}"
	check "NVMe: unmounted again" howto nvme unmount
	check "NVMe: the load" nvme_load load
	check "NVMe: two controller resets" resets 2
	check "NVMe: no error, no wrong checksum" fio_stop load
	check "NVMe: disconnected" howto nvme disconnect
}

iscsi_initiator() {
	check "iSCSI: start the initiator" howto iser initiator
	check_says "iSCSI: the target is discovered" "$TARGET:3260,1 $IQN" iser_found
	iser_found_notes
	check_says "iSCSI: logged in by RDMA" 'Iface Transport: iser' howto iser login
	check "iSCSI: the disk appears" until_true 60 scsi_disk
	check "iSCSI: I/O of all sizes" all_sizes fio_on "$(scsi_disk)"
	check "iSCSI: logged out" howto iser logout
	check "iSCSI: the disk is gone" until_true 60 scsi_gone
}

nfs_client() {
	check "NFS: mounted by RDMA" mounted_by_rdma || return
	check "NFS: files are copied" copy_sources "$MOUNT" "${tree[@]}"
	check "NFS: I/O of all sizes" all_sizes fio_jobs --directory="$MOUNT"
	check "NFS: unmounted" howto nfs unmount
	check "NFS: mounted again" mounted_by_rdma
	check "NFS: all files are what they were" same_sources "$MOUNT" "${tree[@]}"
	check "NFS: unmounted again" howto nfs unmount
}

modules_gone() { stop_iscsid && consumers_gone && modprobe -r ib_iser && nfs_client_gone; }

plug_cable 10.2.0.2/24
howto_modprobe
check "the device" howto iser device
check "the port is active" until_true 10 active kw_eth0
check "the other guest is there" until_true 180 tell_peer hello
nvme_host
iscsi_initiator
nfs_client
check "the other guest may go" tell_peer bye
check "nothing is left on the device" until_true 20 nothing_left
check "the consumers' modules are unloaded" modules_gone
check "the device goes" howto nvme device-down
teardown_pair
finish
