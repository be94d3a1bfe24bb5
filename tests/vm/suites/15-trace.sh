#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# guest: --smp 1
#
# The commands of Documentation/troubleshooting.md, and that each tracepoint shows what happened.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/howto.sh
. "$(dirname "$0")/../lib/howto.sh"

# To attach to all tracepoints takes a while in an emulated machine.
TIME_LIMIT=180
ktest=/sys/kernel/debug/kiwarp_ktest
badinput=$TOP/build/host/tests/vm/kiwarp-badinput

# block WHAT BLOCK COMMAND...: a block of the page, with a command that it is to watch.
block() {
	local what=$1 block=$2
	shift 2
	export COMMAND=$*
	check "$what" howto troubleshooting "$block"
}

# shows WHAT PATTERN: what the last block has printed.
shows() { check_says "$1" "$2" cat "$shown"; }

# Two devices of one machine: what goes from one to the other goes over lo.
add_device() { # NAME NETDEV ADDRESS
	ip link add "$2" type dummy || die "dummy"
	ip addr add "$3/32" dev "$2"
	ip link set "$2" up
	link_add "$1" - "$2" || die "rdma link add $1"
	until_true 90 active "$1" || die "port of $1 is not active"
}

load_modules
add_device da dum0 10.1.0.1
add_device db dum1 10.1.0.2
export DEV=da COMMAND=true
load_file "${KIWARP_KO%/*}/kiwarp_ktest.ko"

# A peer in the same process, which does one thing wrong.
block "all events" events "$badinput" --addr 10.1.0.1 --case write-wrong-rkey
shown=$log
for event in connection_state qp_state terminate_sent terminate_received doorbell fpdu_sent \
	fpdu_received completion mr_registered mr_deregistered; do
	shows "kw_$event is among them" "kiwarp:kw_$event\(dev: \"da\""
done

block "connections" states "$badinput" --addr 10.1.0.1 --case write-wrong-rkey
shown=$log
shows "a connection is made" \
	'dev=da .* active local=10\.1\.0\.1:[0-9]+ peer=10\.1\.0\.1:[0-9]+ CONNECTING -> AWAIT_REPLY'
shows "and accepted" 'dev=da .* passive local=.* OFFERED -> RUNNING'
shows "its queue pair goes to RTS" 'dev=da qpn=[0-9]+ INIT -> RTS'
shows "a Terminate says why it ends" 'kw_terminate_sent: dev=da qpn=[0-9]+ code=[0-9a-f]{4} \(.+\)'
shows "and arrives" 'kw_terminate_received: dev=da qpn=[0-9]+ code=[0-9a-f]{4} \(.+\)'

printf 'echo inv >%s/run\n' "$ktest" >"$OUT/command"
block "memory" memory bash "$OUT/command"
shown=$log
shows "a fast registration" 'kw_mr_registered: dev=da stag=0x[0-9a-f]+ .* fast'
shows "a consumer withdraws a region" 'kw_mr_invalidated: dev=d. stag=0x[0-9a-f]+ by=consumer result=0'
shows "a peer withdraws a region" 'kw_mr_invalidated: dev=d. stag=0x[0-9a-f]+ by=peer result=0'
shows "and may not withdraw all" 'kw_mr_invalidated: dev=d. stag=0x[0-9a-f]+ by=peer result=-[0-9]+'
shows "completions in error" 'kw_completion: .* status=WR_FLUSH_ERR'

block "the summary" summary "$badinput" --addr 10.1.0.1 --case write-wrong-rkey
shown=$log
shows "FPDUs of a send" '@fpdus\[da\]'
shows "completions in error by their status" '@errors\[da, [0-9]+, [0-9]+\]: [0-9]+'

block "the counters" counters true
shown=$log
shows "what rdma statistic knows" 'link da/1 rx_fpdus [1-9]'
shows "what has moved" '^\./terminates_sent:[1-9]'
check "a connection that is kept" sh -c "echo 1 >$ktest/hold"
block "the objects" objects true
shown=$log
shows "a queue pair" 'link da/1 lqpn [0-9]+ .*type RC state RTS'
shows "its connection's other end" 'type RC state RTS .*drv_stream open .*drv_peer 10\.1\.0\.[12]:[0-9]+'
shows "what it sends next" 'drv_tx_send_msn 1 drv_tx_read_msn [1-9]'
shows "how full its queues are" 'drv_sq_entries 128 drv_sq_posted [0-9]+ .*drv_rq_entries 128 drv_rq_posted'
shows "a completion queue" 'dev da cqn .*drv_entries 512 drv_unpolled 0 '
shows "a connection" 'link da/1 cm-idn [0-9]+ .* src-addr 10\.1\.0\.'
check "it is closed" sh -c "echo 0 >$ktest/hold"
howto_all_ran troubleshooting

check "rmmod the test module" rmmod kiwarp_ktest
teardown_pair
finish
