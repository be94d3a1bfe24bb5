# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause

# fact WHAT COMMAND...
fact() {
	local what=$1
	shift
	if "$@"; then
		printf '\n+%s\n' "$what"
	else
		printf '\n-%s (exit code %d: %s)\n' "$what" $? "$*"
	fi
}
