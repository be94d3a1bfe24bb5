#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Processes killed at any point, interfaces removed, devices deleted and the module unloaded
# under load: whoever lives on learns it, nothing hangs, nothing is left.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

port=18515
rounds=${ROUNDS:-20}

# load NAME PROGRAM ARG...: traffic for a long time, from b to a; sets spid and cpid.
load() {
	local name=$1
	shift
	port=$((port + 1))
	start "$name server" a "$@" -R -F -p $port
	spid=$(child_of "${jobs["$name server"]}")
	wait_server "$name server" a $port || return
	start "$name client" b "$@" -R -F -p $port 10.1.0.1
	cpid=$(child_of "${jobs["$name client"]}")
}

# The program itself, under the timeout that guards it.
child_of() {
	local pid=$1 child
	until_true 10 pgrep -P "$pid"
	while child=$(pgrep -P "$pid"); do pid=$child; done
	echo "$pid"
}

both_gone() { gone "${jobs["$1 server"]}" && gone "${jobs["$1 client"]}"; }

forget() {
	unset "jobs[$1 server]" "jobs[$1 client]"
}

# Nothing that user space made is left on any device: ctx 0, pd 0, cq 0, ...
nothing_held() {
	! rdma resource show | grep -qE '(pd|cq|qp|cm_id|mr|ctx|srq) [1-9]'
}

flows=("ib_write_bw -b -s 65536 -D 60" "ib_read_bw -s 65536 -D 60" "ib_send_bw -b -s 4096 -D 60"
	"ib_send_lat -s 64 -D 60" "ib_read_bw -e -q 4 -s 16384 -n 1000000")

kill_round() { # NUMBER
	local flow victim=$(($1 % 3)) wait_ms=$((RANDOM % 1500))
	read -ra flow <<<"${flows[$1 % ${#flows[@]}]}"
	load "kill $1" "${flow[@]}" || { note "round $1: ${flow[*]} does not start"; return 1; }
	sleep "$((wait_ms / 1000)).$(printf '%03d' $((wait_ms % 1000)))"
	case $victim in
	0) kill -9 "$cpid" ;;
	1) kill -9 "$spid" ;;
	2) kill -9 "$cpid" "$spid" ;;
	esac
	# perftest polls for completions that never come on some paths: the other side is killed
	# too once it has had its time to see the connection go.
	until_true 3 both_gone "kill $1" || kill -9 "$cpid" "$spid" 2>/dev/null
	if ! until_true 20 both_gone "kill $1"; then
		note "round $1: ${flow[*]}, victim $victim after $wait_ms ms: a process does not die"
		return 1
	fi
	forget "kill $1"
}

kill_loop() {
	local i
	LIMIT=1000 start bystander-server a rping -s -a 10.1.0.1 -p 7199 -C 1000000 -V
	wait_server bystander-server a 7199 || not_ok "the bystander starts"
	LIMIT=1000 start bystander-client b rping -c -a 10.1.0.1 -p 7199 -C 1000000 -V
	for ((i = 0; i < rounds; i++)); do
		if ! kill_round $i >"$LOGS/kill-$i" 2>&1; then
			not_ok "kill -9, round $i" "$LOGS/kill-$i"
		fi
	done
	if gone "${jobs[bystander-client]}" || gone "${jobs[bystander-server]}"; then
		not_ok "$rounds processes killed beside it, another connection lives"
	else
		ok "$rounds processes killed beside it, another connection lives"
	fi
	stop bystander-client
	stop bystander-server
	check "all that they held is free" until_true 20 nothing_held
	pair "rping after the killing" 7174 a b rping -s -a 10.1.0.1 -C 5 -V -- \
		rping -c -a 10.1.0.1 -C 5 -V
}

# under_load WHAT COMMAND...: with traffic of three kinds running, COMMAND succeeds, and the
# programs end.
under_load() {
	local what=$1 i
	shift
	for i in 0 1 2; do
		read -ra flow <<<"${flows[i]}"
		load "flow$i" "${flow[@]}" || not_ok "$what: ${flow[*]} starts"
	done
	sleep 1
	check "$what" timeout 60 "$@"
	for i in 0 1 2; do
		until_true 5 both_gone "flow$i" || note "$what: ${flows[i]} polls on, and is killed"
		pkill -9 -f "^${flows[i]}" 2>/dev/null
		check "$what: ${flows[i]} can end" until_true 30 both_gone "flow$i"
		forget "flow$i"
	done
}

no_device() { ! rdma link show | grep -q "link $1/"; }

setup_pair
kill_loop

under_load "rdma link delete under load" rdma link delete da
check "the device is gone" until_true 10 no_device da
link_add da a va || not_ok "the device comes back"
until_true 10 active da || not_ok "its port is active"
pair "rping over the new device" 7174 a b rping -s -a 10.1.0.1 -C 5 -V -- rping -c -a 10.1.0.1 -C 5 -V

under_load "interface removed under load" ip -n a link del va
check "both devices are gone" until_true 20 no_devices
ip netns del a
ip netns del b
add_pair
pair "rping over a new pair" 7174 a b rping -s -a 10.1.0.1 -C 5 -V -- rping -c -a 10.1.0.1 -C 5 -V

load busy ib_write_bw -s 65536 -D 60
sleep 1
check_fails "rmmod is refused while programs hold the device" 'in use' rmmod "$DEV_TYPE"
check "they run on" test -d "/proc/$cpid"
kill -9 "$cpid" "$spid"
check "rmmod as soon as they were killed" until_true 20 rmmod "$DEV_TYPE"
forget busy
check "no device is left" no_devices
finish
