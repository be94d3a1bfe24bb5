#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# guest: --mem 6144 --timeout 1200
#
# Objects as large as the device says they may be, used to their limits: the longest messages,
# the deepest queues, most of the memory in one region.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

PATIENCE=280
setup_pair
absorb "limits" ip netns exec a "$TOP/build/host/tests/vm/kiwarp-limits" --addr 10.1.0.1 --huge
teardown_pair
finish
