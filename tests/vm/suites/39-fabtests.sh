#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# guest: --uml --mem 1024
#
# libfabric's own tests over Kiwarp: connected endpoints (provider verbs), and reliable datagrams with
# tags over them (verbs;ofi_rxm). FABTESTS names the folder where scripts/fabtests has built them.
# ONLY: some of the parts.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/wire.sh
. "$(dirname "$0")/../lib/wire.sh"

export LD_LIBRARY_PATH=$FABTESTS/lib PATH=$FABTESTS/bin:$PATH
# User-Mode Linux takes its time for each page that is touched first. With smaller buffers ofi_rxm
# touches a megabyte for each connection instead of sixteen, and shorter messages take the ways of
# the long ones: several buffers, then an RDMA Read.
export FI_OFI_RXM_BUFFER_SIZE=1024 FI_OFI_RXM_SAR_LIMIT=8192
# ofi_rxm closes a connection when it is told that the peer went, and what it has not polled by then
# is gone. It looks for that after a poll that found nothing, each 10 ms, which are over whenever
# another process ran between the two: so it looks each second.
export FI_OFI_RXM_CM_PROGRESS_INTERVAL=1000000
# Without -S the benchmarks take half a gigabyte for their longest message.
sizes=(-I 5 -S "l:1,64,4096,65536")
port=21000
TIME_LIMIT=${TIME_LIMIT_FABTESTS:-120}

# fab PROVIDER PROGRAM ARG...: a server and a client, both of which have to end well. There is another
# try for what is no fault of the device's:
# - Programs that exchange addresses or synchronize by a TCP connection (OOB is its port): the server
#   listens on that first. Its client waits a second after it has connected, and is refused if the
#   server is slower than that.
# - ofi_rxm: each end waits at the end for the other's last message. If the other has got its own and
#   goes, ofi_rxm closes the connection; vrb_ep_close() destroys the queue pair before it polls, and
#   the message is lost with it.
# fi_msg_pingpong sends its last message right after the one before, for which the peer may not have
# posted a receive: on iWARP that ends the connection. All else has been exchanged by then.
fab() {
	local what="$1: ${*:2}" program=(-p "$1" "${@:3}") try before
	for try in 1 2 3; do
		port=$((port + 1)) before=$(ddp_errors)
		pair_run "$what" "${OOB:-$port}" - - "$2" "${program[@]}" -B "$port" -s 10.1.0.1 -- \
			"$2" "${program[@]}" -P "$port" -s 10.1.0.2 10.1.0.1 && break
		if [ -n "${OOB:-}" ] && grep -qE 'ret=-111|Connection refused' "$log"; then
			note "$what: try $try: the client came before the server listened"
		elif [[ $1 == *ofi_rxm && ($pair_rc == 124 || ($pair_rc == 0 && $pair_src == hung)) ]] &&
			all_came "$log" && all_came "$slog"; then
			note "$what: try $try: all came, and one end waits for the other's last message"
		elif [ "$2" = fi_msg_pingpong ] && [ "$(ddp_errors)" -gt "$before" ] &&
			all_came "$log" && all_came "$slog"; then
			note "$what: all came, and the last message before its receive"
			ok "$what"
			return
		else
			break
		fi
	done
	pair_judge "$what"
}

# What has been refused as errors of DDP, a Send without a receive among them.
ddp_errors() {
	local count sum=0
	for count in /sys/class/infiniband/kw_v[ab]/ports/1/hw_counters/rx_ddp_errors; do
		sum=$((sum + $(cat "$count")))
	done
	echo "$sum"
}

# The last size's row of the table, or what programs without one say.
all_came() { grep -qE '^64k|GOOD: Comp|GOOD all done' "$1"; }

# In-band synchronization of connected endpoints is for devices that have "receiver not ready": the
# server answers before it posts the receive for what comes next. Here it goes by TCP.
synced() { OOB=3000 fab "$@" -b -O 10.1.0.1; }

# Programs that do so without being told.
by_tcp() { OOB=3000 fab "$@"; }

# alone PROGRAM ARG...
alone() { check "$*" "$@"; }

verbs() {
	fab verbs fi_msg
	fab verbs fi_msg_epoll
	fab verbs fi_cm_data
	synced verbs fi_msg_pingpong -v "${sizes[@]}"
	synced verbs fi_rma_bw -e msg -o write -W 8 "${sizes[@]}"
	synced verbs fi_rma_bw -e msg -o read -W 8 "${sizes[@]}"
}

rxm() {
	local rxm='verbs;ofi_rxm'
	fab "$rxm" fi_rdm_tagged_pingpong -v "${sizes[@]}"
	fab "$rxm" fi_rma_bw -e rdm -o write -v -W 8 "${sizes[@]}"
	fab "$rxm" fi_rma_bw -e rdm -o read -v -W 8 "${sizes[@]}"
	fab "$rxm" fi_rdm_tagged_bw -v -W 8 "${sizes[@]}"
	fab "$rxm" fi_inject_test -A inject -v -I 5 -S 64
	by_tcp "$rxm" fi_unexpected_msg -e rdm -I 10 -v
}

# One process each.
unit() {
	alone fi_getinfo_test -p verbs -s 10.1.0.1 10.1.0.2
	alone fi_dom_test -p verbs -n 2
	alone fi_eq_test -p verbs
	alone fi_cq_test -p verbs -L 64
	alone fi_mr_test -p verbs
	alone fi_av_test -p 'verbs;ofi_rxm' -g 10.1.0.2 -n 1 -s 10.1.0.1 -e rdm
}

make_wire
load_modules
for end in a b; do
	link_add kw_v$end - v$end || die "rdma link add"
	until_true 10 active kw_v$end || die "the port is not active"
done
for part in ${ONLY:-verbs rxm unit}; do
	$part
done
teardown_pair
finish
