#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# guest: --smp 1
#
# A module and a provider of different age, of the same version of the ABI and of another. OLD_ABI
# names the folder where scripts/old-abi has built those from before there were capability bits.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"

new=$TOP/build/libkiwarp
old=${OLD_ABI:-}/libkiwarp
next=${OLD_ABI:-}/next/libkiwarp

# What both know works, and what one does not know is refused.
together() { # WHAT
	pair "$1: rping" 7174 a b rping -s -a 10.1.0.1 -C 3 -V -- rping -c -a 10.1.0.1 -C 3 -V
	pair "$1: rping back" 7175 b a rping -s -a 10.1.0.2 -p 7175 -C 3 -V -- \
		rping -c -a 10.1.0.2 -p 7175 -C 3 -V
	absorb "$1" ip netns exec a "$TOP/build/host/tests/vm/kiwarp-refused" da
}

# Its exit code is 255 then.
no_device() { { ip netns exec a ibv_devinfo 2>&1 || true; } | grep -x 'No IB devices found'; }

other_version() {
	RDMAV_DRIVERS=$next check_says "a provider of another version says so" \
		'does not support the kernel ABI of 2 \(supports 3 to 3\) for device' ip netns exec a ibv_devices
	RDMAV_DRIVERS=$next check "and has no device" no_device
}

[ -n "${OLD_ABI:-}" ] || die "OLD_ABI names no folder"

KIWARP_KO=$OLD_ABI/kiwarp.ko setup_pair
RDMAV_DRIVERS=$new together "the old module and today's provider"
other_version
teardown_pair
for ns in a b; do ip netns del $ns; done

setup_pair
RDMAV_DRIVERS=$old together "today's module and the old provider"
other_version
teardown_pair
finish
