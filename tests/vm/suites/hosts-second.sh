#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# The second host of 98-hosts.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/hosts.sh
. "$(dirname "$0")/../lib/hosts.sh"

export NETDEVS=eth0 TARGETS=10.2.0.1
target=$TARGETS stranger=nqn.2014-08.org.example:host3

named() { HOST=$1 howto scaling hosts-name; }

refused_by_name() { dmesg | grep "is not allowed, hostnqn: $1"; }

load() {
	fio_load load --filename="$(nvme_disk)" --allow_file_create=0 --offset="$second_area" --offset_increment=2m
	until_true 60 flows
}

# The connections are others than those that were lost.
connected_again() {
	local now
	ctrl_is "$(nvme_ctrl)/state" live && now=$(own_connections "$target") &&
		[ "$(wc -l <<<"$now")" = 2 ] && ! grep -qxFf <(echo "$before") <<<"$now"
}

plug_cable 10.2.0.2/24
howto_modprobe
check "the device" howto scaling devices
check "the port is active" until_true 10 active kw_eth0
hear_words || not_ok "the other guest can be heard"
check "the target is there" hear begin || die "there is no target"
check "a host that nobody knows" named "$stranger"
check_fails "is refused" 'failed|could not' howto scaling nvme-connect
check "for its name" refused_by_name "$stranger"
check "it has nothing" no_ctrl
check "the second host" named "${HOSTS##* }"
check "connects" howto scaling nvme-connect
check "its disk appears" until_true 20 have_disk
check "it has as many I/O queues as the target gives" one_io_queue
check "the load" load
check "its controller is reset" resets 1
before=$(own_connections "$target")
check "its connections are known" [ "$(wc -l <<<"$before")" = 2 ]
tell "$target" loaded
check "it was lost, and is back" hear back
check "it connects again" until_true 60 connected_again
check "its I/O goes on" until_true 60 flows
check "no error, no wrong checksum" fio_stop load
check "a mark for the other host" mark --rw=write
tell "$target" well
check "its name is taken away" hear refused
check "it stays connected" mark --rw=write
tell "$target" stays
check "it is refused when it connects again, and gives up" until_true 60 no_ctrl
tell "$target" "out"
check "nothing is left on the device" until_true 20 nothing_left
check "the consumer's modules are unloaded" consumers_gone
check "the device goes" howto scaling devices-down
teardown_pair
finish
