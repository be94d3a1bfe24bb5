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

check "the kernel can let allocations fail" injection || finish
setup_pair
load_exporter
ip -n a link add vx type veth peer name vy || die "veth"
ip -n a link set vx up
# Not "ip netns exec", which hides debugfs behind a /sys of its own.
absorb "failures" nsenter --net=/run/netns/a "$TOP/build/host/tests/vm/kiwarp-faults" \
	--device da --netdev vx --addr 10.1.0.1 --exporter "$EXPORTER" --only "${ONLY:-}" \
	--dense "${DENSE:-150}"
check "no dma-buf is left" until_true 20 unload_exporter
check "nothing is held" until_true 20 nothing_held
pair "rping works" 7174 a b rping -s -a 10.1.0.1 -C 3 -V -- rping -c -a 10.1.0.1 -C 3 -V
teardown_pair
finish
