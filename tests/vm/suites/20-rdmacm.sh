#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# The rdma_cm examples of rdma-core between two namespaces, over IPv4 and IPv6, and over lo.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/examples.sh
. "$(dirname "$0")/../lib/examples.sh"

# siw has no address to be found by on lo.
over_lo() {
	check "a device over lo" link_add dl - lo
	until_true 10 active dl || not_ok "its port is active"
	examples "lo, IPv4" - - 127.0.0.1 ip
	examples "lo, IPv6" - - ::1 ipv6
	check "delete it" rdma link delete dl
}

# rdma_cm takes a loopback address for one of its first active device, whatever that lies over.
lo_beside_others() {
	check "a device over lo beside others" link_add dl - lo
	until_true 10 active dl || not_ok "its port is active"
	rping_pair "rping over lo beside other devices, IPv4" - - 127.0.0.1 -C 5 -V
	rping_pair "rping over lo beside other devices, IPv6" - - ::1 -C 5 -V
}

load_modules
[ "$DEV_TYPE" != kiwarp ] || over_lo
add_pair
examples "two namespaces, IPv4" a b 10.1.0.1 ip
examples "two namespaces, IPv6" b a fd01::2 ipv6
wildcard "two namespaces" a b 10.1.0.1 fd01::1
[ "$DEV_TYPE" != kiwarp ] || lo_beside_others
teardown_pair
finish
