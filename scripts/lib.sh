# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# What the scripts share: where things are, how to speak, how to stop.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$top/build
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/kiwarp
prog=$(basename "$0")

say() { printf '%s\n' "$*" >&2; }
die() { printf '%s: %s\n' "$prog" "$*" >&2; exit 1; }

# The usage text of a script is the comment block under its SPDX line.
usage() {
	sed -n '3,/^[^#]/{/^#/!d;s/^# \{0,1\}//;p}' "$0"
}

# The release of the kernel that guests boot: the newest installed 6.12 that has an image,
# Debian's plain flavour first.
guest_kernel() {
	local k plain='' other=''
	for k in $(cd /lib/modules 2>/dev/null && printf '%s\n' 6.12.* | sort -V); do
		[ -r "/boot/vmlinuz-$k" ] || continue
		case $k in
		*-rt-* | *-cloud-*) other=$k ;;
		*) plain=$k ;;
		esac
	done
	k=${plain:-$other}
	[ -n "$k" ] || die "no 6.12 kernel under /boot: run scripts/setup"
	printf '%s\n' "$k"
}

# key FILE|STRING...: a short name for the contents of its arguments.
key() {
	local a
	for a in "$@"; do
		if [ -f "$a" ]; then cat "$a"; else printf '%s\0' "$a"; fi
	done | sha256sum | cut -c1-16
}
