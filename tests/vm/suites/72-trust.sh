#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# What a malicious process can try against the kernel and against others: queue pairs that are not
# there yet or no more, queue pairs of another user, container or of the kernel, connection requests
# that are answered more than once; and answers of a peer that is no RNIC.
# ONLY=REGEX runs the attacks whose names match. RDMA_CM_KO=FOLDER, which scripts/rdma-cm prints, has
# an iw_cm with patches/linux: there are attacks that only it withstands. In a kernel with kmemleak
# (scripts/guest --debug) without patch 0009 the attack "dropped" leaves leaks of iw_cm's.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/wire.sh
. "$(dirname "$0")/../lib/wire.sh"

trust=("$TOP/build/host/tests/vm/kiwarp-trust" --addr 10.1.0.1)
ktest=/sys/kernel/debug/kiwarp_ktest
as_1000=(setpriv --reuid 1000 --regid 1000 --clear-groups)
as_2000=(setpriv --reuid 2000 --regid 2000 --clear-groups)
in_container=(unshare --user --map-root-user --pid --fork --mount --mount-proc)
attack=(ip netns exec a "${as_2000[@]}" "${trust[@]}" --attack)

wanted() { [[ $1 =~ ${ONLY:-.} ]]; }
denied() { # DEVICE
	cat "/sys/class/infiniband/$1/ports/1/hw_counters/conn_denied" 2>/dev/null || echo 0
}

# foreign WHAT QPN PREFIX...: PREFIX runs the attacker. What it is refused is counted: a connect, an
# accept, and a connect to its own parent's.
foreign() {
	local what=$1 qpn=$2 before
	shift 2
	before=$(denied da)
	absorb "$what" ip netns exec a "$@" "${trust[@]}" --attack foreign --qpn "$qpn"
	check "$what: three are counted as denied" test $(($(denied da) - before)) = 3
}

victim() {
	local qpn in file=/sys/class/infiniband/da/settings/reply_timeout_ms before
	# What the attackers leave unanswered ends sooner.
	before=$(cat $file)
	echo 5000 >$file
	coproc VICTIM { ip netns exec a "${as_1000[@]}" "${trust[@]}" --attack victim --port 18950 \
		>"$LOGS/victim" 2>&1; }
	# shellcheck disable=SC2153
	in=${VICTIM[1]}
	until_true 30 grep -q '# qpn' "$LOGS/victim" || die "no victim"
	qpn=$(sed -n 's/# qpn //p' "$LOGS/victim")
	foreign "another user's" "$qpn" "${as_2000[@]}"
	foreign "another process's" "$qpn" "${as_1000[@]}"
	foreign "another container's" "$qpn" "${in_container[@]}"
	exec {in}>&-
	wait "$VICTIM_PID"
	check_says "the victim has not noticed" '^ok .*as it was' cat "$LOGS/victim"
	echo "$before" >$file
}

qpn_of() { rdma resource show qp link "$1" | sed -n 's/.*lqpn \([0-9]*\) .*comm \[rdma_cm\].*/\1/p'; }

# Kernel consumers live in the first network namespace.
load_ktest() {
	if ! ip link show va >/dev/null 2>&1; then make_wire; fi
	link_add ka - va || die "rdma link add ka"
	link_add kb - vb || die "rdma link add kb"
	until_true 10 active ka || die "port of ka is not active"
	until_true 10 active kb || die "port of kb is not active"
	mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
	load_file "${KIWARP_KO%/*}/kiwarp_ktest.ko"
}

kernels() {
	load_ktest
	check "the kernel has a connection" sh -c "echo 1 >$ktest/hold"
	absorb "a kernel consumer's" "${as_2000[@]}" "${trust[@]}" --attack kernel \
		--qpn "$(qpn_of kb)" --accept-qpn "$(qpn_of ka)"
	check "a kernel consumer's: both are counted as denied" test "$(denied ka) $(denied kb)" = "1 1"
	check_says "it is connected still" 'state RTS' rdma resource show qp link ka
	check "it is closed" sh -c "echo 0 >$ktest/hold"
	check "rmmod the test module" rmmod kiwarp_ktest
}

unpublished() {
	# The attack is to stop the kernel at a fault, which there are other ways to do.
	echo 1 >/proc/sys/vm/unprivileged_userfaultfd
	absorb "a queue pair not yet made" "${attack[@]}" unpublished
}

slow_start() {
	echo "0 2" >/sys/class/infiniband/da/settings/mpa_rev_accept
	echo 500 >/sys/class/infiniband/da/settings/start_timeout_ms
	absorb "a slow start-up" "${attack[@]}" slow-start
	absorb "a queue pair with a slow start-up" "${attack[@]}" slow-again
	echo 10000 >/sys/class/infiniband/da/settings/start_timeout_ms
	echo "1 2" >/sys/class/infiniband/da/settings/mpa_rev_accept
}

# Two containers, each with users, processes and a network of its own, and a device on its end of a
# veth pair.
container() { # NAME USER COMMAND...
	local user=$2
	jail=$1
	shift 2
	LIMIT=600 start "$jail" - setpriv --reuid "$user" --regid "$user" --clear-groups \
		unshare --user --map-root-user --net --pid --fork --mount --mount-proc "$@"
}

# Its first process, as seen from outside.
jailed() {
	local pid=${jobs[$1]}
	while pid=$(pgrep -oP "$pid"); do
		if ! [ "/proc/$pid/ns/pid" -ef /proc/self/ns/pid ]; then
			echo "$pid"
			return
		fi
	done
	return 1
}

in_jail() { # NAME COMMAND...
	local pid
	pid=$(jailed "$1")
	shift
	nsenter -t "$pid" -n "$@"
}

furnish() { # NAME INTERFACE ADDRESS DEVICE
	until_true 20 jailed "$1" || die "no container $1"
	ip link set "$2" netns "$(jailed "$1")"
	in_jail "$1" ip link set lo up
	in_jail "$1" ip link set "$2" up
	in_jail "$1" ip addr add "$3/24" dev "$2"
	in_jail "$1" rdma link add "$4" type "$DEV_TYPE" netdev "$2" || die "rdma link add $4"
	chmod 666 /dev/infiniband/*
}

containers() {
	local program=${trust[0]} fifo=/run/victim qpn victim_log in
	ip link add vx index 111 type veth peer name vy index 112 || die "veth"
	mkfifo -m 666 "$fifo"
	# The first line is to begin, the end of file to stop.
	container here 1000 sh -c "read -r _ <$fifo && exec \"\$@\" <$fifo" sh \
		"$program" --addr 10.2.0.1 --attack victim --port 18960
	victim_log=$server_log
	container there 2000 sleep 600
	furnish here vx 10.2.0.1 dx
	furnish there vy 10.2.0.2 dy
	until_true 20 active dx || die "port of dx is not active"
	until_true 20 active dy || die "port of dy is not active"
	exec {in}<>"$fifo"
	echo >&"$in"
	until_true 30 grep -q '# qpn' "$victim_log" || die "no victim"
	qpn=$(sed -n 's/# qpn //p' "$victim_log")
	absorb "a container with its own network" \
		nsenter -t "$(jailed there)" --user --net --pid --mount "$program" \
		--addr 10.2.0.2 --other-addr 10.2.0.1 --attack container --qpn "$qpn"
	exec {in}>&-
	await here
	check_says "the victim in another has not noticed" '^ok .*as it was' cat "$victim_log"
	stop there
}

# reload_cm MODULE...: the connection managers and kiwarp, anew and in this order, and da and db.
reload_cm() {
	local module
	check "rmmod, before ${1##*/}" rmmod kiwarp
	check "rmmod rdma_cm and iw_cm, before ${1##*/}" modprobe -r rdma_ucm rdma_cm iw_cm
	for module; do
		case $module in
		kiwarp) load_kiwarp ;;
		/*) load_file "$module" ;;
		*) modprobe "$module" || die "modprobe $module" ;;
		esac
	done
	link_add da a va || die "rdma link add da"
	link_add db b vb || die "rdma link add db"
	until_true 10 active da || die "port of da is not active"
	until_true 10 active db || die "port of db is not active"
	chmod 666 /dev/infiniband/*
}

# Revision 0: a process waits in rdma_accept() for its peer, and the device goes. rdma_cm waits for the
# process; it is loaded last here, and would be told of the device first.
gone_meanwhile() {
	reload_cm kiwarp rdma_ucm
	echo 0 >/sys/class/infiniband/da/settings/mpa_rev_accept
	echo 600000 >/sys/class/infiniband/da/settings/start_timeout_ms
	LIMIT=600 start acceptor a "${as_2000[@]}" "${trust[@]}" --attack gone
	until_true 30 grep -q '# accepting' "$server_log" || die "nobody accepts"
	check "a device goes though a process waits for its peer" ip netns exec a rdma link delete da
	check "and the process does not wait any more" await acceptor
	link_add da a va || die "rdma link add da"
	until_true 10 active da || die "port of da is not active"
}

# What iw_cm alone can withstand, with the patches.
patched() {
	reload_cm "$RDMA_CM_KO/iw_cm.ko" kiwarp "$RDMA_CM_KO/rdma_ucm.ko"
	if wanted unanswered; then
		absorb "a request of one's own" "${attack[@]}" unanswered
	fi
	if wanted stalled; then stalled; fi
	if wanted twice; then absorb "patched: a request" "${attack[@]}" twice --rounds 2; fi
}

# Somebody's handler does not return: a process holds the mutex that it takes, and does not run.
stalled() {
	load_ktest
	check "a consumer's handler does not return" sh -c "echo 1 >$ktest/stall"
	pair "others connect and disconnect meanwhile" 7175 a b \
		rping -s -a 10.1.0.1 -p 7175 -C 3 -- rping -c -a 10.1.0.1 -p 7175 -C 3
	check "it returns" sh -c "echo 0 >$ktest/stall"
	check "rmmod the test module again" rmmod kiwarp_ktest
}

setup_pair
chmod 666 /dev/infiniband/*
if wanted unpublished; then unpublished; fi
if wanted churn; then
	absorb "queue pairs come and go" "${attack[@]}" churn --rounds "${ROUNDS:-500}"
fi
if wanted foreign; then victim; fi
if wanted container; then containers; fi
if wanted kernel; then kernels; fi
if wanted twice; then absorb "a request" "${attack[@]}" twice --rounds "${ROUNDS:-5}"; fi
if wanted slow-start; then slow_start; fi
if wanted gone; then gone_meanwhile; fi
if wanted dropped; then
	absorb "a listener" "${attack[@]}" dropped --port 19000 --rounds "${ROUNDS:-100}"
fi
if wanted again; then absorb "a queue pair with two connections" "${attack[@]}" again; fi
for kind in short none cut long; do
	if wanted answer-$kind; then absorb "an answer that is none" "${attack[@]}" answer-$kind; fi
done
if [ -n "${RDMA_CM_KO:-}" ]; then patched; fi
pair "connections are made as ever" 7174 a b rping -s -a 10.1.0.1 -C 3 -- rping -c -a 10.1.0.1 -C 3
teardown_pair
finish
