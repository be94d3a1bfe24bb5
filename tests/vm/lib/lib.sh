# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# What the functional suites share. A suite is a script that scripts/guest runs in a guest of
# its own; it sources this file, states facts with check and its like, and ends with "finish".
# Output is TAP: one "ok"/"not ok" line for each fact, the plan at the end.
#
# DEV_TYPE=siw runs a suite on siw (SIW_KO names the module) where siw can do what it asks.
set -uo pipefail

DEV_TYPE=${DEV_TYPE:-kiwarp}
OUT=${OUT:-/run/kiwarp}
# A guest whose kernel is not Debian's has the module elsewhere.
KIWARP_KO=${KIWARP_KO:-$TOP/build/kiwarp.ko}
LOGS=$OUT/logs
# One command may take this long in an emulated machine before it counts as hung.
TIME_LIMIT=${TIME_LIMIT:-90}
mkdir -p "$LOGS"

passed=0 failed=0 logs=0
declare -A jobs=()

note() { printf '# %s\n' "$*"; }

ok() {
	passed=$((passed + 1))
	printf 'ok %d - %s\n' $((passed + failed)) "$1"
}

# not_ok WHAT [LOG]: with the end of LOG, so that the reason stands beside the failure.
not_ok() {
	failed=$((failed + 1))
	printf 'not ok %d - %s\n' $((passed + failed)) "$1"
	[ -z "${2:-}" ] || tail -n "${3:-25}" "$2" | cut -c1-300 | sed 's/^/#   /'
}

die() {
	note "cannot go on: $*"
	exit 1
}

new_log() {
	local name=${1//[^A-Za-z0-9.,=+_-]/_}
	logs=$((logs + 1))
	printf -v log '%s/%03d-%s' "$LOGS" "$logs" "${name:0:80}"
}

# check WHAT COMMAND...: the command succeeds, in time.
check() {
	local what=$1 rc
	shift
	new_log "$what"
	run_logged "$@"
	rc=$?
	if [ $rc = 0 ]; then
		ok "$what"
	else
		not_ok "$what (exit code $rc: $*)" "$log"
		return 1
	fi
}

# check_fails WHAT PATTERN COMMAND...: the command fails by itself, and says why.
check_fails() {
	local what=$1 pattern=$2 rc
	shift 2
	new_log "$what"
	run_logged "$@"
	rc=$?
	if [ $rc != 0 ] && [ $rc -lt 124 ] && grep -qE -- "$pattern" "$log"; then
		ok "$what"
	else
		not_ok "$what (exit code $rc, wanted failure saying /$pattern/: $*)" "$log"
		return 1
	fi
}

# check_says WHAT PATTERN COMMAND...: the command succeeds and its output matches.
check_says() {
	local what=$1 pattern=$2 rc
	shift 2
	new_log "$what"
	run_logged "$@"
	rc=$?
	if [ $rc = 0 ] && grep -qE -- "$pattern" "$log"; then
		ok "$what"
	else
		not_ok "$what (exit code $rc, wanted /$pattern/: $*)" "$log"
		return 1
	fi
}

# Functions run as they are; programs run under a time limit.
run_logged() {
	if declare -F "$1" >/dev/null 2>&1; then
		"$@" >"$log" 2>&1
	else
		timeout -k 5 "$TIME_LIMIT" "$@" >"$log" 2>&1 </dev/null
	fi
}

# until_true SECONDS COMMAND...: wait for a state that must come, looking often. What takes an idle
# machine so many seconds at most, one that does much else takes several times as long.
until_true() {
	local end=$((SECONDS + 6 * $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.05
	done
}

# grows COMMAND...: the number that it prints does, in ten seconds at most.
grows() {
	local before
	before=$("$@") && until_true 10 is_more "$before" "$@"
}

is_more() { # THAN COMMAND...
	local than=$1 now
	shift
	now=$("$@") && [ "$now" -gt "$than" ]
}

# listening NS PORT: somebody listens there. NS is a namespace's name, or - for the first one.
listening() {
	in_ns "$1" ss -Hltn "sport = :$2" | grep -q .
}

wait_listen() {
	until_true 30 listening "$1" "$2"
}

# wait_server JOB NS PORT: the same, but a server that has ended already is not waited for.
wait_server() {
	until_true 30 listening_or_gone "${jobs[$1]}" "$2" "$3" && listening "$2" "$3"
}

listening_or_gone() { listening "$2" "$3" || gone "$1"; }

in_ns() {
	local ns=$1
	shift
	if [ "$ns" = - ]; then
		"$@"
	else
		ip netns exec "$ns" "$@"
	fi
}

# start NAME NS COMMAND...: run in the background, for LIMIT seconds at most; its output goes to
# a log of its own, line by line: who is killed must have said how far it came.
start() {
	local name=$1 ns=$2
	shift 2
	new_log "$name"
	server_log=$log
	in_ns "$ns" timeout -k 5 "${LIMIT:-1200}" stdbuf -oL "$@" \
		>"$log" 2>&1 </dev/null &
	jobs[$name]=$!
}

# await NAME: the background command's exit code.
await() {
	local pid=${jobs[$1]}
	unset 'jobs[$1]'
	wait "$pid"
}

# stop NAME: for servers that do not end by themselves.
stop() {
	local pid=${jobs[$1]}
	unset 'jobs[$1]'
	pkill -P "$pid" 2>/dev/null
	kill "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
	return 0
}

# pair WHAT PORT SERVER_NS CLIENT_NS SERVER... -- CLIENT...: a server and a client of the same
# run; both must end well.
pair() {
	pair_run "$@"
	pair_judge "$1"
}

# rping_was_done LOG: when all is done rping's main thread closes the event channel that its other
# thread may ask once more, which ends the program with exit code 255 (rdma-core 44).
rping_was_done() {
	[ "$(tail -n 2 "$1" | sed 's/^[a-z]* //' | tr '\n' ' ')" = \
		"DISCONNECT EVENT... rdma_get_cm_event: Bad file descriptor " ] &&
		! grep -qE 'wait for|error|fail' "$1"
}

# pair_run, as pair: the run alone. Sets log, slog and what pair_judge is to say; succeeds if both
# ended well.
pair_run() {
	local what=$1 port=$2 server_ns=$3 client_ns=$4 server=()
	shift 4
	while [ "$1" != -- ]; do
		server+=("$1")
		shift
	done
	shift
	pair_client=$* pair_rc=0 pair_src=0
	start "$what, server" "$server_ns" "${server[@]}"
	slog=$server_log
	new_log "$what, client"
	if wait_server "$what, server" "$server_ns" "$port"; then
		in_ns "$client_ns" timeout -k 5 "$TIME_LIMIT" stdbuf -oL "$@" >"$log" 2>&1 </dev/null ||
			pair_rc=$?
	else
		echo "the server does not listen on port $port" >"$log"
		pair_rc=255
	fi
	[ $pair_rc != 255 ] || ! rping_was_done "$log" || pair_rc=0
	[ $pair_rc = 0 ] && until_true 20 gone "${jobs["$what, server"]}"
	if gone "${jobs["$what, server"]}"; then
		await "$what, server" || pair_src=$?
	else
		stop "$what, server"
		pair_src=hung
	fi
	[ $pair_rc = 0 ] && [ $pair_src = 0 ]
}

pair_judge() { # WHAT
	if [ "$pair_rc" = 0 ] && [ "$pair_src" = 0 ]; then
		ok "$1"
	else
		not_ok "$1 (client's exit code $pair_rc, server's $pair_src: $pair_client)"
		said "$log" client
		said "$slog" server
		return 1
	fi
}

# said LOG WHO: its end, and before it the lines that name an error: a program may say why it gives
# up before it prints what state it was in.
said() {
	{
		head -n -12 "$1" | grep -m 4 -iE 'fail|error|event|mismatch|differ'
		tail -n 12 "$1"
	} | cut -c1-300 | sed "s/^/#   $2: /"
}

# pair_perftest WHAT SERVER_NS CLIENT_NS ADDRESS PROGRAM ARG...: a pair of perftest's, which are to
# use rdma_cm, on the port after $port.
#
# With -R they connect twice, and between the two the server does not listen. A client that is
# faster than it is refused (siw says so at once, Kiwarp by an event) and, other than the first time,
# does not try again but crashes. It gets another try of ours; any other failure does not. The kernel
# is not to report the crash, which would fail the run: of this pair both exit codes are judged.
pair_perftest() {
	local what=$1 server_ns=$2 client_ns=$3 address=$4 try report=/proc/sys/debug/exception-trace
	shift 4
	# User-Mode Linux has none.
	[ ! -e $report ] || echo 0 >$report
	for try in 1 2 3 4 5; do
		port=$((port + 1))
		pair_run "$what" $port "$server_ns" "$client_ns" "$@" -R -F -p $port -- \
			"$@" -R -F -p $port "$address" && break
		grep -qE 'RDMA_CM_EVENT_REJECTED; error: -111|^ERRNO: Connection refused' "$log" ||
			break
		note "$what: try $try: perftest's client came before its server listened again"
	done
	[ ! -e $report ] || echo 1 >$report
	pair_judge "$what"
}

# absorb PREFIX COMMAND...: a program that prints TAP itself; its facts become this suite's.
absorb() {
	local prefix=$1 line rc
	shift
	new_log "$prefix"
	timeout -k 5 $((TIME_LIMIT * 4)) "$@" 2>&1 </dev/null | tee "$log" |
		"$TOP/scripts/tap" --facts >"$log.facts"
	rc=${PIPESTATUS[0]}
	while IFS= read -r line; do
		case $line in
		+*) ok "$prefix: ${line#+}" ;;
		-*) not_ok "$prefix: ${line#-}" ;;
		'#'*) note "${line#'#'}" ;;
		esac
	done <"$log.facts"
	if [ "$rc" -gt 1 ] || ! grep -q '^[+-]' "$log.facts"; then
		not_ok "$prefix ends well (exit code $rc: $*)" "$log"
	fi
}

gone() { ! kill -0 "$1" 2>/dev/null; }

# unfolded COMMAND...: what it prints, one line for each that is not indented. rdma breaks the lines of an
# object's details, or does not, as its release has it.
unfolded() {
	"$@" | awk '/^[^ \t]/ { if (l) print l; l = "" }
		{ sub(/^[ \t]+/, ""); l = l $0 } END { if (l) print l }'
}

load_modules() {
	modprobe -a ib_uverbs rdma_ucm iw_cm || die "modprobe"
	case $DEV_TYPE in
	kiwarp) load_kiwarp ;;
	siw) load_siw ;;
	esac
}

# KIWARP_PARAMS: other defaults of settings, for the whole suite.
load_kiwarp() {
	# shellcheck disable=SC2086
	load_file "$KIWARP_KO" ${KIWARP_PARAMS:-}
	use_provider
}

load_siw() { load_file "$SIW_KO"; }

# load_file FILE [PARAMETER]...: insmod, after the modules that it leans on.
load_file() {
	local needs
	IFS=, read -ra needs < <(modinfo -F depends "$1")
	# A kernel that has all of them built in leaves none to name.
	[ ${#needs[@]} = 0 ] || modprobe -a "${needs[@]}" || die "modprobe ${needs[*]}"
	insmod "$@" || die "insmod $*"
}

# The test module, for its exporter of dma-bufs, in EXPORTER. Programs in a network namespace see it:
# "ip netns exec" mounts another /sys.
load_exporter() {
	load_file "${KIWARP_KO%/*}/kiwarp_ktest.ko"
	mkdir -p "$OUT/debugfs"
	mount -t debugfs none "$OUT/debugfs" || die "debugfs"
	EXPORTER=$OUT/debugfs/kiwarp_ktest/exporter
	[ -e "$EXPORTER" ] || die "no exporter of dma-bufs"
}

unload_exporter() {
	! mountpoint -q "$OUT/debugfs" || umount "$OUT/debugfs"
	rmmod kiwarp_ktest
}

use_provider() { export RDMAV_DRIVERS=$TOP/build/libkiwarp; }

# ip_batch [OPTION]...: ip's commands from the input; one that fails does not stop the others.
ip_batch() { ip "$@" -force -batch -; }

# Two namespaces a and b, joined by va and vb. rdma_cm tells interfaces by number across
# namespaces, so the numbers differ.
make_net() {
	local mtu=${1:-1500}
	ip netns add a || die "ip netns"
	ip netns add b || die "ip netns"
	ip link add va index 101 mtu "$mtu" netns a type veth \
		peer name vb index 102 mtu "$mtu" netns b || die "veth"
	end_of_net a 1
	end_of_net b 2
}

end_of_net() { # NS NUMBER
	ip_batch -n "$1" <<-EOF
		addr add 10.1.0.$2/24 dev v$1
		addr add fd01::$2/64 dev v$1 nodad
		link set lo up
		link set v$1 up
	EOF
}

# card NUMBER: what one of the cards of "scripts/guest --wire" is called, by the address that it gives them.
card() { ip -br link | awk -v address="52:54:00:00:01:0$1" '$3 == address { print $1; found = 1 } END { exit !found }'; }

# link_add NAME NS NETDEV [TYPE]
link_add() {
	in_ns "$2" rdma link add "$1" type "${4:-$DEV_TYPE}" netdev "$3"
}

# The usual set-up: module, namespaces, devices da and db.
setup_pair() {
	load_modules
	add_pair "$@"
}

add_pair() {
	make_net "${1:-1500}"
	link_add da a va || die "rdma link add da"
	link_add db b vb || die "rdma link add db"
	until_true 10 active da || die "port of da is not active"
	until_true 10 active db || die "port of db is not active"
}

# extensions 0|1 DEVICE...: those of RFC 7306.
extensions() {
	local value=$1 dev
	shift
	for dev; do
		echo "$value" | tee "/sys/class/infiniband/$dev"/settings/{immediate,atomics} >/dev/null ||
			return
	done
}

active() { active_in - "$1"; }

# A device as a namespace sees it, or with - the first one.
active_in() { in_ns "$1" rdma link show "$2/1" | grep -q 'state ACTIVE'; }
seen_in() { in_ns "$1" rdma link show | grep -q "link $2/"; }
unseen_in() { ! seen_in "$@"; }

# Unload what was loaded: a module that cannot go, or leaves something, is a failure.
teardown_pair() {
	local module=${1:-$DEV_TYPE}
	check "rmmod $module with no user" rmmod "$module"
	check "no device is left" no_devices
}

no_devices() { [ -z "$(ls /sys/class/infiniband)" ]; }

finish() {
	local name
	for name in "${!jobs[@]}"; do stop "$name"; done
	printf '1..%d\n# %d passed, %d failed\n' $((passed + failed)) $passed $failed
	[ $failed = 0 ] && [ $passed -gt 0 ]
	exit
}
