# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause

# What scripts/package-test reads in the log of a script that runs elsewhere: "fact ok: WHAT", "fact not ok: WHAT",
# and at its end "facts: end".

# all_files [PATH]...: all that is in the file system but below PATHs, and but what packages of any kind leave: logs,
# caches, the databases of dpkg and apt. And DKMS's key, which it makes with its first module and keeps for others, as
# the machine's owner enrolls it.
all_files() {
	local path skip=()
	for path in /proc /sys /dev /tmp /out /tree /run /var/log /var/cache /var/lib/apt /var/lib/dpkg \
		'/var/lib/dkms/mok.*' "$@"; do
		skip+=(-o -path "$path")
	done
	find / -xdev \( "${skip[@]:1}" \) -prune -o -print | LC_ALL=C sort
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
