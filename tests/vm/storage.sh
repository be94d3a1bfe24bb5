# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# What the suites of the kernel's storage consumers share: impaired wires, verified I/O, trees
# of files, and that nothing is left. Server and client are in one guest, on wire.sh's va and vb.
# shellcheck source=howto.sh
. "$(dirname "${BASH_SOURCE[0]}")/howto.sh"
# shellcheck source=wire.sh
. "$(dirname "${BASH_SOURCE[0]}")/wire.sh"

# add_devices: the page's device block for either end.
add_devices() {
	howto_modprobe
	NETDEV=va check "the server's device" howto "$1" device
	NETDEV=vb check "the client's device" howto "$1" device
	until_true 10 active kw_va || die "the port of kw_va is not active"
	until_true 10 active kw_vb || die "the port of kw_vb is not active"
}

# impair ARG...: netem on both ends, which is to see segments as a wire does.
impair() {
	segmented off &&
		tc qdisc replace dev va root netem "$@" && tc qdisc replace dev vb root netem "$@"
}

unimpair() { tc qdisc del dev va root && tc qdisc del dev vb root && segmented on; }

segmented() { ethtool -K va tso "$1" gso "$1" && ethtool -K vb tso "$1" gso "$1"; }

# Either end has lost some: there may be few from the one to the other.
lost_packets() { { tc -s qdisc show dev va; tc -s qdisc show dev vb; } | grep -E 'dropped [1-9]'; }

# cut_wire SECONDS: the wire is down for so long.
cut_wire() {
	ip link set va down
	sleep "$1"
	wire_up
}

# counter DEV NAME: one of rdma statistic's.
counter() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"; }

# What a wire may do to a TCP stream is no error for the protocols above it.
no_wire_errors() {
	local dev name rv=0
	for dev in kw_va kw_vb; do
		for name in rx_crc_errors rx_marker_errors rx_ddp_errors rx_rdmap_errors \
			terminates_sent terminates_received conn_bad_start cq_overflows; do
			[ "$(counter $dev $name)" = 0 ] ||
				{ echo "$dev: $name is $(counter $dev $name)"; rv=1; }
		done
	done
	return $rv
}

# Nothing of a consumer's is left on any device. The RDMA core keeps the CQs of its pool, unused.
nothing_left() {
	rdma resource show
	rdma resource show cq
	! rdma resource show | grep -qE '(pd|qp|cm_id|mr|ctx|srq) [1-9]' &&
		! rdma resource show cq | grep -qE 'users [1-9]'
}

# fio_verify NAME ARG...: writes blocks with checksums, reads them back.
fio_verify() {
	local name=$1
	shift
	timeout -k 5 "$PATIENCE" fio --direct=1 --ioengine=libaio --thread --verify=crc32c \
		--verify_fatal=1 --group_reporting --name="$name" "$@"
}

# make_tree FOLDER: files of many sizes in folders, a link, names that are not ASCII.
make_tree() {
	local i
	mkdir -p "$1"
	for i in $(seq 0 29); do
		mkdir -p "$1/folder $((i % 5))"
		head -c $((i * i * i * 17)) /dev/urandom >"$1/folder $((i % 5))/file$i"
	done
	ln -s "folder 1/file1" "$1/link"
	: >"$1/ἰωτα"
}

# scsi_disk: the name of the only SCSI disk there is.
scsi_disk() {
	local disk
	disk=$(readlink -f /sys/class/scsi_disk/*/device/block/*)
	[ -b "/dev/${disk##*/}" ] && echo "/dev/${disk##*/}"
}

no_disk() { ! scsi_disk; }

# The kernel's SCSI target, which has loaded modules for all kinds of disks, is unloaded.
target_gone() {
	local kinds
	mapfile -t kinds < <(lsmod | grep -oE '^target_core_[a-z]+' | grep -v target_core_mod)
	modprobe -r "${kinds[@]}" && modprobe -r target_core_mod
}
