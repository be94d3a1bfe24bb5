# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause

# What scripts/package-test reads in the log of a script that runs elsewhere: "fact ok: WHAT", "fact not ok: WHAT",
# and at its end "facts: end".

# all_files [PATH]...: all that is in the file system but below PATHs, and but what packages of any kind leave: logs,
# caches, the databases of dpkg and apt. And DKMS's key, which it makes with its first module and keeps for others, as
# the machine's owner enrolls it. Names alone: files_as_they_are prints the rest.
all_files() {
	local path skip=()
	for path in /proc /sys /dev /tmp /out /tree /run /var/log /var/cache /var/lib/apt /var/lib/dpkg \
		'/var/lib/dkms/mok.*' "$@"; do
		skip+=(-o -path "$path")
	done
	find / -xdev \( "${skip[@]:1}" \) -prune -o -print | LC_ALL=C sort
}

# files_as_they_are: of all these files rights, owner, and the sum of what is in them. Not of those that any
# installation writes anew: the linker's cache, depmod's and initramfs' files.
files_as_they_are() {
	all_files | grep -vE '^/etc/ld\.so\.cache$|^/(usr/)?lib/modules/[^/]*/modules\.|^/boot/initrd' | tr '\n' '\0' >/tmp/files
	xargs -0 stat -c '%A %U:%G %N' </tmp/files
	# Of folders it says that they are some.
	xargs -0 sha256sum </tmp/files 2>/dev/null
	rm -f /tmp/files
}

# fact WHAT COMMAND...: false unless it is so.
fact() {
	local what=$1 rc=0
	shift
	"$@" || rc=$?
	if [ $rc = 0 ]; then
		printf '\nfact ok: %s\n' "$what"
	else
		printf '\nfact not ok: %s (exit code %d: %s)\n' "$what" $rc "$*"
	fi
	return $rc
}
