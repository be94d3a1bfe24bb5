#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# iSCSI over RDMA with the commands of Documentation/iser.md: the kernel's target and tgtd, the
# kernel's initiator, TCP and RDMA at one portal by the port map; data intact, over bad wires and
# broken connections, too. libiscsi as the initiator. siw at either end where SIW_KO names its build.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/iser.sh
. "$(dirname "$0")/../lib/iser.sh"

TIME_LIMIT=240
put_map() { echo "$2" >"/sys/class/infiniband/kw_$1/settings/port_map"; }

# A portal is served by RDMA beside TCP only under another port.
iser_portal() {
	local portal=/sys/kernel/config/target/iscsi/$IQN/tpgt_1/np/$TARGET:3261 rv
	mkdir "$portal"
	bash -c "echo 1 >$portal/iser"
	rv=$?
	rmdir "$portal"
	return "$rv"
}

# The initiator gives up the connection during the cut, and logs in again.
fio_through_cut() {
	local before
	scsi_load || return
	before=$(counter kw_vb conn_established)
	ip link set va down
	until_true 30 connection_gone 13260 || { echo "the connection stays"; return 1; }
	wire_up
	until_true 60 is_more "$before" counter kw_vb conn_established ||
		{ echo "it is not made again"; return 1; }
	until_true 60 scsi_flows && scsi_load_ends
}

by_tcp() { iscsiadm -m node -T "$IQN" -p "$TARGET:3260" -I default "$@"; }

# login_logout NODE...: to a target that has been seen to work already.
login_logout() {
	"$@" --login && until_true 60 scsi_disk &&
		fio_scsi again --rw=randwrite --bs=16k --size=1m --iodepth=4
	local rv=$?
	"$@" --logout && return "$rv"
}

# libiscsi PROGRAM ARG... URL: of libiscsi's programs, as the initiator that tgtd lets in. Up to 1.19
# libiscsi gives up, and speaks of a wrong event, where there is none for 1 s, as on a busy machine.
libiscsi() {
	local try rv
	for try in 1 2 3 4 5 6 7 8 9 10; do
		timeout -k 5 "$TIME_LIMIT" "$1" -i "$INITIATOR" "${@:2}" >"$LOGS/libiscsi" 2>&1
		rv=$?
		cat "$LOGS/libiscsi"
		grep -q 'revents is not POLLIN' "$LOGS/libiscsi" || break
		echo "# try $try: no event within 1 s"
	done
	return "$rv"
}

# Its own test, which is to be done, and all of it. With several in one run libiscsi 1.19 crashes over iSER.
libiscsi_test() { # NAME URL
	libiscsi iscsi-test-cu -f -d -t "SCSI.$1" "$2"
	grep -q '^ *tests *1 *1 *1 *0 ' "$LOGS/libiscsi" && ! grep -q SKIPPED "$LOGS/libiscsi"
}

# An initiator in user space, with a connection for each command of these. VERIFY compares what was
# read with the disk, at the target, to which the bytes are written for that.
libiscsi_initiator() { # URL
	local test before
	before=$(counter kw_vb conn_established)
	dd if=/dev/urandom of="$DISK" bs=64k count=8 status=none
	check_says "libiscsi: how large the disk is" 'Total size:134217728' libiscsi iscsi-readcapacity16 "$1"
	for test in Read10.Simple Verify10.Simple Verify16.Mismatch Write10.Simple Write16.Simple \
		WriteVerify10.Simple; do
		check "libiscsi: its test $test" libiscsi_test "$test" "$1"
	done
	check_says "libiscsi: reads of 128 KiB, 32 at a time" '^finished' \
		libiscsi iscsi-perf -r -b 256 -m 32 -t 4 "$1"
	check "libiscsi's connections were Kiwarp's" is_more $((before + 7)) counter kw_vb conn_established
}

# The initiator's device is siw's, which knows no port map: it names the wire's port.
siw_initiator() {
	local at=(iscsiadm -m node -T "$IQN" -p "$TARGET:13260,1" -I iser)
	check "siw has the initiator's end" link_add sw_vb - vb siw
	until_true 10 active sw_vb
	check "the target for siw" howto iser target
	check "siw's initiator knows the portal" "${at[@]}" -o new
	check "it logs in, verified" login_logout "${at[@]}"
	check "it forgets the portal" "${at[@]}" -o delete
	check "the target for siw goes" howto iser target-down
	rdma link delete sw_vb
}

# The target's device is siw's, which LIO cannot use beside its TCP portal; tgtd can, if it has
# its own TCP portal elsewhere. Kiwarp's initiator asks for siw's port.
siw_target() {
	check "siw has the target's end" link_add sw_va - va siw
	until_true 10 active sw_va
	NETDEV=vb check "Kiwarp has the initiator's" howto iser device
	put_map vb none
	until_true 10 active kw_vb
	check "tgtd over siw" tgt_beside_tcp
	check_says "Kiwarp's initiator finds it" "$TARGET:3260,1 $IQN" iser_found
	iser_found_notes
	check "it logs in to it, verified" login_logout node
	check "tgtd ends" howto iser tgt-down
	NETDEV=vb check "Kiwarp's device goes" howto iser device-down
	until_true 20 rdma link delete sw_va
}

tgt_beside_tcp() {
	bash -eu -c "$(howto_block iser tgt | sed 's/^tgtd /&--iscsi portal=127.0.0.1:3999 /')"
}

with_siw() {
	siw_initiator
	NETDEV=va check "the target's device makes room for siw's" howto iser device-down
	siw_target
	check "siw is unloaded" rmmod siw
}

make_wire
load_modules
modprobe brd rd_nr=1 rd_size=131072
add_devices iser

check "the target" howto iser target
check "it listens by TCP" wait_listen - 3260
check "it listens by RDMA, under the other port" wait_listen - 13260
put_map va none
check_fails "without the port map it may not" 'Address already in use' iser_portal
put_map va 3260:13260
check "start the initiator" howto iser initiator
check_says "the initiator finds the target" "$TARGET:3260,1 $IQN" iser_found
iser_found_notes
check "dead connections are noticed soon" impatient
check_says "it logs in by RDMA" 'Iface Transport: iser' howto iser login
check "the disk appears" until_true 60 scsi_disk
check_says "under its name" '128M' howto iser find
check "by TCP it is to be had, too" by_tcp -o new && check "logs in by TCP" by_tcp --login
check "logs out by TCP" by_tcp --logout

check "small random blocks, verified" fio_scsi small --rw=randwrite --bs=512 --size=256k --iodepth=1
check "large blocks in order, verified" fio_scsi large --rw=write --bs=1m --size=8m --iodepth=4
check "all sizes at random, verified" fio_scsi sizes --rw=randwrite --bsrange=512-1m \
	--blockalign=512 --size=8m --iodepth=32 --numjobs=2 --offset_increment=16m
on_bad_wires fio_scsi
check "the session breaks and is taken up again, verified" fio_through_cut
check "nothing was wrong on the wire" no_wire_errors

iser_devices_removed
check "log out" howto iser logout
check "the disk is gone" until_true 60 scsi_gone
check "take the target away" howto iser target-down
check "nothing is left on the devices" until_true 20 nothing_left

check "tgtd as the target" howto iser tgt
check_says "the initiator finds it" "$TARGET:3260,1 $IQN" iser_found
iser_found_notes
check_says "it logs in to tgtd by RDMA" 'Iface Transport: iser' howto iser login
check "tgtd's disk appears" until_true 60 scsi_disk
check "all sizes by tgtd, verified" fio_scsi tgt --rw=randwrite --bsrange=512-512k \
	--blockalign=512 --size=4m --iodepth=16
check "log out of tgtd" howto iser logout
libiscsi_initiator "iser://$TARGET:3260/$IQN/1"
check "take tgtd away" howto iser tgt-down
check "nothing is left of tgtd" until_true 60 nothing_left

NETDEV=vb check "the initiator's device goes" howto iser device-down
if [ -n "${SIW_KO:-}" ]; then
	load_siw
	with_siw
else
	NETDEV=va check "the target's device goes" howto iser device-down
fi
stop_iscsid
check "the consumers' modules are unloaded" iser_gone
howto_all_ran iser
teardown_pair
finish
