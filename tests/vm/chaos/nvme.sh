# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# The kernel consumer beside the processes of scripts/chaos: NVMe over Fabrics, target and host in the
# first network namespace, on devices of their own. Data is written and read back with checksums all
# the time. Connections, wire and devices are cut and deleted meanwhile. To be sourced after load.sh.
# shellcheck source=../lib/nvme.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/nvme.sh"

export DISK=/dev/nullb0

nvme_device() { # INTERFACE
	rdma link show | grep -q "link kw_$1/" || link_add "kw_$1" - "$1"
}

# nvmet drops a listener whose device goes, for good: the port has to be linked again.
nvme_relink() {
	nvme_device va
	nvme_device vb
	unlink_port
	link_port
}

# unless_connecting COMMAND...: for what takes a device away. nvme-rdma does not know that a controller
# which it makes, or connects again, uses the device. If that fails it frees queue pairs of a device
# that has gone meanwhile, whatever device that is. Fails with 75 at such a time: a controller is there,
# and its disk cannot be read just now. (It may still lose its connection right after that.)
unless_connecting() { flock -w 3 -E 75 "$LOGS/nvme.lock" bash -c 'nvme_steady || exit 75; "$@"' - "$@"; }

nvme_steady() {
	local state disk
	for state in /sys/class/nvme/nvme*/state; do
		[ ! -e "$state" ] || grep -qx live "$state" || return
	done
	for disk in /dev/nvme*n*; do
		[ ! -b "$disk" ] || timeout 10 dd if="$disk" of=/dev/null bs=4k count=1 iflag=direct status=none || return
	done
}

# without_nvme COMMAND...: the same for what takes one device after the other away, so that the host
# would connect again by one of them when the target's has gone: it disconnects first.
without_nvme() { unless_connecting disconnected "$@"; }

disconnected() {
	nvme disconnect -n "$NQN"
	"$@"
}

export -f nvme_steady disconnected

# How often each was done.
nvme_count() { note "devices deleted under NVMe: $(grep -c "^device deleted" "$LOGS/events"), modules loaded again:" \
	"$(grep -c "^module loaded again" "$LOGS/events")"; }

# Whatever becomes of a controller is decided within seconds: no task may wait for I/O for minutes.
nvme_connect() {
	flock "$LOGS/nvme.lock" timeout -k 5 "$TIME_LIMIT" nvme connect -t rdma -a "$TARGET" -s "$PORT" -n "$NQN" \
		--nr-io-queues=2 --keep-alive-tmo=5 --reconnect-delay=1 --ctrl-loss-tmo=15
}

nvme_verify() {
	fio_nvme --name=chaos --rw=randwrite --bsrange=512-64k --blockalign=512 --size=1m --iodepth=8
}

# What happens to the disk may end a job with an error, never with a wrong block.
nvme_work() {
	while :; do
		nvme_disk || { nvme_connect && until_true 2 nvme_disk; }
		if nvme_verify; then echo "one verified"; fi
		# The processes are to have most of the CPU time.
		sleep 1
	done
}

nvme_begin() {
	local node
	make_wire
	modprobe null_blk nr_devices=1 gb=1 memory_backed=1 || die "no disk in memory"
	modprobe nvme-rdma || die "no NVMe"
	nvme_device va
	nvme_device vb
	for node in kw_va kw_vb; do until_true 10 active $node || die "no $node"; done
	howto nvme target >"$LOGS/nvme" 2>&1 || die "no NVMe target"
	nvme_connect >>"$LOGS/nvme" 2>&1 || die "NVMe does not connect"
	nvme_work >>"$LOGS/nvme" 2>&1 &
	nvme_pid=$!
}

# The wire stays as it is until the next time.
nvme_cut() {
	if ip link show va up | grep -q va; then ip link set va down; else wire_up; fi
}

nvme_kill() { ss -K state established "( sport = :$PORT or dport = :$PORT )"; }

nvme_unlink() {
	unlink_port
	sleep "0.$((RANDOM % 10))"
	link_port
}

nvme_remove() {
	local ends=(va vb)
	if unless_connecting rdma link delete "kw_${ends[RANDOM % 2]}"; then
		echo "device deleted"
	else
		echo "no device deleted: $?"
	fi
	sleep "0.$((RANDOM % 10))"
	nvme_relink
}

# The events go on while it waits for the I/O under way.
nvme_disconnect() { timeout -k 5 "$TIME_LIMIT" nvme disconnect -n "$NQN" >/dev/null & }

nvme_event() {
	local all=(nvme_cut nvme_cut nvme_kill nvme_unlink nvme_disconnect) what
	[ -n "${NVME_STAYS:-}" ] || all+=(nvme_remove)
	what=${all[RANDOM % ${#all[@]}]}
	echo "$what"
	"$what"
}

no_wrong_block() { ! grep -iE 'verify(:| failed)|bad (header|magic)' "$LOGS/nvme"; }

# A command that was connecting may still have made a controller.
nvme_idle() {
	! pgrep -x nvme || return
	nvme disconnect -n "$NQN"
	! pgrep -x fio && no_ctrl
}

nvme_again() {
	nvme_connect && until_true 30 nvme_disk && nvme_verify
}

nvme_end() {
	kill "$nvme_pid"
	wait "$nvme_pid" 2>/dev/null
	wire_up
	nvme_relink
	nvme_count
	pkill -INT -x fio
	check "NVMe: its users and its controllers go" until_true 60 nvme_idle
	note "NVMe: $(grep -c 'one verified' "$LOGS/nvme") jobs read back what they had written"
	check "NVMe: no block was wrong" no_wrong_block
	for node in kw_va kw_vb; do check "NVMe: $node is active" until_true 10 active $node; done
	check "NVMe: it connects and moves data" nvme_again
	check "NVMe: it disconnects" nvme disconnect -n "$NQN"
	check "NVMe: the target goes" howto nvme target-down
	check "NVMe: its modules are unloaded" consumers_gone
	for node in kw_va kw_vb; do check "NVMe: $node goes" rdma link delete $node; done
}
