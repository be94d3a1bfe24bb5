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

ctrl_is() { [ "$(cat "$(nvme_ctrl)/state")" = "$1" ]; }

no_ctrl() { [ -z "$(ls /sys/class/nvme 2>/dev/null)" ]; }

# Nothing of the consumers' is left on any device. The RDMA core keeps the CQs of its pool, unused.
nothing_left() {
	rdma resource show
	rdma resource show cq
	! rdma resource show | grep -qE '(pd|qp|cm_id|mr|ctx|srq) [1-9]' &&
		! rdma resource show cq | grep -qE 'users [1-9]'
}

consumers_gone() { modprobe -r nvme_rdma nvmet_rdma nvmet nvme_fabrics; }

# fio_verify NAME ARG...: writes with checksums, reads them back.
fio_verify() {
	local disk name=$1
	shift
	disk=$(nvme_disk) || { echo "no disk"; return 1; }
	timeout -k 5 "$PATIENCE" fio --filename="$disk" --direct=1 --ioengine=libaio --thread \
		--verify=crc32c --verify_fatal=1 --group_reporting --name="$name" "$@"
}
