#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# guest: --smp 1
#
# Every setting that changes how bytes travel, at its ends: at both sides, and at one alone; and
# all of them at once. The verifier moves random messages both ways and checks each byte.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"

verify=$TOP/build/host/tests/vm/kiwarp-verify
class=/sys/class/infiniband
port=18515
seed=${SEED:-$RANDOM}
TIME_LIMIT=120

# put DEVICES NAME=VALUE...: NAME's value on these devices.
put() {
	local devices=$1 dev pair
	shift
	for dev in $devices; do
		for pair in "$@"; do
			echo "${pair#*=}" >"$class/$dev/settings/${pair%%=*}" || return
		done
	done
}

# As they were: remember writes down what usual puts back.
remember() {
	local path
	for path in "$class"/da/settings/*; do defaults+=("${path##*/}=$(<"$path")"); done
}
usual() { put "da db" "${defaults[@]}"; }

verifier() { # WHAT ARG...
	local what=$1
	shift
	port=$((port + 2))
	seed=$((seed + 1))
	pair "$what (seed $seed)" $port a b "$verify" --server 10.1.0.1 --port $port --wait event -- \
		"$verify" --client 10.1.0.1 --port $port --wait event --seed $seed \
		--ops 1500 --max-size 48k "$@"
}

both_sides() { # NAME=VALUE...
	check "$*" put "da db" "$@"
	verifier "$*, both sides"
}

# both_ways NAME=VALUE...: at both sides; then at the client's alone. The verifier sends both ways, so
# that a usual side meets it in either direction.
both_ways() {
	both_sides "$@"
	check "$*, one side" put da "${defaults[@]}"
	verifier "$*, one side"
	usual
}

setup_pair
# The verifier needs them on both sides; 62-extensions has them off.
check "the extensions of RFC 7306 are on" extensions 1 da db
defaults=()
remember
for each in crc=0 markers=1 fpdu_max=256 zcopy_min=512 ack_segments=0 \
	ack_segments=16 "ird_max=1 ord_max=1" mpa_rev=1 p2p=0; do
	# shellcheck disable=SC2086
	both_ways $each
done
all="markers=1 large_fpdu=1 fpdu_max=65535 zcopy_min=512 ack_segments=16 ird_max=1"
# shellcheck disable=SC2086
both_ways $all
# shellcheck disable=SC2086
both_ways $all crc=0
none="crc=0 ack_segments=0 p2p=0 mpa_rev=1"
# shellcheck disable=SC2086
both_ways $none
# A ready-to-receive message that the other side does not know is the end of a connection.
both_sides rtr=send
usual
check "the settings are what they were" test "${defaults[*]}" = \
	"$(defaults=(); remember; echo "${defaults[*]}")"
teardown_pair
finish
