#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# demo: a disk over iSCSI by RDMA (iSER): target, initiator, a file system, checked data
#
# The commands are those of Documentation/iser.md. Target and initiator are the two ends of a wire
# in one guest; the disk is a RAM disk.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/iser.sh
. "$(dirname "$0")/../lib/iser.sh"
# shellcheck source=../lib/demo.sh
. "$(dirname "$0")/../lib/demo.sh"

demo_wire "A wire with the target's end va ($TARGET) and the initiator's end vb, a RAM disk to give away"
demo_devices iser "Kiwarp at both ends, with a port map: iSCSI's port is TCP's, too"

step "The target gives the disk away, by TCP and by RDMA"
run_block iser target
shown ss -ltn

step "The initiator finds it, and logs in by RDMA"
run_block iser initiator
run_block iser discover
run_block iser login
until_true 60 scsi_disk
run_block iser find
disk=$(scsi_disk) || exit 1

demo_fio "4 KiB" fio_scsi demo --rw=randwrite --bs=4k --iodepth=8 --size=8m

mount_again() {
	shown umount /mnt/iser || exit 1
	shown mount "$disk" /mnt/iser || exit 1
}

step "A file system: this project's files are copied to it, remounted, compared"
shown mkfs.ext4 -q "$disk" || exit 1
shown mkdir -p /mnt/iser
shown mount "$disk" /mnt/iser || exit 1
demo_files /mnt/iser mount_again
shown umount /mnt/iser || exit 1

demo_counts initiator

step "All is taken away"
run_block iser logout
run_block iser target-down
modprobe -r ib_isert
pkill -x iscsid
demo_end iser
