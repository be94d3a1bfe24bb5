#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# The server's guest of 93-guests: a disk by NVMe over Fabrics, a disk by iSCSI, a folder by NFS,
# until the other guest says bye.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/guests.sh
. "$(dirname "$0")/../lib/guests.sh"

# Whoever connects to port 4421 says something; "bye" ends it.
hear_bye() {
	timeout 1200 python3 -c '
import socket
with socket.create_server(("10.2.0.1", 4421)) as server:
    said = b""
    while said != b"bye\n":
        caller, _ = server.accept()
        with caller:
            said = caller.recv(16)
        print(said, flush=True)'
}

nfs_down() { howto nfs stop && stop_rest; }

# rpcrdma is the NFS server's, ib_isert the iSCSI target's.
modules_gone() {
	consumers_gone && modprobe -r ib_isert && modprobe -r iscsi_target_mod && target_gone &&
		nfs_server_gone
}

plug_cable 10.2.0.1/24
howto_modprobe
modprobe brd rd_nr=3 rd_size=98304 || die "no RAM disks"
check "the device" howto iser device
check "the port is active" until_true 10 active kw_eth0
check "the NVMe target" howto nvme target
DISK=/dev/ram1 check "the iSCSI target" howto iser target
check "a folder to give away" make_export /dev/ram2
check "the NFS server's configuration" howto nfs configure
check "the NFS server" howto nfs start
check "the other guest has done its work" hear_bye
check "the NVMe target goes" howto nvme target-down
check "the iSCSI target goes" howto iser target-down
check "the NFS server goes" nfs_down
check "nothing is left on the device" until_true 20 nothing_left
check "the consumers' modules are unloaded" modules_gone
check "the device goes" howto nvme device-down
teardown_pair
finish
