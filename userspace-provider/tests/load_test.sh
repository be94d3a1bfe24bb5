#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# load_test.sh installed|earlier-release|later-release|replaced|updated LISTER PROVIDER LIBIBVERBS LAYOUT
#
# Which devices of a made-up sysfs go to the provider. With the installed libibverbs those that are
# Kiwarp's; with a copy of it that has the name of a release before or after those of the layout
# none, and a message says why. So it is with one of an earlier release that was replaced by one of
# the layout's after the program had begun; but not if both are of the same release.
set -eu

variant=$1 lister=$2 provider=$3 libibverbs=$(realpath "$4") layout=$5
work=$(realpath "$(mktemp -d)")
trap 'rm -rf "$work"' EXIT

fail() {
	echo "FAILED: $*"
	echo "--- standard output"
	cat "$work/out"
	echo "--- standard error"
	cat "$work/err"
	exit 1
}

# device NUMBER NAME NODE_TYPE ABI_VERSION
device() {
	local uverbs=$work/sys/class/infiniband_verbs/uverbs$1 ib=$work/sys/class/infiniband/$2
	mkdir -p "$uverbs" "$ib"
	echo "$2" >"$uverbs/ibdev"
	echo "231:$1" >"$uverbs/dev"
	echo "$4" >"$uverbs/abi_version"
	echo "$3" >"$ib/node_type"
}

header=$(dirname "$0")/../../kernel/include/uapi/rdma/kiwarp-abi.h
abi=$(sed -n 's/^#define KIWARP_ABI_VERSION //p' "$header")
other=$((abi + 1))
device 0 kiwarp0 "4: RNIC" "$abi"
device 1 kiwarp_lab "4: RNIC" "$abi"
device 2 kiwarp-named-ca "1: CA" "$abi"
device 3 kiwarp-of-the-future "4: RNIC" $other
device 4 my-kiwarp "4: RNIC" "$abi"
echo 6 >"$work/sys/class/infiniband_verbs/abi_version"

first=$(sed -n 's/^#define KIWARP_PABI_FIRST //p' "$layout")
last=$(sed -n 's/^#define KIWARP_PABI_LAST //p' "$layout")
known=$work/libibverbs.so.1.14.$first.0 upgrade=()
case $variant in
installed) copy='' ;;
earlier-release | replaced) copy=$work/libibverbs.so.1.14.$((first - 1)).0 ;;
later-release) copy=$work/libibverbs.so.1.14.$((last + 1)).0 ;;
updated) copy=$known ;;
esac
# What was preloaded under a library's name is that library.
[ -z "$copy" ] || cp "$libibverbs" "$copy"
preload=$copy
case $variant in
replaced)
	preload=$work/libibverbs.so.1
	cp "$libibverbs" "$known"
	ln -s "$copy" "$preload"
	ln -s "$known" "$work/new"
	upgrade=("$work/new" "$preload" "$copy")
	;;
updated)
	cp "$libibverbs" "$work/new"
	upgrade=("$work/new" "$copy")
	;;
esac

export SYSFS_PATH=$work/sys RDMAV_DRIVERS=${provider%-rdmav*.so}
LD_PRELOAD=$preload "$lister" "${upgrade[@]}" >"$work/out" 2>"$work/err" || fail "the lister returned $?"
sort "$work/out" >"$work/sorted"

case $variant in
installed | updated)
	printf '%s\n' "kiwarp0 kiwarp iwarp" "kiwarp_lab kiwarp iwarp" >"$work/expected"
	cmp -s "$work/sorted" "$work/expected" || fail "other devices than expected"
	grep -q "kiwarp does not support the kernel ABI of $other" "$work/err" || fail "no word on the ABI"
	! grep -q libkiwarp "$work/err" || fail "the provider complained"
	;;
*)
	[ ! -s "$work/out" ] || fail "the provider took devices"
	[ "$(grep -c "libkiwarp: built for rdma-core $first" "$work/err")" = 1 ] || fail "no clear message"
	grep -qF "$copy" "$work/err" || fail "the message doesn't name the library"
	advice="rebuild the provider"
	[ "$variant" != replaced ] || advice="restart the program"
	grep -qF "$advice" "$work/err" || fail "the message doesn't say what to do"
	;;
esac
echo "$variant: as expected"
