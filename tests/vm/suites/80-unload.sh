#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Processes killed at any point, interfaces removed, devices deleted and the module unloaded
# under load: whoever lives on learns it and ends, nothing hangs, nothing is left.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/load.sh
. "$(dirname "$0")/../lib/load.sh"

rounds=${ROUNDS:-8}

rping_works() { # WHERE
	pair "rping $1" 7174 a b rping -s -a 10.1.0.1 -C 5 -V -- rping -c -a 10.1.0.1 -C 5 -V
}

kill_loop() {
	local i bad=0
	start bystander-server a rping -s -a 10.1.0.1 -p 7199 -C 1000000 -V
	wait_server bystander-server a 7199 || not_ok "the bystander starts"
	start bystander-client b rping -c -a 10.1.0.1 -p 7199 -C 1000000 -V
	for ((i = 0; i < rounds; i++)); do
		if ! kill_round $i >"$LOGS/kill-$i" 2>&1; then
			bad=$((bad + 1))
			not_ok "kill -9, round $i" "$LOGS/kill-$i"
			pkill -9 -f "^$traffic"
		fi
	done
	[ $bad -gt 0 ] || ok "$rounds times kill -9: the survivor gets all its work back and ends"
	check "all killed processes are gone" until_true 20 no_traffic
	check "the bystander has not noticed" undisturbed
	stop bystander-client
	stop bystander-server
	check "all that they held is free" until_true 20 nothing_held
	rping_works "after the killing"
}

undisturbed() {
	! gone "${jobs[bystander-client]}" && ! gone "${jobs[bystander-server]}"
}

no_device() { ! rdma link show | grep -q "link $1/"; }

setup_pair
kill_loop

under_load "rdma link delete under load" $device_went $all_came_back rdma link delete da
check "the device is gone" until_true 10 no_device da
link_add da a va || not_ok "the device comes back"
until_true 10 active da || not_ok "its port is active"
rping_works "over the new device"

under_load "interface removed under load" $device_went $device_went ip -n a link del va
check "both devices are gone" until_true 20 no_devices
ip netns del a
ip netns del b
add_pair
rping_works "over a new pair"

# uverbs can take a device away from its users, so that they do not hold the module: rmmod under
# load is a removal of all devices.
under_load "module unloaded under load" $device_went $device_went rmmod "$DEV_TYPE"
check "no device is left" no_devices
finish
