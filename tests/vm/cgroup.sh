#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# The RDMA controller of cgroups: groups that go with limits in force, while nothing is charged, while
# something is, and before and after their device. Kernels without patches/linux/0007 crash, so this is
# not one of the suites: "scripts/guest --debug tests/vm/cgroup.sh" has a kernel with the patch and KASAN.
# shellcheck source=lib/lib.sh
. "$(dirname "$0")/lib/lib.sh"

top_group=/sys/fs/cgroup

make_group() { # NAME LIMITS
	mkdir "$top_group/$1" && echo "$2" >"$top_group/$1/rdma.max"
}

# Groups that are gone are freed later, in the order in which they went: the first ones are when the
# last one has gone.
groups_gone() { grep -qx 'nr_dying_descendants 0' "$top_group/cgroup.stat"; }

idle_groups() {
	local i
	for ((i = 0; i < 50; i++)); do
		make_group "idle$i" "da hca_handle=1 hca_object=$i" && rmdir "$top_group/idle$i" || return
	done
	until_true 30 groups_gone
}

setup_pair
mountpoint -q $top_group || mount -t cgroup2 none $top_group
echo +rdma >$top_group/cgroup.subtree_control

check "groups with limits that nobody uses go" idle_groups
check "and their device after them" rdma link delete da
check "the device comes back" link_add da a va
until_true 10 active da

# A group whose last process has ended goes, what the process had open stays charged until then.
check "a group with a child" make_group parent "da hca_handle=10"
echo +rdma >$top_group/parent/cgroup.subtree_control
check "the child has limits of its own" make_group parent/child "da hca_handle=5 hca_object=100"
start server - sh -c "echo \$\$ >$top_group/parent/child/cgroup.procs &&
	exec ip netns exec a rping -s -a 10.1.0.1 -p 7200 -P"
wait_server server a 7200
check "something is charged" grep -q 'da hca_handle=1 ' $top_group/parent/rdma.current
stop server
until_true 30 rmdir $top_group/parent/child || not_ok "the child goes"
check "the parent goes" rmdir $top_group/parent
check "both are freed" until_true 30 groups_gone
check "a group outlives the device" make_group later "da hca_handle=1"
teardown_pair
check "and goes after it" rmdir $top_group/later
check "that one is freed, too" until_true 30 groups_gone
finish
