#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# The guest's part of scripts/bench: the same perftest runs on siw as shipped and on Kiwarp, one
# after the other on the same wire. Prints "value ROW DEVICE NUMBER" for each.
#
# One CPU that both sides share means that a side which polls starves the other: all runs sleep
# on events, and RDMA Write, which has no event for its target, is timed by what its sender sees.
# The odd count of sends: see 30-perftest.sh.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

PATIENCE=900
port=18515

# measure ROW DEVICE COLUMN SIZE PROGRAM ARG...
measure() {
	local row=$1 dev=$2 column=$3 size=$4 value
	shift 4
	port=$((port + 1))
	set -- "$@" -R -F -p $port -s "$size"
	if ! pair "$row, $dev" $port a b "$@" -- "$@" 10.1.0.1 >"$LOGS/pair"; then
		failed=$((failed + 1))
		cat "$LOGS/pair"
		return
	fi
	value=$(awk -v s="$size" -v c="$column" '$1 == s && NF >= 4 {print $c}' "$log")
	printf 'value %s %s %s\n' "$row" "$dev" "${value:--}"
}

rows() { # DEVICE
	measure "send-64k" "$1" 4 65536 ib_send_bw -e -n 481
	measure "write-64k" "$1" 4 65536 ib_write_bw -n 480
	measure "read-64k" "$1" 4 65536 ib_read_bw -e -n 480
	measure "latency-64" "$1" 6 64 ib_send_lat -e -n 500
}

# run DEVICE: its two devices come, are measured, and go.
run() {
	link_add da a va "$1" || die "rdma link add, $1"
	link_add db b vb "$1" || die "rdma link add, $1"
	until_true 10 active da
	until_true 10 active db
	rows "$1"
	rdma link delete da
	rdma link delete db
}

modprobe -a ib_uverbs rdma_ucm iw_cm
load_siw
load_kiwarp
make_net "${MTU:-1500}"
run siw
run kiwarp
[ $failed = 0 ]
