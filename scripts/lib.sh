# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Shared by the scripts: paths, messages, errors.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$top/build
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/kiwarp
prog=$(basename "$0")
# What make builds is for the kernel that guests boot, whichever runs here.
export FOR_GUESTS=1

say() { printf '%s\n' "$*" >&2; }
die() { printf '%s: %s\n' "$prog" "$*" >&2; exit 1; }

# cpu_folds: whether this machine's CPU has what kw_fold_has() asks for.
cpu_folds() {
	local flag
	for flag in avx512f avx2 vpclmulqdq pclmulqdq sse4_2; do
		grep -qsw "$flag" /proc/cpuinfo || return 1
	done
}

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

# unpack DIR: the kernel source of $package, which is in $tarball. Sources of drivers and architectures
# that no kernel of ours has are left in the archive; their Kconfig files are wanted.
# shellcheck disable=SC2154
unpack() {
	local part exclude=()
	for part in drivers/{gpu,media,net/ethernet,net/wireless,staging,iio} sound fs/{xfs,btrfs} \
		arch/{alpha,arc,arm,arm64,csky,hexagon,loongarch,m68k,microblaze,mips,nios2} \
		arch/{openrisc,parisc,powerpc,riscv,s390,sh,sparc,xtensa}; do
		exclude+=("--exclude=$package/$part/*.[chS]" "--exclude=$package/$part/*.dts*")
	done
	mkdir -p "$1"
	tar -C "$1" --strip-components=1 --wildcards --wildcards-match-slash \
		"${exclude[@]}" -xf "$tarball"
}

# in_apt COMMAND...: with the sources of prepare_apt, and a state and a cache of its own.
in_apt() {
	APT_CONFIG=$apt/apt.conf "$@"
}

# prepare_apt SUITE...: an APT configuration in $apt that has only those suites of Debian, from this
# machine's mirror, for $apt_arch [this machine's], or with apt_type=deb-src their sources. The system's
# is not changed, and no package counts as installed.
# shellcheck disable=SC2154
prepare_apt() {
	local mirror suite archive
	# A machine may name no mirror: then it is Debian's own.
	mirror=$(grep -rhoE 'https?://[^ ]+/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null |
		head -n 1 | tr -d ' ') || true
	mkdir -p "$apt"/{lists/partial,cache/archives/partial,state}
	: >"$apt/state/status"
	for suite; do
		archive=${mirror:-http://deb.debian.org/debian}
		# Updates for security are in an archive of their own, which few mirrors have.
		case $suite in *-security) archive=http://deb.debian.org/debian-security ;; esac
		printf '%s [signed-by=%s] %s %s main\n' "${apt_type:-deb}" \
			/usr/share/keyrings/debian-archive-keyring.gpg "$archive" "$suite"
	done >"$apt/sources.list"
	cat >"$apt/apt.conf" <<-END
		Dir::Etc::SourceList "$apt/sources.list";
		Dir::Etc::SourceParts "/dev/null";
		Dir::State "$apt/state";
		Dir::State::Lists "$apt/lists";
		Dir::State::Status "$apt/state/status";
		Dir::Cache "$apt/cache";
		APT::Sandbox::User "root";
	END
	[ -z "${apt_arch:-}" ] || cat >>"$apt/apt.conf" <<-END
		APT::Architecture "$apt_arch";
		APT::Architectures { "$apt_arch"; };
	END
}

# new_root DIR: what packages for a root file system leave to scripts that are not run.
new_root() {
	local dir
	mkdir -p "$1"/usr/{bin,sbin,lib,lib64} "$1"/{dev,proc,tmp}
	for dir in bin sbin lib lib64; do ln -s "usr/$dir" "$1/$dir"; done
	ln -s mawk "$1/usr/bin/awk"
	ln -sf dash "$1/usr/bin/sh"
}

# unpack_debs DIR DEB...
unpack_debs() {
	local dir=$1 deb
	shift
	for deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -C "$dir" --keep-directory-symlink -x
	done
}
