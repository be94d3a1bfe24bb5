#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# The target's guest of 93-nvme-guests: serves until the host says bye.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=nvme.sh
. "$(dirname "$0")/nvme.sh"

PATIENCE=600
export TARGET=10.2.0.1 NETDEV=eth0

# Whoever connects to port 4421 says something; "bye" ends it.
hear_bye() {
	python3 -c '
import socket
with socket.create_server(("10.2.0.1", 4421)) as server:
    said = b""
    while said != b"bye\n":
        caller, _ = server.accept()
        with caller:
            said = caller.recv(16)
        print(said, flush=True)'
}

plug_cable 10.2.0.1/24
howto_modprobe
modprobe brd rd_nr=1 rd_size=98304 || die "no RAM disk"
check "the device" howto nvme device
check "the port is active" until_true 10 active kw_eth0
check "the target" howto nvme target
check "the host has done its work" hear_bye
check "the target goes" howto nvme target-down
check "nothing is left on the device" until_true 20 nothing_left
check "the consumers' modules are unloaded" consumers_gone
check "the device goes" howto nvme device-down
teardown_pair
finish
