# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# What the suites of NFS over RDMA share, with the commands of Documentation/nfs.md: the server at
# 10.1.0.1 on va, the client on vb, unless a suite says otherwise.
# shellcheck source=storage.sh
. "$(dirname "${BASH_SOURCE[0]}")/storage.sh"

export SERVER=10.1.0.1 CLIENTS=10.1.0.0/24 FOLDER=/srv/nfs MOUNT=/mnt/nfs NETDEV=va

# make_export DISK: a real file system to give away.
make_export() {
	mkfs.ext4 -q -E lazy_itable_init=0 "$1" && mkdir -p "$FOLDER" && mount "$1" "$FOLDER"
}

mounted_by_rdma() {
	howto nfs mount
	grep -q " $MOUNT nfs4 .*vers=4.2.*proto=rdma" /proc/mounts
}

# fio_nfs NAME ARG...: on files of the mount.
fio_nfs() { mountpoint -q "$MOUNT" && fio_verify "$@" --directory="$MOUNT"; }

nfs_load() {
	mountpoint -q "$MOUNT" && fio_load load --directory="$MOUNT" && until_true 60 nfs_flows
}

nfs_flows() { grows nfs_writes; }

# nfs_writes: how many the client has done.
nfs_writes() { awk '$1 == "WRITE:" { print $2 }' /proc/self/mountstats; }

add_nfs_device() {
	NETDEV=$1 howto nfs device && until_true 10 active "kw_$1" && NETDEV=$1 howto nfs impatient
}

# Errors of I/O are allowed if the client connected while its device went or came: what rdma_cm says
# then is EINVAL, for which the client gives up (Linux 6.12). The attempt is in the trace.
nfs_stop_removed() {
	local errors
	fio_ends load || return
	errors=$(grep -E 'error=|err= *[1-9]' "$fio_log") || { grep 'err= 0' "$fio_log"; return; }
	! grep -v 'error=Invalid argument' <<<"$errors" &&
		grep 'rpc_connect_status:.*status=-22' $nfs_trace/trace
}

nfs_trace=/sys/kernel/tracing

# Either end's device goes under load and comes again: the client connects anew by itself.
nfs_devices_removed() {
	echo 1 >$nfs_trace/events/sunrpc/rpc_connect_status/enable
	check "the server's device deleted: the load" nfs_load
	check "the server's device deleted under load" rdma link delete kw_va
	check "the server's device added" add_nfs_device va
	check "I/O goes on" until_true 60 nfs_flows
	check "the client's device deleted under load" rdma link delete kw_vb
	check "the client's device added" add_nfs_device vb
	check "I/O goes on again" until_true 60 nfs_flows
	check "no error, no wrong checksum" nfs_stop_removed
	echo 0 >$nfs_trace/events/sunrpc/rpc_connect_status/enable
}

# The parts of the server that the page leaves.
stop_rest() { pkill -x rpcbind; umount /proc/fs/nfsd && umount "$FOLDER"; }

nfs_server_gone() { modprobe -r nfsd && modprobe -r rpcrdma; }

nfs_client_gone() { modprobe -r nfsv4 && { ! grep -q ^nfsv3 /proc/modules || modprobe -r nfsv3; } && modprobe -r nfs; }
