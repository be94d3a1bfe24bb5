#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# RFC 7306 between two devices: several connections and a CPU change the same words by atomic
# operations; what the settings change; a peer that has not got the extensions.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"

atomics=$TOP/build/host/tests/vm/kiwarp-atomics
port=18900
TIME_LIMIT=170

run() { # WHAT CONNECTIONS COUNT
	port=$((port + 1))
	pair "$1" $port a b "$atomics" --server 10.1.0.1 --port $port --connections "$2" --count "$3" -- \
		"$atomics" --client 10.1.0.1 --port $port --connections "$2" --count "$3"
}

# refused WHAT PATTERN: the client fails, and says why.
refused() {
	port=$((port + 1))
	ip netns exec a "$atomics" --server 10.1.0.1 --port $port --connections 1 >"$OUT/server" 2>&1 &
	local pid=$!
	until_true 20 listening a $port || die "no server"
	ip netns exec b "$atomics" --client 10.1.0.1 --port $port --connections 1 >"$OUT/client" 2>&1
	check_says "$1" "$2" cat "$OUT/client"
	kill $pid 2>/dev/null
	wait $pid
}

capability() { ip netns exec "$1" ibv_devinfo -v -d "d$1"; }

setup_pair
check_says "off: no atomic operations" 'atomic_cap:[[:space:]]+ATOMIC_NONE' capability a
refused "off: they are refused" EOPNOTSUPP
extensions 1 db
refused "on, and the peer has none: its Terminate ends the connection" 'remote invalid request error'
extensions 1 da
check_says "on: there are atomic operations" 'atomic_cap:[[:space:]]+ATOMIC_GLOB' capability a
run "one connection and the CPU" 1 300
run "four connections and the CPU" 4 "${COUNT:-300}"
teardown_pair
finish
