#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# guest: --smp 1
#
# Wireshark's dissectors read what Kiwarp sends: every operation, in every revision of MPA, no
# malformed frame, every CRC good, and for long messages FPDUs that start and end with TCP segments.
# One CPU: on a veth pair one's segments overtake another's, and of those tshark reads no FPDUs.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"

verify=$TOP/build/host/tests/vm/kiwarp-verify
atomics=$TOP/build/host/tests/vm/kiwarp-atomics
badinput=$TOP/build/host/tests/vm/kiwarp-badinput
# The ULPs' dissectors guess, and call malformed what is not theirs; a port may be another protocol's.
quiet=(--disable-protocol rpcordma --disable-protocol smb_direct -o tcp.try_heuristic_first:TRUE)
TIME_LIMIT=240

# What the interface sends is what a wire would carry: the stack cuts segments before the tap.
wire_segments() {
	ip netns exec a ethtool -K va tso off gso off gro off
	ip netns exec b ethtool -K vb tso off gso off gro off
}

capture() { # NAME
	pcap=/dev/shm/$1.pcap
	ip netns exec "${2:-a}" tcpdump -Z root -i "${3:-va}" -B 65536 -s 0 -w "$pcap" tcp \
		2>"$OUT/$1.tcpdump" &
	tcpdump=$!
	until_true 20 grep -q 'listening on' "$OUT/$1.tcpdump" || die "tcpdump does not start"
}

# The kernel hands frames over in blocks: wait for the last before the end.
end_capture() { # NAME
	sleep 1
	kill -INT $tcpdump
	wait $tcpdump
	check_says "$1: the capture lost nothing" '(^|[^0-9])0 packets dropped' cat "$OUT/$1.tcpdump"
	cp "$pcap" "$OUT/$1.pcap"
	captures+=("$1")
}

# tshark, emulated, needs long to start: it reads all captures as one, each an interface in it.
# The fields do not say whether a CRC is good, the text does.
read_captures() {
	local all=/dev/shm/all.pcapng
	(cd /dev/shm && mergecap -a -I none -F pcapng -w $all "${captures[@]/%/.pcap}" 2>/dev/null) ||
		die "mergecap does not merge ${captures[*]}"
	tshark -r $all "${quiet[@]}" -O iwarp_mpa,iwarp_ddp_rdmap 2>/dev/null | split_by_capture text
	tshark -r $all "${quiet[@]}" -T fields -E separator=';' -e frame.interface_id -e tcp.srcport \
		-e tcp.len -e iwarp_mpa.ulpdulength -e iwarp_rdma.opcode -e _ws.malformed \
		-e iwarp_mpa.bad_length -e tcp.analysis.retransmission -e iwarp_mpa.rev -e tcp.dstport \
		2>/dev/null | split_by_capture fields
}

# What tshark says of each capture goes to a file of its own. A frame's text begins with a line that
# ends with the interface, its fields begin with it.
split_by_capture() { # text|fields
	awk -F';' -v kind="$1" -v names="${captures[*]}" '
		BEGIN {
			number = split(names, name, " ")
			for (i = 1; i <= number; i++) printf "" >(file[i - 1] = "/dev/shm/" name[i] "." kind)
		}
		kind == "fields" { id = $1 }
		kind == "text" && /^Frame [0-9]+: .* id [0-9]+$/ { id = $0; sub(/.* /, "", id) }
		{ print >file[id] }'
}

count() { grep -c -- "$1" "/dev/shm/$2.text"; }

# Every FPDU has a good CRC, and nothing is malformed.
sound() { # NAME
	local fpdus good bad malformed
	fpdus=$(awk -F';' '$4 != "" {n += split($4, x, ",")} END {print n + 0}' "/dev/shm/$1.fields")
	good=$(count 'Good CRC32' "$1")
	bad=$(count 'Bad CRC32' "$1")
	malformed=$(awk -F';' '$6 != "" || $7 != ""' "/dev/shm/$1.fields" | wc -l)
	note "$1: $(wc -l <"/dev/shm/$1.fields") frames, $fpdus FPDUs, $good good CRCs, $bad bad"
	check "$1: there are FPDUs" test "$fpdus" -gt 0
	check "$1: every CRC is good" test "$good" = "$fpdus"
	check "$1: no CRC is bad" test "$bad" = 0
	check "$1: no frame is malformed" test "$malformed" = 0
}

# opcodes NAME CODE...: each operation occurs.
opcodes() {
	local name=$1 code seen
	shift
	seen=$(cut -d';' -f5 "/dev/shm/$name.fields" | tr ',' '\n' | sort | uniq -c |
		awk '$2 != "" {printf "%d:%d ", $2, $1}')
	note "$name: operations (opcode:number): $seen"
	for code in "$@"; do
		if [[ " $seen" == *" $((code)):"* ]]; then
			ok "$name: RDMAP opcode $code is there"
		else
			not_ok "$name: RDMAP opcode $code is there (seen: $seen)"
		fi
	done
}

# A segment is whole when the FPDUs that end in it fill it: length, ULPDU, padding, CRC.
alignment() { # NAME SERVER_PORT
	awk -F';' -v port="$2" '
		$2 != port && $10 != port { next }
		$3 > 0 && $8 == "" && started[$2] {
			data++; len = 0
			n = split($4, l, ",")
			for (i = 1; i <= n; i++) len += int((2 + l[i] + 3) / 4) * 4 + 4
			if (n > 0 && len == $3) whole++
		}
		$4 != "" { started[$2] = 1 }
		END { printf "%d %d %.1f\n", whole, data, data ? 100 * whole / data : 0 }
	' "/dev/shm/$1.fields"
}

# Sets where each was: at[PROGRAM].
long_messages() { # PROGRAM...
	local program
	capture long
	for program in "$@"; do
		pair_perftest "long: $program of 64 KiB" a b 10.1.0.1 "$program" -s 65536 -n 20 -t 8
		at[$program]=$port
	done
	end_capture long
}

read_long() { # PROGRAM...
	local program whole data share
	sound long
	for program in "$@"; do
		read -r whole data share < <(alignment long "${at[$program]}")
		note "$program: $whole of $data data segments hold whole FPDUs: $share %"
		if [ "$DEV_TYPE" = kiwarp ]; then
			check "$program: there are many segments" test "$data" -gt 500
			check "$program: 99 % of them hold whole FPDUs" test "${share%.*}" -ge 99
		fi
	done
}

mixed_operations() {
	capture mix
	pair "mix: rping" 7174 a b rping -s -a 10.1.0.1 -C 3 -- rping -c -a 10.1.0.1 -C 3
	if [ "$DEV_TYPE" = kiwarp ]; then
		pair "mix: the verifier" 18700 a b "$verify" --server 10.1.0.1 --port 18700 \
			--wait solicited -- "$verify" --client 10.1.0.1 --port 18700 --ops 400 \
			--max-size 8k --seed 7 --wait solicited --without immediates,atomics
	fi
	end_capture mix
}

read_mixed() {
	sound mix
	# Write, Read Request, Read Response, Send; and with Solicited Event. The few Sends with Invalidate
	# that end the use of a memory window are of either kind: 67-kverbs has both.
	if [ "$DEV_TYPE" = kiwarp ]; then
		opcodes mix 0 1 2 3 5
	else
		opcodes mix 0 1 2 3
	fi
}

# frames_of NAME REVISION NUMBER: start-up's frames are of this revision, and so many.
frames_of() {
	local revs
	revs=$(cut -d';' -f9 "/dev/shm/$1.fields" | grep . | sort | uniq -c | xargs)
	if [ "$revs" = "$3 $2" ]; then
		ok "$1: start-up's frames are of revision $2"
	else
		not_ok "$1: start-up's frames are of revision $2 (number and revision: $revs)"
	fi
}

# Revision 0 begins with Start Keys, which Wireshark does not know. In a copy of the capture frames of
# revision 1 stand for them; what it then reads are the FPDUs of revision 0 as they were sent.
earlier_revisions() {
	local rev dev name
	for dev in da db; do echo "0 1 2" >"$settings/$dev/settings/mpa_rev_accept"; done
	for rev in 1 0; do
		name=revision$rev
		port=$((port + 1))
		echo $rev >"$settings/db/settings/mpa_rev"
		capture $name
		pair "$name: the verifier" $port a b "$verify" --server 10.1.0.1 --port $port \
			--wait solicited -- "$verify" --client 10.1.0.1 --port $port --ops 200 \
			--max-size 8k --seed 8 --qps 1 --wait solicited --without immediates,atomics
		end_capture $name
	done
	check_says "$name: each side sends one" '^2 Start Keys' \
		"$TOP/tests/vm/lib/start_keys.py" "$pcap" /dev/shm/translated.pcap
	captures+=(translated)
	echo 2 >"$settings/db/settings/mpa_rev"
}

read_revisions() {
	local name
	check "revision0: Wireshark knows no Start Key" test "$(frames revision0)" = 0
	for name in revision1 translated; do
		frames_of $name 1 2
		sound $name
		opcodes $name 0 1 2 3 5
	done
}

# frames NAME: how many of start-up it reads
frames() { cut -d';' -f9 "/dev/shm/$1.fields" | grep -c .; }

# RFC 7306: Write with Immediate and Solicited Event, and atomic operations. tshark has no name for
# the first and reads its header alone. Of an Atomic Response it calls both fields the same.
extensions() {
	echo 1 | tee $settings/d[ab]/settings/{immediate,atomics} >/dev/null
	capture ext
	pair "ext: atomic operations" 18900 a b "$atomics" --server 10.1.0.1 --port 18900 \
		--connections 1 --count 40 -- \
		"$atomics" --client 10.1.0.1 --port 18900 --connections 1 --count 40
	end_capture ext
}

read_extensions() {
	local adds swaps
	sound ext
	opcodes ext 0 9 10 11
	adds=$(count 'OpCode: FetchAdd' ext)
	swaps=$(count 'OpCode: CmpSwap' ext)
	check "ext: it reads each FetchAdd" test "$adds" = 40
	# One that finds another value is tried again.
	check "ext: it reads each CmpSwap" test "$swaps" -ge 40
	check "ext: it reads a response to each" \
		test "$(count 'Original Request Identifier' ext)" = $((2 * (adds + swaps)))
}

# A peer's errors are answered with a Terminate that can be read.
terminates() {
	capture term a lo
	check "term: wrong STags" ip netns exec a "$badinput" --addr 10.1.0.1 --case "$1"
	end_capture term
}

read_terminates() {
	sound term
	opcodes term 7
}

port=18515
captures=()
programs=(ib_write_bw ib_send_bw ib_read_bw)
declare -A at
settings=/sys/class/infiniband
modprobe -a af_packet 2>/dev/null
setup_pair
wire_segments
mixed_operations
long_messages "${programs[@]}"
if [ "$DEV_TYPE" = kiwarp ]; then
	earlier_revisions
	terminates write-wrong-rkey
	extensions
fi
teardown_pair
read_captures
read_mixed
read_long "${programs[@]}"
if [ "$DEV_TYPE" = kiwarp ]; then
	frames_of mix 2 "$(frames mix)"
	read_revisions
	read_terminates
	read_extensions
fi
finish
