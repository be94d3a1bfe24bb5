#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# demo: a disk over NVMe over Fabrics: target, host, a file system, checked data
#
# The commands are those of Documentation/nvme.md. Target and host are the two ends of a wire in
# one guest; the disk is a RAM disk.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/nvme.sh
. "$(dirname "$0")/../lib/nvme.sh"
# shellcheck source=../lib/demo.sh
. "$(dirname "$0")/../lib/demo.sh"

demo_wire "A wire with the target's end va ($TARGET) and the host's end vb, a RAM disk to give away"
demo_devices nvme "Kiwarp at both ends"

step "The target gives the disk away"
run_block nvme target

step "The host finds it, and connects with two I/O queues"
run_block nvme discover
run_block nvme connect
run_block nvme find

demo_fio "4 KiB" fio_nvme --name=demo --rw=randwrite --bs=4k --iodepth=8 --size=8m

mount_again() {
	run_block nvme unmount
	shown mount "$(nvme_disk)" /mnt/nvme || exit 1
}

step "A file system: this project's files are copied to it, remounted, compared"
run_block nvme filesystem
demo_files /mnt/nvme mount_again
run_block nvme unmount

demo_counts host

step "All is taken away"
run_block nvme disconnect
run_block nvme target-down
consumers_gone
demo_end nvme
