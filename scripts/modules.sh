# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Modules of Linux that Debian's kernels leave out, built from the linux-source package: what
# scripts/siw, smbdirect, rnbd and rdma-cm share. To be sourced after lib.sh.

release='' uml=''

# modules_option NAME VALUE: takes --kernel RELEASE or --uml DIR.
modules_option() {
	[ $# -ge 2 ] || return
	case $1 in
	--kernel) release=$2 ;;
	--uml) uml=$2 ;;
	*) return 1 ;;
	esac
}

# modules_kernel: sets what the modules are built for (release, series, kdir: make's arguments) and
# from (package, tarball, version).
modules_kernel() {
	if [ -n "$uml" ]; then
		kdir=(-C "$uml" ARCH=um)
		release=$(cat "$uml/include/config/kernel.release")
	else
		release=${release:-$(guest_kernel)}
		kdir=(-C "/lib/modules/$release/build")
	fi
	# 6.12.3+deb12-amd64 is built from linux-source-6.12.
	series=$(cut -d. -f1,2 <<<"${release%%[-+]*}")
	package=linux-source-$series
	tarball=/usr/src/$package.tar.xz
	if [ -n "$uml" ] && [ ! -r "$tarball" ]; then
		# scripts/uml --newest has it from Debian sid.
		tarball=$(printf '%s\n' "$cache/apt/${series}"_*.tar.xz | sort -V | tail -n 1)
		[ -r "$tarball" ] || die "no sources of Linux $series in $cache/apt"
		version=$(basename "$tarball" .tar.xz | cut -d_ -f2)
	else
		[ -r "$tarball" ] || die "$tarball is missing: run scripts/setup"
		version=$(dpkg-query -W -f='${Version}' "$package")
	fi
}

# modules_unpack DIR PATH...: what of the sources is below each PATH, in DIR. The tarball takes 20 s to
# read: all builds that want the same share what comes out of it.
modules_unpack() {
	local to=$1 from
	shift
	from=$cache/src-$version-$(key "$@")
	if [ ! -d "$from" ]; then
		rm -rf "$from.$$"
		mkdir -p "$from.$$"
		tar -C "$from.$$" --strip-components=1 -xf "$tarball" "${@/#/$package/}"
		mv "$from.$$" "$from"
	fi
	mkdir -p "$to"
	cp -r "$from/." "$to/"
}

# modules_make DIR [ARG]...: all modules whose Kbuild file is in DIR; DIR/log says how it went.
modules_make() {
	local dir=$1
	shift
	make "${kdir[@]}" M="$dir" "$@" modules >"$dir/log" 2>&1 ||
		{ tail -n 30 "$dir/log" >&2; die "building ${prog} failed"; }
}

# modules_build NAME WHAT COMMAND INPUT...: sets dir, the folder with what COMMAND leaves in the folder
# that is its argument. It is run once for the same kernel, sources, script and INPUTs, files or strings.
modules_build() {
	local name=$1 what=$2 command=$3 tmp
	shift 3
	dir=$cache/$name-$release-$(key "$version" "${kdir[*]}" "$0" "$top/scripts/modules.sh" "$@")
	mkdir -p "$cache"
	exec 9>"$cache/$name.lock"
	flock 9
	if [ ! -d "$dir" ]; then
		say "Building $what for $release"
		tmp=$dir.$$
		rm -rf "$tmp"
		mkdir "$tmp"
		"$command" "$tmp"
		mv "$tmp" "$dir"
	fi
	exec 9>&-
}
