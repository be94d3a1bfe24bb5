#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# configure_test.sh CMAKE SOURCE LIBIBVERBS
#
# Which layout CMake chooses for each release of rdma-core. It must refuse those that it doesn't
# know, and say what it knows.
set -eu

cmake=$1 source=$2 libibverbs=$(realpath "$3")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "FAILED: $*"
	cat "$work/log"
	exit 1
}

# chosen NUMBER VERSION: prints the layout for a library of this private ABI and version.
chosen() {
	printf 'IBVERBS_1.1\nIBVERBS_PRIVATE_%s\n' "$1" >"$work/library"
	cat >"$work/choose.cmake" <<-END
		include($source/cmake/Pabi.cmake)
		kiwarp_choose_pabi($work/library $2)
		message(STATUS "chosen \${KIWARP_PABI_LAYOUT} \${KIWARP_PABI_NUMBER}")
	END
	"$cmake" -P "$work/choose.cmake" >"$work/log" 2>&1 && sed -n 's/^-- chosen //p' "$work/log"
}

while read -r number version layout; do
	[ "$(chosen "$number" "$version")" = "pabi/layout_$layout.h $number" ] ||
		fail "private ABI $number, version $version: not layout_$layout.h"
done <<-END
	34 1.14.36.0 36
	34 1.14.43.12 36
	34 1.14.44.0 44
	34 1.14.45.0 45
	34 1.14.53.6 45
	34 1.14.54.0 54
	34 1.14.56.4 54
	57 1.14.57.0 57
	57 1.14.58.2 57
	59 1.15.59.0 59
	59 1.15.61.1 59
	59 1.16.62.0 62
	59 1.16.63.1 62
	64 1.17.64.0 64
	65 1.18.65.0 65
END

# Releases that are too old or not known, and numbers that a release hasn't got.
while read -r number version; do
	! chosen "$number" "$version" >"$work/layout" || fail "$version with private ABI $number was accepted"
done <<-END
	33 1.12.33.2
	34 1.14.35.0
	34 1.14.57.0
	57 1.14.56.0
	59 1.14.58.0
	59 1.17.64.0
	64 1.18.65.0
	65 1.18.66.0
	66 1.19.66.0
	34 44.0
	34 2.14.44.0
END

# configure VERSION: all of it, for the installed library under that version.
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

version=${libibverbs##*/libibverbs.so.}
configure "${version%.*}.99" || fail "a patch level of the installed release was refused"
! configure 1.14.35.0 || fail "35 was accepted"
# CMake breaks lines where it likes.
tr -s ' \n' '  ' <"$work/log" >"$work/line"
grep -q "libibverbs 1.14.35.0 .* is not one whose structures Kiwarp's provider knows" \
	"$work/line" || fail "no clear message"
grep -q "Known: rdma-core 36 to 43 (private ABI 34), 44 (private ABI 34), 45 to 53 (private ABI 34), \
54 to 56 (private ABI 34), 57 to 58 (private ABI 57), 59 to 61 (private ABI 59), 62 to 63 (private ABI 59)" "$work/line" ||
	fail "not what is known"
echo "as expected"
