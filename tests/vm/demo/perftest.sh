#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# demo: ibv_devinfo, rping and a table of perftest's bandwidths (the default)
#
# Two devices on a veth pair across two network namespaces,
# what ibv_devinfo says, rping, and a table of perftest's bandwidths.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/demo.sh
. "$(dirname "$0")/../lib/demo.sh"

sizes=(64 512 4096 65536 1048576)
port=18515

count_for() {
	case $1 in
	64 | 512) echo 2000 ;;
	4096) echo 1000 ;;
	65536) echo 200 ;;
	*) echo 20 ;;
	esac
}

# bandwidth PROGRAM SIZE: sets rate to the average in MB/s.
bandwidth() {
	local n try
	n=$(count_for "$2")
	for try in 1 2 3; do
		rate=FAILED
		pair_perftest "$1 $2, try $try" a b 10.1.0.1 "$1" -s "$2" -n "$n" \
			-t $((n < 64 ? n : 64)) >/dev/null || break
		rate=$(awk -v s="$2" '$1 == s && NF >= 5 {print $4}' "$log")
		# perftest measures the clock's rate first, and prints 0.00 when an emulated CPU
		# that had to wait spoiled that.
		[ "$rate" = 0.00 ] || break
	done
}

step "Load the module"
read -ra needs < <(modinfo -F depends "$KIWARP_KO" | tr , ' ')
modprobe -a ib_uverbs rdma_ucm "${needs[@]}"
shown insmod "$TOP/build/kiwarp.ko" || exit 1
use_provider

step "Two network namespaces, joined by a veth pair, a device in each"
make_net
shown ip netns exec a rdma link add kiwarp-a type kiwarp netdev va || exit 1
shown ip netns exec b rdma link add kiwarp-b type kiwarp netdev vb || exit 1
until_true 10 active kiwarp-a
until_true 10 active kiwarp-b
rdma link show

step "What a verbs program sees"
shown ibv_devinfo -d kiwarp-a || exit 1

step "rping: connect, RDMA Read, RDMA Write, Send"
start rping-server a rping -s -a 10.1.0.1 -C 3
wait_server rping-server a 7174
shown ip netns exec b rping -c -a 10.1.0.1 -C 3 -v || exit 1

step "perftest between the namespaces, in an emulated machine (MB/s)"
printf '%12s %14s %14s %14s\n' bytes ib_write_bw ib_send_bw ib_read_bw
for size in "${sizes[@]}"; do
	printf '%12s' "$size"
	for verb in write send read; do
		bandwidth ib_${verb}_bw "$size"
		printf ' %14s' "$rate"
	done
	printf '\n'
done
echo "(emulation is some 25 times slower than this machine: scripts/bench compares costs)"

step "Unload"
shown rmmod kiwarp || exit 1
[ $failed = 0 ]
