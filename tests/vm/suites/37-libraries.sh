#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# guest: --uml --mem 1024
#
# Libraries and programs over verbs: libfabric, Open MPI, rsockets, fio, qperf, uDAPL, QEMU. Each has
# to say that it worked, and the bytes have to have gone by RDMA: some would do with TCP, too.
# ONLY: some of the parts.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/wire.sh
. "$(dirname "$0")/../lib/wire.sh"

collectives=$TOP/build/host/tests/vm/kiwarp-collectives
migrate=$TOP/tests/vm/libraries/migrate.py
port=21000

# Payload that one end has received.
received() {
	local dev sum=0
	for dev in kw_va kw_vb; do
		sum=$((sum + $(cat "/sys/class/infiniband/$dev/ports/1/hw_counters/rx_octets")))
	done
	echo "$sum"
}

# moved BYTES WHAT COMMAND...: the command states a fact; and another is that so much went by RDMA.
moved() {
	local least=$1 what=$2 before after
	shift 2
	before=$(received)
	"$@" || return
	after=$(received)
	check "$what: $least bytes went by RDMA" test $((after - before)) -ge "$least"
}

# pingpong WHAT PROVIDER ENDPOINT
pingpong() {
	local try
	# Both say "fin" at the end and wait for the other's. ofi_rxm closes a connection when it is told
	# that the peer went, and what it has not polled by then is gone: this end waits on. It looks for
	# that after a poll that found nothing, each 10 ms, which are over whenever another process ran
	# between the two: so it looks each second.
	export FI_OFI_RXM_CM_PROGRESS_INTERVAL=1000000
	for try in 1 2 3; do
		port=$((port + 1))
		pair_run "$1" "$port" - - fi_pingpong -p "$2" -e "$3" -B "$port" -I 10 -S all -c -- \
			fi_pingpong -p "$2" -e "$3" -P "$port" -I 10 -S all -c 10.1.0.1 && break
		if [[ $2 != *ofi_rxm || $pair_rc,$pair_src != @(0,hung|0,124|124,0) ]] ||
			! grep -q '^6m' "$slog" || ! grep -q '^6m' "$log"; then
			break
		fi
		note "$1: try $try: every size was exchanged, an end waits for what the other has said: $pair_rc,$pair_src"
	done
	pair_judge "$1"
}

# sharing WHAT COMMAND...: the command states a fact; and another is that somebody had a shared receive
# queue meanwhile, which is looked for all the while.
sharing() {
	local what=$1 watcher
	shift
	while [ -z "$(rdma resource show srq)" ]; do :; done &
	watcher=$!
	"$@"
	check "$what: there was a shared receive queue" gone "$watcher"
	kill "$watcher" 2>/dev/null
	wait "$watcher" 2>/dev/null
}

libfabric() {
	check_says "libfabric finds the devices" 'provider: verbs' fi_info -p verbs -d kw_va
	moved 1000000 "libfabric: verbs" pingpong "libfabric: verbs" verbs msg
	moved 1000000 "libfabric: verbs;ofi_rxm" pingpong "libfabric: verbs;ofi_rxm" 'verbs;ofi_rxm' rdm
	FI_OFI_RXM_USE_SRX=1 sharing "libfabric: verbs;ofi_rxm" \
		moved 1000000 "libfabric: verbs;ofi_rxm, shared receives" \
		pingpong "libfabric: verbs;ofi_rxm, shared receives" 'verbs;ofi_rxm' rdm
}

# Rank 0 and 2 have one end of the wire, 1 and 3 the other.
open_mpi() {
	local each=(-np 1 -x RDMAV_DRIVERS) end ranks=()
	for end in va vb va vb; do
		ranks+=("${each[@]}" -x "FI_VERBS_IFACE=$end" "$collectives" :)
	done
	unset 'ranks[-1]'
	moved 1000000 "Open MPI" check_says "Open MPI: a ring and sums" 'rank 3 of 4: 0 wrong' \
		mpirun --allow-run-as-root --oversubscribe --mca pml cm --mca mtl ofi \
		--mca mtl_ofi_provider_include 'verbs;ofi_rxm' "${ranks[@]}"
}

# What takes a program's sockets over.
rs=(env LD_PRELOAD=/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so)

# Where one end is not taken over the other's connect() is left waiting.
rsockets() {
	port=$((port + 1))
	moved 4000000 "rsockets: iperf" pair "rsockets: iperf" "$port" - - "${rs[@]}" iperf -s -P 1 -p "$port" -- \
		"${rs[@]}" iperf -c 10.1.0.1 -n 4M -p "$port"
	port=$((port + 1))
	head -c 3000000 /dev/urandom >/run/file
	start "web server" - "${rs[@]}" "$TOP/tests/vm/libraries/web.py" 10.1.0.1 "$port" /run/file
	wait_server "web server" - "$port"
	moved 3000000 "rsockets: curl" check "rsockets: curl fetches a file" \
		"${rs[@]}" curl -sS -o /run/fetched "http://10.1.0.1:$port/file"
	check "rsockets: the file is what was fetched" cmp /run/file /run/fetched
	stop "web server"
}

# What the target has refused as errors of DDP, a Send without a receive among them.
ddp_errors() { cat /sys/class/infiniband/kw_va/ports/1/hw_counters/rx_ddp_errors; }

# fio_pair VERB: the target posts a receive for every Send. iWARP has no "receiver not ready": a Send
# that finds none ends the connection. fio's source gives its target half a second to post them.
fio_pair() {
	local try before
	for try in 1 2 3; do
		port=$((port + 1))
		before=$(ddp_errors)
		pair_run "fio: $1" "$port" - - \
			fio --name=target --ioengine=rdma --port="$port" --rw=read --bs=64k --size=4m --iodepth=64 -- \
			fio --name=source --ioengine=rdma --hostname=10.1.0.1 --port="$port" --verb="$1" \
			--rw=write --bs=64k --size=4m --iodepth=8 && break
		if [ "$1" != send ] || [ "$(ddp_errors)" -eq "$before" ]; then
			break
		fi
		note "fio: send: try $try: a Send came before the target's receives"
	done
	pair_judge "fio: $1"
}

# fio_verb VERB: of the client's, which fio calls the writer in every case.
fio_verb() { moved 4000000 "fio: $1" fio_pair "$1"; }

fio_rdma() {
	fio_verb write
	fio_verb read
	fio_verb send
}

# qperf counts only what completes in its time: it tries again, with more time. Each end waits for the
# other at the end, which may still be posting. Its server tells the client the port before it listens
# there: the client is of a class that does not take the processor from the server when it wakes up.
qperf_says() { # TEST OPTION...
	local time
	for time in 1 2 4 8 16; do
		chrt --batch 0 timeout -k 5 "$TIME_LIMIT" \
			qperf -cm 1 -cp 1 -to 60 -t "$time" "${@:2}" 10.1.0.1 "$1" >/run/qperf 2>&1 &&
			grep -qE "$figure" /run/qperf && break
		tail -n 1 /run/qperf
	done
	cat /run/qperf
}

figure='(bw|latency|rate) += +[1-9]'

perf() { check_says "qperf: $*" "$figure" qperf_says "$@"; }

# Its Writes have immediates. Without -cp 1 it waits for events instead of polling. The tests with "ver"
# look at each value that an atomic operation brings back.
quick_perf() {
	local test
	extensions 1 kw_va kw_vb
	LIMIT=1200 start qperf - qperf
	wait_server qperf - 19765
	for test in rc_bw rc_lat rc_rdma_write_bw rc_rdma_write_lat rc_rdma_write_poll_lat \
		rc_rdma_read_lat rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add; do
		perf "$test"
	done
	for test in rc_lat rc_rdma_write_lat rc_rdma_read_lat rc_compare_swap_mr ver_rc_fetch_add; do
		perf "$test" -cp 0
	done
	# It polls for the first time when it has posted 1024.
	perf rc_rdma_read_bw -m 64
	stop qperf
}

udapl() {
	local end
	for end in a b; do
		echo "kiwarp-$end u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 \"v$end 0\" \"\""
	done >/run/dat.conf
	export DAT_OVERRIDE=/run/dat.conf
	start dapltest - dapltest -T S -D kiwarp-a
	wait_server dapltest - 62000
	moved 400000 "uDAPL" check_says "uDAPL: Sends, Reads and Writes, validated" 'Total RDMA Write +: +0.40 MB' \
		dapltest -T T -s 10.1.0.1 -D kiwarp-b -i 50 -V \
		client SR 4096 server SR 4096 client RR 8192 client RW 8192
	stop dapltest
}

qemu() {
	port=$((port + 1))
	moved 24000000 "QEMU" check "QEMU: a machine moves" \
		"$migrate" --address 10.1.0.1 --port "$port" --folder /run/migrate
	port=$((port + 1))
	moved 24000000 "QEMU, pinned" check "QEMU: a machine moves, its memory pinned" \
		"$migrate" --address 10.1.0.1 --port "$port" --folder /run/migrate --pin-all
}

make_wire
load_modules
for end in a b; do
	rdma link add kw_v$end type kiwarp netdev v$end || die "rdma link add"
	until_true 10 active kw_v$end || die "the port is not active"
done
for part in ${ONLY:-libfabric open_mpi rsockets fio_rdma quick_perf udapl qemu}; do
	$part
done
teardown_pair
finish
