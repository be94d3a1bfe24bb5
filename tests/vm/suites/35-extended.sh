#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# The verbs beyond those that every program uses: completion queues and regions that change while
# they are in use, polling and posting by the extended interface.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/pyverbs.sh
. "$(dirname "$0")/../lib/pyverbs.sh"

extended=$TOP/build/host/tests/vm/kiwarp-extended
# What was freed is overwritten, and what is allocated is not zero. A thread's cache would do neither.
export GLIBC_TUNABLES=glibc.malloc.perturb=165:glibc.malloc.tcache_count=0

# Debian's kernels have all that the cases want. With others they leave out what is not there.
debian=()
! grep -q debian-kernel@lists.debian.org /proc/version || debian=(--debian)

# What 36-pyverbs leaves out, since User-Mode Linux has no huge pages.
huge_pages() {
	local pages=/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
	if [ ${#debian[@]} = 0 ] && [ ! -e $pages ]; then
		note "no huge pages in this kernel: rdma-core's tests with them are left out"
		return
	fi
	echo 8 >$pages
	check "there are huge pages" test "$(cat $pages)" = 8
	unpack_pyverbs
	run_pyverbs "huge pages" a 10.1.0.1 huge_page_traffic left-out.list
}

setup_pair
load_exporter
absorb "extended" ip netns exec a "$extended" --addr 10.1.0.1 --exporter "$EXPORTER" "${debian[@]}" \
	--case "${ONLY:-}"
if [ -z "${ONLY:-}" ]; then
	check "the extensions of RFC 7306 are on" extensions 1 da db
	absorb "RFC 7306" ip netns exec a "$extended" --addr 10.1.0.1 --extensions --case post-extensions
	huge_pages
fi
check "no dma-buf is left" unload_exporter
teardown_pair
finish
