# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# The rdma_cm examples of rdma-core, between any two addresses.

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
wildcard() { # WHERE SERVER_NS CLIENT_NS ADDR ADDR6
	pair "ucmatose to a server on every IPv4 address, $1" 7471 "$2" "$3" \
		ucmatose -C 5 -f ip -b 0.0.0.0 -- ucmatose -C 5 -f ip -s "$4"
	pair "ucmatose to a server on every IPv6 address, $1" 7471 "$2" "$3" \
		ucmatose -C 5 -f ipv6 -b :: -- ucmatose -C 5 -f ipv6 -s "$5"
}
