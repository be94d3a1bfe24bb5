#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# The port mapper, and the kernel's other RDMA consumers: SRP and SMB Direct, with the commands of
# Documentation/consumers.md, and RDS, which wants none of an iWARP device. SMB_KO names the
# folder where scripts/smbdirect has built cifs and ksmbd, SRPT_KO that where scripts/srpt has built
# ib_srpt with patches/linux/0014.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/storage.sh
. "$(dirname "$0")/../lib/storage.sh"

TIME_LIMIT=240
export TARGET=10.1.0.1 PORT=5555 DISK=/dev/ram0 NETDEV=va SERVICE=0x506b4bfffe000001 INITIATOR=none
export MODULES=$SMB_KO LOGIN=alice PASSWORD=secret FOLDER=/srv/smb MOUNT=/mnt/smb
messages=$OUT/messages
port=7200

# connect WHAT [DISTANCE]: rping on the next port, over the wire; TCP's port is so much higher.
connect() {
	port=$((port + 1))
	pair "$1" "$((port + ${2:-0}))" - - rping -s -a 10.1.0.1 -p $port -C 2 -- \
		rping -c -a 10.1.0.1 -p $port -C 2
}

# What iwpmd says of the mappings it has, with every port that is in one.
mappings() {
	: >"$messages"
	pkill -USR1 -x iwpmd && until_true 20 grep -q 'SIGUSR1' "$messages" && sleep 0.2
	cat "$messages"
}

mapped() { mappings | grep -qE "\b$1\b"; }

not_mapped() { mappings >/dev/null && ! grep -qE "\b$1\b" "$messages"; }

# Kiwarp's ports are TCP's: nobody is to reserve others for them.
mapped_to_itself() { mappings | grep -E "Mapped address.*:$1\("; }

start_iwpmd() {
	busybox syslogd -O "$messages" && iwpmd && until_true 30 bash -c "ss -Hlun | grep -q :3935"
}

port_mapper() {
	connect "without iwpmd a connection is made"
	check "start iwpmd" start_iwpmd
	connect "with iwpmd a connection is made"
	port=$((port + 1))
	start server - rping -s -P -a 10.1.0.1 -p $port
	wait_server server - $port
	check "iwpmd knows the listener's port" until_true 20 mapped $port
	check "but has no other for it" until_true 20 mapped_to_itself $port
	stop server
	check "and forgets it" until_true 20 not_mapped $port
	for dev in kw_va kw_vb; do
		echo "$((port + 1)):$((port + 1001))" >"/sys/class/infiniband/$dev/settings/port_map"
	done
	connect "with iwpmd and a port map a connection is made on the wire's port" 1000
	port=$((port + 1))
	start server - rping -s -P -a 10.1.0.1 -p $port
	wait_server server - $port
	pkill -x iwpmd
	check "iwpmd ends" until_true 20 bash -c "! pgrep -x iwpmd"
	check "its listener serves on" rping -c -a 10.1.0.1 -p $port -C 2
	stop server
	connect "a connection is made without it again"
	pkill syslogd
}

srp() {
	modprobe brd rd_nr=1 rd_size=131072
	INITIATOR=$(tr -d : </sys/class/infiniband/kw_vb/ports/1/gids/0 | cut -c17-)
	NETDEV=va check "an SRP target" howto consumers srp-target
	srp_session
	[ -z "${SRPT_KO:-}" ] || srp_shared
}

srp_session() {
	check "it listens" wait_listen - $PORT
	NETDEV=vb check "an initiator logs in" howto consumers srp-login
	check "the disk appears" until_true 60 scsi_disk
	check "all sizes at random, verified" fio_scsi sizes --rw=randwrite --bsrange=512-512k \
		--blockalign=512 --size=4m --iodepth=16 --numjobs=2 --offset_increment=8m
	check "it logs out" howto consumers srp-logout
	check "the disk is gone" until_true 60 scsi_gone
	check "the target goes" howto consumers srp-target-down
	check "SRP's modules are unloaded" srp_gone
	check "nothing is left of SRP" until_true 20 nothing_left
}

# A target whose connections share receives: Linux 6.12's own warns when one of them ends.
srp_shared() {
	check "ib_srpt with a patch is loaded" load_srpt
	NETDEV=va check "an SRP target with a patch" howto consumers srp-target
	check "its connections are to share receives" share_receives
	check_says "it has a shared receive queue" ib_srpt rdma resource show srq
	srp_session
}

load_srpt() {
	local depends
	IFS=, read -ra depends < <(modinfo -F depends "$SRPT_KO/ib_srpt.ko")
	modprobe -a "${depends[@]}" && insmod "$SRPT_KO/ib_srpt.ko" srpt_service_guid="$SERVICE"
}

share_receives() {
	local port
	port=0x$(tr -d : </sys/class/infiniband/kw_va/ports/1/gids/0)
	bash -c "echo 1 >/sys/kernel/config/target/srpt/$port/$port/attrib/use_srq"
}

srp_gone() { modprobe -r ib_srp && modprobe -r ib_srpt && target_gone; }

# An RDS socket, bound to a device's address, tells whether RDS has a transport there.
rds() {
	modprobe rds_rdma
	check_fails "RDS has no use for an iWARP device" 'Cannot assign requested address' \
		python3 -c "
import socket
s = socket.socket(21, socket.SOCK_SEQPACKET, 0)
s.bind(('10.1.0.1', 4000))"
	check "RDS is unloaded" modprobe -r rds_rdma
}

mounted_by_smbd() { howto consumers smb-mount && grep -q "$MOUNT cifs.*,rdma," /proc/mounts; }

fio_smb() { mountpoint -q "$MOUNT" && fio_verify "$@" --directory="$MOUNT"; }

copy_tree() { mountpoint -q "$MOUNT" && cp -r /run/tree "$MOUNT/"; }

same_tree() { diff -r /run/tree "$MOUNT/tree" && diff -r /run/tree "$FOLDER/tree"; }

smb() {
	mkfs.ext4 -q /dev/ram0 && mkdir -p "$FOLDER" && mount /dev/ram0 "$FOLDER"
	chmod 777 "$FOLDER"
	make_tree /run/tree
	rm /run/tree/link	# a client may not make one
	check "the SMB modules" howto consumers smb-modules
	check "an SMB server" howto consumers smb-server
	check "it listens by RDMA" wait_listen - 5445
	check "a client mounts by RDMA" mounted_by_smbd
	check "copy a tree" copy_tree
	check "unmount" howto consumers smb-unmount
	echo 1 >/sys/class/infiniband/kw_vb/settings/mpa_rev
	check "mount again, with MPA revision 1" mounted_by_smbd
	check "the tree is what was copied" same_tree
	check "large blocks at random, verified" fio_smb smb --rw=randwrite --bsrange=4k-1m \
		--blockalign=4k --size=4m --iodepth=8
	check "unmount again" howto consumers smb-unmount
	check "the server goes" howto consumers smb-server-down
	check "nothing is left of SMB" until_true 30 nothing_left
	check "SMB's modules are unloaded" until_true 20 rmmod cifs ksmbd
	umount "$FOLDER"
}

make_wire
load_modules
add_devices consumers
port_mapper
srp
smb
rds
check "nothing was wrong on the wire" no_wire_errors
for NETDEV in va vb; do check "$NETDEV's device goes" howto consumers device-down; done
howto_all_ran consumers
teardown_pair
finish
