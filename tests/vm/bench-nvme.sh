#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# The guest's part of "scripts/bench nvme": the kernel's NVMe target and host over siw as shipped,
# over Kiwarp and over TCP, one after the other on the same wire, with a null block device behind
# them. Prints "value ROW TRANSPORT NUMBER" for each.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=nvme.sh
. "$(dirname "$0")/nvme.sh"

PATIENCE=900
export DISK=/dev/nullb0

# measure ROW TRANSPORT PATTERN SIZE DEPTH COUNT: I/Os a second, or of 128 KiB MB/s.
measure() {
	local row=$1 transport=$2 value
	new_log "$row, $transport"
	if ! timeout $PATIENCE fio --name="$row" --filename="$(nvme_disk)" --direct=1 --thread \
		--ioengine=libaio --rw="$3" --bs="$4" --iodepth="$5" --number_ios="$6" \
		--norandommap --randrepeat=1 --minimal --terse-version=3 --output="$log"; then
		failed=$((failed + 1))
		cat "$log"
		return
	fi
	# Of the terse format, 7 and 8 are KiB/s and I/Os a second read, 48 and 49 written.
	value=$(awk -F';' -v size="$4" '
		$1 == 3 {
			rate = $8 + $49
			if (size == "128k") rate = ($7 + $48) * 1024 / 1e6
			printf size == "128k" ? "%.1f" : "%d", rate
		}' "$log")
	printf 'value %s %s %s\n' "$row" "$transport" "${value:--}"
}

# fio counts in milliseconds: so many I/Os that one is half a percent at most.
rows() { # TRANSPORT
	measure read-4k-1 "$1" randread 4k 1 6000
	measure read-4k-8 "$1" randread 4k 8 6000
	measure read-128k-4 "$1" read 128k 4 600
	measure write-128k-4 "$1" write 128k 4 600
}

# The page's target, with another transport if need be.
target() { # TRTYPE
	howto_block nvme target | sed "s/rdma/$1/" | bash -eux -o pipefail
}

# run NAME TRTYPE
run() {
	target "$2" >"$LOGS/target-$1" 2>&1 || die "no target over $1"
	nvme connect -t "$2" -a "$TARGET" -s "$PORT" -n "$NQN" -i 1 || die "no connection over $1"
	until_true 20 have_disk || die "no disk over $1"
	rows "$1"
	howto nvme disconnect >"$LOGS/disconnect-$1" 2>&1
	howto nvme target-down >"$LOGS/target-down-$1" 2>&1
}

run_rdma() { # TYPE
	link_add da - va "$1" || die "rdma link add, $1"
	link_add db - vb "$1" || die "rdma link add, $1"
	until_true 10 active da
	until_true 10 active db
	run "$1" rdma
	rdma link delete da
	rdma link delete db
}

modprobe -a ib_uverbs rdma_ucm iw_cm nvmet-tcp nvme-tcp nvme-rdma
modprobe null_blk gb=1 irqmode=0 nr_devices=1 || die "no null_blk"
load_siw
load_kiwarp
make_wire "${MTU:-1500}"
run_rdma siw
run_rdma kiwarp
run tcp tcp
[ $failed = 0 ]
