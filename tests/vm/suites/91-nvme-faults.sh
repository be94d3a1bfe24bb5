#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# NVMe over Fabrics when things go wrong: bad wires, a wire that is cut, controllers reset, the
# target and the devices taken away, all of it under load whose checksums are verified.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/nvme.sh
. "$(dirname "$0")/../lib/nvme.sh"

TIME_LIMIT=240
tree=(kernel tests Documentation)

bad_wires() {
	local what
	modprobe sch_netem || die "no netem"
	for what in "loss 1%" "delay 1ms reorder 25% 50%" "delay 5ms 2ms" "duplicate 2%"; do
		# shellcheck disable=SC2086
		check "netem: $what" impair $what
		check "I/O on a wire with $what" fio_nvme --rw=randrw --iodepth=8 \
			--name=short --bsrange=512-16k --size=1m \
			--name=long --bsrange=64k-1m --size=6m --offset=1m
	done
	unimpair
}

# A cut that is over before anybody notices costs time only; TCP repeats what was lost.
short_cut() {
	local before
	before=$(counter kw_vb conn_established)
	cut_wire 1
	until_true 30 flows || { echo "no I/O after the cut"; return 1; }
	[ "$(counter kw_vb conn_established)" = "$before" ]
}

target_unlinked() {
	unlink_port || return
	ctrl_becomes connecting || { echo "the host has not noticed"; return 1; }
	target_comes_back
}

devices_removed() {
	under_load "the target's device deleted under load, and added" target_device_removed
	gone_for_good "the host's device deleted under load" rdma link delete kw_vb
	NETDEV=vb check "the device is added again" howto nvme device
	check "the host connects again" howto nvme connect
	module_unloaded
}

cut_while_copying() {
	local copier
	copy_sources /mnt/nvme "${tree[@]}" &
	copier=$!
	until_true 30 flows || return
	ip link set va down
	ctrl_becomes connecting || { echo "the host has not noticed"; return 1; }
	wire_up
	ctrl_becomes live && wait "$copier"
}

file_system() {
	check "a file system" howto nvme filesystem
	check "a cut while files are copied: the copy succeeds" cut_while_copying
	check "unmounted" howto nvme unmount
	check "checked: clean" fsck.ext4 -fn "$(nvme_disk)"
	check "mounted" mount "$(nvme_disk)" /mnt/nvme
	check "all files are what they were" same_sources /mnt/nvme "${tree[@]}"
	check "unmounted again" howto nvme unmount
}

make_wire
nvme_up
check "the host connects" howto nvme connect
bad_wires
under_load "a short cut under load" short_cut
under_load "a long cut under load: the host reconnects" long_cut
file_system
under_load "five controller resets under load" resets 5
under_load "connections killed under load" killed
under_load "the target unlinked under load, and linked again" target_unlinked
devices_removed
check "the host disconnects" howto nvme disconnect
nvme_down
finish
