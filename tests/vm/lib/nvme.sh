# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# What the NVMe-oF suites share: target and host in one guest, with the commands of
# Documentation/nvme.md. The target is at 10.1.0.1 on va, the host on vb.
# shellcheck source=storage.sh
. "$(dirname "${BASH_SOURCE[0]}")/storage.sh"

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

nvme_gone() { ! nvme_disk; }

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

# What is built in has no count of users.
consumers_gone() {
	if [ ! -d /sys/module/nvme_rdma ] || [ -e /sys/module/nvme_rdma/refcnt ]; then
		modprobe -r nvme_rdma nvmet_rdma nvmet nvme_fabrics
	fi
}

# fio_nvme ARG...: jobs on the host's disk.
fio_nvme() { fio_on "$(nvme_disk)" "$@"; }

# nvme_load NAME: without end, until fio_stop.
nvme_load() {
	local disk
	disk=$(nvme_disk) || { echo "no disk"; return 1; }
	fio_load "$1" --filename="$disk" --allow_file_create=0 --offset_increment=2m
	until_true 60 flows
}

# flows: I/O is being done, now.
flows() {
	local disk
	disk=$(nvme_disk) && grows ios_done "$disk"
}

# resets COUNT: of the controller, with I/O between them.
resets() {
	local i
	for ((i = 1; i <= $1; i++)); do
		nvme reset "/dev/$(basename "$(nvme_ctrl)")" || return
		until_true 30 flows || { echo "no I/O after reset $i"; return 1; }
	done
}

# Load, what happens to it, and that it has not taken any harm.
under_load() { # WHAT COMMAND...
	local what=$1
	shift
	check "$what: the load" nvme_load load
	check "$what" "$@"
	check "$what: no error, no wrong checksum" fio_stop load
}

# The target's side of the port: what "ln -s" on the page makes, and undoes.
port_link=/sys/kernel/config/nvmet/ports/1/subsystems/$NQN

unlink_port() { rm "$port_link"; }

link_port() { ln -s "/sys/kernel/config/nvmet/subsystems/$NQN" "$port_link"; }

target_comes_back() {
	link_port || return
	ctrl_becomes live || { echo "the host has not reconnected"; return 1; }
	until_true 30 flows
}

# nvmet drops a listener whose device goes, for good: the port has to be linked again.
target_device_removed() {
	rdma link delete kw_va || return
	ctrl_becomes connecting || { echo "the host has not noticed"; return 1; }
	NETDEV=va howto nvme device && until_true 10 active kw_va || return
	unlink_port
	target_comes_back
}

# A cut that is longer than keep-alive allows: the host reconnects when it can.
long_cut() {
	ip link set va down
	ctrl_becomes connecting || { echo "the host has not noticed"; return 1; }
	wire_up
	ctrl_becomes live || { echo "the host has not reconnected"; return 1; }
	until_true 30 flows
}

# Connections killed on the wire, as by a firewall.
killed() {
	ss -K state established "( sport = :$PORT or dport = :$PORT )"
	ctrl_becomes live && until_true 30 flows
}

# gone_for_good WHAT COMMAND...: what takes the host's controller away ends its users' I/O.
gone_for_good() {
	local what=$1
	shift
	check "$what: the load" nvme_load load
	check "$what" "$@"
	check "$what: the controller is deleted" until_true 30 no_ctrl
	check "$what: I/O ends, with an error" fio_gives_up load
}

# If the target's device goes first, the host tries to reconnect with whatever device comes; if its
# own goes first, its controller is deleted. rmmod leaves open which, and both are well.
module_unloaded() {
	check "the module unloaded under load: the load" nvme_load load
	check "the module unloaded under load" rmmod kiwarp
	NETDEV=va check "the target's device again" howto nvme device
	NETDEV=vb check "the host's device again" howto nvme device
	check "the port unlinked" unlink_port
	check "and linked" link_port
	if nvme_ctrl; then
		check "the host's controller has survived, and reconnects" ctrl_becomes live
		check "and no error, no wrong checksum" fio_stop load
	else
		check "the host's controller was deleted: I/O ends, with an error" fio_gives_up load
		check "the host connects once more" howto nvme connect
	fi
}

# The target and the host, connected: the page's commands.
nvme_up() {
	modprobe brd rd_nr=1 rd_size=98304 || die "no RAM disk"
	add_devices nvme
	check "the target" howto nvme target
	check "it listens" wait_listen - "$PORT"
}

# nvme_down: all of it is taken away again, and nothing is left.
nvme_down() {
	check "the target goes" howto nvme target-down
	check "nothing is left on the devices" until_true 20 nothing_left
	check "the consumers' modules are unloaded" consumers_gone
	NETDEV=vb check "the host's device goes" howto nvme device-down
	NETDEV=va check "the target's device goes" howto nvme device-down
	teardown_pair kiwarp
}
