#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Thousands of rounds of what ends connections while data flows, and fio's verified blocks by the
# hundred gigabytes. It takes hours, so this is not one of the suites. After "make all host":
#
#   scripts/guest --uml [--plain] --timeout 14000 tests/vm/byhand/endurance.sh PART COUNT...
#
#   kills N   kill -9 of one of two programs, in mid-transfer or while they connect: the other one
#             gets all its work back and ends
#   links N   "rdma link add" at both ends, load, "rdma link delete" under load
#   loads N   insmod, devices, load, rmmod under load
#   fio GB    NVMe over Fabrics, blocks written with checksums and read back, on a wire that
#             loses, delays, reorders, duplicates, corrupts or is cut, until so many gigabytes (10^9)
#             have been moved
#
# SEED (--env SEED=N) says what happens when. A part does 50 rounds first (--env WARM_UP=N), so that
# all that is made once is there. What is left after those is compared with what is left after N
# more. KASAN, lockdep and kmemleak look. With --uml --plain they do not, and a round takes a tenth
# of the time.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/load.sh
. "$(dirname "$0")/../lib/load.sh"
# shellcheck source=../lib/nvme.sh
. "$(dirname "$0")/../lib/nvme.sh"

TIME_LIMIT=600
LIMIT=14000
SEED=${SEED:-1}
endurance=$TOP/build/host/tests/vm/kiwarp-endurance
wires=3
warm_up=${WARM_UP:-50}
disk_mib=256
splat='BUG: |WARNING: |KASAN|UBSAN|ODEBUG|refcount_t:|blocked for more than|unregister_netdevice: waiting|ref_tracker: (reference|.*@)'

# Wires between the namespaces a and b: vaN at 10.1.N.1 and vbN at 10.1.N.2. As make_net does,
# no two interfaces have one number.
make_wires() {
	local i
	ip netns add a || die "ip netns"
	ip netns add b || die "ip netns"
	ip -n a link set lo up
	ip -n b link set lo up
	for ((i = 0; i < wires; i++)); do
		ip link add "va$i" index $((100 + i)) netns a type veth \
			peer name "vb$i" index $((200 + i)) netns b || die "veth"
		ip -n a addr add "10.1.$i.1/24" dev "va$i"
		ip -n b addr add "10.1.$i.2/24" dev "vb$i"
		ip -n a link set "va$i" up
		ip -n b link set "vb$i" up
	done
}

drop_wires() {
	ip netns del a
	ip netns del b
	check "$1: the namespaces go" until_true 20 no_namespaces
}

no_namespaces() { [ -z "$(ip netns list)" ]; }

add_links() {
	local i
	for ((i = 0; i < wires; i++)); do
		link_add "da$i" a "va$i" || die "rdma link add"
		link_add "db$i" b "vb$i" || die "rdma link add"
		until_true 10 active "da$i" || die "a port is not active"
		until_true 10 active "db$i" || die "a port is not active"
	done
}

module_unused() { [ "$(cat /sys/module/kiwarp/refcnt)" = 0 ]; }

# sockstat NS: as lines "sockets NS.NAME NUMBER". Of "mem", in pages, the kernel keeps some megabytes
# in stock.
sockstat() {
	# shellcheck disable=SC2016
	in_ns "$1" awk -v ns="$1" '/^(sockets|TCP6?|UDP6?|RAW6?):/ {
		for (i = 2; i < NF; i += 2)
			print ($i == "mem" ? "stock" : "sockets"), ns "." $1 $i, $(i + 1) }' /proc/net/sockstat{,6}
}

# Sockets wait a minute in TIME-WAIT: they are memory, too.
quiet_sockets() { # NS
	# shellcheck disable=SC2016
	in_ns "$1" awk '/^TCP:/ { for (i = 2; i < NF; i += 2) if ($i ~ /orphan|tw/ && $(i + 1) != 0) exit 1 }' \
		/proc/net/sockstat
}

# slabs: lines "slab CACHE OBJECTS OBJECTS-IN-ONE-SLAB", and the bytes of them. Caches of which the kernel frees objects
# when it needs memory are among them, as they have been emptied. Those of the checkers are not: they
# have an object for each object of the others.
slabs() {
	awk 'NR > 2 && $1 !~ /^(kmemleak_|debug_objects)/ { print "slab", $1, $2, $5; bytes += $2 * $4 }
		END { print "bytes all", bytes }' /proc/slabinfo
}

# KASAN keeps what is freed from use for a while. Shrinking a cache frees that, and all pages of
# the cache that have no object any more, so that the numbers are exact.
shrink() {
	local file
	sync
	echo 3 >/proc/sys/vm/drop_caches
	for file in /sys/kernel/slab/*/shrink; do echo 1 >"$file"; done 2>/dev/null
}

settled() {
	shrink
	slabs >"$OUT/slabs"
	cmp -s "$OUT/slabs" "$OUT/slabs.before" || { mv "$OUT/slabs" "$OUT/slabs.before"; return 1; }
}

# left FILE NS...: what there is, once nothing is under way any more.
left() {
	local file=$1 ns
	shift
	for ns; do
		until_true 30 quiet_sockets "$ns" || { echo "sockets do not go in $ns"; in_ns "$ns" ss -tan; return 1; }
	done
	# What goes later does so by timers and RCU; a process that looks needs some memory, too.
	until_true 3 settled
	{
		awk '{ sub(".*/", "", $4); print "threads all", $4 }' /proc/loadavg
		cat "$OUT/slabs.before"
		awk '/^MemTotal/ { used = $2 } /^(MemFree|Buffers|Cached|SReclaimable)/ { used -= $2 }
			/^Percpu/ { print "percpu all", $2 } END { print "pages all", used / 4 }' /proc/meminfo
		for ns; do sockstat "$ns"; done
		rdma resource show | sed 's/^[0-9]*: //; s/: /=/; s/ /_/g; s/^/resource /; s/$/ 0/'
	} >"$file"
}

# grown BEFORE AFTER ROUNDS: fails for what grew by more than it may, and says what grew. One object
# that leaks in each round makes a cache grow by ROUNDS, and all of them by 64 bytes times ROUNDS:
# allowed is a twentieth of that, and half. What grows by chance, a process or some pages in stock, is
# in the constants. Of the slab that a CPU allocates from the kernel counts what is free as used. One
# page of a round that is no slab's counts, too, but the checkers remember each new call chain, which
# takes pages.
grown() {
	awk -v n="$3" '
		BEGIN {
			may["slab"] = n / 20 + 50; may["bytes"] = 32 * n + 65536
			may["pages"] = n / 2 + 2500; may["percpu"] = n / 32 + 64
			may["threads"] = 16; may["sockets"] = 0; may["stock"] = 512; may["resource"] = 0
		}
		NR == FNR { before[$1 " " $2] = $3; next }
		{ key = $1 " " $2; grew = $3 - before[key] }
		# The pool of workers grows and shrinks: each has objects of 12 KiB, most of it task_struct.
		$1 == "threads" && grew > 0 { may["bytes"] += 12288 * grew }
		$1 == "resource" && !(key in before) { print "new: " $2; bad = 1 }
		# Freed areas stay until there are many of them.
		$2 == "vmap_area" && grew <= n / 20 + 2500 { next }
		{ limit = may[$1] + ($1 == "slab" ? $4 : 0) }
		grew > limit { print key " grew by " grew ", may by " limit ": " before[key] " to " $3; bad = 1; next }
		grew > 0 && $1 != "stock" { print "(" key " grew by " grew ", may by " limit ")" }
		END { exit bad }' "$1" "$2"
}

# What was small enough to pass is worth a look, too.
check_grown() { # PART ROUNDS
	check "$1: nothing grew by as much as one object of 64 bytes a round" \
		grown "$OUT/$1.before" "$OUT/$1.after" "$2"
	sed 's/^/# /' "$log"
}

# An object is a leak when no scan has found it and it is old enough.
no_leaks() {
	local leaks=/sys/kernel/debug/kmemleak
	[ -e "$leaks" ] || { echo "no kmemleak"; return 1; }
	sleep 6
	echo scan >"$leaks"
	sleep 1
	echo scan >"$leaks"
	cat "$leaks"
	[ -z "$(cat "$leaks")" ]
}

# Not grep -q, which would end before dmesg does.
reported() { dmesg | grep -E "$splat" >/dev/null; }

silent() { ! reported; }

checkers() {
	[ -e /sys/kernel/debug/kmemleak ] && grep -q ' kasan_report$' /proc/kallsyms &&
		[ "$(sed -n 's/.*debug_locks: *//p' /proc/lockdep_stats)" = 1 ]
}

# rounds KIND COUNT SEED: prints its progress.
rounds() {
	local module=()
	[ "$1" != loads ] || module=(--module "$KIWARP_KO")
	"$endurance" --kind "$1" --rounds "$2" --wires "$wires" --seed "$3" "${module[@]}"
}

# part KIND COUNT WHAT
part() {
	note "$1: $warm_up rounds first"
	rounds "$1" "$warm_up" $((SEED + 1000)) || { not_ok "$1: the first rounds"; return; }
	check "$1: what is there after $warm_up rounds" left "$OUT/$1.before" - a b || return
	if rounds "$1" "$2" "$SEED"; then ok "$1: $2 times $3"; else not_ok "$1: $2 times $3"; fi
	# After a report nothing can be said of what is left.
	check "$1: no report of the kernel" silent || return
	check "$1: no program is left" no_program
	check "$1: what is there after that" left "$OUT/$1.after" - a b || return
	check_grown "$1" "$2"
}

no_program() { ! pgrep -x kiwarp-enduranc; }

part_kills() {
	make_wires
	load_kiwarp
	add_links
	part kills "$1" "kill -9: the survivor gets all its work back and ends"
	check "kills: all that they held is free" until_true 20 nothing_held
	check "kills: nobody uses the module" until_true 20 module_unused
	teardown_pair
	drop_wires kills
}

part_links() {
	make_wires
	load_kiwarp
	part links "$1" "devices added, and deleted under load: both programs learn it and end"
	check "links: nobody uses the module" until_true 20 module_unused
	teardown_pair
	drop_wires links
}

part_loads() {
	make_wires
	use_provider
	part loads "$1" "the module loaded, and unloaded under load: all programs learn it and end"
	check "loads: the module can be loaded once more" load_kiwarp
	teardown_pair
	drop_wires loads
}

# moved: bytes that the host has read from the disk and written to it.
moved() {
	local stat disk
	disk=$(nvme_disk) && read -ra stat <"/sys/block/${disk##*/}/stat" && echo $((512 * (stat[2] + stat[6])))
}

# tcp_counter NAME: one of the kernel's.
tcp_counter() { nstat -asz "$1" | awk 'NR == 2 { print $2 }'; }

flaps() {
	while :; do
		sleep "$((RANDOM % 3)).$((RANDOM % 10))"
		cut_wire "0.$((1 + RANDOM % 9))"
	done
}

wire_mtu() { ip link set va mtu "$1" && ip link set vb mtu "$1"; }

# fio_job KIND: a job on such a wire. The pattern, the sizes and the depth are others each time.
fio_job() {
	local kind=$1 flapper='' rc=0 how=(write randwrite) mtus=(1500 1500 4200 9000)
	wire_mtu "${mtus[RANDOM % ${#mtus[@]}]}" || return
	case $kind in
	none) ;;
	loss) impair loss 1% ;;
	bursts) impair loss gemodel 0.2% 20% ;;
	reorder) impair delay 1ms 500us reorder 25% 50% ;;
	mixed) impair loss 0.3% duplicate 1% corrupt 0.2% ;;
	flaps)
		flaps &
		flapper=$!
		;;
	esac || return
	new_log "fio-$kind"
	fio_nvme --name="$kind" --rw="${how[RANDOM % 2]}" --bsrange=$((1 << RANDOM % 8))k-$((256 << RANDOM % 3))k \
		--blockalign=512 --iodepth=$((8 << RANDOM % 3)) --size="${disk_mib}m" --randseed=$((SEED * 100000 + jobs_done)) \
		>"$log" 2>&1 || rc=$?
	if [ -n "$flapper" ]; then
		kill "$flapper"
		wait "$flapper" 2>/dev/null
		wire_up
	elif [ "$kind" != none ]; then
		unimpair
	fi
	[ "$rc" = 0 ] || return "$rc"
	# Ten thousand of them would fill the folder.
	rm "$log"
	logs=$((logs - 1))
}

fio_progress() {
	local kind
	note "fio: $((total / 1000000)) MB of $(($1 * 1000)) in $jobs_done jobs:" \
		"$(for kind in "${fio_kinds[@]}"; do echo "$kind $((by_kind[$kind] / 1000000)),"; done | tr '\n' ' ')" \
		"$((total / 1000000 / (SECONDS - fio_begin + 1))) MB/s;" \
		"retransmitted $(tcp_counter TcpRetransSegs), out of order $(tcp_counter TcpExtTCPOFOQueue)," \
		"wrong checksums $(tcp_counter TcpInCsumErrors), twice $(tcp_counter TcpExtTCPDSACKRecv)"
}

# fio_jobs_until GB: kind after kind.
fio_jobs_until() {
	local kind before after next=$((SECONDS + 60)) total=0 jobs_done=0 fio_begin=$SECONDS
	while :; do
		for kind in "${fio_kinds[@]}"; do
			before=$(moved) || { not_ok "fio: the disk is there"; return 1; }
			fio_job "$kind" || { not_ok "fio: a job on a wire with $kind" "$log"; return 1; }
			after=$(moved) || { not_ok "fio: the disk is still there"; return 1; }
			total=$((total + after - before)) jobs_done=$((jobs_done + 1))
			by_kind[$kind]=$((${by_kind[$kind]} + after - before))
			if [ "$SECONDS" -ge "$next" ]; then
				fio_progress "$1"
				next=$((SECONDS + 60))
				reported && return 1
			fi
			if [ "$total" -ge $(($1 * 1000000000)) ]; then
				fio_progress "$1"
				return 0
			fi
		done
	done
}

part_fio() {
	local kind name
	fio_kinds=(loss reorder bursts mixed flaps none)
	declare -gA by_kind
	for kind in "${fio_kinds[@]}"; do by_kind[$kind]=0; done
	RANDOM=$SEED
	make_wire
	modprobe brd rd_nr=1 rd_size=$((disk_mib * 1024)) || die "no RAM disk"
	modprobe sch_netem || die "no netem"
	add_devices nvme
	check "fio: the target" howto nvme target
	check "fio: it listens" wait_listen - "$PORT"
	check "fio: the host connects" howto nvme connect
	check "fio: the disk is there" until_true 20 have_disk
	if fio_jobs_until "$1"; then ok "fio: $1 GB written and read back, no block was wrong"; else
		not_ok "fio: $1 GB written and read back, no block was wrong"
	fi
	for name in TcpRetransSegs TcpExtTCPOFOQueue TcpInCsumErrors; do
		check "fio: the wire was bad: $name" is_more 0 tcp_counter "$name"
	done
	check "fio: no report of the kernel" silent || return
	# That bad wires are TCP's business alone.
	check "fio: Kiwarp has seen no wrong CRC" no_crc_errors
	check "fio: the host disconnects" howto nvme disconnect
	check "fio: the disk is gone" until_true 20 nvme_gone
	nvme_down
	leave_wire
	rmmod brd
}

no_crc_errors() { [ "$(($(counter kw_va rx_crc_errors) + $(counter kw_vb rx_crc_errors)))" = 0 ]; }

checked=1
if [[ $(uname -r) = *-kiwarp-bench ]]; then
	note "this kernel has no checkers"
	checked=0
else
	check "the checkers are there" checkers || finish
fi
modprobe -a ib_uverbs rdma_ucm iw_cm || die "modprobe"
while [ $# -ge 2 ]; do
	case $1 in
	kills | links | loads | fio) "part_$1" "$2" ;;
	*) die "parts are kills, links, loads and fio" ;;
	esac
	shift 2
done
[ $checked = 0 ] || check "no leak, says kmemleak" no_leaks
check "no report of the kernel" silent
[ $checked = 0 ] || check "the checkers still look" checkers
finish
