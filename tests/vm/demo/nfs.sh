#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# demo: a folder over NFS/RDMA: server, client, a tree of files, checked data
#
# The commands are those of Documentation/nfs.md. Server and client are the two ends of a wire in
# one guest; the folder is on a RAM disk.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/nfs.sh
. "$(dirname "$0")/../lib/nfs.sh"
# shellcheck source=../lib/demo.sh
. "$(dirname "$0")/../lib/demo.sh"

demo_wire "A wire with the server's end va ($SERVER) and the client's end vb, a folder to give away"
shown mkfs.ext4 -q /dev/ram0 || exit 1
shown mkdir -p "$FOLDER"
shown mount /dev/ram0 "$FOLDER" || exit 1
demo_devices nfs "Kiwarp at both ends"

step "The server gives the folder away"
run_block nfs configure
run_block nfs start

step "The client mounts it by RDMA"
run_block nfs mount

mount_again() {
	run_block nfs unmount
	run_block nfs mount
}

step "This project's files are copied to it, remounted, compared"
demo_files "$MOUNT" mount_again

demo_fio "32 KiB" fio_verify demo --directory="$MOUNT" --rw=randwrite --bs=32k --iodepth=8 --size=8m
demo_counts client

step "All is taken away"
run_block nfs unmount
run_block nfs stop
demo_end nfs
