#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# NVMe over Fabrics when things go wrong: bad wires, a wire that is cut, controllers reset, the
# target and the devices taken away, all of it under load whose checksums are verified.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=nvme.sh
. "$(dirname "$0")/nvme.sh"

PATIENCE=240

impair() {
	tc qdisc replace dev va root netem "$@" && tc qdisc replace dev vb root netem "$@"
}

heal() {
	tc qdisc del dev va root
	tc qdisc del dev vb root
}

bad_wires() {
	local what
	modprobe sch_netem || die "no netem"
	for what in "loss 1%" "delay 1ms reorder 25% 50%" "delay 5ms 2ms" "duplicate 2%"; do
		# shellcheck disable=SC2086
		check "netem: $what" impair $what
		check "I/O on a wire with $what" fio_verify --rw=randrw --iodepth=8 \
			--name=short --bsrange=512-16k --size=1m \
			--name=long --bsrange=64k-1m --size=6m --offset=1m
	done
	heal
}

# A cut that is over before anybody notices costs time only; TCP repeats what was lost.
short_cut() {
	local before
	before=$(cat /sys/class/infiniband/kw_vb/ports/1/hw_counters/conn_established)
	ip link set va down
	sleep 1
	wire_up
	until_true 30 flows || { echo "no I/O after the cut"; return 1; }
	[ "$(cat /sys/class/infiniband/kw_vb/ports/1/hw_counters/conn_established)" = "$before" ]
}

# A cut that is longer than keep-alive allows: the host reconnects when it can.
long_cut() {
	ip link set va down
	ctrl_becomes connecting || { echo "the host has not noticed"; return 1; }
	wire_up
	ctrl_becomes live || { echo "the host has not reconnected"; return 1; }
	until_true 30 flows
}

resets() {
	local i
	for i in 1 2 3 4 5; do
		nvme reset "/dev/$(basename "$(nvme_ctrl)")" || return
		until_true 30 flows || { echo "no I/O after reset $i"; return 1; }
	done
}

# Connections killed on the wire, as by a firewall.
killed() {
	ss -K state established "( sport = :$PORT or dport = :$PORT )"
	ctrl_becomes live && until_true 30 flows
}

under_load() { # WHAT COMMAND...
	local what=$1
	shift
	check "$what: the load" fio_load load
	check "$what" "$@"
	check "$what: no error, no wrong checksum" fio_stop load
}

link_down_up() {
	under_load "a short cut under load" short_cut
	under_load "a long cut under load: the host reconnects" long_cut
}

make_wire
howto_modprobe
nvme_up
check "the host connects" howto nvme connect
bad_wires
link_down_up
under_load "five controller resets under load" resets
under_load "connections killed under load" killed
check "the host disconnects" howto nvme disconnect
nvme_down
finish
