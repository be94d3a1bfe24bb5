# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Shared by the parts of scripts/matrix: what is tried and what came of it. $MATRIX_RUN is a folder with
#
#   tried   the rows of the run's table: kind, suite and, if nothing came of it, why
#   news    how their results differ from the last
#
# The part that makes it prints the table: parts that it starts find it, and leave that to it.
# shellcheck disable=SC2154
record=$top/scripts/matrix.d/record
# Those of the verbs and one consumer.
core_suites=(10-link 20-rdmacm 35-extended 38-counters 40-verifier 67-kverbs 90-nvme)
first=''
if [ -z "${MATRIX_RUN:-}" ]; then
	MATRIX_RUN=$(mktemp -d)
	export MATRIX_RUN
	first=1
	: >"$MATRIX_RUN/tried"
	: >"$MATRIX_RUN/news"
	trap 'rm -rf "$MATRIX_RUN"' EXIT
fi

# add_row KIND SUITE VERSION PART=RESULT...
add_row() {
	printf '%s\t%s\n' "$1" "$2" >>"$MATRIX_RUN/tried"
	"$record" add "$@" | tee -a "$MATRIX_RUN/news" >&2
}

# add_lack KIND SUITE WHY: there was nothing to try.
add_lack() {
	printf '%s\t%s\t%s\n' "$@" >>"$MATRIX_RUN/tried"
}

print_table() {
	[ -z "$first" ] || "$record" table <"$MATRIX_RUN/tried"
}

# offer KIND SUITE VERSION PART...: a line for record's todo.
offer() {
	local IFS=$'\t'
	printf '%s\n' "$*"
}

# update_apt SUITE: the lists of prepare_apt; with $strict those of before are not good enough.
update_apt() {
	in_apt apt-get -qq -eany update && return
	[ -z "${strict:-}" ] || die "$1: the mirror does not answer"
	say "$prog: $1: the mirror does not answer, what is known of it is used"
}

# try_in_guest DIR NAME SCRIPT OPTION...: what came of SCRIPT in a guest, with those options and its own.
# Logs are in DIR, by NAME; false if anything failed.
try_in_guest() {
	local dir=$1 name=$2 script=$3 rc=0 ok bad remark word words options=()
	shift 3
	read -ra words < <(sed -n 's/^# guest: *//p' "$script"; echo)
	# User-Mode Linux is another kernel, on which some suites are faster.
	for word in "${words[@]}"; do
		[ "$word" = --uml ] || options+=("$word")
	done
	"$top/scripts/guest" --quiet --timeout 3000 --out "$dir/$name" "$@" "${options[@]}" "$script" \
		>"$dir/$name.log" 2>&1 || rc=$?
	read -r ok bad remark < <("$top/scripts/tap" <"$dir/$name.log")
	if [ $rc = 0 ]; then
		echo "$ok passed"
	else
		echo "$ok passed, $bad failed, exit code $rc${remark:+, $remark}"
		return 1
	fi
}
