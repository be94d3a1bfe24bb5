# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# What the guest's parts of scripts/demo (tests/vm/demo/NAME.sh) share; sourced after lib.sh.

step() { printf '\n== %s\n' "$*"; }

# shown COMMAND...: say it, then run it.
shown() {
	printf '$ %s\n' "$*"
	"$@"
}

# The parts that the demos of storage by RDMA have in common, in the order in which they come. PAGE
# and BLOCK are of howto.sh.

# run_block PAGE BLOCK: as the page has it; a demo that fails ends.
run_block() { howto_shown "$1" "$2" 2>&1 || exit 1; }

# demo_wire WHAT: a wire, and a RAM disk.
demo_wire() {
	step "$1"
	make_wire
	howto_modprobe
	shown modprobe brd rd_nr=1 rd_size=98304 || exit 1
}

demo_devices() { # PAGE WHAT
	step "$2"
	NETDEV=va run_block "$1" device
	NETDEV=vb run_block "$1" device
	until_true 10 active kw_va
	until_true 10 active kw_vb
	shown rdma link show
}

demo_fio() { # WHAT COMMAND...
	step "fio writes random blocks of $1 with checksums, and reads them back"
	shift
	"$@" >"$LOGS/fio" || { cat "$LOGS/fio"; exit 1; }
	grep -E '^ +(READ|WRITE): ' "$LOGS/fio"
	echo "no checksum was wrong"
}

# demo_files FOLDER AGAIN...: what is copied to a file system is there after it was unmounted and,
# by the command, mounted again.
demo_files() {
	local to=$1
	shift
	shown cp -r "$TOP/kernel" "$TOP/Documentation" "$to/" || exit 1
	"$@"
	shown diff -r "$TOP/kernel" "$to/kernel" || exit 1
	shown diff -r "$TOP/Documentation" "$to/Documentation" || exit 1
	echo "all files are the same"
}

demo_counts() { # WHOSE
	step "What went over the wire, as the $1's device counted it"
	echo "$(counter kw_vb tx_octets) bytes out, $(counter kw_vb rx_octets) bytes in"
	shown rdma resource show
}

demo_end() { # PAGE
	NETDEV=vb run_block "$1" device-down
	NETDEV=va run_block "$1" device-down
	shown rmmod kiwarp || exit 1
	echo "(emulation is some 25 times slower than this machine: scripts/bench compares costs)"
}
