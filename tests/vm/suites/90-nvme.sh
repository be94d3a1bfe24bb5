#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# NVMe over Fabrics, the kernel's target and host both over Kiwarp, with the commands of
# Documentation/nvme.md: discovery, I/O of all sizes with checksums, a file system, keep-alive,
# and nothing left behind.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/nvme.sh
. "$(dirname "$0")/../lib/nvme.sh"

TIME_LIMIT=240
tree=(kernel Documentation)

# Disconnecting is no accident: no counter and no asynchronous event may look like one.
graceful() {
	! dmesg | grep "IB QP event" &&
		! rdma statistic show | grep -E 'conn_reset [1-9]|terminates_[a-z]+ [1-9]'
}

# target_fpdus SIZE: how many FPDUs the target sends for 64 writes of SIZE.
target_fpdus() {
	local before
	before=$(counter kw_va tx_fpdus)
	dd if=/dev/urandom of="$(nvme_disk)" bs="$1" count=64 oflag=direct status=none || return
	echo $(($(counter kw_va tx_fpdus) - before))
}

# A write up to the inline size comes along with its command, one FPDU of response each (and
# now and then one for a keep-alive); a longer one has to be fetched with a Read.
inline_data() {
	local short long
	short=$(target_fpdus 4096) && long=$(target_fpdus 8192) || return
	echo "64 writes: of 4 KiB $short FPDUs of the target's, of 8 KiB $long"
	[ "$short" -ge 64 ] && [ "$short" -lt 80 ] && [ "$long" -ge 128 ] && [ "$long" -lt 160 ]
}

# Several jobs at a time, each with a part of the disk, a block size and a depth of its own.
all_sizes() { # WHAT PATTERN
	local job from to depth size at=0 list=()
	for job in 512:512:1:64 4k:4k:32:2048 64k:64k:8:4096 1m:1m:1:4096 1m:1m:32:32768 \
		512:256k:16:4096; do
		IFS=: read -r from to depth size <<<"$job"
		list+=(--name="$from-to-$to-depth-$depth" --rw="$2" --bsrange="$from-$to" --iodepth="$depth"
			--size="${size}k" --offset="${at}k")
		at=$((at + size))
	done
	check "$1, 512 B to 1 MiB, depths 1 to 32, six jobs at a time" fio_nvme "${list[@]}"
}

# The host asks every half of the time-out whether the target is there, if nothing else is sent.
keep_alive() {
	local ctrl before
	ctrl=$(nvme_ctrl)
	[ "$(cat "$ctrl/kato")" = 5 ] || return
	before=$(counter kw_vb tx_fpdus)
	until_true 30 quiet_but_alive "$before"
	cat "$ctrl/state"
	[ "$(cat "$ctrl/state")" = live ] && ! dmesg | grep -i 'keep.alive.*expired'
}

quiet_but_alive() { [ "$(counter kw_vb tx_fpdus)" -ge $(($1 + 3)) ]; }

file_system() {
	check "ext4 on the disk, mounted" howto nvme filesystem
	check "a tree of files is copied" copy_sources /mnt/nvme "${tree[@]}"
	check "unmounted" howto nvme unmount
	check "checked: clean" fsck.ext4 -fn "$(nvme_disk)"
	check "mounted again" mount "$(nvme_disk)" /mnt/nvme
	check "all files are what they were" same_sources /mnt/nvme "${tree[@]}"
	check "unmounted again" howto nvme unmount
}

settings() { # NAME VALUE...
	local dev
	while [ $# -gt 0 ]; do
		for dev in kw_va kw_vb; do
			echo "$2" >"/sys/class/infiniband/$dev/settings/$1" || return
		done
		shift 2
	done
}

# once WHAT ARG...: connects with more arguments, moves data, disconnects.
once() {
	local what=$1
	shift
	check "$what: connected" nvme connect -t rdma -a "$TARGET" -s "$PORT" -n "$NQN" "$@"
	check "$what: the disk is there" until_true 20 have_disk
	check "$what: I/O" fio_nvme --rw=randwrite --bsrange=512-256k --iodepth=16 \
		--name=1 --size=3m --name=2 --size=3m --offset=3m
	check "$what: disconnected" howto nvme disconnect
}

# What connections may be like, as Kiwarp's settings have it.
settings_matter() {
	check "settings: markers" settings markers 1
	once "markers"
	check "settings: revision 1, no CRC" settings markers 0 mpa_rev 1 crc 0
	once "revision 1, no CRC"
	check "settings: large FPDUs" settings mpa_rev 2 crc 1 large_fpdu 1 fpdu_max 16384
	once "large FPDUs"
	check "settings: all that waits or spares a copy" settings large_fpdu 0 fpdu_max 0 \
		zcopy_min 512 ack_segments 16
	once "waiting, no copies"
	check "settings: nothing that waits" settings zcopy_min 0 ack_segments 0
	once "no waiting"
	check "settings: the usual ones" settings ack_segments 4
}

# A queue that is polled instead of raising events.
polled() {
	check "a polled queue: connected" nvme connect -t rdma -a "$TARGET" -s "$PORT" -n "$NQN" \
		--nr-io-queues=1 --nr-poll-queues=1
	check_says "a polled queue: it is one" 'mapped 1/0/1 default/read/poll' dmesg
	check "a polled queue: the disk is there" until_true 20 have_disk
	check "a polled queue: I/O" fio_nvme --name=polled --ioengine=pvsync2 --hipri \
		--rw=randwrite --bsrange=4k-64k --size=1m
	check "a polled queue: disconnected" howto nvme disconnect
}

# Without fast registration the host gives the target an STag of all its memory (get_dma_mr).
all_memory() {
	check "the host's module is unloaded" modprobe -r nvme_rdma
	check "and loaded, to register no single I/O" modprobe nvme_rdma register_always=N
	once "one STag for all memory"
}

# One receive queue for all queues of the target, and no other.
shared_receives() {
	check "the target goes, to share its receives" howto nvme target-down
	check "its module is unloaded" modprobe -r nvmet_rdma
	check "and loaded with a shared receive queue" modprobe nvmet_rdma use_srq=Y
	check "the target with a shared receive queue" howto nvme target
	check "it listens again" wait_listen - "$PORT"
	check "a shared receive queue: connected" howto nvme connect
	check "a shared receive queue: the disk is there" until_true 20 have_disk
	check_says "a shared receive queue: it is used" 'kw_va srqn' rdma resource show srq
	check_says "a shared receive queue: what the device knows of it" \
		'drv_entries [1-9][0-9]+ drv_posted [1-9][0-9]+ drv_taken [1-9][0-9]* drv_limit 0' rdma -dd resource show srq
	check "a shared receive queue: I/O" fio_nvme --name=shared --rw=randwrite \
		--bsrange=512-256k --iodepth=16 --size=3m
	check "a shared receive queue: disconnected" howto nvme disconnect
}

# The same target at an IPv6 address.
ipv6() {
	check "the target at an IPv4 address goes" howto nvme target-down
	TARGET=fd01::1
	check "the target at an IPv6 address" howto nvme target
	check "it listens there" until_true 30 listens_ipv6
	check_says "it is discovered" "traddr: +fd01::1" howto nvme discover
	once "IPv6"
}

listens_ipv6() { ss -Hltn6 "src [fd01::1]:$PORT" | grep -q .; }

make_wire
nvme_up
check_says "the host discovers it" "subnqn: +$NQN" howto nvme discover
check "the host connects" howto nvme connect
check_says "the disk appears" '96M' howto nvme find
check_says "an admin queue and two I/O queues" '^3$' cat "$(nvme_ctrl)/queue_count"
check "short writes are inline, long ones are fetched" inline_data
all_sizes "random writes" randwrite
all_sizes "sequential writes" write
file_system
check "keep-alive keeps an idle connection" keep_alive
check "the host disconnects" howto nvme disconnect
check "the disk is gone" until_true 20 nvme_gone
check "connect-all finds it, too" howto nvme connect-all
check "the disk is there again" until_true 20 have_disk
check "the host disconnects again" howto nvme disconnect
settings_matter
polled
all_memory
shared_receives
ipv6
check "no connection ended in a reset or an error" graceful
nvme_down
howto_all_ran nvme
finish
