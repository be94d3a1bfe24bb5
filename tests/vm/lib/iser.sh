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

# overlooked LOG: iscsiadm has missed the answer to its question, by a race of its own. It polls for
# the answer, but while it waits for the kernel to confirm the question (__kipc_call() of open-iscsi
# 2.1.8) it takes all that comes first from the same socket, the answer too. Its log then has that
# event (101, ISCSI_KEVENT_RECV_PDU) between login and poll.
overlooked() {
	awk '/discovery login success/ { asked = 1 }
		asked && /got 101, handling/ { missed = 1 }
		/polling fd/ { asked = 0 }
		END { exit !missed }' "$1"
}

# unexpected_send LOG: after the login tgtd, at a time of its own, has sent a NOP-In that asks for no
# answer. In a discovery session ib_iser has a receive for the answer to each request and no other, so
# its RNIC ended the connection: DDP's "no buffer available", which siw prints with its halves swapped.
unexpected_send() {
	grep -q 'login success' "$1" && dmesg | tail -n 6 |
		grep -E 'no buffer available for the MSN|siw: got TERMINATE. layer 2, type 1, code 2'
}

# iser_found [PAGE BLOCK]: the page's discovery, which gets another try if one of these is to blame. The
# first is on a busy machine, where whoever answers runs before iscsiadm goes on, and with preempt=full
# every time; iscsiadm ends after 30 seconds, or by a fault of its own, not to be reported.
iser_found() {
	local try
	echo 0 >/proc/sys/debug/exception-trace
	for try in 1 2 3 4; do
		howto_verbosely "${1:-iser}" "${2:-discover}" >"$LOGS/discovery-$try" 2>&1 && break
		if overlooked "$LOGS/discovery-$try"; then
			echo "# try $try: iscsiadm has overlooked the answer"
		elif unexpected_send "$LOGS/discovery-$try"; then
			echo "# try $try: tgtd has sent a NOP-In that nobody waits for"
		else
			break
		fi
	done
	echo 1 >/proc/sys/debug/exception-trace
	cat "$LOGS/discovery-$try"
	grep -q "3260,1 $IQN" "$LOGS/discovery-$try"
}

# The block's iscsiadm says what it does.
howto_verbosely() (
	# shellcheck disable=SC2317
	iscsiadm() { command iscsiadm -d 5 "$@"; }
	export -f iscsiadm
	howto "$@"
)

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
	fio_load load --filename="$disk" --allow_file_create=0 --offset_increment=2m --continue_on_error=io &&
		until_true 60 scsi_flows
}

# scsi_load_ends: without an error but those that are ib_iser's own. It leaves the state in which it
# takes commands before it stops their queue, and fails what comes between, which it says.
scsi_load_ends() {
	local errors own
	fio_ends load || return
	# fio names an error where it goes on after it; one that comes when it ends is in its sum only.
	errors=$(sed -n 's/^ *errors *: total=\([0-9]*\),.*/\1/p' "$fio_log")
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
