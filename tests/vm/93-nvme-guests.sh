#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# NVMe over Fabrics between two machines: this guest is the host, the other one the target.
# guest: --mem 1024
# peer: nvme-target.sh
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=nvme.sh
. "$(dirname "$0")/nvme.sh"

PATIENCE=240
export TARGET=10.2.0.1 NETDEV=eth0

# The other guest has set its target up, or is told that it may go.
tell_peer() { echo "$1" >"/dev/tcp/$TARGET/4421"; }

tree() { cp -r "$TOP/kernel" "$TOP/Documentation" /mnt/nvme/; }

same_tree() {
	diff -r "$TOP/kernel" /mnt/nvme/kernel && diff -r "$TOP/Documentation" /mnt/nvme/Documentation
}

plug_cable 10.2.0.2/24
howto_modprobe
check "the device" howto nvme device
check "the port is active" until_true 10 active kw_eth0
check "the other guest is there" until_true 180 tell_peer hello
check_says "the target is discovered" "subnqn: +$NQN" howto nvme discover
check "connected" howto nvme connect
check "I/O of all sizes" fio_verify \
	--name=small --rw=randwrite --bs=512 --iodepth=1 --size=32k \
	--name=mixed --rw=randwrite --bsrange=4k-128k --iodepth=16 --size=4m --offset=1m \
	--name=large --rw=write --bs=1m --iodepth=8 --size=8m --offset=8m
check "a file system" howto nvme filesystem
check "files are copied" tree
check "unmounted" howto nvme unmount
check "checked: clean" fsck.ext4 -fn "$(nvme_disk)"
check "mounted" mount "$(nvme_disk)" /mnt/nvme
check "all files are what they were" same_tree
check "unmounted again" howto nvme unmount
check "the load" fio_load load
check "two controller resets" resets 2
check "no error, no wrong checksum" fio_stop load
check "disconnected" howto nvme disconnect
check "the other guest may go" tell_peer bye
check "nothing is left on the device" until_true 20 nothing_left
check "the consumers' modules are unloaded" consumers_gone
check "the device goes" howto nvme device-down
teardown_pair
finish
