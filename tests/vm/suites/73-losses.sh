#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# guest: --icount --append preempt=full --append threadirqs --timeout 1400
#
# See lib/latency.sh. What follows a lost segment waits for it, and is handled all at once: the softirqs
# have more to do at a time than ever else. Here they run in a thread of their own, as on a machine
# that is to be prompt, so that what is waited for is one run of a softirq at most.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/latency.sh
. "$(dirname "$0")/../lib/latency.sh"

setup_pair
check "lo loses segments" lossy
for i in 1 2 3; do
	traced_load "receiving with losses, time $i" "$BOUND"
done
check "segments were lost" lost
teardown_pair
finish
