#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Two devices, two paths, with the commands of Documentation/scaling.md: NVMe over Fabrics with the
# kernel's multipath and ANA, iSCSI with two sessions under dm-multipath, NFS with several
# connections. Paths are cut and devices deleted under I/O that is verified and sees no error.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/multipath.sh
. "$(dirname "$0")/../lib/multipath.sh"

TIME_LIMIT=240

both_active() { active kw_va && active kw_vb && active kw_vc && active kw_vd; }

# The wire of the first path is cut for longer than keep-alive allows.
wire_cut() {
	ip link set va down
	path_becomes "$first" connecting && uses "$second" || return
	wire_up
	path_becomes "$first" live && uses_both
}

# A path whose device at the host goes is removed, and the disk keeps the other.
host_device_deleted() {
	rdma link delete kw_vb
	until_true 30 no_path "$first" || { echo "the path is still there"; return 1; }
	uses "$second" && until_true 30 live_paths 1 || return
	add_device vb && TARGETS=$first howto scaling nvme-connect && howto scaling nvme-policy &&
		path_becomes "$first" live && uses_both
}

# nvmet drops the listener of a device that goes: the port has to be linked again.
target_device_deleted() {
	local port=/sys/kernel/config/nvmet/ports/2/subsystems/$NQN
	rdma link delete kw_vc
	path_becomes "$second" connecting && uses "$first" || return
	add_device vc && rm "$port" && ln -s "/sys/kernel/config/nvmet/subsystems/$NQN" "$port" &&
		path_becomes "$second" live && uses_both
}

# Without any path I/O waits; it sees no error.
both_cut() {
	ip link set va down
	ip link set vc down
	path_becomes "$first" connecting && path_becomes "$second" connecting || return
	second_wire_up
	path_becomes "$second" live && uses "$second" || return
	wire_up
	path_becomes "$first" live && uses_both
}

ana_moves() {
	howto scaling nvme-ana-away
	until_true 30 ana_is "$first" inaccessible || { echo "the host does not know"; return 1; }
	uses_only "$second" "$first" || return
	howto scaling nvme-ana-back
	until_true 30 ana_is "$first" optimized || { echo "the host does not know"; return 1; }
	uses_both
}

ana_prefers() {
	howto scaling nvme-ana-prefer
	until_true 30 ana_is "$second" non-optimized || { echo "the host does not know"; return 1; }
	uses_only "$first" "$second" || return
	howto scaling nvme-ana-away
	until_true 30 ana_is "$first" inaccessible || { echo "the host does not know"; return 1; }
	uses_only "$second" "$first"
}

# disk_of NSID: the host's name of that namespace.
disk_of() {
	local name
	name=$(cd /sys/block && grep -lx "$1" nvme*n*/nsid | cut -d/ -f1 | grep -v c)
	[ -b "/dev/$name" ] && echo "/dev/$name"
}

no_disk_of() { ! disk_of "$1"; }

ana_load() {
	fio_load groups --filename="$(disk_of 1):$(disk_of 2)" --allow_file_create=0 --offset_increment=2m
	until_true 60 flows_of 1 && until_true 60 flows_of 2
}

flows_of() { grows ios_done "$(disk_of "$1")"; }

# Each of two disks has a path of its own.
ana_halves() { NSID=1 uses_only "$first" "$second" && NSID=2 uses_only "$second" "$first"; }

# Both take the path that is left, and go back to their own.
ana_halves_cut() {
	ip link set va down
	path_becomes "$first" connecting && NSID=1 uses "$second" && NSID=2 uses "$second" || return
	wire_up
	path_becomes "$first" live && ana_halves
}

nvme_target() { howto scaling nvme-subsystem && howto scaling nvme-any-host && howto scaling nvme-ports; }

nvme_multipath() {
	check "NVMe: the target" nvme_target
	check "NVMe: it listens" wait_listen - 4420
	check_says "NVMe: the host's multipath is on" Y cat /sys/module/nvme_core/parameters/multipath
	check "NVMe: the host connects by both" howto scaling nvme-connect
	check "NVMe: there is one disk" until_true 20 have_disk
	check "NVMe: both paths are live" until_true 60 live_paths 2
	check "NVMe: both paths are to be used" howto scaling nvme-policy
	check "NVMe: the load" nvme_load load
	check "NVMe: both paths are used" uses_both
	check "NVMe: a wire is cut, and comes back" wire_cut
	check "NVMe: the host's device deleted, and added" host_device_deleted
	check "NVMe: the target's device deleted, and added" target_device_deleted
	check "NVMe: both wires are cut, and come back" both_cut
	check "NVMe: ANA moves the I/O, and back" ana_moves
	check "NVMe: ANA prefers a path" ana_prefers
	check "NVMe: no error, no wrong checksum" fio_stop load
	check "NVMe: two ANA groups" howto scaling nvme-ana-groups
	check "NVMe: the second disk" until_true 30 disk_of 2
	check "NVMe: the load on both" ana_load
	check "NVMe: each uses the port of its group" ana_halves
	check "NVMe: a wire is cut, and comes back: both use the other, and go back" ana_halves_cut
	check "NVMe: no error, no wrong checksum on either" fio_stop groups
	check "NVMe: the second disk is taken away" howto scaling nvme-ana-groups-down
	check "NVMe: and gone from the host" until_true 30 no_disk_of 2
	check "NVMe: disconnected" howto scaling nvme-disconnect
	check "NVMe: the target goes" howto scaling nvme-target-down
	check "NVMe: nothing is left on the devices" until_true 20 nothing_left
	check "NVMe: the modules are unloaded" consumers_gone
}

# The disk of both sessions, as dm-multipath has it.
dm_disk() {
	local name
	name=$(multipath -l -v 1) && [ -b "/dev/mapper/$name" ] && echo "/dev/mapper/$name"
}

# dm_paths STATE COUNT: so many of its paths are active (A), or have failed (F).
dm_paths() { [ "$(dmsetup status --target multipath | grep -oE "[0-9]+:[0-9]+ $1 " | wc -l)" = "$2" ]; }

dm_becomes() { until_true 60 dm_paths "$@" || { multipath -ll; iscsiadm -m session -P 1; return 1; }; }

dm_flows() { grows ios_done "$(readlink -f "$(dm_disk)")"; }

# Each of its SCSI disks is used.
dm_uses_both() {
	local dm slave
	dm=$(readlink -f "$(dm_disk)")
	for slave in "/sys/block/${dm##*/}/slaves"/*; do
		grows ios_done "$slave" || { echo "${slave##*/} is not used"; return 1; }
	done
}

dm_load() { fio_load load --filename="$(dm_disk)" --allow_file_create=0 --offset_increment=2m && until_true 60 dm_flows; }

iser_wire_cut() {
	ip link set va down
	dm_becomes F 1 && until_true 60 dm_flows || return
	wire_up
	dm_becomes A 2 && dm_uses_both
}

iser_host_device_deleted() {
	rdma link delete kw_vd
	dm_becomes F 1 && until_true 60 dm_flows || return
	add_device vd && dm_becomes A 2 && dm_uses_both
}

start_udev() { mkdir -p /run/udev && /lib/systemd/systemd-udevd --daemon && udevadm settle; }

stop_udev() { pkill -x systemd-udevd; until_true 20 bash -c "! pgrep -x systemd-udevd"; }

multipath_gone() { until_true 20 modprobe -r dm_service_time dm_multipath; }

iser_multipath() {
	check "iSCSI: the target with two portals" howto scaling iser-target
	check_says "iSCSI: the initiator finds both" "$second:3260,1 $IQN" iser_found scaling iser-discover
	iser_found_notes
	check "iSCSI: udev" start_udev
	check_says "iSCSI: it logs in by both" "iser: .*$second:3260" howto scaling iser-login
	check "iSCSI: dm-multipath" howto scaling iser-multipath
	check "iSCSI: one disk" until_true 60 dm_disk
	check "iSCSI: of two paths" dm_becomes A 2
	check "iSCSI: the load" dm_load
	check "iSCSI: both paths are used" dm_uses_both
	check "iSCSI: a wire is cut, and comes back" iser_wire_cut
	check "iSCSI: the initiator's device deleted, and added" iser_host_device_deleted
	check "iSCSI: no error, no wrong checksum" fio_stop load
	udevadm settle
	check "iSCSI: logged out" howto scaling iser-logout
	check "iSCSI: the disks are gone" until_true 60 scsi_gone
	check "iSCSI: udev ends" stop_udev
	check "iSCSI: the target goes" howto scaling iser-target-down
	check "iSCSI: nothing is left on the devices" until_true 20 nothing_left
	stop_iscsid
	check "iSCSI: dm-multipath is unloaded" multipath_gone
	check "iSCSI: the modules are unloaded" iser_gone
}

# nfs_sends: how many requests each connection has sent, one a line.
nfs_sends() { sed -n 's/.*xprt:\trdma \([0-9]* \)\{5\}\([0-9]*\) .*/\2/p' /proc/self/mountstats; }

# The least used has sent more than so many.
nfs_all_send() { [ "$(nfs_sends | sort -n | head -n 1)" -gt "$1" ]; }

# Those that have nothing to send notice nothing.
nfs_lost_one() { [ "$(ss -Htn state established "dport = :20049" | wc -l)" -lt 4 ]; }

nfs_cut() {
	local before gone=0
	ip link set va down
	until_true 60 nfs_lost_one || gone=1
	before=$(nfs_sends | sort -n | tail -n 1)
	wire_up
	[ "$gone" = 0 ] || { echo "all connections stay"; return 1; }
	until_true 60 nfs_flows && until_true 60 nfs_all_send "$before"
}

nfs_multipath() {
	check "NFS: a file system to give away" make_export /dev/ram0
	check "NFS: the server is configured" howto nfs configure
	check_says "NFS: it is started" '^rdma 20049' howto nfs start
	check_says "NFS: mounted, with four connections" '^4$' howto scaling nfs-mount
	check "NFS: the load" nfs_load
	check "NFS: all of them are used" until_true 30 nfs_all_send 100
	check "NFS: the wire is cut, and comes back: all are used again" nfs_cut
	check "NFS: no error, no wrong checksum" fio_stop load
	check "NFS: unmounted" howto nfs unmount
	check_says "NFS: mounted, with a connection to each address" '^2$' howto scaling nfs-trunk
	check "NFS: all sizes by both, verified" fio_nfs both --rw=randwrite --bsrange=512-256k \
		--blockalign=512 --size=2m --iodepth=16
	check "NFS: both are used" nfs_all_send 20
	check "NFS: unmounted again" howto nfs unmount
	check "NFS: the server stops" howto nfs stop
	check "NFS: its other parts" stop_rest
	check "NFS: nothing is left on the devices" until_true 20 nothing_left
	check "NFS: the modules are unloaded" nfs_modules_gone
}

nfs_modules_gone() { nfs_client_gone && nfs_server_gone; }

make_wire
make_second_wire
howto_modprobe
modprobe brd rd_nr=2 rd_size=98304 || die "no RAM disk"
NETDEVS="va vc" check "the target's devices" howto scaling devices
NETDEVS="vb vd" check "the host's devices" howto scaling devices
check "all are active" until_true 10 both_active
nvme_multipath
iser_multipath
nfs_multipath
NETDEVS="va vb vc vd" check "the devices go" howto scaling devices-down
howto_all_ran scaling '!(hosts-*)'
teardown_pair
finish
