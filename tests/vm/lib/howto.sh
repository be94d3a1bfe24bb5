# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Runs the commands of the pages under Documentation/, so that what a page says is what is tested.
# A page has its commands in blocks ```sh NAME ... ```. The block "settings" has, as lines
# "export NAME=VALUE", what readers adapt: its user here exports values of its own. Every other
# block is run as it stands.

# howto_block PAGE BLOCK: its commands; blocks of the same name are one script.
howto_block() {
	awk -v begin="\`\`\`sh $2" '
		inside && /^```/ { inside = 0; next }
		inside
		$0 == begin { inside = 1; found = 1 }
		END { exit !found }' "$TOP/Documentation/$1.md" ||
		{ echo "Documentation/$1.md has no block $2" >&2; return 1; }
}

# howto PAGE BLOCK [NS]: run a block, in a namespace if need be, and trace it.
howto() { howto_run -x "$@"; }

# howto_shown PAGE BLOCK [NS]: the same for people to read: the block as the page has it, then
# what it prints.
howto_shown() {
	howto_block "$1" "$2" | sed 's/^/$ /' && howto_run +x "$@"
}

howto_run() {
	local trace=$1 page=$2 block=$3 ns=${4:--} script
	script=$(howto_names_and_block "$page" "$block") || return
	howto_ready "${script%%$'\n'*}" || return
	: >"$LOGS/.howto-$page-$block"
	in_ns "$ns" timeout -k 5 "$TIME_LIMIT" bash -eu "$trace" -o pipefail -c "${script#*$'\n'}" </dev/null
}

# A line with what the page has its readers set, then the block, by one program: a guest takes its time to
# start one.
howto_names_and_block() {
	awk -v begin="\`\`\`sh $2" '
		/^```/ { inside = settings = 0 }
		inside { script = script $0 "\n" }
		settings {
			for (rest = $0; match(rest, /[A-Z_]+=/); rest = substr(rest, RSTART + RLENGTH))
				names = names " " substr(rest, RSTART, RLENGTH - 1)
		}
		$0 == begin { inside = found = 1 }
		$0 == "```sh settings" { settings = 1 }
		END { print names; printf "%s", script; exit !found }' "$TOP/Documentation/$1.md" ||
		{ echo "Documentation/$1.md has no block $2" >&2; return 1; }
}

# All of these are set, and exported.
howto_ready() { # NAMES
	local name
	for name in $1; do
		[[ -n ${!name-} && ${!name@a} == *x* ]] ||
			{ echo "the page's setting $name is not exported" >&2; return 1; }
	done
}

# howto_all_ran PAGE [PATTERN]: a fact: no block of the page was left out, and each has a name. With a
# pattern those whose names match: others are another suite's.
howto_all_ran() {
	check "every block of $1.md was run${2:+: $2}" howto_left_out "$1" "${2:-*}"
}

howto_left_out() {
	local line block rv=0
	while read -r line; do
		block=${line#\`\`\`sh}
		block=${block# }
		# shellcheck disable=SC2053
		[[ $block = settings || $block != $2 ]] || howto_ran "$1" "$block" ||
			{ echo "not run: $line"; rv=1; }
	done < <(grep '^```sh' "$TOP/Documentation/$1.md")
	return $rv
}

howto_ran() { [ -n "$2" ] && [ -e "$LOGS/.howto-$1-$2" ]; }

# howto_modprobe: "modprobe kiwarp" is for those who have it installed; here it is in build/.
howto_modprobe() {
	local needs
	needs=$(modinfo -F depends "$KIWARP_KO" | tr , ' ')
	mkdir -p /etc/modprobe.d
	echo "install kiwarp modprobe -a $needs; [ -d /sys/module/kiwarp ] || insmod $KIWARP_KO ${KIWARP_PARAMS:-}" \
		>/etc/modprobe.d/kiwarp.conf
}
