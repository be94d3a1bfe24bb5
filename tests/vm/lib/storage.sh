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

# on_bad_wires COMMAND...: it does as fio_verify: blocks of all sizes, with loss, and out of order.
on_bad_wires() {
	local sizes=(--rw=randwrite --bsrange=512-256k --blockalign=512 --size=2m --iodepth=16)
	check "1 % loss" impair loss 1%
	check "all sizes with loss, verified" "$@" loss "${sizes[@]}"
	check "packets were lost" lost_packets
	check "delay and reordering" impair delay 2ms 1ms reorder 25% 50%
	check "all sizes with reordering, verified" "$@" reorder "${sizes[@]}"
	check "a good wire again" unimpair
}

# cut_wire SECONDS: the wire is down for so long.
cut_wire() {
	ip link set va down
	sleep "$1"
	wire_up
}

# connection_gone PORT: the client has none to there.
connection_gone() { [ -z "$(ss -Htn state established "dport = :$1")" ]; }

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

# How fio does all I/O: blocks are written with checksums and read back. Those of random offsets may
# overlap. Of two that are under way at once it is not said which is written last, and after a
# reconnect the host sends them in another order: fio lets the first one complete.
fio_how=(--direct=1 --ioengine=libaio --thread --verify=crc32c --verify_fatal=1 --group_reporting
	--serialize_overlap=1)

fio_jobs() { # ARG...
	timeout -k 5 "$TIME_LIMIT" fio "${fio_how[@]}" "$@"
}

# fio_verify NAME ARG...: one kind of job.
fio_verify() {
	local name=$1
	shift
	fio_jobs --name="$name" "$@"
}

# fio_on DISK ARG...: jobs on a disk, which is to be there. If it goes fio must not make a file of that
# name, which would keep the kernel from making the device's once more.
fio_on() {
	local disk=$1
	shift
	[ -b "$disk" ] || { echo "no disk"; return 1; }
	fio_jobs --filename="$disk" --allow_file_create=0 "$@"
}

# fio_load NAME ARG...: I/O without end in the background, on what ARG says, until it is ended by
# fio_stop or fio_gives_up. Its rate leaves the machine enough time for those who watch.
fio_load() {
	local name=$1
	shift
	start "$name" - fio "${fio_how[@]}" --name="$name" "$@" --rw=randwrite --bsrange=4k-64k \
		--iodepth=8 --size=2m --numjobs=2 --rate_iops=80,80 --time_based --runtime=3600
	fio_log=$server_log
}

# fio_stop NAME: it ends when asked to, and has not seen one error or wrong checksum; what it has seen
# is said last.
fio_stop() {
	fio_ends "$1" && ! grep -iE '[^_]error=|err= *[1-9]' "$fio_log" && grep 'err= 0' "$fio_log"
}

# fio_ends NAME: so, with whatever errors but a wrong checksum.
fio_ends() {
	pkill -INT -x fio
	until_true 60 gone "${jobs[$1]}" || { echo "fio does not end"; return 1; }
	await "$1"
	cat "$fio_log"
	! grep -iE 'verify(:| failed)|bad (header|magic)' "$fio_log"
}

# fio_gives_up NAME [SECONDS]: its disk is gone for good, which it says, and ends. A disk that is
# being removed has no bytes, and so no space. Of what an NVMe host was about to send once more when its
# controller was deleted the kernel says that the link has been severed (ENOLINK).
fio_gives_up() {
	until_true "${2:-60}" gone "${jobs[$1]}" || { echo "fio does not end"; return 1; }
	await "$1"
	cat "$fio_log"
	grep -qE 'Input/output error|No such device|No space left on device|Link has been severed' "$fio_log" &&
		! grep -qiE 'verify failed|bad (header|magic)' "$fio_log"
}

# ios_done DISK: how many reads and writes.
ios_done() {
	local stat
	read -ra stat 2>/dev/null <"/sys/block/${1##*/}/stat" && echo $((stat[0] + stat[4]))
}

# copy_sources TO FOLDER...: this project's folders. same_sources: they are as they were.
copy_sources() {
	local to=$1
	shift
	mountpoint -q "$to" && cp -r "${@/#/$TOP/}" "$to/" && sync -f "$to"
}

same_sources() {
	local to=$1 folder
	shift
	for folder in "$@"; do
		diff -r --no-dereference "$TOP/$folder" "$to/$folder" || return
	done
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

scsi_gone() { ! scsi_disk; }

# fio_scsi NAME ARG...: on it.
fio_scsi() {
	local name=$1
	shift
	fio_on "$(scsi_disk)" --name="$name" "$@"
}

# The kernel's SCSI target, which has loaded modules for all kinds of disks, is unloaded.
target_gone() {
	local kinds
	mapfile -t kinds < <(lsmod | grep -oE '^target_core_[a-z]+' | grep -v target_core_mod)
	modprobe -r "${kinds[@]}" && modprobe -r target_core_mod
}
