#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# configure_test.sh CMAKE SOURCE LIBIBVERBS
#
# CMake must refuse a libibverbs that calls itself another release, and say what it knows.
set -eu

cmake=$1 source=$2 libibverbs=$(realpath "$3")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "FAILED: $*"
	cat "$work/log"
	exit 1
}

# configure VERSION
configure() {
	mkdir -p "$work/lib"
	ln -sfn "$libibverbs" "$work/lib/libibverbs.so"
	cat >"$work/lib/libibverbs.pc" <<-END
		libdir=$work/lib
		Name: IB verbs
		Description: a stand-in
		Version: $1
		Libs: -L\${libdir} -libverbs
	END
	rm -rf "$work/build"
	PKG_CONFIG_PATH=$work/lib "$cmake" -S "$source" -B "$work/build" \
		-DKIWARP_BUILD_TESTS=OFF >"$work/log" 2>&1
}

configure 1.14.44.3 || fail "a patch level of the known release was refused"
for version in 1.14.45.0 50.0; do
	! configure $version || fail "$version was accepted"
	# CMake breaks lines where it likes.
	tr -s ' \n' '  ' <"$work/log" >"$work/line"
	grep -q "libibverbs $version .* is not one whose structures Kiwarp's provider knows" \
		"$work/line" || fail "no clear message for $version"
	grep -q "Known: rdma-core 44 (private ABI 34)" "$work/line" || fail "not what is known"
done
echo "as expected"
