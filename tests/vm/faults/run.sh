#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Each allocation and each user copy of each call fails in turn: no report, no leak, an error that
# fits, and the call works right after. 78-failures and "scripts/chaos --faults" run it. ONLY=REGEX: the
# cases whose names match. DENSE=N: see kiwarp-faults. PATCHED=1: the kernel has patches/linux.
TIME_LIMIT=${TIME_LIMIT:-300}
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/load.sh
. "$(dirname "$0")/../lib/load.sh"

# A leak of uverbs' own, when a device is added: patches/linux/0015. The checks of kmemleak are the
# guest's.
leak_of_uverbs='radix_tree_insert\+[^\n]*\n[^\n]* uapi_add(_get)?_elm\+'
[ "${PATCHED:-0}" != 0 ] || echo "$leak_of_uverbs" >"$OUT/known-leaks"

injection() { [ -e /proc/self/fail-nth ] && [ -e /sys/kernel/debug/failslab/require-start ]; }
knob=/sys/kernel/debug/fail_page_alloc
no_memory() { cat /sys/class/infiniband/da/ports/1/hw_counters/rx_no_memory; }
starved() { [ "$(no_memory)" -gt "$1" ]; }
fin_has_come() { in_ns a ss -Htn state close-wait "dport = :7180" | grep -q .; }

large_fpdus() { # 0|1 BYTES
	local dev
	for dev in da db; do
		echo "$1" >/sys/class/infiniband/$dev/settings/large_fpdu
		echo "$2" >/sys/class/infiniband/$dev/settings/fpdu_max
	done
}

# Pages for kw_stage_fill(): two, and no more.
starve_stage() {
	local start end
	start=$(awk '$3 == "kw_stage_fill" { print $1 }' /proc/kallsyms)
	end=$(sort /proc/kallsyms | awk -v at="$start" '$1 > at { print $1; exit }')
	echo N >$knob/ignore-gfp-wait
	echo 0 >$knob/min-order
	echo 0 >$knob/verbose
	echo "0x$start" >$knob/require-start
	echo "0x$end" >$knob/require-end
	echo 0 >$knob/reject-start
	echo 0 >$knob/reject-end
	echo 1 >$knob/interval
	echo 3 >$knob/space
	echo -1 >$knob/times
	echo 100 >$knob/probability
}

feed_stage() {
	echo 0 >$knob/probability
	echo 0 >$knob/require-start
	echo 0xffffffffffffffff >$knob/require-end
}

# An FPDU of several segments is staged, and memory ends in it. The peer sends the rest and closes.
# The receiver connects: its peer sends when it has its first FPDU, so that no byte comes before its
# stream runs.
stage() {
	local before arrival=$TOP/build/host/tests/vm/kiwarp-arrival
	before=$(no_memory)
	large_fpdus 1 65535
	starve_stage
	start sender b "$arrival" --server 10.1.0.2 --port 7180 --send --count 1 --size 65536
	wait_server sender b 7180
	start receiver a "$arrival" --client 10.1.0.2 --port 7180 --count 1 --size 65536
	check "stage: all that is sent completes" await sender
	check "stage: there is no memory for it" until_true 10 starved "$before"
	check "stage: all has come, and the end" until_true 10 fin_has_come
	feed_stage
	check "stage: with memory it is received" await receiver
	large_fpdus 0 0
}

check "the kernel can let allocations fail" injection || finish
setup_pair
load_exporter
ip -n a link add vx type veth peer name vy || die "veth"
ip -n a link set vx up
if [[ stage =~ ${ONLY:-} ]]; then stage; fi
# Not "ip netns exec", which hides debugfs behind a /sys of its own.
[ "${ONLY:-}" = stage ] ||
	absorb "failures" nsenter --net=/run/netns/a "$TOP/build/host/tests/vm/kiwarp-faults" \
		--device da --netdev vx --addr 10.1.0.1 --exporter "$EXPORTER" --only "${ONLY:-}" \
		--dense "${DENSE:-150}"
check "no dma-buf is left" until_true 20 unload_exporter
check "nothing is held" until_true 20 nothing_held
pair "rping works" 7174 a b rping -s -a 10.1.0.1 -C 3 -V -- rping -c -a 10.1.0.1 -C 3 -V
teardown_pair
finish
