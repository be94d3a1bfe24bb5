#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# tests/vm/trust-siw.sh ATTACK...
#
# The attacks of 72-trust on the in-tree siw: what happens, not what ought to. Some crash the kernel, so
# this is not one of the suites, and each of those takes a guest of its own:
#
#   scripts/guest --append slab_debug=FZP --env SIW_KO="$(scripts/siw)" tests/vm/trust-siw.sh again
#
# Attacks: unpublished, churn, foreign, kernel, twice, unanswered, dropped, again, answer-short,
# answer-none, answer-cut, answer-long. DEV_TYPE=kiwarp has them on Kiwarp, ROUNDS says how many rounds
# churn, twice and dropped have. For a siw with patches: scripts/siw --patch.
DEV_TYPE=${DEV_TYPE:-siw}
# shellcheck source=lib/lib.sh
. "$(dirname "$0")/lib/lib.sh"
# shellcheck source=lib/wire.sh
. "$(dirname "$0")/lib/wire.sh"

trust=("$TOP/build/host/tests/vm/kiwarp-trust" --addr 10.1.0.1 --rounds "${ROUNDS:-100}")
as_1000=(setpriv --reuid 1000 --regid 1000 --clear-groups)
as_2000=(setpriv --reuid 2000 --regid 2000 --clear-groups)
in_a=(ip netns exec a)
ktest=/sys/kernel/debug/kiwarp_ktest

# tell WHAT COMMAND...: what it prints, and its exit code. Which fact is "not ok" is for the reader.
tell() {
	local what=$1 rc
	shift
	timeout -k 5 320 "$@" </dev/null 2>&1 | sed -u "s/^/$what: /"
	rc=${PIPESTATUS[0]}
	echo "$what: exit code $rc"
}

qpn_of() { rdma resource show qp link "$1" | sed -n 's/.*lqpn \([0-9]*\) .*comm \[rdma_cm\].*/\1/p'; }

foreign() {
	local qpn in
	coproc VICTIM { "${in_a[@]}" "${as_1000[@]}" "${trust[@]}" --attack victim --port 18950 \
		>"$LOGS/victim" 2>&1; }
	# shellcheck disable=SC2153
	in=${VICTIM[1]}
	until_true 30 grep -q '# qpn' "$LOGS/victim" || die "no victim"
	qpn=$(sed -n 's/# qpn //p' "$LOGS/victim")
	tell foreign "${in_a[@]}" "${as_2000[@]}" "${trust[@]}" --attack foreign --qpn "$qpn"
	rdma resource show qp | sed -n "s/.*lqpn $qpn .* type RC state \([A-Z]*\).*/foreign: the victim's: \1/p"
	exec {in}>&-
	wait "$VICTIM_PID"
	sed 's/^/the victim: /' "$LOGS/victim"
}

# Kernel consumers live in the first network namespace.
kernel() {
	make_wire
	link_add ka - va || die "rdma link add ka"
	link_add kb - vb || die "rdma link add kb"
	until_true 10 active ka || die "port of ka is not active"
	until_true 10 active kb || die "port of kb is not active"
	load_file "${KIWARP_KO%/*}/kiwarp_ktest.ko"
	check "the kernel has a connection" sh -c "echo 1 >$ktest/hold"
	tell kernel "${as_2000[@]}" "${trust[@]}" --attack kernel --qpn "$(qpn_of kb)" \
		--accept-qpn "$(qpn_of ka)"
	rdma resource show qp | sed -n 's/^link \(k[ab]\).* type RC \(state [A-Z]*\).*comm \[rdma_cm\].*/kernel: \1 \2/p'
	check "it is closed" sh -c "echo 0 >$ktest/hold"
	check "rmmod the test module" rmmod kiwarp_ktest
}

unpublished() {
	echo 1 >/proc/sys/vm/unprivileged_userfaultfd
	attack unpublished
}

attack() { tell "$1" "${in_a[@]}" "${as_2000[@]}" "${trust[@]}" --attack "$1"; }

[ $# -gt 0 ] || { sed -n '4,13s/^# \{0,1\}//p' "$0"; exit 2; }
setup_pair
chmod 666 /dev/infiniband/*
for name; do
	case $name in
	unpublished | foreign | kernel) $name ;;
	*) attack "$name" ;;
	esac
done
pair "connections are made as ever" 7174 a b rping -s -a 10.1.0.1 -C 3 -- rping -c -a 10.1.0.1 -C 3
teardown_pair
dmesg | grep -E 'siw|WARNING|BUG|refcount_t|Poison|RIP: ' | grep -v Modules | head -n 40
finish
