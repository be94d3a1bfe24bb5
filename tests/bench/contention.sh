#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# The guest's part of scripts/bench --contention: for each line of $OUT/plan, "INDEX CONNECTIONS SIZE
# PINNED", so many connections at work, each a pair of processes; what waited for a lock meanwhile
# is in $OUT/run/INDEX.perf, a line "run INDEX NANOSECONDS BYTES FPDUS" tells what was moved.
# PINNED=1: both ends of a connection on one CPU, so that who waits, waits for another connection.
# shellcheck source=../vm/lib/lib.sh
. "$(dirname "$0")/../vm/lib/lib.sh"

bench=$TOP/build/host/tests/bench/kiwarp-bench
tracing=/sys/kernel/tracing
port=20000
measured_s=2
LIMIT=600

# A spin lock's first waiter is in no tracepoint, and the socket lock is not one of the kernel's
# kinds of lock: for these, the functions that wait.
name_waits() {
	echo 'p:kw/spin native_queued_spin_lock_slowpath lock=%di' >$tracing/kprobe_events &&
		echo 'r:kw/spin_end native_queued_spin_lock_slowpath' >>$tracing/kprobe_events &&
		echo 'p:kw/sock __lock_sock lock=%di' >>$tracing/kprobe_events &&
		echo 'r:kw/sock_end __lock_sock' >>$tracing/kprobe_events
}

counter() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"; }

snapshot() { echo "$(date +%s%N) $(counter db tx_octets) $(counter db tx_fpdus)"; }

# on CPU COMMAND...: in place of the shell.
on() {
	local cpu=$1
	shift
	if [ "$pinned" = 1 ]; then
		exec taskset -c $((cpu % $(nproc))) "$@"
	else
		exec "$@"
	fi
}

# A kiwarp-bench has two ports without a bystander: its side channel's, and behind it the RDMA listener's.
begin() { # CONNECTIONS SIZE
	local i established at
	established=$(counter db conn_established)
	for ((i = 0; i < $1; i++)); do
		on $i ip netns exec a "$bench" --listen 10.1.0.1 --port $((port + 2 * i)) \
			>"$LOGS/server-$((port + 2 * i))" 2>&1 &
	done
	for ((i = 0; i < $1; i++)); do wait_listen a $((port + 2 * i)) || die "no listener"; done
	for ((i = 0; i < $1; i++)); do
		at=$((port + 2 * i))
		on $i ip netns exec b "$bench" --connect 10.1.0.1 --port $at --op send --size "$2" \
			--depth 32 --count 100000000 >"$LOGS/client-$at" 2>&1 &
	done
	# bash has nothing to say when they are killed.
	disown -a
	until_true 60 all_connected $((established + $1)) ||
		die "not all connect: $(tail -qn 1 "$LOGS"/server-* "$LOGS"/client-*)"
	port=$((port + 2 * $1))
}

all_connected() { [ "$(counter db conn_established)" -ge "$1" ]; }

flowing() { [ "$(counter db tx_fpdus)" -gt "$1" ]; }

end() {
	pkill -9 -x kiwarp-bench
	until_true 60 nothing_held || die "something is left of a run"
}

nothing_held() { ! rdma resource show | grep -qE '(qp|cm_id|mr) [1-9]'; }

run() { # INDEX CONNECTIONS SIZE PINNED
	local index=$1 before after pinned=$4
	begin "$2" "$3"
	until_true 30 flowing $(($(counter db tx_fpdus) + $2 * 200)) || die "nothing flows"
	export -f snapshot counter
	# Not one among many that want a CPU.
	nice -n -15 perf record -q -a -g -B -N --no-bpf-event -m 2048 -e kw:spin -e kw:spin_end -e kw:sock -e kw:sock_end \
		-e lock:contention_begin --filter 'flags != 1' -e lock:contention_end \
		-o /dev/shm/perf.data -- \
		bash -c "snapshot; sleep $measured_s; snapshot" >"$OUT/run/$index.out" 2>"$LOGS/perf-$index" ||
		{ cat "$LOGS/perf-$index"; die "perf"; }
	{ read -ra before; read -ra after; } <"$OUT/run/$index.out"
	end
	cp /dev/shm/perf.data "$OUT/run/$index.perf"
	echo "run $index $((after[0] - before[0])) $((after[1] - before[1])) $((after[2] - before[2]))"
}

mkdir -p "$OUT/run"
echo 0 >/proc/sys/kernel/kptr_restrict
name_waits || die "no kprobes"
setup_pair
cat /proc/kallsyms >"$OUT/run/kallsyms"
while read -ra words <&3; do run "${words[@]}"; done 3<"$OUT/plan"
echo finished
