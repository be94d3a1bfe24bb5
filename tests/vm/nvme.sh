# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# What the NVMe-oF suites share: target and host in one guest, with the commands of
# Documentation/nvme.md. The target is at 10.1.0.1 on va, the host on vb.
# shellcheck source=howto.sh
. "$(dirname "${BASH_SOURCE[0]}")/howto.sh"
# shellcheck source=wire.sh
. "$(dirname "${BASH_SOURCE[0]}")/wire.sh"

export TARGET=10.1.0.1 PORT=4420 NETDEV=va
export NQN=nqn.2014-08.org.example:disk1 DISK=/dev/ram0

# nvme_disk: the host's name of the disk. (nvme0c0n1 and its like are the paths to it.)
nvme_disk() {
	local name
	name=$(grep -lx "$NQN" /sys/block/nvme*/device/subsysnqn 2>/dev/null | cut -d/ -f4 |
		grep -v c)
	[ -b "/dev/$name" ] && echo "/dev/$name"
}

have_disk() { nvme_disk; }

no_disk() { ! have_disk; }

# The host's controller: its folder, its state.
nvme_ctrl() {
	local c
	for c in /sys/class/nvme/nvme*; do
		if [ -e "$c/subsysnqn" ] && grep -qx "$NQN" "$c/subsysnqn"; then
			echo "$c"
			return
		fi
	done
	return 1
}

# ctrl_becomes STATE: in a minute at most.
ctrl_becomes() {
	local file
	file=$(nvme_ctrl)/state
	until_true 60 ctrl_is "$file" "$1"
}

ctrl_is() {
	local state
	read -r state <"$1" && [ "$state" = "$2" ]
}

no_ctrl() { [ -z "$(ls /sys/class/nvme 2>/dev/null)" ]; }

# Nothing of the consumers' is left on any device. The RDMA core keeps the CQs of its pool, unused.
nothing_left() {
	rdma resource show
	rdma resource show cq
	! rdma resource show | grep -qE '(pd|qp|cm_id|mr|ctx|srq) [1-9]' &&
		! rdma resource show cq | grep -qE 'users [1-9]'
}

consumers_gone() { modprobe -r nvme_rdma nvmet_rdma nvmet nvme_fabrics; }

# fio on the host's disk, with checksums in all that is written and read back.
fio_args() {
	disk=$(nvme_disk) || { echo "no disk"; return 1; }
	args=(--filename="$disk" --direct=1 --ioengine=libaio --thread --group_reporting
		--verify=crc32c --verify_fatal=1)
}

fio_verify() { # ARG...
	local disk args
	fio_args || return
	timeout -k 5 "$PATIENCE" fio "${args[@]}" "$@"
}

# fio_load NAME: the same without end in the background, until fio_stop. Its rate leaves the
# machine enough time for those who watch.
fio_load() {
	local disk args
	fio_args || return
	start "$1" - fio "${args[@]}" --name="$1" --rw=randwrite --bsrange=4k-64k --iodepth=8 \
		--size=2m --numjobs=2 --offset_increment=2m --rate_iops=80,80 \
		--time_based --runtime=3600
	fio_log=$server_log
	until_true 60 flows
}

# io_done FILE: sets done_now to the reads and writes that the disk's stat counts.
io_done() {
	local stat
	read -ra stat <"$1" 2>/dev/null && done_now=$((stat[0] + stat[4]))
}

# flows: I/O is being done, now.
flows() {
	local done_now before file
	file=/sys/block/$(basename "$(nvme_disk)")/stat
	io_done "$file" || return
	before=$done_now
	until_true 10 more_done "$file" "$before"
}

more_done() { io_done "$1" && [ "$done_now" -gt "$2" ]; }

# resets COUNT: of the controller, with I/O between them.
resets() {
	local i
	for ((i = 1; i <= $1; i++)); do
		nvme reset "/dev/$(basename "$(nvme_ctrl)")" || return
		until_true 30 flows || { echo "no I/O after reset $i"; return 1; }
	done
}

# fio_stop NAME: it ends when asked to, and has not seen one error or wrong checksum.
fio_stop() {
	pkill -INT -x fio
	until_true 60 gone "${jobs[$1]}" || { echo "fio does not end"; return 1; }
	await "$1"
	cat "$fio_log"
	grep -q 'err= 0' "$fio_log" && ! grep -qiE 'verify(:| failed)|bad (header|magic)|error=' "$fio_log"
}

# fio_gives_up NAME: its disk is gone for good, which it says, and ends.
fio_gives_up() {
	until_true 60 gone "${jobs[$1]}" || { echo "fio does not end"; return 1; }
	await "$1"
	cat "$fio_log"
	grep -qE 'Input/output error|No such device' "$fio_log" &&
		! grep -qiE 'verify failed|bad (header|magic)' "$fio_log"
}

# The target and the host, connected: the page's commands.
nvme_up() {
	modprobe brd rd_nr=1 rd_size=98304 || die "no RAM disk"
	NETDEV=va check "the target's device" howto nvme device
	NETDEV=vb check "the host's device" howto nvme device
	check "both ports are active" until_true 10 both_active
	check "the target" howto nvme target
	check "it listens" wait_listen - "$PORT"
}

both_active() { active kw_va && active kw_vb; }

# nvme_down: all of it is taken away again, and nothing is left.
nvme_down() {
	check "the target goes" howto nvme target-down
	check "nothing is left on the devices" until_true 20 nothing_left
	check "the consumers' modules are unloaded" consumers_gone
	NETDEV=vb check "the host's device goes" howto nvme device-down
	NETDEV=va check "the target's device goes" howto nvme device-down
	teardown_pair kiwarp
}
