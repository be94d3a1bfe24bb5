#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Kernel verbs: a consumer in the kernel does each thing right and wrong once, from each context.
# ONLY=NAME runs the cases whose names begin so.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/wire.sh
. "$(dirname "$0")/../lib/wire.sh"

# All cases are one program to absorb().
TIME_LIMIT=240
ktest=/sys/kernel/debug/kiwarp_ktest

setup_wire() {
	load_modules
	make_wire
	rdma link add da type kiwarp netdev va || die "rdma link add da"
	rdma link add db type kiwarp netdev vb || die "rdma link add db"
	until_true 10 active da || die "port of da is not active"
	until_true 10 active db || die "port of db is not active"
	mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
	load_file "${KIWARP_KO%/*}/kiwarp_ktest.ko"
}

setup_wire
case ${ONLY:-} in ext*) echo 1 | tee /sys/class/infiniband/d[ab]/settings/{immediate,atomics} >/dev/null ;; esac
absorb kernel sh -c "echo '${ONLY:-}' >$ktest/run && cat $ktest/results"

# Operations of RFC 7306 need their settings, which are off up to here.
extensions() {
	local f
	for f in /sys/class/infiniband/d[ab]/settings/{immediate,atomics}; do
		echo "$1" >"$f"
	done
}
if [ -z "${ONLY:-}" ]; then
	extensions 1
	absorb "kernel, RFC 7306" sh -c "echo ext >$ktest/run && cat $ktest/results"
	extensions 0
fi

batched=$(cat /sys/class/infiniband/d[ab]/ports/1/hw_counters/tx_batched_posts | tr "\n" "+")0
[ -n "${ONLY:-}" ] || check "posts of completion handlers go out together" test "$((batched))" -gt 0

# restrack: who looks at the machine sees what is in use, and whose it is.
count() { rdma resource show "$1" | grep -c "comm \[kiwarp_ktest\]"; }
check "a connection that is kept" sh -c "echo 1 >$ktest/hold"
for object in pd cq cm_id; do
	n=$(count $object)
	note "$object: $n"
	check "rdma resource: each $object names its module" test "$n" -gt 0
done
# rdma_create_qp() gives its own module's name.
check_says "rdma resource: the queue pair is connected" 'link da/1 .*state RTS .*comm \[rdma_cm\]' \
	rdma resource show qp
check "it is closed" sh -c "echo 0 >$ktest/hold"
for object in pd cq cm_id; do
	check "rdma resource: no $object of it is left" test "$(count $object)" = 0
done
no_qp() { ! rdma resource show qp | grep lqpn; }
check "rdma resource: no queue pair is left" no_qp
check "rmmod the test module" rmmod kiwarp_ktest

# The core takes the device from this module after Kiwarp has ended its connections.
late() {
	rdma link delete da
	rdma link delete db
	rmmod kiwarp || die "rmmod kiwarp"
	load_file "${KIWARP_KO%/*}/kiwarp_ktest.ko" late=1
	load_kiwarp
	rdma link add da type kiwarp netdev va || die "rdma link add da again"
	rdma link add db type kiwarp netdev vb || die "rdma link add db again"
	until_true 10 active da || die "port of da is not active"
	check "a consumer that was there first is ready" sh -c "echo 1 >$ktest/late"
	check "its device is deleted" rdma link delete da
	check_says "while the device goes no connection begins, and a wildcard may listen" \
		'^connect -19 listen -19 wildcard 0$' cat $ktest/late
	check "rmmod the test module" rmmod kiwarp_ktest
}
late
teardown_pair
finish
