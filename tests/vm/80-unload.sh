#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Processes killed at any point, interfaces removed, devices deleted and the module unloaded
# under load: whoever lives on learns it and ends, nothing hangs, nothing is left.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

traffic=$TOP/build/host/tests/vm/kiwarp-killtest
port=18700
rounds=${ROUNDS:-16}
LIMIT=600
# What kiwarp-killtest says with its exit code.
all_came_back=0 device_went=5

# load NAME: mixed traffic without end on four connections, from b to a. Sets spid and cpid, the
# two programs, and slog and clog, what they say.
load() {
	port=$((port + 1))
	start "$1 server" a "$traffic" --server 10.1.0.1 --port $port
	slog=$server_log
	wait_server "$1 server" a $port || return
	start "$1 client" b "$traffic" --client 10.1.0.1 --port $port
	clog=$server_log
	spid=$(pgrep -f "^$traffic --server .* $port$")
	cpid=''
	until_true 10 client_runs || return
}

client_runs() { cpid=$(pgrep -f "^$traffic --client .* $port$"); }

flowing() { grep -q flowing "$slog" && grep -q flowing "$clog"; }

# ends NAME CODE: the program ends by itself, in time, with that exit code.
ends() {
	local rc
	until_true 30 gone "${jobs[$1]}" || { echo "$1 does not end"; return 1; }
	await "$1"
	rc=$?
	[ $rc = "$2" ] || { echo "$1: exit code $rc, not $2"; return 1; }
}

# One of the two dies; the other gets every work request back and ends.
kill_round() { # NUMBER
	local name="kill $1" ms=$((RANDOM % 2000)) victim=client survivor=server pid log
	load "$name" || { echo "no load"; return 1; }
	# Half of the rounds hit the set-up, where there may be nothing yet to come back.
	[ $(($1 % 2)) = 0 ] || until_true 30 flowing || { echo "nothing flows"; return 1; }
	sleep "$((ms / 1000)).$(printf '%03d' $((ms % 1000)))"
	pid=$cpid log=$slog
	[ $(($1 / 2 % 2)) = 0 ] || { victim=server survivor=client pid=$spid log=$clog; }
	kill -9 "$pid"
	until_true 20 gone "${jobs["$name $victim"]}" || { echo "the $victim does not die"; return 1; }
	unset "jobs[$name $victim]"
	echo "round $1: $victim killed after $ms ms"
	if grep -q flowing "$log"; then
		ends "$name $survivor" $all_came_back
	else
		stop "$name $survivor"
	fi
}

# Nothing that user space made is left on any device: ctx 0, pd 0, cq 0, ...
nothing_held() {
	! rdma resource show | grep -qE '(pd|cq|qp|cm_id|mr|ctx|srq) [1-9]'
}

no_traffic() { ! pgrep -f "^$traffic"; }

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

# under_load WHAT SERVER_CODE CLIENT_CODE COMMAND...: with traffic flowing, COMMAND succeeds, and
# both programs end, saying so.
under_load() {
	local what=$1 scode=$2 ccode=$3
	shift 3
	load busy || not_ok "$what: the load starts"
	until_true 30 flowing || not_ok "$what: traffic flows" "$clog"
	check "$what" "$@"
	check "$what: the server learns it" ends "busy server" "$scode" || cat "$slog"
	check "$what: the client learns it" ends "busy client" "$ccode" || cat "$clog"
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
