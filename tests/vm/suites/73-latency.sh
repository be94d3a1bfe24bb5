#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# guest: --icount --append preempt=full --timeout 1400
#
# See lib/latency.sh.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/latency.sh
. "$(dirname "$0")/../lib/latency.sh"

setup_pair
traced_load "sending and flushing" "$BOUND"
# Softirqs that an interrupt begins run in the thread that it has interrupted, which can be the one that
# is measured. The kernel begins them again and again for what has come meanwhile, until the next tick:
# MAX_SOFTIRQ_TIME, which is 4 ms of any CPU with Debian's HZ. See 73-losses.
check "lo loses segments" lossy
traced_load "receiving with losses" $((BOUND * 2)) $((BOUND + 4000))
check "segments were lost" lost
teardown_pair
finish
