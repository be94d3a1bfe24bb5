#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# NVMe over Fabrics over Kiwarp in a kernel with KASAN, lockdep and kmemleak: data intact,
# controllers reset under load, the devices of either end taken away under load and added again,
# all unloaded; the same with a receive queue that the target's queues share, with a wire that is cut
# and the module taken away; rings that outlive their objects; not one report.
# guest: --uml --mem 1024
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/nvme.sh
. "$(dirname "$0")/../lib/nvme.sh"

export DISK=/dev/nullb0

checkers() {
	local tree
	for tree in kmemleak debug_objects; do
		[ -e "/sys/kernel/debug/$tree" ] || { echo "no $tree"; return 1; }
	done
	[ "$(sed -n 's/.*debug_locks: *//p' /proc/lockdep_stats)" = 1 ] &&
		grep -q ' kasan_report$' /proc/kallsyms
}

add_device() { NETDEV=$1 howto nvme device && until_true 10 active "kw_$1"; }

fio_nvme_verify() {
	local name=$1
	shift
	fio_nvme --name="$name" "$@"
}

nvme_all() {
	check "NVMe: the target, a null block device with memory" howto nvme target
	check "NVMe: it listens" wait_listen - "$PORT"
	check "NVMe: connected" howto nvme connect
	check "NVMe: I/O of all sizes" fio_nvme \
		--name=small --rw=randwrite --bs=512 --iodepth=4 --size=512k \
		--name=mixed --rw=randwrite --bsrange=4k-1m --iodepth=32 --size=32m --offset=1m
	on_bad_wires fio_nvme_verify
	under_load "NVMe: three controller resets under load" resets 3
	under_load "NVMe: the target's device deleted under load, and added" target_device_removed
	gone_for_good "NVMe: the host's device deleted under load" rdma link delete kw_vb
	check "NVMe: the host's device added again" add_device vb
	check "NVMe: connected again" howto nvme connect
	check "NVMe: I/O once more" fio_nvme --name=again --rw=randwrite --bs=64k --size=8m
	check "NVMe: disconnected" howto nvme disconnect
	check "NVMe: the target goes" howto nvme target-down
	check "NVMe: nothing is left" until_true 20 nothing_left
}

# The target makes such a queue for each device, and does without where it cannot.
shared() { # WHAT COMMAND...
	check "shared receives: $1" "${@:2}"
}

# Queue pairs use one. What the device knows of it is 90-nvme's: iproute2 6.1 loses it where the kernel
# pads 64-bit values, as User-Mode Linux does.
shares() {
	local all
	all=$(rdma resource show srq) && echo "$all"
	[[ $all =~ "kw_va srqn "[0-9]+" type BASIC lqpn "[1-9] ]]
}

shared_receives() {
	shared "the target's module is unloaded" modprobe -r nvmet_rdma
	shared "and loaded to share them" modprobe nvmet_rdma use_srq=Y
	shared "the target" howto nvme target
	shared "it listens" wait_listen - "$PORT"
	shared "connected" howto nvme connect
	shared "the disk is there" until_true 20 have_disk
	on_bad_wires fio_nvme_verify
	shared "a queue is shared" shares
	under_load "shared receives: a long cut under load: the host reconnects" long_cut
	under_load "shared receives: connections killed under load" killed
	shared "a queue is shared after that" shares
	under_load "shared receives: the target's device deleted under load, and added" \
		target_device_removed
	shared "a queue of the new device is shared" shares
	gone_for_good "shared receives: the host's device deleted under load" rdma link delete kw_vb
	shared "the host's device added again" add_device vb
	shared "connected again" howto nvme connect
	shared "the disk is there again" until_true 20 have_disk
	module_unloaded
	shared "a queue is shared by those that have come" shares
	shared "I/O once more" fio_nvme --name=again --rw=randwrite --bs=64k --size=8m
	shared "disconnected" howto nvme disconnect
	shared "the target goes" howto nvme target-down
	shared "nothing is left" until_true 20 nothing_left
}

# Windows are invalidated in softirqs, regions registered and re-registered by system calls: lockdep
# reports an order of their locks that could deadlock.
locks() {
	local programs=$TOP/build/host/tests/vm
	ip netns add c || die "ip netns"
	ip link add vc netns c type veth peer name vd netns c || die "veth"
	ip -n c addr add 10.3.0.1/24 dev vc
	ip -n c link set lo up
	ip -n c link set vc up
	ip -n c link set vd up
	check "a device for the locks" link_add dc c vc
	check "its port is active" until_true 10 active dc
	absorb "windows" ip netns exec c "$programs/kiwarp-badinput" --addr 10.3.0.1 \
		--case window-invalidated-by-peer
	absorb "regions" ip netns exec c "$programs/kiwarp-extended" --addr 10.3.0.1 --case mr-rereg
	check "the device for the locks goes" rdma link delete dc
}

check "the checkers are there" checkers
make_wire
howto_modprobe
modprobe null_blk nr_devices=1 memory_backed=1 gb=1 || die "no null block device"
check "the server's device" add_device va
check "the client's device" add_device vb
nvme_all
shared_receives
modprobe ib_uverbs || die "modprobe ib_uverbs"
use_provider
# Rings whose objects are gone while they are still mapped: their memory is freed later.
absorb "rings" setpriv --reuid=2000 --regid=2000 --clear-groups \
	"$TOP/build/host/tests/vm/kiwarp-tenants" --device kw_va --rings
locks
check "the consumers' modules are unloaded" consumers_gone
for NETDEV in va vb; do check "$NETDEV's device goes" howto nvme device-down; done
teardown_pair kiwarp
check "the checkers still look" checkers
finish
