#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# NVMe over Fabrics, the kernel's target and host both over Kiwarp, with the commands of
# Documentation/nvme.md.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=nvme.sh
. "$(dirname "$0")/nvme.sh"

PATIENCE=180

# Disconnecting is no accident: no counter and no asynchronous event may look like one.
graceful() {
	! dmesg | grep "IB QP event" &&
		! rdma statistic show | grep -E 'conn_reset [1-9]|terminates_[a-z]+ [1-9]'
}

both_active() { active kw_va && active kw_vb; }

make_wire
load_modules
howto_modprobe
modprobe brd rd_nr=1 rd_size=98304
NETDEV=va check "the target's device" howto nvme device
NETDEV=vb check "the host's device" howto nvme device
check "both ports are active" until_true 10 both_active
check "the target" howto nvme target
check "it listens" wait_listen - 4420
check_says "the host discovers it" "subnqn: +$NQN" howto nvme discover
check "the host connects" howto nvme connect
check_says "the disk appears" '96M' howto nvme find
check "random writes, verified" fio_verify rand --rw=randwrite --bs=4k --iodepth=8 --size=4m
check "the host disconnects" howto nvme disconnect
check "the disk is gone" until_true 20 no_disk
check "connect-all finds it, too" howto nvme connect-all
check "the disk is there again" until_true 20 have_disk
check "the host disconnects again" howto nvme disconnect
check "no connection ended in a reset or an error" graceful
check "the target goes" howto nvme target-down
check "nothing is left on the devices" until_true 20 nothing_left
check "the consumers' modules are unloaded" consumers_gone
NETDEV=vb check "the host's device goes" howto nvme device-down
NETDEV=va check "the target's device goes" howto nvme device-down
teardown_pair
finish
