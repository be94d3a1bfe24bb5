#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# guest: --icount --append preempt=full --timeout 1400
#
# How long a thread of real-time priority waits for its CPU while the module has as much to do on it as
# a process or a peer can cause. The guest's clock counts instructions, of which one takes 1 ns: what
# is measured does not depend on the machine. BOUND is in microseconds of that clock, 2000 for 1 ms of
# a CPU that executes two instructions in a ns.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"

TIME_LIMIT=1200
BOUND=${BOUND:-2000}

load() { # WHAT MICROSECONDS
	absorb "$1" ip netns exec a "$TOP/build/host/tests/vm/kiwarp-tenants" --doorbells 10.1.0.1 \
		--bound "$2"
}

# Segments as on a wire, some of which are lost.
lossy() {
	modprobe sch_netem && ip -n a link set lo mtu 1500 &&
		ip netns exec a ethtool -K lo tso off gso off &&
		tc -n a qdisc add dev lo root netem loss 5%
}

lost() { tc -n a -s qdisc show dev lo | grep -E 'dropped [1-9]'; }

setup_pair
load "sending and flushing" "$BOUND"
# What follows a lost segment waits for it, and is handled all at once. How much that is depends on which
# segments are lost: up to 2.50 ms were seen.
check "lo loses segments" lossy
load "receiving with losses" $((BOUND * 2))
check "segments were lost" lost
teardown_pair
finish
