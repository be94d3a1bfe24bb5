#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# machines_test.sh CMAKE SOURCE
#
# CMake must refuse 32-bit and big-endian machines, and say why. Exit code 77: there is no clang++,
# which compiles for all of them.
set -eu

cmake=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "FAILED: $*"
	cat "$work/log"
	exit 1
}

# Packages are built without it.
command -v clang++ >/dev/null || { echo "not tried, for want of clang++"; exit 77; }

# configure_for TARGET: for another machine, whose C library is not needed to find out what it is.
configure_for() {
	rm -rf "$work/build"
	CXX=clang++ "$cmake" -S "$source" -B "$work/build" -DKIWARP_BUILD_TESTS=OFF \
		-DCMAKE_CXX_COMPILER_TARGET="$1" -DCMAKE_SYSTEM_NAME=Linux \
		-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY >"$work/log" 2>&1
}

needs="Kiwarp needs a 64-bit little-endian machine"
for target in i686-linux-gnu arm-linux-gnueabihf aarch64_be-linux-gnu s390x-linux-gnu; do
	! configure_for $target || fail "$target was accepted"
	tr -s ' \n' '  ' <"$work/log" | grep -q "$needs; the compiler builds for" ||
		fail "$target: no clear message"
done
# What is right with the others is not to be wrong with all.
configure_for aarch64-linux-gnu || ! grep -q "$needs" "$work/log" || fail "aarch64 was refused"
echo "as expected"
