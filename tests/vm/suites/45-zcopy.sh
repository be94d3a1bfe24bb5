#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Sending without a copy (setting zcopy_min): every byte is right though consumers use their
# buffers again as soon as their work completes, on wires that lose packets too, with CRC and
# without; and at the end, whatever it is, nothing hangs and nothing is left.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/load.sh
. "$(dirname "$0")/../lib/load.sh"

verify=$TOP/build/host/tests/vm/kiwarp-verify
verify_port=18515
seed=${SEED:-$RANDOM}
TIME_LIMIT=300

setting() { cat "/sys/class/infiniband/$1/settings/$2"; }

put() { # SETTING VALUE
	local dev
	for dev in da db; do echo "$2" >"/sys/class/infiniband/$dev/settings/$1"; done
}

# count NAME: of both devices together.
count() {
	local dev sum=0
	for dev in da db; do
		sum=$((sum + $(cat "/sys/class/infiniband/$dev/ports/1/hw_counters/$1")))
	done
	echo $sum
}

# verifier WHAT [ARG]...: random operations both ways, of which the long ones are not copied: the
# counter says so, and that no CRC was wrong.
verifier() {
	local what=$1 before
	shift
	verify_port=$((verify_port + 2))
	seed=$((seed + 1))
	before=$(count tx_zcopy_octets)
	pair "$what (seed $seed)" $verify_port a b \
		"$verify" --server 10.1.0.1 --port $verify_port -- \
		"$verify" --client 10.1.0.1 --port $verify_port --seed $seed "$@"
	if [ "$(count tx_zcopy_octets)" -gt "$before" ]; then
		ok "$what: without a copy"
	else
		not_ok "$what: nothing was sent without a copy"
	fi
}

impair() {
	tc -n a qdisc replace dev va root netem "$@" &&
		tc -n b qdisc replace dev vb root netem "$@"
}

set_default() { echo "$1" >/sys/module/kiwarp/parameters/zcopy_min; }

settings() {
	check_says "nothing is sent without a copy by default" '^0$' setting da zcopy_min
	check_fails "a threshold that no message reaches" 'Invalid argument' put zcopy_min 2147483649
	check_fails "a threshold without payload" 'Invalid argument' put zcopy_min 511
	check_says "the log says what would have been possible" \
		'zcopy_min: "511" is not 0, or 512 to 2147483648' dmesg
	check "the default is a module parameter" set_default 4096
	rdma link delete da
	check "a device added later" link_add da a va
	check_says "has it" '^4096$' setting da zcopy_min
	until_true 10 active da || not_ok "its port is active"
	set_default 0
}

copied() { [ "$(count tx_zcopy_copied)" -gt 0 ]; }

bytes() {
	check "the extensions of RFC 7306 are on" extensions 1 da db
	check "all of 1 KiB and more" put zcopy_min 1024
	verifier "a clean wire" --ops 6000 --max-size 256k
	check "a receiver on this machine copies" copied
	modprobe sch_netem || die "no netem"
	check "netem: loss, duplicates, reordering" impair delay 1ms loss 1% duplicate 1% reorder 10%
	verifier "a bad wire" --ops 3000 --max-size 32k
	put crc 0
	verifier "a bad wire, no CRC" --ops 3000 --max-size 32k
	put crc 1
	tc -n a qdisc del dev va root
	tc -n b qdisc del dev vb root
}

# All four connections deregister and overwrite what they are sending from.
dereg_under_load() {
	local before
	before=$(count tx_zcopy_octets)
	load dereg --dereg 200 || not_ok "dereg: the load starts"
	check "what is sent from is deregistered: the client gets all its work back" \
		ends "dereg client" $all_came_back 90 || cat "$clog"
	check "the server, too" ends "dereg server" $all_came_back || cat "$slog"
	check_says "they did end in error" 'ended: .* [1-9][0-9]* flushed' cat "$clog"
	[ "$(count tx_zcopy_octets)" -gt "$before" ] || not_ok "dereg: all was copied"
}

kill_loop() {
	local i bad=0
	for ((i = 0; i < ${ROUNDS:-4}; i++)); do
		if ! kill_round $i >"$LOGS/kill-$i" 2>&1; then
			bad=$((bad + 1))
			not_ok "kill -9, round $i" "$LOGS/kill-$i"
			pkill -9 -f "^$traffic"
		fi
	done
	[ $bad -gt 0 ] || ok "kill -9: the survivor gets all its work back and ends"
	check "all killed processes are gone" until_true 20 no_traffic
	check "all that they held is free" until_true 20 nothing_held
}

setup_pair
settings
bytes
dereg_under_load
kill_loop
under_load "module unloaded under load" $device_went $device_went rmmod kiwarp
check "no device is left" no_devices
finish
