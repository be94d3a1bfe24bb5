# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause

# What scripts/package-test reads in the log of a script that runs elsewhere: "fact ok: WHAT", "fact not ok: WHAT",
# and at its end "facts: end".

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
