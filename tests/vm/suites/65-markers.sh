#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# guest: --smp 1
#
# Markers: both ways and one way, with every kind of traffic, every size, split anywhere; and
# their place in the stream and their pointers as Wireshark's dissector reads them.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"

verify=$TOP/build/host/tests/vm/kiwarp-verify
port=18515
seed=${SEED:-$RANDOM}
TIME_LIMIT=300

ask() { # DEVICE SETTING 0|1
	echo "$3" >"/sys/class/infiniband/$1/settings/$2"
}

markers() { # DA DB
	check "markers are asked for: da $1, db $2" ask da markers "$1" && ask db markers "$2"
}

verifier() { # WHAT SERVER_NS CLIENT_NS ADDR ARG...
	local what=$1 sns=$2 cns=$3 addr=$4
	shift 4
	port=$((port + 2))
	seed=$((seed + 1))
	pair "$what (seed $seed)" $port "$sns" "$cns" \
		"$verify" --server "$addr" --port $port --wait event -- \
		"$verify" --client "$addr" --port $port --wait event --seed $seed "$@"
}

set_mtu() {
	ip -n a link set va mtu "$1"
	ip -n b link set vb mtu "$1"
}

# What the interface sends is what a wire would carry, segment by segment.
wire_segments() { # on|off: segments of more than one
	ip netns exec a ethtool -K va tso "$1" gso "$1" gro "$1"
	ip netns exec b ethtool -K vb tso "$1" gso "$1" gro "$1"
}

impair() {
	tc -n a qdisc replace dev va root netem "$@" &&
		tc -n b qdisc replace dev vb root netem "$@"
}

heal() {
	tc -n a qdisc del dev va root
	tc -n b qdisc del dev vb root
}

counter() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"; }

both_ways() {
	local mtu
	markers 1 1
	verifier "IPv4" a b 10.1.0.1 --ops 3000
	verifier "IPv6, 4 QPs" b a fd01::2 --ops 3000 --qps 4 --max-size 64k
	verifier "short messages, deep queues" a b 10.1.0.1 --ops 3000 --qps 8 --depth 256 \
		--max-size 4k
	verifier "long messages" a b 10.1.0.1 --ops 100 --max-size 16m --qps 1 --without srq
	for mtu in 256 577 1499 9000; do
		set_mtu $mtu
		verifier "MTU $mtu" a b 10.1.0.1 --ops 1500 --max-size 32k
	done
	set_mtu 1500
}

one_way() {
	markers 1 0
	verifier "towards the server" a b 10.1.0.1 --ops 1500 --max-size 32k
	verifier "towards the client" b a 10.1.0.2 --ops 1500 --max-size 32k
	markers 1 1
	check "CRC is not asked for" ask da crc 0 && ask db crc 0
	verifier "without CRC" a b 10.1.0.1 --ops 1500 --max-size 32k
	ask da crc 1
	ask db crc 1
}

# A receive buffer smaller than an FPDU, and segments that end anywhere.
odd_pieces() {
	ip netns exec a sysctl -qw net.ipv4.tcp_rmem='4096 8192 16384'
	ip netns exec b sysctl -qw net.ipv4.tcp_rmem='4096 8192 16384'
	set_mtu 9000
	verifier "receive buffers smaller than two FPDUs" a b 10.1.0.1 --ops 2000 --max-size 32k
	set_mtu 1500
	modprobe -q sch_netem || die "no netem"
	wire_segments off
	impair delay 1ms loss 0.5% duplicate 2% reorder 10%
	verifier "packets lost, duplicated, reordered" a b 10.1.0.1 --ops 1500 --max-size 8k
	heal
	wire_segments on
}

perftest() { # PROGRAM ARG...
	port=$((port + 1))
	pair_perftest "$*" a b 10.1.0.1 "$@"
}

# capture NAME COMMAND...: what va carries while the command runs, segment by segment.
capture() {
	local name=$1 tcpdump
	shift
	pcap=/dev/shm/$name.pcap
	ip netns exec a tcpdump -Z root -i va -B 65536 -s 0 -w "$pcap" tcp 2>"$OUT/$name.tcpdump" &
	tcpdump=$!
	until_true 20 grep -q 'listening on' "$OUT/$name.tcpdump" || die "tcpdump does not start"
	"$@"
	# The kernel hands frames over in blocks: wait for the last before the end.
	sleep 1
	kill -INT $tcpdump
	wait $tcpdump
	check_says "$name: the capture lost nothing" '(^|[^0-9])0 packets dropped' \
		cat "$OUT/$name.tcpdump"
	cp "$pcap" "$OUT/"
}

# Every marker, pointer and CRC of mixed traffic, and where segments end.
mixed_traffic() {
	capture mix verifier "mix: the verifier" a b 10.1.0.1 --ops 500 --max-size 16k --qps 1
	check_says "mix: markers, CRCs and segments are right" '2 directions, 0 of them wrong' \
		"$TOP/tests/vm/lib/stream_check.py" "$pcap" --markers
	note "$(grep -m1 markers "$log")"
}

# Wireshark's dissector loses a marked stream when a segment holds more than one FPDU, which none
# does of messages that are sent one at a time, and when a marker stands directly behind a CRC: it
# takes that for a part of the FPDU before. So it reads the beginning of each stream, without the
# ready-to-receive message that is repeated or not, as time goes, and moves all that follows. Where one
# direction alone has markers it reads nothing of the other.
wireshark() {
	local name text=/dev/shm/text fields=/dev/shm/fields fpdus good
	local beginning='iwarp_mpa.ulpdulength && tcp.seq < 60000'
	local quiet=(--disable-protocol rpcordma --disable-protocol smb_direct
		-o tcp.try_heuristic_first:TRUE)
	local -A at
	check "nothing is sent by the clock" ask da p2p 0 && ask db p2p 0
	capture pingpong pingpongs
	ask da p2p 1
	ask db p2p 1
	tshark -r "$pcap" "${quiet[@]}" -Y "$beginning" -O iwarp_mpa >$text 2>/dev/null
	tshark -r "$pcap" "${quiet[@]}" -Y "$beginning" -T fields -E separator=';' -e tcp.stream \
		-e tcp.srcport -e tcp.seq -e iwarp_mpa.ulpdulength -e iwarp_mpa.marker_fpduptr \
		-e tcp.dstport >$fields 2>/dev/null
	for name in 11 10 01; do
		awk -F';' -v port="${at[$name]}" '$2 == port || $6 == port' $fields >$fields.$name
		read_marked "wireshark $name" $fields.$name "${at[$name]}" "${name%?}" "${name#?}"
	done
	fpdus=$(fpdus_in $fields)
	good=$(grep -c 'Good CRC32' $text)
	note "wireshark: $fpdus FPDUs, $good good CRCs"
	check "wireshark: every CRC is good" test "$good" = "$fpdus"
}

# Sets where each was: at[11], at[10], at[01].
pingpongs() {
	local name
	local -A messages=([11]=40 [10]=8 [01]=8)
	for name in 11 10 01; do
		markers "${name%?}" "${name#?}"
		perftest ib_send_lat -e -s 20000 -n "${messages[$name]}"
		at[$name]=$port
	done
}

fpdus_in() { awk -F';' '{n += split($4, x, ",")} END {print n + 0}' "$1"; }

read_marked() { # NAME FIELDS PORT DA DB
	local name=$1 fpdus
	shift
	fpdus=$(fpdus_in "$1")
	# What da asks for, the client sends: to the server's port.
	note "$name: $fpdus FPDUs, $(pointers "$@")"
	check "$name: there are many FPDUs" test "$fpdus" -gt 50
	check_says "$name: every marker agrees with the lengths" \
		'^[0-9]{2,} markers, 0 segments wrong' pointers "$@"
}

# The lengths that Wireshark reads give where FPDUs begin, and that, what their markers say. A
# segment's place in the stream is counted from the first: what is misread later may be followed by
# more that is read.
pointers() { # FIELDS PORT DA DB
	awk -F';' -v server="$2" -v to_server="$3" -v to_client="$4" '
		function fpdu(len,   first) {
			for (first = 1; len > 0; len -= 4) {
				if (marked && at % 512 == 0) {
					want = want (want == "" ? "" : ",") (first ? 0 : at - start)
					total++
					at += 4
				}
				if (first) start = at
				first = 0
				at += 4
			}
		}
		{
			d = $1 "." $2
			if (!(d in base)) base[d] = $3
			at = $3 - base[d]
			marked = $2 == server ? to_client : to_server
			want = ""
			n = split($4, l, ",")
			for (i = 1; i <= n; i++) fpdu(int((2 + l[i] + 3) / 4) * 4 + 4)
			if (want != $5) wrong++
		}
		END { printf "%d markers, %d segments wrong\n", total, wrong }' "$1"
}

captured() {
	markers 1 1
	wire_segments off
	mixed_traffic
	wireshark
	wire_segments on
}

setup_pair
check "the extensions of RFC 7306 are on" extensions 1 da db
captured
both_ways
one_way
markers 1 1
perftest ib_write_bw -s 65536 -n 200
perftest ib_read_bw -e -s 65536 -n 200
perftest ib_send_bw -e -s 65536 -n 201
perftest ib_send_lat -e -s 64 -n 200
perftest ib_write_lat -s 1000 -n 200
odd_pieces
for dev in da db; do
	check "$dev saw no marker error" test "$(counter $dev rx_marker_errors)" = 0
	check "$dev saw no CRC error" test "$(counter $dev rx_crc_errors)" = 0
done
teardown_pair
finish
