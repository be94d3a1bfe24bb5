#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# guest: --smp 1
#
# A peer of another make, in Python over plain TCP: every message that is right, every message that
# is wrong, bytes cut anywhere; the Terminate that comes back, the memory, the counters. And every
# Terminate once more, as Wireshark reads it; not with CAPTURE=0, for kernels without packet sockets.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"

# All cases are one program to absorb().
TIME_LIMIT=240

setup_peer() {
	load_modules
	make_net
	link_add da a va || die "rdma link add da"
	until_true 10 active da || die "port of da is not active"
}

# What Kiwarp sends, and the frames by which Wireshark knows an MPA connection: one of hundreds may
# have the ports of an earlier one, which only its SYN tells apart.
capture() {
	ip netns exec b tcpdump -Z root -i vb -B 32768 -s 0 -w /dev/shm/peer.pcap \
		'src host 10.1.0.1 or tcp[tcpflags] & tcp-syn != 0 or
		tcp[((tcp[12:1] & 0xf0) >> 2):4] = 0x4d504120' 2>"$OUT/tcpdump" &
	tcpdump=$!
	until_true 90 grep -q 'listening on' "$OUT/tcpdump" || die "tcpdump does not start"
}

end_capture() {
	sleep 1
	kill -INT "$tcpdump"
	wait "$tcpdump"
	cp /dev/shm/peer.pcap "$OUT/"
	check_says "the capture lost nothing" '(^|[^0-9])0 packets dropped' cat "$OUT/tcpdump"
}

modprobe -a af_packet 2>/dev/null
setup_peer
[ "${CAPTURE:-1}" = 0 ] || capture
absorb peer python3 -B -m pytest -p no:terminal -p no:cacheprovider -s "$TOP/tests/interop" \
	--subject "ip netns exec a $TOP/build/host/tests/interop/kiwarp-subject" \
	--device da --address 10.1.0.1 --own 10.1.0.2 --netns b --only "${ONLY:-.}" \
	--terminates "$OUT/terminates"
if [ "${CAPTURE:-1}" != 0 ]; then
	end_capture
	absorb "Wireshark" python3 -B "$TOP/tests/interop/tshark.py" /dev/shm/peer.pcap "$OUT/terminates"
fi
teardown_pair
finish
