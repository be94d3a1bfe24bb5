# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# The disks of guest.sh: what a storage protocol makes of a disk or a folder at the other end of the
# wire, over RDMA or over TCP, with the commands of the pages under Documentation.
# shellcheck source=../vm/lib/nvme.sh
. "$TOP/tests/vm/lib/nvme.sh"
# shellcheck source=../vm/lib/iser.sh
. "$TOP/tests/vm/lib/iser.sh"
# shellcheck source=../vm/lib/nfs.sh
. "$TOP/tests/vm/lib/nfs.sh"

# Of NVMe and iSCSI: a disk that is none, so that what is measured is how it is reached.
export DISK=/dev/nullb0
# Of NFS: where all kinds of machines may write, and how large the file is: fio goes through it once.
export FOLDER=/run/nfs-server MOUNT=/run/nfs-client
NFS_FILE_MIB=128
disk_kind='' record=()

# use_disk nvme|iscsi|nfs rdma|tcp [OPTION...]: the kernel's server and client of it, connected.
use_disk() {
	local said=$LOGS/disk-up
	disk_kind=$1
	[ -z "$broken" ] || return
	if ! "use_$1" "${@:2}" >"$said" 2>&1 || ! until_true 20 bench_disk; then
		broken=${broken:-no $1 over $2: $(tail -n 1 "$said")}
	fi
}

leave_disk() {
	"leave_$disk_kind" >"$LOGS/disk-down" 2>&1
	disk_kind='' broken=''
}

# bench_disk: the name of the disk, or of the file, that I/O is done on.
bench_disk() {
	case $disk_kind in
	nvme) nvme_disk ;;
	iscsi) scsi_disk ;;
	nfs) [ -f "$MOUNT/disk" ] && echo "$MOUNT/disk" ;;
	esac
}

# writable FOLDER...: where this machine's own files are the root, read-only, they get copies in memory.
writable() {
	local folder
	for folder; do
		[ -w "$folder" ] || {
			mkdir -p "/run/writable$folder" && cp -a "$folder/." "/run/writable$folder" &&
				mount --bind "/run/writable$folder" "$folder"
		} || return
	done
}

null_disk() { modprobe null_blk gb=1 irqmode=0 nr_devices=1; }

# edited SED-COMMAND PAGE BLOCK: what the page does over RDMA, done otherwise.
edited() { howto_block "$2" "$3" | sed "$1" | timeout 60 bash -eux -o pipefail; }

use_nvme() { # rdma|tcp [OPTION OF NVME CONNECT...]
	modprobe -a "nvmet-$1" "nvme-$1" && null_disk &&
		edited "s/rdma/$1/" nvme target &&
		timeout 60 nvme connect -t "$1" -a "$TARGET" -s "$PORT" -n "$NQN" -i 1 "${@:2}"
}

leave_nvme() {
	timeout 60 nvme disconnect -n "$NQN"
	until_true 20 no_ctrl
	howto nvme target-down
}

# use_iscsi rdma|tcp [DIGEST...]: each node.conn[0].iscsi.DIGEST is to be CRC32C. Over RDMA it is iSER.
# The portal's record is made by hand: discovery may be overlooked by iscsiadm (see iser_found).
use_iscsi() {
	local by=default edit='/iser"$/d' name
	if [ "$1" = rdma ]; then
		by=iser edit=''
		set_to port_map 3260:13260
		[ -z "$broken" ] || return
	fi
	record=(iscsiadm -m node -T "$IQN" -p "$TARGET:3260,1" -I "$by")
	writable /etc && modprobe iscsi_tcp && null_disk && edited "$edit" iser target &&
		howto iser initiator && timeout 60 "${record[@]}" -o new || return
	for name in "${@:2}"; do
		timeout 60 "${record[@]}" -o update -n "node.conn[0].iscsi.$name" -v CRC32C || return
	done
	timeout 60 "${record[@]}" --login
}

leave_iscsi() {
	timeout 60 "${record[@]}" --logout
	timeout 60 "${record[@]}" -o delete
	until_true 20 scsi_gone
	stop_iscsid
	howto iser target-down
}

# No client is to claim its locks again. The kernel refuses to end what has ended by itself, after 10 s.
end_grace() { echo Y >/proc/fs/nfsd/v4_end_grace || grep -q Y /proc/fs/nfsd/v4_end_grace; }

# use_nfs rdma|tcp: a file on a tmpfs.
use_nfs() {
	local edit=''
	[ "$1" = rdma ] || edit='s/proto=rdma,port=20049/proto=tcp/'
	writable /etc /var/lib/nfs && mkdir -p "$FOLDER" &&
		mount -t tmpfs -o size=$((NFS_FILE_MIB + 16))m none "$FOLDER" &&
		dd if=/dev/zero of="$FOLDER/disk" bs=1M count=$NFS_FILE_MIB || return
	grep -q "^$FOLDER " /etc/exports || howto nfs configure || return
	howto nfs start && end_grace && edited "$edit" nfs mount
}

leave_nfs() {
	howto nfs unmount
	howto nfs stop
	stop_rest
}

# io_memory huge|pages: what fio is to read into and write from, in large pages, which are one piece of
# memory, or in pages of which no two are neighbours. By chance it would be anything between, and
# NVMe/TCP, which sends a piece at a time, is 2.7 times faster with the one than with the other. A
# kernel without large pages gives what it has.
io_memory() {
	case $1 in
	huge)
		io_memory=malloc
		if [ -e /proc/sys/vm/nr_hugepages ]; then
			echo 8 >/proc/sys/vm/nr_hugepages
			io_memory=mmaphuge
		fi
		;;
	pages)
		io_memory=mmapshared:/dev/shm/io
		python3 -c 'if True:
			import os, sys
			files = [os.open(name, os.O_RDWR | os.O_CREAT) for name in sys.argv[1:]]
			for page in range(1024):
				for file in files:
					os.pwrite(file, bytes(4096), page * 4096)' \
			/dev/shm/io /dev/shm/between
		;;
	esac
}

# disk INDEX PATTERN SIZE DEPTH COUNT huge|pages: fio on it.
disk() {
	local io_memory
	io_memory "$6"
	alone "$1" fio --name=bench --filename="$(bench_disk)" --direct=1 --thread --ioengine=libaio \
		--rw="$2" --bs="$3" --iodepth="$4" --number_ios="$5" --norandommap --randrepeat=1 \
		--mem="$io_memory" --output-format=json
}
