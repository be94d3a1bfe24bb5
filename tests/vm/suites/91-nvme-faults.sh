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
tree=(kernel Documentation)

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

# The host's ports of its connections.
connections_of() { ss -Htn state established "( dport = :$PORT )" | awk '{ sub(/.*:/, "", $3); print $3 }' | paste -sd,; }

drops() { nft list table inet stall | grep -qE 'counter packets [1-9]'; }

none_left() { ! ss -Htan state all exclude time-wait "( dport = :$PORT )" | grep -E ":(${1//,/|}) "; }

# What the host had sent when it gave a connection up may not be executed once it has done the same by
# another: the target would write old data over new. Of that connection long packets are lost, so that
# the target waits for the response to its Read, until new data are written.
old_write() {
	local disk old byte writer='' rc=0
	disk=$(nvme_disk) && old=$(connections_of) || return
	for byte in 1 2; do head -c 65536 /dev/zero | tr '\0' "$byte" >"$OUT/pattern$byte"; done
	nft -f - <<-END || return
		table inet stall {
			chain out {
				type filter hook output priority 0;
				tcp sport { $old } meta length > 300 counter drop
			}
		}
	END
	write_twice "$disk" || rc=$?
	nft delete table inet stall
	[ -z "$writer" ] || wait "$writer"
	[ "$rc" = 0 ] || return "$rc"
	until_true 90 none_left "$old" || { echo "the old connections are still there"; return 1; }
	dd if="$disk" bs=64k count=1 iflag=direct status=none | cmp - "$OUT/pattern2"
}

# write_twice DISK: once on the connections that stall, until others do it, and then other data.
write_twice() {
	dd if="$OUT/pattern1" of="$1" bs=64k oflag=direct status=none &
	writer=$!
	until_true 30 drops || return
	nvme reset "/dev/$(basename "$(nvme_ctrl)")" || return
	wait "$writer" || return
	dd if="$OUT/pattern2" of="$1" bs=64k oflag=direct status=none
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
check "nothing of a connection that was given up is executed later" old_write
file_system
under_load "five controller resets under load" resets 5
under_load "connections killed under load" killed
under_load "the target unlinked under load, and linked again" target_unlinked
devices_removed
check "the host disconnects" howto nvme disconnect
nvme_down
finish
