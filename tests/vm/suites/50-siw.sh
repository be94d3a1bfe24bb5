#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Kiwarp and the in-tree siw talk to each other, each as client and as server, with siw's
# CRC off (as shipped) and on: rping, the examples, perftest and the verifier.
# SIW_KO and SIW_CRC_KO name the two builds of siw, SIW_GSO_KO one that agrees to FPDUs larger than
# a TCP segment.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"

verify=$TOP/build/host/tests/vm/kiwarp-verify
port=18515
# Odd counts: see 30-perftest.sh.
TIME_LIMIT=120

# Kiwarp's device is in namespace a (10.1.0.1), siw's in b (10.1.0.2).
address() { case $1 in a) echo 10.1.0.1 ;; b) echo 10.1.0.2 ;; esac; }

perf() { # WHO SERVER_NS CLIENT_NS PROGRAM ARG...
	local who=$1 sns=$2 cns=$3
	shift 3
	pair_perftest "$who: $*" "$sns" "$cns" "$(address "$sns")" "$@"
}

# A server on all addresses listens on both devices, one after the other, each with a socket in
# the server's namespace: the one that clients reach is bound to the interface there.
listening() {
	in_ns "$1" ss -Hltn "sport = :$2" | grep -qE "%v$1:|10\.1\.0\."
}

profile() { case $1 in a) echo full ;; b) echo siw ;; esac; }

crc_errors() { dmesg | grep -c "siw: .*crc error"; }

# siw's end of a connection fails by itself now and then, on a busy machine: it cannot send a Read
# Response (an event), or finds a wrong CRC (in the log). The same traffic between two devices of
# Kiwarp (40-verifier) never does. So that is tried once more, and told.
siw_failed() { # SIW'S-LOG CRC-ERRORS-BEFORE
	grep -q "invalid request local work queue error" "$1" || [ "$(crc_errors)" -gt "$2" ]
}

verify_once() { # WHO SERVER_NS CLIENT_NS ARG...
	local who=$1 sns=$2 cns=$3
	shift 3
	port=$((port + 2))
	pair_run "$who: verifier $*" $port "$sns" "$cns" \
		"$verify" --server "$(address "$sns")" --port $port --profile "$(profile "$sns")" -- \
		"$verify" --client "$(address "$sns")" --port $port --profile "$(profile "$cns")" "$@"
}

verifier() { # WHO SERVER_NS CLIENT_NS ARG...
	local before siws
	before=$(crc_errors)
	if ! verify_once "$@"; then
		siws=$log
		[ "$2" = a ] || siws=$slog
		if siw_failed "$siws" "$before"; then
			note "$1: once more: siw failed: $(grep -h "^event" "$siws" | paste -sd';')"
			verify_once "$@"
		fi
	fi
	pair_judge "$1: verifier ${*:4}"
}

one_way() { # WHO SERVER_NS CLIENT_NS [short]
	local who=$1 sns=$2 cns=$3 addr verb
	addr=$(address "$2")
	pair "$who: rping" 7174 "$sns" "$cns" rping -s -a "$addr" -C 20 -V -- \
		rping -c -a "$addr" -C 20 -V
	pair "$who: rping with its longest messages" 7174 "$sns" "$cns" \
		rping -s -a "$addr" -C 3 -S 65535 -V -- rping -c -a "$addr" -C 3 -S 65535 -V
	[ "${4:-}" != short ] || {
		verifier "$who" "$sns" "$cns" --ops 3000 --max-size 256k --seed 1
		return
	}
	pair "$who: rdma_server and rdma_client" 7471 "$sns" "$cns" rdma_server -s "$addr" -- \
		rdma_client -s "$addr"
	pair "$who: ucmatose" 7471 "$sns" "$cns" ucmatose -b "$addr" -c 5 -C 10 -- \
		ucmatose -s "$addr" -c 5 -C 10
	pair "$who: rstream" 7471 "$sns" "$cns" rstream -f ip -b "$addr" -S 16384 -C 20 -T v -- \
		rstream -f ip -s "$addr" -S 16384 -C 20 -T v
	for verb in write read send; do
		perf "$who" "$sns" "$cns" ib_${verb}_bw -s 65536 -n 51
		perf "$who" "$sns" "$cns" ib_${verb}_lat -s 64 -n 100
	done
	verifier "$who" "$sns" "$cns" --ops 3000 --max-size 256k --seed 1
	verifier "$who" "$sns" "$cns" --ops 5000 --max-size 16k --seed 2
}

# Not -a, and -b not without -Q: see 30-perftest.sh.
sizes() { # WHO SERVER_NS CLIENT_NS
	local size verb n
	for size in 2 1048576; do
		n=$((size < 1048576 ? 11 : 5))
		for verb in write read send; do
			perf "$1" "$2" "$3" ib_${verb}_bw -s $size -n $n
		done
		perf "$1" "$2" "$3" ib_send_bw -b -s $size -n $n -t $n -Q $n
	done
}

with_siw() { # MODULE NAME [sizes|short]
	load_file "$1"
	link_add db b vb siw || die "rdma link add db"
	until_true 10 active db || die "port of db is not active"
	one_way "Kiwarp serves siw, $2" a b "${3:-}"
	one_way "siw serves Kiwarp, $2" b a "${3:-}"
	if [ "${3:-}" = sizes ]; then
		sizes "Kiwarp serves siw, $2" a b
		sizes "siw serves Kiwarp, $2" b a
	fi
	check "rmmod siw, $2" rmmod siw
}

counter() { cat "/sys/class/infiniband/da/ports/1/hw_counters/$1"; }

# Kiwarp's counters grow by FPDUs that no segment could hold.
large_ones() { # tx|rx
	local dir=$1 fpdus bytes
	fpdus=$(counter "${dir}_fpdus") bytes=$(counter "${dir}_octets")
	[ $((bytes - bytes_before)) -gt $(((fpdus - fpdus_before) * 4096)) ]
}

large_way() { # WHO SERVER_NS CLIENT_NS DIRECTION
	local who=$1 sns=$2 cns=$3 dir=$4 fpdus_before bytes_before
	fpdus_before=$(counter "${dir}_fpdus") bytes_before=$(counter "${dir}_octets")
	perf "$who" "$sns" "$cns" ib_write_bw -s 65536 -n 51
	check "$who: the FPDUs are larger than segments" large_ones "$dir"
}

# FPDUs larger than segments, which both sides have to announce.
large() { # MODULE
	load_file "$1"
	link_add db b vb siw || die "rdma link add db"
	until_true 10 active db || die "port of db is not active"
	echo 1 >/sys/class/infiniband/da/settings/large_fpdu
	large_way "large FPDUs from siw" a b rx
	verifier "large FPDUs from siw" a b --ops 3000 --max-size 256k --seed 3
	# Large Sends among other traffic make siw report a wrong CRC once in a few runs. With Kiwarp
	# to receive them (40-verifier) there never is one.
	echo 16384 >/sys/class/infiniband/da/settings/fpdu_max
	large_way "large FPDUs to siw" b a tx
	echo 0 >/sys/class/infiniband/da/settings/large_fpdu
	echo 0 >/sys/class/infiniband/da/settings/fpdu_max
	check "rmmod siw, large FPDUs" rmmod siw
}

load_modules
make_net
link_add da a va || die "rdma link add da"
until_true 10 active da || die "port of da is not active"
with_siw "$SIW_KO" "siw's CRC off" sizes
with_siw "$SIW_CRC_KO" "siw's CRC on" short
large "$SIW_GSO_KO"
teardown_pair
finish
