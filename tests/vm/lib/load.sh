# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Traffic without end between the two sides of setup_pair, and ways to end it. To be sourced
# after lib.sh.

traffic=$TOP/build/host/tests/vm/kiwarp-killtest
port=18700
LIMIT=600
# What kiwarp-killtest says with its exit code.
all_came_back=0 device_went=5

# load NAME [CLIENT'S ARG]...: mixed traffic without end on four connections, from b to a. Sets
# spid and cpid, the two programs, and slog and clog, what they say. server_args: the server's.
server_args=()
load() {
	port=$((port + 1))
	start "$1 server" a "$traffic" --server 10.1.0.1 --port $port "${server_args[@]}"
	slog=$server_log
	wait_server "$1 server" a $port || return
	start "$1 client" b "$traffic" --client 10.1.0.1 --port $port "${@:2}"
	clog=$server_log
	spid=$(pgrep -f "^$traffic --server .* --port $port( |$)")
	cpid=''
	until_true 10 client_runs || return
}

client_runs() { cpid=$(pgrep -f "^$traffic --client .* --port $port( |$)"); }

flowing() { grep -q flowing "$slog" && grep -q flowing "$clog"; }

# ends NAME CODE [SECONDS]: the program ends by itself, in time, with that exit code.
ends() {
	local rc
	until_true "${3:-30}" gone "${jobs[$1]}" || { echo "$1 does not end"; return 1; }
	await "$1"
	rc=$?
	[ $rc = "$2" ] || { echo "$1: exit code $rc, not $2"; return 1; }
}

# One of the two dies; the other gets every work request back and ends.
kill_round() { # NUMBER
	local name="kill $1" ms=$((RANDOM % 2000)) victim=client survivor=server pid log
	load "$name" || { echo "no load"; return 1; }
	# Half of the rounds hit the set-up, where there may be nothing yet to come back.
	if [ $(($1 % 2)) = 1 ]; then
		until_true 30 flowing || { echo "nothing flows"; return 1; }
		ms=$((ms / 4))
	fi
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

# under_load WHAT SERVER_CODE CLIENT_CODE COMMAND...: with traffic flowing, COMMAND succeeds, and
# both programs end, saying so.
under_load() {
	local what=$1 scode=$2 ccode=$3 server_args=() client_args=()
	shift 3
	# Who is to learn that its device went must not end when its connections have: that may come first.
	[ "$scode" != $device_went ] || server_args=(--loop)
	[ "$ccode" != $device_went ] || client_args=(--loop)
	load busy "${client_args[@]}" || not_ok "$what: the load starts"
	until_true 30 flowing || not_ok "$what: traffic flows" "$clog"
	check "$what" "$@"
	check "$what: the server learns it" ends "busy server" "$scode" || cat "$slog"
	check "$what: the client learns it" ends "busy client" "$ccode" || cat "$clog"
}
