#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# A peer of another make, in Python over plain TCP: every message that is right, every message that
# is wrong, octets cut anywhere; the Terminate that comes back, the memory, the counters.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

# All cases are one program to absorb().
PATIENCE=240

setup_peer() {
	load_modules
	make_net
	link_add da a va || die "rdma link add da"
	until_true 10 active da || die "port of da is not active"
}

setup_peer
absorb peer python3 -B "$TOP/tests/interop/main.py" \
	--subject "ip netns exec a $TOP/build/host/tests/interop/kiwarp-subject" \
	--device da --address 10.1.0.1 --own 10.1.0.2 --netns b --only "${ONLY:-.}"
teardown_pair
finish
