#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Events that a process does not read: with patches/linux/0002 its memory cgroup pays for them. Kernels
# without it charge nobody, so this is not one of the suites: "scripts/guest --debug tests/vm/events.sh" has
# a kernel with the patch.
# shellcheck source=lib/lib.sh
. "$(dirname "$0")/lib/lib.sh"

FLAPS=60
# What ib_uverbs allocates for the two events of each, at least.
EVENTS=128
group=/sys/fs/cgroup/reader

charged() { awk '$1 == "slab_unreclaimable" { print $2 }' $group/memory.stat; }
charged_most() { [ "$(charged)" -ge $((before + FLAPS * EVENTS)) ]; }
# Each is seen by the device before the next one.
flap() {
	local i
	for ((i = 0; i < FLAPS; i++)); do
		ip -n a link set va down && until_true 10 inactive da || return
		ip -n a link set va up && until_true 10 active da || return
	done
}
inactive() { ! active "$1"; }

setup_pair
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir $group
# rping has the device open, and waits for the events of rdma_cm only.
start reader - sh -c "echo \$\$ >$group/cgroup.procs &&
	exec ip netns exec a rping -s -a 10.1.0.1 -p 7200 -P"
wait_server reader a 7200 || die "no listener"
before=$(charged)
check "the device's port goes and comes $FLAPS times" flap
note "$before bytes of its cgroup before, $(charged) after"
check "the events are charged to who does not read them" until_true 20 charged_most
stop reader
check "and freed when it ends" until_true 60 rmdir $group
teardown_pair
finish
