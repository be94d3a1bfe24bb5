#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# The verifier: random operations in both directions, every byte and every guard area checked;
# on a clean wire, on a bad one, with small and with changing MTUs. Each run mixes all operations:
# those of RFC 7306 and those through memory windows, too; half of the queue pairs share receives.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"

verify=$TOP/build/host/tests/vm/kiwarp-verify
port=18515
seed=${SEED:-$RANDOM}
# What the wire costs is paid in emulated time: TIME_LIMIT is for one run.
TIME_LIMIT=300
both=()
[ "$DEV_TYPE" = kiwarp ] || both=(--profile siw)

verifier() { # WHAT SERVER_NS CLIENT_NS ADDR WAIT ARG...
	local what=$1 sns=$2 cns=$3 addr=$4 wait=$5
	shift 5
	port=$((port + 2))
	seed=$((seed + 1))
	pair "$what (seed $seed)" $port "$sns" "$cns" \
		"$verify" --server "$addr" --port $port --wait "$wait" "${both[@]}" -- \
		"$verify" --client "$addr" --port $port --wait "$wait" "${both[@]}" --seed $seed "$@"
}

# What sends and receives has nothing to gain from segments that the wire never carries.
real_segments() {
	ip netns exec a ethtool -K va tso "$1" gso "$1" gro "$1"
	ip netns exec b ethtool -K vb tso "$1" gso "$1" gro "$1"
}

set_mtu() {
	ip -n a link set va mtu "$1"
	ip -n b link set vb mtu "$1"
}

impair() {
	tc -n a qdisc replace dev va root netem "$@" &&
		tc -n b qdisc replace dev vb root netem "$@"
}

heal() {
	tc -n a qdisc del dev va root
	tc -n b qdisc del dev vb root
}

clean_wire() {
	verifier "IPv4, events" a b 10.1.0.1 event --ops 6000
	verifier "IPv6, solicited events, 4 QPs" b a fd01::2 solicited --ops 6000 --qps 4 --max-size 64k
	verifier "IPv4, polling, the client speaks first" a b 10.1.0.1 poll --ops 6000 --max-size 32k \
		--client-first
	verifier "IPv4, 16 QPs, short messages, deep queues" a b 10.1.0.1 event --ops 20000 --qps 16 \
		--depth 256 --max-size 4k
	# A shared receive has to hold any message, so that Sends to one are short.
	verifier "IPv4, long messages" a b 10.1.0.1 event --ops 300 --max-size 16m --qps 1 \
		--without srq
	if [ "$DEV_TYPE" = kiwarp ]; then
		link_add dl - lo || not_ok "a device over lo"
		extensions 1 dl || not_ok "its extensions of RFC 7306"
		verifier "lo" - - 127.0.0.1 event --ops 6000 --max-size 64k
	fi
}

bad_wire() {
	modprobe sch_netem || die "no netem"
	check "netem: loss" impair loss 1%
	verifier "1 % of all packets lost" a b 10.1.0.1 event --ops 6000 --max-size 16k
	check "netem: reordering" impair delay 1ms reorder 25% 50%
	verifier "packets reordered" a b 10.1.0.1 event --ops 6000 --max-size 16k
	check "netem: duplication" impair duplicate 5%
	verifier "packets duplicated" b a 10.1.0.2 event --ops 6000 --max-size 16k
	real_segments off
	check "netem: all of it" impair delay 1ms loss 0.5% duplicate 2% reorder 10%
	verifier "everything at once, segments as on a wire" a b 10.1.0.1 event --ops 6000 --max-size 8k
	heal
	real_segments on
}

small_mtus() {
	local mtu
	for mtu in 256 576 9000; do
		set_mtu $mtu
		verifier "MTU $mtu" a b 10.1.0.1 event --ops 6000 --max-size 32k
	done
	set_mtu 1500
}

# Both ends of the wire change together, as they must.
mtu_dance() {
	local mtu
	while :; do
		for mtu in 1500 700 9000 1400 300; do
			set_mtu $mtu
			sleep 0.3
		done
	done
}

changing_mtu() {
	local dancer
	mtu_dance >/dev/null 2>&1 &
	dancer=$!
	verifier "the MTU changes all the time" a b 10.1.0.1 event --ops 6000 --max-size 64k
	kill $dancer
	wait $dancer 2>/dev/null
	set_mtu 1500
	verifier "and after that" a b 10.1.0.1 event --ops 6000 --max-size 64k
}

put() { # SETTING VALUE
	local dev
	for dev in da db; do echo "$2" >"/sys/class/infiniband/$dev/settings/$1"; done
}

# FPDUs that span TCP segments, as both sides have agreed to.
large_fpdus() {
	[ "$DEV_TYPE" = kiwarp ] || return
	check "larger FPDUs are agreed to" put large_fpdu 1
	check "and sent" put fpdu_max 16384
	verifier "FPDUs larger than segments" a b 10.1.0.1 event --ops 6000 --max-size 256k
	put large_fpdu 0
	put fpdu_max 0
}

setup_pair
[ "$DEV_TYPE" != kiwarp ] || check "the extensions of RFC 7306 are on" extensions 1 da db
clean_wire
large_fpdus
small_mtus
changing_mtu
bad_wire
teardown_pair
finish
