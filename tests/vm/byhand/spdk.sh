#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# SPDK's NVMe-oF target and its programs for hosts over Kiwarp, with the kernel's host and target as
# their peers. Debian has no package of SPDK, so this is not one of the suites:
#
#   scripts/guest --mem 4096 --timeout 3000 --env SPDK="$(scripts/spdk CLONE)" tests/vm/byhand/spdk.sh [PART]...
#
# SPDK is in network namespace a (10.1.0.1 on va), the kernel's host and target in the first one
# (10.1.0.2 on vb). Parts, all unless some are named: kernel, shared, own, cqe, unit; and
# depth, which fails without patches/spdk. With
# DEV_TYPE=siw and SIW_KO all of it runs over siw.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/nvme.sh
. "$(dirname "$0")/../lib/nvme.sh"

TIME_LIMIT=240
LIMIT=3000
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(kernel shared own cqe unit)

# SPDK's programs take huge pages only.
make_memory() {
	echo 700 >/proc/sys/vm/nr_hugepages
	mkdir -p /dev/hugepages
	mountpoint -q /dev/hugepages || mount -t hugetlbfs hugetlbfs /dev/hugepages || die "hugetlbfs"
	[ "$(cat /proc/sys/vm/nr_hugepages)" = 700 ] || die "no huge pages"
}

make_wire_to_a() {
	ip netns add a || die "ip netns"
	ip link add va index 101 netns a type veth peer name vb index 102 || die "veth"
	ip -n a addr add 10.1.0.1/24 dev va
	ip addr add 10.1.0.2/24 dev vb
	ip -n a link set lo up
	ip -n a link set va up
	ip link set vb up
	link_add kw_va a va || die "rdma link add kw_va"
	link_add kw_vb - vb || die "rdma link add kw_vb"
	# To a neighbour that is new, rdma_resolve_addr() may take longer than SPDK waits.
	ip netns exec a bash -c 'echo >/dev/udp/10.1.0.2/9'
	until_true 10 active kw_va || die "port of kw_va is not active"
	until_true 10 active kw_vb || die "port of kw_vb is not active"
}

# target_config OPTIONS: a disk in memory, at 10.1.0.1, with those options of the transport.
target_config() {
	local listen='"listen_address":{"trtype":"RDMA","adrfam":"IPv4","traddr":"10.1.0.1","trsvcid":"4420"}'
	cat <<-END
		{"subsystems":[
		{"subsystem":"bdev","config":[
		 {"method":"bdev_malloc_create","params":{"name":"Malloc0","num_blocks":131072,"block_size":512}}]},
		{"subsystem":"nvmf","config":[
		 {"method":"nvmf_create_transport","params":{"trtype":"RDMA","max_queue_depth":32,
		  "max_io_qpairs_per_ctrlr":4,"in_capsule_data_size":4096,"num_shared_buffers":256,
		  "buf_cache_size":32,$1}},
		 {"method":"nvmf_create_subsystem","params":{"nqn":"$NQN","allow_any_host":true,"serial_number":"SPDK1"}},
		 {"method":"nvmf_subsystem_add_ns","params":{"nqn":"$NQN","namespace":{"bdev_name":"Malloc0"}}},
		 {"method":"nvmf_subsystem_add_listener","params":{"nqn":"nqn.2014-08.org.nvmexpress.discovery",$listen}},
		 {"method":"nvmf_subsystem_add_listener","params":{"nqn":"$NQN",$listen}}]}]}
	END
}

# target_up OPTIONS [ARG]...: of the transport, of the program.
target_up() {
	target_config "$1" >"$OUT/target.json"
	shift
	start target a "$SPDK/bin/nvmf_tgt" -m 0x1 -u -s 512 -c "$OUT/target.json" "$@"
	target_log=$server_log
	wait_server target a 4420
}

target_down() {
	pkill -TERM -x reactor_0
	until_true 30 gone "${jobs[target]}" || { echo "the target does not end"; return 1; }
	await target || { echo "exit code $?"; tail -n 30 "$target_log"; return 1; }
	! grep -E 'ERROR|\*ERR' "$target_log"
}

# spdk NS PROGRAM ARG...: one that ends by itself.
spdk() {
	local ns=$1 program=$2
	shift 2
	in_ns "$ns" timeout -k 5 "$TIME_LIMIT" "$SPDK/bin/$program" "$@"
}

# For the programs: the target's address, and as bdevperf wants it.
write_host_config() {
	at="trtype:RDMA adrfam:IPv4 traddr:$TARGET trsvcid:4420"
	cat >"$OUT/host.json" <<-END
		{"subsystems":[{"subsystem":"bdev","config":[{"method":"bdev_nvme_attach_controller",
		 "params":{"name":"Nvme0","trtype":"RDMA","adrfam":"IPv4","traddr":"$TARGET",
		  "trsvcid":"4420","subnqn":"$NQN"}}]}]}
	END
}

# spdk_hosts WHAT NS: SPDK's programs, with the target at $TARGET.
spdk_hosts() {
	local what=$1 ns=$2
	write_host_config
	check_says "$what: identify" "controller at .*: $NQN" spdk "$ns" identify -p 1 -d 256 -r "$at subnqn:$NQN"
	check_says "$what: identify, by discovery" "$NQN" spdk "$ns" identify -p 1 -d 256 -r "$at"
	perf "$what" "$ns" "$at" -q 8 -o 512 -w randread
	perf "$what" "$ns" "$at" -q 8 -o 4096 -w randrw -M 50 -P 2
	perf "$what" "$ns" "$at" -q 4 -o 131072 -w write
	perf "$what" "$ns" "$at" -q 64 -o 16384 -w randrw -M 50 --rdma-srq-size 256
	verify "$what" "$ns" 4096 8
	verify "$what" "$ns" 65536 8
}

perf() { # WHAT NS AT ARG...
	check_says "$1: perf ${*:4}" 'Total +: +[1-9]' spdk "$2" perf -c 0x2 -s 256 -t 3 -r "$3" "${@:4}"
}

# verify WHAT NS SIZE DEPTH: bdevperf writes, reads back and compares.
verify() {
	check_says "$1: bdevperf verify, $3 bytes" 'Total +: +[1-9]' spdk "$2" bdevperf -m 0x2 -u -s 256 \
		-c "$OUT/host.json" -w verify -o "$3" -q "$4" -t 4
}

# Without the patch a queue that is more than half full may run out of receives.
part_depth() {
	local what="all of the queue"
	check "$what: the target" target_up "$unit,\"max_srq_depth\":512" || return
	write_host_config
	perf "$what" - "$at" -q 64 -o 512 -w randread
	perf "$what" - "$at" -q 64 -o 4096 -w randrw -M 50
	verify "$what" - 4096 16
	verify "$what" - 4096 64
	ends "$what"
}

kernel_host() {
	check_says "$1: the kernel's host discovers it" "subnqn: +$NQN" howto nvme discover
	check "$1: it connects" howto nvme connect
	check "$1: it has the disk" until_true 20 have_disk
	check "$1: I/O of all sizes, verified" fio_nvme \
		--name=small --rw=randwrite --bs=512 --iodepth=1 --size=32k \
		--name=mixed --rw=randwrite --bsrange=4k-128k --iodepth=16 --size=4m --offset=1m \
		--name=large --rw=write --bs=1m --iodepth=8 --size=8m --offset=8m
	check "$1: load" nvme_load load
	check "$1: two controller resets" resets 2
	check "$1: no error, no wrong checksum" fio_stop load
	check "$1: it disconnects" howto nvme disconnect
	check "$1: the disk is gone" until_true 20 nvme_gone
}

ends() {
	check "$1: the target ends" target_down
	check "$1: nothing is left on the devices" until_true 20 nothing_left
}

# An RDMA Read has one piece of memory to go to: a request's buffer has to be one piece, too.
unit='"io_unit_size":131072'

part_shared() {
	local what="SPDK's target, shared receives"
	check "$what" target_up "$unit,\"max_srq_depth\":512" || return
	kernel_host "$what"
	spdk_hosts "$what" -
	ends "$what"
}

part_own() {
	local what="SPDK's target, a receive queue for each"
	check "$what" target_up "$unit,\"no_srq\":true,\"num_cqe\":4096" || return
	kernel_host "$what"
	spdk_hosts "$what" -
	ends "$what"
}

# SPDK does not resize an iWARP device's completion queue.
part_cqe() {
	local what="SPDK's target, num_cqe for one connection"
	check "$what" target_up "$unit,\"no_srq\":true,\"num_cqe\":150" || return
	check_fails "$what: the kernel's host does not connect" . howto nvme connect
	check_says "$what: the target says why" "iWARP doesn't support CQ resize" cat "$target_log"
	check "$what: killed, it leaves nothing" kill_target
}

# With SPDK's own size of buffers a write of several is one RDMA Read to several pieces.
part_unit() {
	local what="SPDK's target, small buffers"
	check "$what" target_up '"io_unit_size":8192,"max_srq_depth":512' || return
	check "$what: the kernel's host connects" howto nvme connect
	check "$what: 8 KiB" dd if=/dev/zero of="$(nvme_disk)" bs=8k count=16 oflag=direct
	start large - dd if=/dev/zero of="$(nvme_disk)" bs=64k count=1 oflag=direct
	check "$what: 64 KiB are not written: the target may not post the Read" until_true 10 \
		grep -q 'Failed to post a send .* errno -22' "$target_log"
	check "$what: killed, it leaves nothing" kill_target
	nvme disconnect -n "$NQN"
	stop large
}

# A target that waits for such a request does not end by itself.
kill_target() {
	pkill -KILL -x reactor_0
	await target
	until_true 20 nothing_left
}

part_kernel() {
	modprobe brd rd_nr=1 rd_size=98304 || die "no RAM disk"
	local -x TARGET=10.1.0.2
	check "the kernel's target" howto nvme target
	check "it listens" wait_listen - "$PORT"
	spdk_hosts "the kernel's target" a
	check "the kernel's target goes" howto nvme target-down
	check "nothing is left on the devices" until_true 20 nothing_left
}

[ -x "${SPDK:-}/bin/nvmf_tgt" ] || die "SPDK is to name the folder that scripts/spdk has printed"
make_memory
load_modules
make_wire_to_a
howto_modprobe
for part in "${parts[@]}"; do "part_$part"; done
[ "$DEV_TYPE" = siw ] || check "no errors on the devices" no_wire_errors
check "the consumers' modules are unloaded" consumers_gone
rdma link delete kw_va
rdma link delete kw_vb
teardown_pair
finish
