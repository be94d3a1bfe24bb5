#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# The rdma_cm examples of rdma-core between two namespaces, over IPv4 and IPv6, and over lo.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"

# rping asks for nothing but an address family from the address's form.
rping_pair() { # WHAT SERVER_NS CLIENT_NS ADDR ARG...
	local what=$1 sns=$2 cns=$3 addr=$4
	shift 4
	pair "$what" 7174 "$sns" "$cns" rping -s -a "$addr" "$@" -- rping -c -a "$addr" "$@"
}

examples() { # WHERE SERVER_NS CLIENT_NS ADDR FAMILY
	local where=$1 sns=$2 cns=$3 addr=$4 fam=$5
	rping_pair "rping, $where" "$sns" "$cns" "$addr" -C 20 -v -V
	rping_pair "rping with its longest messages, $where" "$sns" "$cns" "$addr" -C 3 -S 65535 -V
	pair "rdma_server and rdma_client, $where" 7471 "$sns" "$cns" \
		rdma_server -s "$addr" -- rdma_client -s "$addr"
	pair "ucmatose, $where" 7471 "$sns" "$cns" \
		ucmatose -f "$fam" -b "$addr" -C 20 -- ucmatose -f "$fam" -s "$addr" -C 20
	pair "ucmatose with 10 connections and 4 KiB messages, $where" 7471 "$sns" "$cns" \
		ucmatose -f "$fam" -b "$addr" -c 10 -C 5 -S 4096 -- \
		ucmatose -f "$fam" -s "$addr" -c 10 -C 5 -S 4096
	pair "rstream, $where" 7471 "$sns" "$cns" \
		rstream -f "$fam" -b "$addr" -S 16384 -C 20 -T v -- \
		rstream -f "$fam" -s "$addr" -S 16384 -C 20 -T v
	pair "riostream, $where" 7471 "$sns" "$cns" \
		riostream -f "$fam" -b "$addr" -S 16384 -C 20 -T v -- \
		riostream -f "$fam" -s "$addr" -S 16384 -C 20 -T v
}

# A server on every address is reached through each device and family.
wildcard() {
	pair "ucmatose to a server on every IPv4 address" 7471 a b \
		ucmatose -C 5 -f ip -b 0.0.0.0 -- ucmatose -C 5 -f ip -s 10.1.0.1
	pair "ucmatose to a server on every IPv6 address" 7471 a b \
		ucmatose -C 5 -f ipv6 -b :: -- ucmatose -C 5 -f ipv6 -s fd01::1
}

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
wildcard
[ "$DEV_TYPE" != kiwarp ] || lo_beside_others
teardown_pair
finish
