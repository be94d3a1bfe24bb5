# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# What the guest's parts of scripts/demo (demo-NAME.sh) share; sourced after lib.sh.

step() { printf '\n== %s\n' "$*"; }

# shown COMMAND...: say it, then run it.
shown() {
	printf '$ %s\n' "$*"
	"$@"
}
