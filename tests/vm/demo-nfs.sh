#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# demo: a folder over NFS/RDMA: server, client, a tree of files, checked data
#
# The commands are those of Documentation/nfs.md. Server and client are the two ends of a wire in
# one guest; the folder is on a RAM disk.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=storage.sh
. "$(dirname "$0")/storage.sh"
# shellcheck source=demo.sh
. "$(dirname "$0")/demo.sh"

export SERVER=10.1.0.1 CLIENTS=10.1.0.0/24 FOLDER=/srv/nfs MOUNT=/mnt/nfs NETDEV=va

# run_block BLOCK: as the page has it; a demo that fails ends.
run_block() { howto_shown nfs "$1" 2>&1 || exit 1; }

step "A wire with the server's end va ($SERVER) and the client's end vb, a folder to give away"
make_wire
howto_modprobe
modprobe brd rd_nr=1 rd_size=98304 || exit 1
shown mkfs.ext4 -q /dev/ram0 || exit 1
shown mkdir -p "$FOLDER"
shown mount /dev/ram0 "$FOLDER" || exit 1

step "Kiwarp at both ends"
NETDEV=va run_block device
NETDEV=vb run_block device
until_true 10 active kw_va
until_true 10 active kw_vb
shown rdma link show

step "The server gives the folder away"
run_block configure
run_block start

step "The client mounts it by RDMA"
run_block mount

step "This project's files are copied to it, remounted, compared"
shown cp -r "$TOP/kernel" "$TOP/Documentation" "$MOUNT/" || exit 1
run_block unmount
run_block mount
shown diff -r "$TOP/kernel" "$MOUNT/kernel" || exit 1
shown diff -r "$TOP/Documentation" "$MOUNT/Documentation" || exit 1
echo "all files are the same"

step "fio writes random blocks of 32 KiB with checksums, and reads them back"
fio_verify demo --directory="$MOUNT" --rw=randwrite --bs=32k --iodepth=8 --size=8m \
	>"$LOGS/fio" || { cat "$LOGS/fio"; exit 1; }
grep -E '^ +(READ|WRITE): ' "$LOGS/fio"
echo "no checksum was wrong"

step "What went over the wire, as the client's device counted it"
echo "$(counter kw_vb tx_octets) octets out, $(counter kw_vb rx_octets) octets in"
shown rdma resource show

step "All is taken away"
run_block unmount
run_block stop
NETDEV=vb run_block device-down
NETDEV=va run_block device-down
shown rmmod kiwarp || exit 1
echo "(emulation is some 25 times slower than this machine: scripts/bench compares costs)"
