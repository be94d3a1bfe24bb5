#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# demo: a disk over NVMe over Fabrics: target, host, a file system, checked data
#
# The commands are those of Documentation/nvme.md. Target and host are the two ends of a wire in
# one guest; the disk is a RAM disk.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=nvme.sh
. "$(dirname "$0")/nvme.sh"
# shellcheck source=demo.sh
. "$(dirname "$0")/demo.sh"

# run_block BLOCK: as the page has it; a demo that fails ends.
run_block() { howto_shown nvme "$1" 2>&1 || exit 1; }

octets() { cat "/sys/class/infiniband/kw_vb/ports/1/hw_counters/$1_octets"; }

step "A wire with the target's end va ($TARGET) and the host's end vb, a RAM disk to give away"
make_wire
howto_modprobe
shown modprobe brd rd_nr=1 rd_size=98304 || exit 1

step "Kiwarp at both ends"
NETDEV=va run_block device
NETDEV=vb run_block device
until_true 10 active kw_va
until_true 10 active kw_vb
shown rdma link show

step "The target gives the disk away"
run_block target

step "The host finds it, and connects with two I/O queues"
run_block discover
run_block connect
run_block find

step "fio writes random blocks of 4 KiB with checksums, and reads them back"
fio_verify --name=demo --rw=randwrite --bs=4k --iodepth=8 --size=8m >"$LOGS/fio" ||
	{ cat "$LOGS/fio"; exit 1; }
grep -E '^ +(READ|WRITE): ' "$LOGS/fio"
echo "no checksum was wrong"

step "A file system: this project's files are copied to it, remounted, compared"
run_block filesystem
shown cp -r "$TOP/kernel" "$TOP/Documentation" /mnt/nvme/ || exit 1
run_block unmount
shown mount "$(nvme_disk)" /mnt/nvme || exit 1
shown diff -r "$TOP/kernel" /mnt/nvme/kernel || exit 1
shown diff -r "$TOP/Documentation" /mnt/nvme/Documentation || exit 1
echo "all files are the same"
run_block unmount

step "What went over the wire, as the host's device counted it"
echo "$(octets tx) octets out, $(octets rx) octets in"
shown rdma resource show

step "All is taken away"
run_block disconnect
run_block target-down
NETDEV=vb run_block device-down
NETDEV=va run_block device-down
consumers_gone
shown rmmod kiwarp || exit 1
echo "(emulation is some 25 times slower than this machine: scripts/bench compares costs)"
