#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# guest: --mem 6144 --timeout 1200
#
# Objects as large as the device says they may be, used to their limits: the longest messages,
# the deepest queues, most of the memory in one region.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"

TIME_LIMIT=280
# A huge message is one of many FPDUs. Large ones without a sum, which an emulated CPU takes long
# for, are enough of them.
setup_pair 9000
for dev in da db; do echo 0 >/sys/class/infiniband/$dev/settings/crc; done
absorb "limits" ip netns exec a "$TOP/build/host/tests/vm/kiwarp-limits" --addr 10.1.0.1 --huge

# Messages of many segments, which more than one flight carries.
modprobe sch_plug || die "no plug"
check "segments of 1500 bytes" ip -n a link set lo mtu 1500
absorb "shared receives" ip netns exec a "$TOP/build/host/tests/vm/kiwarp-limits" --addr 10.1.0.1 --share lo
ip -n a link set lo mtu 65536
for dev in da db; do echo 1 >/sys/class/infiniband/$dev/settings/crc; done

# The rdma controller of cgroups: what an administrator lets a group of processes have.
group=/sys/fs/cgroup/kiwarp
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup
echo +rdma >/sys/fs/cgroup/cgroup.subtree_control
mkdir $group
in_group() { sh -c "echo \$\$ >$group/cgroup.procs && exec \"\$@\"" sh "$@"; }
limited() { in_group ip netns exec a "$TOP/build/host/tests/vm/kiwarp-limits" --addr 10.1.0.1; }

echo "da hca_handle=0" >$group/rdma.max
check_fails "cgroup: no device may be opened" 'Resource temporarily unavailable|Failed to open' \
	in_group ibv_devinfo -d da
echo "da hca_handle=max hca_object=2" >$group/rdma.max
check_fails "cgroup: two objects are too few" 'EAGAIN' limited
echo "da hca_handle=max hca_object=max" >$group/rdma.max
check "cgroup: without a limit there is none" in_group ibv_devinfo -d da
nothing_charged() { ! grep -E 'hca_(handle|object)=[1-9]' "$group/rdma.current"; }
check "cgroup: nothing is charged any more" nothing_charged

# Blocks of pages that the CPUs keep to build FPDUs in: the kernel may have them back, also those of
# a CPU that went away. Its tracepoint tells what a shrinker is asked to free, and only if it has any.
trace=/sys/kernel/tracing
cpu1=/sys/devices/system/cpu/cpu1/online
mountpoint -q $trace || mount -t tracefs none $trace
echo 1 >$trace/events/vmscan/mm_shrink_slab_start/enable
fill_blocks() {
	start server a taskset -c 1 rping -s -a 10.1.0.1 -p 7400 -C 100 -S 60000
	wait_server server a 7400 || return 1
	ip netns exec b taskset -c 1 rping -c -a 10.1.0.1 -p 7400 -C 100 -S 60000 && await server
}
keeps_blocks() {
	echo >"$trace/trace"
	echo 2 >/proc/sys/vm/drop_caches
	grep kw_shrink_scan "$trace/trace"
}
keeps_none() { ! keeps_blocks; }
check "blocks: sent from one CPU" fill_blocks
check_says "blocks: the kernel sees them" 'cache items [1-9]' keeps_blocks
check "blocks: it gets them back" until_true 20 keeps_none
check "blocks: sent once more" fill_blocks
echo 0 >$cpu1
check "blocks: what the other CPU has is given back" until_true 20 keeps_none
echo 1 >$cpu1
check "blocks: a CPU that went away has kept none" keeps_none
echo 0 >$trace/events/vmscan/mm_shrink_slab_start/enable
teardown_pair
finish
