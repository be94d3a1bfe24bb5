# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Shared by scripts/matrix, scripts/userspace, scripts/arm64 and scripts/guest: the kernels of Debian's suites, and root
# file systems that are made of their packages.

# What make runs, in a root that has only what is named and what that depends on.
tools=(make binutils bash dash coreutils sed grep mawk findutils diffutils util-linux)

# sources_of SUITE: sets sources, the suites that its newest kernel is looked for in.
sources_of() {
	sources=("$1")
	# A release's newest kernel may be security's. Backports alone have not what they depend on.
	case $1 in
	*-backports) sources+=("${1%-backports}") ;;
	sid) ;;
	*) sources+=("$1-security") ;;
	esac
}

# newest_kernel FLAVOUR: prints its release.
newest_kernel() {
	in_apt apt-cache search -n "^linux-headers-[0-9.]+[+]deb[0-9.]+-$1\$" | cut -d' ' -f1 | sort -V |
		sed -n '$s/^linux-headers-//p'
}

# image_packages RELEASE: those with its image and modules. They are wanted without the tools that make
# it boot somewhere, which they depend on.
image_packages() {
	local part
	# Some releases have the image's files in packages of their own.
	for part in image base binary modules; do
		[ -z "$(in_apt apt-cache search -n "^linux-$part-${1//+/[+]}\$")" ] || echo "linux-$part-$1"
	done
}

# kernel_image ROOT RELEASE: its file. Newer packages leave it to their scripts to copy it to /boot.
kernel_image() {
	local image=$1/boot/vmlinuz-$2
	[ -e "$image" ] || image=$1/lib/modules/$2/vmlinuz
	printf '%s\n' "$image"
}

# in_root ROOT COMMAND...: with ROOT as the root, in which this tree and the cache folder have the paths that
# they have here.
in_root() {
	local root=$1
	shift
	mkdir -p "$root$top" "$root$cache"
	# shellcheck disable=SC2016
	unshare -rm bash -euc '
		root=$1 top=$2 cache=$3
		shift 3
		for dir in /dev /proc "$top" "$cache"; do mount --rbind "$dir" "$root$dir"; done
		LANG=C LC_ALL=C PATH=/usr/bin:/usr/sbin exec chroot "$root" "$@"' - "$root" "$top" "$cache" "$@"
}
