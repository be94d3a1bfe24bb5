#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# guest: --smp 1
#
# NVMe over Fabrics between Kiwarp and the in-tree siw, each as target and as host.
# SIW_KO names siw as shipped, SIW_CRC_KO the one that asks for the CRC.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/nvme.sh
. "$(dirname "$0")/../lib/nvme.sh"

TIME_LIMIT=240

# with WHAT TARGET_TYPE HOST_TYPE: devices kw_va and kw_vb, by whatever make.
with() {
	local what=$1
	check "$what: the target's device" link_add kw_va - va "$2"
	check "$what: the host's device" link_add kw_vb - vb "$3"
	check "$what: both ports are active" until_true 10 both_active
	check "$what: the target" howto nvme target
	check "$what: it listens" wait_listen - "$PORT"
	check_says "$what: the host discovers it" "subnqn: +$NQN" howto nvme discover
	check "$what: the host connects" howto nvme connect
	check "$what: I/O of all sizes" fio_nvme \
		--name=small --rw=randwrite --bs=512 --iodepth=1 --size=32k \
		--name=mixed --rw=randwrite --bsrange=4k-128k --iodepth=16 --size=4m --offset=1m \
		--name=large --rw=write --bs=1m --iodepth=8 --size=8m --offset=8m
	check "$what: the load" nvme_load load
	check "$what: two controller resets" resets 2
	check "$what: no error, no wrong checksum" fio_stop load
	check "$what: the host disconnects" howto nvme disconnect
	check "$what: the target goes" howto nvme target-down
	check "$what: nothing is left on the devices" until_true 20 nothing_left
	check "$what: the target's device goes" rdma link delete kw_va
	check "$what: the host's device goes" rdma link delete kw_vb
}

both_active() { active kw_va && active kw_vb; }

with_siw() { # MODULE NAME
	load_file "$1"
	with "target on Kiwarp, host on siw, $2" kiwarp siw
	with "target on siw, host on Kiwarp, $2" siw kiwarp
	check "rmmod siw, $2" rmmod siw
}

modprobe brd rd_nr=1 rd_size=98304 || die "no RAM disk"
make_wire
load_modules
with_siw "$SIW_KO" "siw's CRC off"
with_siw "$SIW_CRC_KO" "siw's CRC on"
check "the consumers' modules are unloaded" consumers_gone
teardown_pair
finish
