#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Everything wrong that a process or a peer can do through verbs and rdma_cm: the exact errno,
# completion, event and state each time, and other connections undisturbed.
# ONLY=NAME runs the case with this name, over IPv4.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"

badinput=$TOP/build/host/tests/vm/kiwarp-badinput

# A ping that goes on beside it all, on the same two devices.
bystander() {
	LIMIT=1000 start bystander-server a rping -s -a 10.1.0.1 -p 7199 -C 100000 -V
	wait_server bystander-server a 7199 || return
	LIMIT=1000 start bystander-client b rping -c -a 10.1.0.1 -p 7199 -C 100000 -V
}

undisturbed() {
	! gone "${jobs[bystander-client]}" && ! gone "${jobs[bystander-server]}"
}


setup_pair
# A peer that says nothing is not waited for so long.
for dev in da db; do echo 10000 >/sys/class/infiniband/$dev/settings/reply_timeout_ms; done
bystander || die "no bystander"
absorb "IPv4" ip netns exec a "$badinput" --addr 10.1.0.1 ${ONLY:+--case "$ONLY"}
check "the bystander has not noticed" undisturbed
[ -n "${ONLY:-}" ] || absorb "IPv6" ip netns exec b "$badinput" --addr fd01::2
check "the bystander has not noticed" undisturbed
stop bystander-client
stop bystander-server
teardown_pair
finish
