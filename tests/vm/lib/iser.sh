# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# What the suites of iSCSI over RDMA share, with the commands of Documentation/iser.md: the target at
# 10.1.0.1 on va, the initiator on vb, unless a suite says otherwise.
# shellcheck source=storage.sh
. "$(dirname "${BASH_SOURCE[0]}")/storage.sh"

export TARGET=10.1.0.1 IQN=iqn.2014-08.org.example:disk2 DISK=/dev/ram0 NETDEV=va
# shellcheck source=/dev/null
. /etc/iscsi/initiatorname.iscsi
# shellcheck disable=SC2154
export INITIATOR=$InitiatorName

# node ARG...: of the initiator's record of the target.
node() { iscsiadm -m node -T "$IQN" -p "$TARGET:3260" -I iser "$@"; }

# What this end of a connection without progress waits for.
iser_stalled() {
	grep -rHE '[1-9]' /sys/class/infiniband/*/ports/1/hw_counters/ | sed 's/^.*infiniband.//'
	rdma -dd resource show qp
	rdma -dd resource show cq
	ss -tinm
	! pgrep -ox tgtd || cat "/proc/$(pgrep -ox tgtd)/wchan"
	dmesg | tail -n 20
}

# On a busy machine a discovery may end after 30 seconds without an answer. The cause is not known:
# both of the initiator's Sends and receives had completed, and ib_iser had polled them. The state of
# this end is printed while it lasts, and the discovery is tried again.
iser_found() {
	local try pid
	for try in 1 2 3 4; do
		howto iser discover &
		pid=$!
		until_true 4 gone "$pid" || { echo "no answer for long"; iser_stalled; } | sed 's/^/# /'
		wait "$pid" && return
		echo "# try $try failed"
	done
	return 1
}

# What it had to say, for the suite's log.
iser_found_notes() { grep '^#' "$log"; }

# Dead connections are noticed after two seconds, not ten.
impatient() {
	node -o update -n 'node.conn[0].timeo.noop_out_interval' -v 2 &&
		node -o update -n 'node.conn[0].timeo.noop_out_timeout' -v 2
}

# Each block is a command of its own, and one that fails does not end the load: see scsi_load_ends.
scsi_load() {
	local disk
	disk=$(scsi_disk)
	echo 2 >"/sys/block/${disk##*/}/queue/nomerges"
	fio_load load --filename="$disk" --offset_increment=2m --continue_on_error=io &&
		until_true 60 scsi_flows
}

# scsi_load_ends: without an error but those that are ib_iser's own. It leaves the state in which it
# takes commands before it stops their queue, and fails what comes between, which it says.
scsi_load_ends() {
	local errors own
	fio_ends load || return
	errors=$(grep -c 'io_u error on file' "$fio_log")
	own=$(dmesg | grep -c 'iscsi_iser_task_init: Failed to init task')
	echo "fio saw $errors errors, $own commands failed in ib_iser"
	if [ "$errors" = 0 ]; then
		grep 'err= 0' "$fio_log"
	else
		[ "$errors" -le "$own" ] && grep 'err= 5' "$fio_log"
	fi
}

scsi_flows() { grows ios_done "$(scsi_disk)"; }

# isert gives a portal up whose device goes, as nvmet does a port: it has to be made again.
portal_made_again() {
	local portal=/sys/kernel/config/target/iscsi/$IQN/tpgt_1/np/$TARGET:3260
	rmdir "$portal" && mkdir "$portal" && bash -c "echo 1 >$portal/iser"
}

add_iser_device() { NETDEV=$1 howto iser device && until_true 10 active "kw_$1"; }

# Either end's device goes under load and comes again: the session is taken up again.
iser_devices_removed() {
	check "the target's device deleted: the load" scsi_load
	check "the target's device deleted under load" rdma link delete kw_va
	check "the target's device added" add_iser_device va
	check "the portal is made again" portal_made_again
	check "I/O goes on" until_true 60 scsi_flows
	check "the initiator's device deleted under load" rdma link delete kw_vb
	check "the initiator's device added" add_iser_device vb
	check "I/O goes on again" until_true 60 scsi_flows
	check "no error, no wrong checksum" scsi_load_ends
}

stop_iscsid() { pkill -x iscsid; until_true 20 bash -c '! pgrep -x iscsid'; }

iser_gone() {
	modprobe -r ib_isert && modprobe -r iscsi_target_mod && target_gone && modprobe -r ib_iser
}
