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

leaks=/sys/kernel/debug/kmemleak

# A fault of uverbs' own: patches/linux/0015. Without that patch records of such nodes are forgotten.
leaks_but_of_uverbs() {
	# An object is a leak when no scan has found it and it is old enough.
	sleep 6
	echo scan >"$leaks" || return
	sleep 1
	echo scan >"$leaks" || return
	cat "$leaks"
	awk -v patched="${PATCHED:-0}" '/^unreferenced object/ { n++; node = 0 }
		/ radix_tree_insert\+/ { node = 1 }
		/ uapi_add(_get)?_elm\+/ && node { uverbs++; node = 0 }
		END {
			print uverbs + 0, "leaks of uverbs, of", n + 0
			exit n != (patched ? 0 : uverbs)
		}' "$leaks" && echo clear >"$leaks"
}

injection() { [ -e /proc/self/fail-nth ] && [ -e /sys/kernel/debug/failslab/require-start ]; }

check "the kernel can let allocations fail" injection || finish
setup_pair
load_exporter
ip -n a link add vx type veth peer name vy || die "veth"
ip -n a link set vx up
# Not "ip netns exec", which hides debugfs behind a /sys of its own.
absorb "failures" nsenter --net=/run/netns/a "$TOP/build/host/tests/vm/kiwarp-faults" \
	--device da --netdev vx --addr 10.1.0.1 --exporter "$EXPORTER" --only "${ONLY:-}" --dense "${DENSE:-150}"
check "no dma-buf is left" until_true 20 unload_exporter
check "nothing is held" until_true 20 nothing_held
pair "rping works" 7174 a b rping -s -a 10.1.0.1 -C 3 -V -- rping -c -a 10.1.0.1 -C 3 -V
teardown_pair
check "no leak, says kmemleak" leaks_but_of_uverbs
finish
