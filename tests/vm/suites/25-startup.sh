#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# guest: --smp 1
#
# Settings, and what MPA start-up makes of them: revisions, CRC, ready-to-receive messages,
# depths, private data, time-outs. A capture shows what was said on the wire. Kiwarp on both
# sides, siw where SIW_KO and SIW_CRC_KO name its builds, and a peer of plain sockets for what
# neither of them would ever say.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"

here=$TOP/tests/vm/startup
startup=$TOP/build/host/tests/vm/kiwarp-startup
class=/sys/class/infiniband
port=18900
TIME_LIMIT=150

setting() { cat "$class/$1/settings/$2"; }
put() { printf '%s\n' "$3" >"$class/$1/settings/$2"; }
counter() { cat "$class/$1/ports/1/hw_counters/$2"; }

# One machine, two interfaces: what goes from one to the other goes over lo.
add_devices() {
	local i
	ip link set lo up
	for i in 0 1; do
		ip link add dum$i type dummy || die "dummy"
		ip addr add 10.1.0.$((i + 1))/32 dev dum$i
		ip link set dum$i up
	done
	link_add da - dum0 || die "rdma link add da"
	link_add db - dum1 || die "rdma link add db"
	until_true 60 active da || die "port of da is not active"
	until_true 60 active db || die "port of db is not active"
}

capture() {
	tcpdump -Z root -i lo -B 32768 -s 1600 -w /dev/shm/startup.pcap tcp 2>"$OUT/tcpdump" &
	tcpdump=$!
	until_true 90 grep -q 'listening on' "$OUT/tcpdump" || die "tcpdump does not start"
}

end_capture() {
	sleep 1
	kill -INT $tcpdump
	wait $tcpdump
	check_says "the capture lost nothing" '(^|[^0-9])0 packets dropped' cat "$OUT/tcpdump"
	absorb "wire" python3 "$here/frames.py" /dev/shm/startup.pcap "$OUT/wire"
}

# suite NAME OPTION...: all that two devices can show, and what the capture says.
suite() {
	local name=$1
	shift
	capture
	absorb "$name" "$startup" --server da --server-addr 10.1.0.1 --client db \
		--client-addr 10.1.0.2 --wire "$OUT/wire" "$@"
	end_capture
}

# Module parameters are what later devices begin with.
parameters() {
	local p=/sys/module/kiwarp/parameters
	check_says "the log names what a setting would have taken" \
		'da: mpa_rev: "3" is not 0 to 2' dmesg
	check_fails "a parameter refuses what a setting does" 'Invalid argument' \
		bash -c "echo 3 >$p/mpa_rev"
	check "parameters are changed" bash -c "echo '0 2' >$p/mpa_rev_accept; echo 5 >$p/ird_max"
	ip link add dum2 type dummy
	check "a later device" link_add dc - dum2
	check "begins with them" test "$(setting dc ird_max) $(setting dc mpa_rev_accept)" = "5 0 2"
	check "those there before do not" test "$(setting db ird_max)" = 128
	rdma link delete dc
	echo "1 2" >$p/mpa_rev_accept
	echo 128 >$p/ird_max
}

established() { ss -Htn state established "( sport = :$1 )" | grep -q .; }
keepalive() { ss -Htno state established "( sport = :$port )" | grep -q 'timer:(keepalive,'; }
no_keepalive() { established "$port" && ! keepalive; }
resets() { [ "$(counter "$1" conn_reset)" -gt "$2" ]; }
all_resets() { echo $(($(counter da conn_reset) + $(counter db conn_reset))); }
more_resets() { [ "$(all_resets)" -gt "$1" ]; }

serve() { # rping on the next port, for as long as it takes
	port=$((port + 1))
	LIMIT=900 start server - rping -s -P -a 10.1.0.1 -p $port
	wait_server server - $port
}

# A peer of plain sockets that connects and then says nothing.
idle_peer() {
	python3 "$here/peer.py" idle 10.1.0.1 $port >"$OUT/idle" 2>&1 &
	idle=$!
	until_true 90 grep -q accepted "$OUT/idle" || not_ok "a peer connects" "$OUT/idle"
}

half_open() { ss -Htn state syn-recv "( sport = :$port )" | grep -q .; }
timed_out() { [ "$(counter db conn_timeouts)" -gt "$1" ]; }
timed_out_or_served() { timed_out "$1" || established "$port"; }

# What comes behind the handshake's second segment is lost: that is on its way when the wire is
# cut, unless the machine is so slow that it has arrived by then.
lose_request() {
	local before try
	before=$(counter db conn_timeouts)
	for try in 1 2 3 4 5; do
		port=$((port + 1))
		LIMIT=900 start "listener$try" - python3 "$here/peer.py" silent 10.1.0.1 "$port"
		wait_server "listener$try" - "$port"
		tc qdisc add dev lo root netem delay 4s
		LIMIT=900 start "client$try" - rping -c -I 10.1.0.2 -a 10.1.0.1 -p "$port" -C 1
		until_true 90 half_open && tc qdisc change dev lo root netem delay 4s loss 100%
		until_true 90 timed_out_or_served "$before"
		tc qdisc del dev lo root
		stop "client$try"
		stop "listener$try"
		timed_out "$before" && return
	done
	return 1
}

# With everything lost on the way, who notices?
timers() {
	local before connect reply
	put da keepalive_idle_s 0
	serve
	idle_peer
	check "without keepalive nobody asks" no_keepalive
	kill $idle
	stop server
	put da keepalive_idle_s 4
	put da keepalive_interval_s 1
	put da keepalive_probes 2
	serve
	before=$(counter da conn_reset)
	idle_peer
	check "keepalive runs" keepalive
	tc qdisc add dev lo root netem loss 100%
	check "keepalive finds that a peer has gone" until_true 90 resets da "$before"
	tc qdisc del dev lo root
	kill $idle
	stop server

	# Whose turn it is to send is anybody's guess.
	put da keepalive_idle_s 0
	put da user_timeout_ms 1500
	put db user_timeout_ms 1500
	serve
	start client - rping -c -I 10.1.0.2 -a 10.1.0.1 -p $port -C 1000000
	until_true 90 established $port || not_ok "a client connects"
	before=$(all_resets)
	tc qdisc add dev lo root netem loss 100%
	check "the user time-out finds that a peer acknowledges no more" \
		until_true 90 more_resets "$before"
	tc qdisc del dev lo root
	stop client
	stop server
	connect=$(setting db connect_timeout_ms) reply=$(setting db reply_timeout_ms)
	put db connect_timeout_ms 300000
	put db reply_timeout_ms 300000
	# The handshake takes 8 s, and must not be what fails.
	put db user_timeout_ms 15000
	check "the user time-out finds that a request is not acknowledged" lose_request
	put db connect_timeout_ms "$connect"
	put db reply_timeout_ms "$reply"
}

raw_peer() {
	local d
	for d in da db; do put $d mpa_rev_accept "0 1 2"; done
	serve
	absorb "to a listener" python3 "$here/peer.py" initiator 10.1.0.1 $port "$class/da"
	check "a real client is served all the same" \
		rping -c -I 10.1.0.2 -a 10.1.0.1 -p $port -C 3
	# A consumer that does not answer.
	put da offer_timeout_ms 2500
	pkill -STOP -f "rping -s .* -p $port"
	absorb "to a consumer that sleeps" python3 "$here/peer.py" unanswered 10.1.0.1 $port
	pkill -CONT -f "rping -s .* -p $port"
	put da offer_timeout_ms 60000
	stop server
	port=$((port + 1))
	absorb "to a client" python3 "$here/peer.py" responder 10.1.0.1 $port "$class/db" \
		"$startup" --to 10.1.0.1 --client-addr 10.1.0.2 --port $port
}

# Who is killed does not wait for a silent peer to let go.
killed() {
	local client
	port=$((port + 1))
	put db reply_timeout_ms 300000
	start listener - python3 "$here/peer.py" silent 10.1.0.1 $port
	wait_server listener - $port
	"$startup" --to 10.1.0.1 --client-addr 10.1.0.2 --port $port --outcome none &
	client=$!
	until_true 90 established $port || not_ok "a client connects"
	kill -KILL $client
	check "a process that connects to a silent peer is killed" until_true 90 gone $client
	wait $client 2>/dev/null
	stop listener
}

with_siw() { # MODULE CRC
	[ -n "$1" ] || return 0
	load_file "$1"
	link_add db - dum1 siw || die "rdma link add db"
	until_true 60 active db || die "port of db is not active"
	suite "siw" --siw "$2"
	check "rmmod siw" rmmod siw
}

modprobe -a af_packet sch_netem 2>/dev/null
load_modules
add_devices
suite "Kiwarp"
parameters
raw_peer
killed
timers
rdma link delete db
rdma link delete da
check "a device over again" link_add da - dum0
with_siw "${SIW_KO:-}" 0
with_siw "${SIW_CRC_KO:-}" 1
teardown_pair
check_fails "a wrong parameter keeps the module out" 'Invalid parameters' \
	insmod "$TOP/build/kiwarp.ko" rtr=none
finish
