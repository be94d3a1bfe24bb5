#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# What I/O queues, CPU affinity and the steering of received packets do for NVMe over Fabrics on a guest
# with two CPUs: random reads of 4 KiB by two jobs. The machine has to be quiet, which is that two CPUs
# of it do nothing else meanwhile ("uptime" says a load of 0 before), or the figures mean nothing:
#
#   scripts/guest --smp 2 --timeout 6000 tests/vm/byhand/queues.sh [ROUNDS]
#   scripts/guest --smp 2 --timeout 6000 --wire rss tests/vm/byhand/queues.sh [ROUNDS]
#
# Prints a table: requests a second, the median of ROUNDS [3], and how busy either CPU was. Target and
# host are in the one guest, so that both work on the same two CPUs. A veth pair has no RSS: packets are
# received by the CPU that sent them, and RPS does in its place what RSS does on an adapter. With --wire rss
# the ends are emulated cards whose RSS chooses from two queues, each of which interrupts a CPU of its own.
#
# The jobs run on a CPU each, where the scheduler puts them, or both on CPU 1 with the kernel's unbound
# workers, of which Kiwarp's are some, on CPU 0. Their work queues have no mask of their own. The rest has
# no affinity that could be set: the host's queue follows from the CPU that posts, and the target's
# workers are bound to the CPU that receives.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/nvme.sh
. "$(dirname "$0")/../lib/nvme.sh"

TIME_LIMIT=240
rounds=${1:-3}
declare -A titles=([each]="a CPU each" [any]="any CPU" [one]="CPU 1 both")

# use_cards: instead of a veth pair, with a queue for each CPU.
use_cards() {
	local number dev
	for number in 1 2; do
		dev=v$(tr 12 ab <<<"$number")
		ip link set "$(card "$number")" down name "$dev" && ip link set "$dev" up && ethtool -L "$dev" combined 2 || return
	done
	join_wire
}

# steer MASK: the CPUs that receive what either end sends.
steer() {
	local queue dev
	if [ -n "$cards" ]; then
		for dev in va vb; do
			if [ "$1" = 1 ]; then ethtool -X "$dev" weight 1 0; else ethtool -X "$dev" equal 2; fi || return
		done
		return
	fi
	for queue in /sys/class/net/v[ab]/queues/rx-*/rps_cpus; do
		echo "$1" >"$queue" || return
	done
}

# place JOBS: which CPUs are for the two jobs, as fio has it, and which for unbound workers.
place() {
	local workers=3
	case $1 in
	each) first=(--cpus_allowed=0) second=(--cpus_allowed=1) ;;
	any) first=() second=() ;;
	one) first=(--cpus_allowed=1) second=(--cpus_allowed=1) workers=1 ;;
	esac
	echo "$workers" >/sys/devices/virtual/workqueue/cpumask
}

# busy: jiffies that CPU 0 and CPU 1 have worked, and all that either has counted. An emulated CPU that
# the host keeps waiting loses ticks, so that the two do not count alike.
busy() {
	awk '/^cpu[01] / {
		all = 0
		for (i = 2; i <= 9; i++) all += $i
		work = work (all - $5 - $6) " "
		sum = sum all " "
	} END { print work sum }' /proc/stat
}

# reads: requests a second, and each CPU's share of work in percent.
reads() {
	local before after i job cpus=()
	read -ra before < <(busy)
	job=(--rw=randread --bs=4k --iodepth=16 --ioengine=libaio --direct=1 --time_based --runtime=6
		--norandommap --filename="$(nvme_disk)" --thread)
	timeout 120 fio "${job[@]}" --name=first "${first[@]}" --name=second "${second[@]}" --group_reporting \
		--output-format=json --output="$LOGS/reads.json" </dev/null >"$LOGS/reads" 2>&1 || return
	read -ra after < <(busy)
	for i in 0 1; do
		cpus+=($((100 * (after[i] - before[i]) / (after[i + 2] - before[i + 2]))))
	done
	python3 -c 'import json, sys
print(round(json.load(open(sys.argv[1]))["jobs"][0]["read"]["iops"]), *sys.argv[2:])' "$LOGS/reads.json" "${cpus[@]}"
}

# row QUEUES JOBS MASK RECEIVERS
row() {
	local i first second
	place "$2" && steer "$3" || return
	for ((i = 0; i < rounds; i++)); do
		reads || return
	done | sort -n | awk -v queues="$1" -v jobs="${titles[$2]}" -v receivers="$4" '{ line[NR] = $0 }
		END {
			if (NR == 0) exit 1
			split(line[int((NR + 1) / 2)], f)
			split(line[1], least); split(line[NR], most)
			printf "| %d | %s | %s | %d (%d to %d) | %d %% | %d %% |\n", queues, jobs, receivers,
				f[1], least[1], most[1], f[2], f[3]
		}' >>"$OUT/table"
}

has_queues() { [ "$(cat "$(nvme_ctrl)/queue_count")" = "$1" ]; }

measure() { # QUEUES JOBS
	[ -n "$cards" ] || row "$@" 0 "the CPU that sent them" || return
	row "$@" 1 "CPU 0" && row "$@" 3 "spread by connection"
}

modprobe -q virtio_net
cards=$(card 1) || cards=''
if [ -n "$cards" ]; then
	use_cards || die "the cards do not work"
	echo "# the wire: cards with RSS"
else
	make_wire || die "no wire"
	echo "# the wire: a veth pair"
fi
nvme_up
modprobe nvme-rdma
cat >"$OUT/table" <<-'END'
	| I/O queues (`-i`) | jobs run on | packets are received by | reads a second | CPU 0 busy | CPU 1 busy |
	| ---: | --- | --- | --- | ---: | ---: |
END
# Two queues twice: the second time the connections have other ports, and so another hash.
for queues in 1 2 2; do
	check "$queues: the host connects" nvme connect -t rdma -a "$TARGET" -s "$PORT" -n "$NQN" -i "$queues"
	check "$queues: so many queues, and one for administration" has_queues $((queues + 1))
	check "$queues: the disk appears" until_true 20 have_disk
	for placed in each any one; do
		check "$queues: measured, jobs on ${titles[$placed]}" measure "$queues" "$placed"
	done
	check "$queues: the host disconnects" howto nvme disconnect
	check "$queues: the disk is gone" until_true 20 nvme_gone
done
sed 's/^/# /' "$OUT/table"
nvme_down
finish
