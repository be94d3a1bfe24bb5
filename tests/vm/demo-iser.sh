#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# demo: a disk over iSCSI by RDMA (iSER): target, initiator, a file system, checked data
#
# The commands are those of Documentation/iser.md. Target and initiator are the two ends of a wire
# in one guest; the disk is a RAM disk.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=storage.sh
. "$(dirname "$0")/storage.sh"
# shellcheck source=demo.sh
. "$(dirname "$0")/demo.sh"

export TARGET=10.1.0.1 IQN=iqn.2014-08.org.example:disk1 DISK=/dev/ram0 NETDEV=va
# shellcheck source=/dev/null
. /etc/iscsi/initiatorname.iscsi
# shellcheck disable=SC2154
export INITIATOR=$InitiatorName

# run_block BLOCK: as the page has it; a demo that fails ends.
run_block() { howto_shown iser "$1" 2>&1 || exit 1; }

step "A wire with the target's end va ($TARGET) and the initiator's end vb, a RAM disk to give away"
make_wire
howto_modprobe
shown modprobe brd rd_nr=1 rd_size=98304 || exit 1

step "Kiwarp at both ends, with a port map: iSCSI's port is TCP's, too"
NETDEV=va run_block device
NETDEV=vb run_block device
until_true 10 active kw_va
until_true 10 active kw_vb
shown rdma link show

step "The target gives the disk away, by TCP and by RDMA"
run_block target
shown ss -ltn

step "The initiator finds it, and logs in by RDMA"
run_block initiator
run_block discover
run_block login
until_true 60 scsi_disk
run_block find
disk=$(scsi_disk) || exit 1

step "fio writes random blocks of 4 KiB with checksums, and reads them back"
fio_verify demo --filename="$disk" --rw=randwrite --bs=4k --iodepth=8 --size=8m >"$LOGS/fio" ||
	{ cat "$LOGS/fio"; exit 1; }
grep -E '^ +(READ|WRITE): ' "$LOGS/fio"
echo "no checksum was wrong"

step "A file system: this project's files are copied to it, remounted, compared"
shown mkfs.ext4 -q "$disk" || exit 1
shown mkdir -p /mnt/iser
shown mount "$disk" /mnt/iser || exit 1
shown cp -r "$TOP/kernel" "$TOP/Documentation" /mnt/iser/ || exit 1
shown umount /mnt/iser || exit 1
shown mount "$disk" /mnt/iser || exit 1
shown diff -r "$TOP/kernel" /mnt/iser/kernel || exit 1
shown diff -r "$TOP/Documentation" /mnt/iser/Documentation || exit 1
echo "all files are the same"
shown umount /mnt/iser || exit 1

step "What went over the wire, as the initiator's device counted it"
echo "$(counter kw_vb tx_octets) octets out, $(counter kw_vb rx_octets) octets in"
shown rdma resource show

step "All is taken away"
run_block logout
run_block target-down
modprobe -r ib_isert
pkill -x iscsid
NETDEV=vb run_block device-down
NETDEV=va run_block device-down
shown rmmod kiwarp || exit 1
echo "(emulation is some 25 times slower than this machine: scripts/bench compares costs)"
