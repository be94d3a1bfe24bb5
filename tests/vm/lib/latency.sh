# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# shellcheck shell=bash disable=SC2034
#
# How long a thread of real-time priority waits for its CPU while the module has as much to do on it as
# a process or a peer can cause. The guest's clock counts instructions, of which one takes 1 ns: what
# is measured does not depend on the machine. BOUND is in microseconds of that clock, 2000 for 1 ms of
# a CPU that executes two instructions in a ns.

TIME_LIMIT=1200
BOUND=${BOUND:-2000}

tenants=$TOP/build/host/tests/vm/kiwarp-tenants

load() { # WHAT MICROSECONDS [MICROSECONDS FOR LARGE WRITES]
	absorb "$1" ip netns exec a "$tenants" --doorbells 10.1.0.1 --bound "$2"
	absorb "$1, large Writes" ip netns exec a "$tenants" --large 10.1.0.1 --bound "${3:-$2}"
	absorb "$1, plain TCP" ip netns exec a "$tenants" --tcp 10.1.0.1
}

# Segments as on a wire, some of which are lost.
lossy() {
	modprobe sch_netem && ip -n a link set lo mtu 1500 &&
		ip netns exec a ethtool -K lo tso off gso off &&
		tc -n a qdisc add dev lo root netem loss 5%
}

# A kernel of scripts/debug-kernel --tracers says itself for how long interrupts, or softirqs and preemption, were
# off, whatever did that, and where; $OUT has it. Tracing takes time itself: only what the tracer says counts there.
tracing=/sys/kernel/tracing
mountpoint -q "$tracing" || mount -t tracefs none "$tracing" 2>/dev/null
tracers=$(tr ' ' '\n' <"$tracing/available_tracers" 2>/dev/null | grep -x 'irqsoff\|preemptoff')

within() { # TRACER MICROSECONDS
	local longest
	longest=$(cat "$tracing"/tracing_max_latency)
	cp "$tracing/trace" "$OUT/$1-$longest"
	note "$1: $longest us at most"
	[ "$longest" -le "$2" ]
}

traced_load() { # WHAT MICROSECONDS
	local tracer
	[ -n "$tracers" ] || { load "$@"; return; }
	for tracer in $tracers; do
		echo "$tracer" >"$tracing/current_tracer"
		echo 0 >"$tracing/tracing_max_latency"
		load "$1, $tracer" 0
		check "$1: $tracer has no section of more than $2 us" within "$tracer" "$2"
		echo nop >"$tracing/current_tracer"
	done
}

lost() { tc -n a -s qdisc show dev lo | grep -E 'dropped [1-9]'; }
