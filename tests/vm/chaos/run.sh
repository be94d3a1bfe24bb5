#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# What scripts/chaos and 99-chaos run in the guest: processes of two users in two network namespaces
# that do anything, on a wire to which anything is done, and a kernel consumer beside them; then, what
# has to be true when all of them are gone.
# MINUTES, SEED: from scripts/chaos. RDMA_CM_KO: the folder of scripts/rdma-cm, for a kernel without
# patches/linux. NVME_STAYS: NVMe's devices are not taken away, which nvme-rdma does not always survive.
# PROCESSES: of each user [3]. LONGEST: the run lasts so many times MINUTES at most [6].
TIME_LIMIT=${TIME_LIMIT:-120}
# shellcheck source=../lib/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/lib.sh"
# shellcheck source=../lib/load.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/load.sh"
# shellcheck source=nvme.sh
. "$(dirname "${BASH_SOURCE[0]}")/nvme.sh"

MINUTES=${MINUTES:-5} SEED=${SEED:-1}
chaos=$TOP/build/host/tests/vm/kiwarp-chaos
# Each of these calls has to succeed, and each of the operations to complete. On a slow machine the run
# lasts until they have.
kinds=(open alloc_pd reg_mr create_cq create_qp post_send post_recv create_id listen resolve_addr
	connect accept established completion kill rereg_mr alloc_mw create_cq_ex resize_cq modify_cq
	dealloc_mw create_srq modify_srq query_srq destroy_srq post_srq dmabuf reg_dmabuf_mr import_mr
	import_device import_pd sent written received bound immediate)
longest=${LONGEST:-6}
groups=/sys/fs/cgroup
debugfs=/sys/kernel/debug
RANDOM=$((SEED % 32768))
events=0
# What ends the run at once: what comes after the first report means little.
splat='BUG: |WARNING: |KASAN|UBSAN|ODEBUG|refcount_t:|blocked for more than|unregister_netdevice: waiting|ref_tracker: (reference|.*@)'

# member GROUP NS USER COMMAND...: in a memory cgroup and a namespace, as an ordinary user. If the group
# is out of memory the command itself is spared: it is to go on when its children are killed. The
# niceness leaves CPU time for the events: an emulated machine has far less than 24 threads want.
member() {
	local group=$1 ns=$2 user=$3
	shift 3
	echo -1000 >"/proc/$BASHPID/oom_score_adj"
	[ -z "$grouped" ] || echo "$BASHPID" >"$groups/$group/cgroup.procs"
	exec nice -n 10 ip netns exec "$ns" setpriv --reuid "$user" --regid "$user" --clear-groups "$@"
}

# The exporter of dma-bufs is for users.
exporter_begin() {
	load_exporter
	mount -o remount,mode=755 "$OUT/debugfs" || die "debugfs is not for users"
	chmod 755 "$OUT" "$OUT/debugfs" "${EXPORTER%/*}"
	chmod 666 "$EXPORTER" || die "the exporter is not for users"
}

# Races that the kernel has without us: these functions read 64 bits of time while a timer's interrupt counts them.
known_races() {
	local name
	[ -e "$debugfs/kcsan" ] || return 0
	for name in mem_cgroup_flush_stats_ratelimited flush_memcg_stats_dwork; do
		echo "!$name" >"$debugfs/kcsan"
	done
}

# Queue pairs are bound to counters, whoever they belong to, and devices count those of each process.
counters() {
	local qpns all cntn qpn what=$((RANDOM % 8))
	# That takes several tries, and the run waits for the first that succeeds.
	was_bound || what=7
	case $what in
	0) rdma statistic qp set link "$dev/1" auto pid on ;;
	1 | 2) rdma statistic qp set link "$dev/1" auto off ;;
	3 | 4)
		all=$(rdma statistic qp show link "$dev/1") || return
		read -r cntn qpn < <(sed -nE 's/.*cntn ([0-9]+) .*LQPN[^0-9]*([0-9]+).*/\1 \2/p' <<<"${all//$'\n'/ }")
		[ -n "${qpn:-}" ] && rdma statistic qp unbind link "$dev/1" cntn "$cntn" lqpn "$qpn"
		;;
	*)
		all=$(rdma resource show qp link "$dev/1") || return
		# Others have gone, as a rule, by the time that they are bound.
		[ $((RANDOM % 2)) = 0 ] || all=$(grep "${traffic##*/}" <<<"$all") || return
		mapfile -t qpns < <(sed -n 's/.* lqpn \([0-9]*\) .*/\1/p' <<<"$all")
		[ ${#qpns[@]} -gt 0 ] &&
			rdma statistic qp bind link "$dev/1" lqpn "${qpns[RANDOM % ${#qpns[@]}]}" && echo "one bound"
		;;
	esac
}

# Somebody who looks at all objects and counters, all the time.
look() {
	local object
	while :; do
		for object in pd cq qp cm_id mr ctx srq; do rdma -dd resource show $object; done
		rdma statistic qp show
		rdma statistic show
		echo "all objects were shown" >&2
		sleep 0.5
	done >/dev/null
}

look_begin() {
	look 2>"$LOGS/look" &
	looker=$!
}

look_end() {
	kill $looker
	wait $looker 2>/dev/null
	check "objects were shown meanwhile" grep -q 'all objects were shown' "$LOGS/look"
	for dev in da db; do rdma statistic qp set link $dev/1 auto off; done >/dev/null 2>&1
	check "a queue pair was bound to a counter" was_bound
}

users() {
	local group
	grouped=''
	if grep -qs memory $groups/cgroup.controllers; then
		grouped=1
		echo "+memory +pids" >$groups/cgroup.subtree_control || die "no memory cgroup"
		for group in one two; do
			mkdir -p "$groups/$group"
			echo 256M >"$groups/$group/memory.max"
			echo 400 >"$groups/$group/pids.max"
		done
	else
		note "this kernel has no memory cgroup"
	fi
	: >/dev/shm/kiwarp-chaos
	chmod 666 /dev/shm/kiwarp-chaos
	(member one a 1000 "$chaos" --addr 10.1.0.1 --peer 10.1.0.2 --device da --seed "$SEED" \
		--exporter "$EXPORTER" --processes "${PROCESSES:-3}" --seconds $((MINUTES * 60 * longest)) \
		>"$LOGS/one" 2>&1) &
	one=$!
	(member two b 2000 "$chaos" --addr 10.1.0.2 --peer 10.1.0.1 --device db --seed $((SEED + 1)) \
		--exporter "$EXPORTER" --processes "${PROCESSES:-3}" --seconds $((MINUTES * 60 * longest)) \
		>"$LOGS/two" 2>&1) &
	two=$!
}

end_honest() {
	pkill -9 -f "^$traffic"
	# shellcheck disable=SC2086
	[ -z "${honest_pids:-}" ] || { kill -9 $honest_pids && wait $honest_pids; } 2>/dev/null
	honest_pids=''
}

# An honest pair of programs for as long as it lives; killed and started again.
honest() {
	end_honest
	port=$((18700 + RANDOM % 500))
	ip netns exec a timeout 300 "$traffic" --server 10.1.0.1 --port $port >>"$LOGS/honest" 2>&1 &
	honest_pids=$!
	(
		until_true 2 listening a $port
		exec ip netns exec b timeout 300 "$traffic" --client 10.1.0.1 --port $port
	) >>"$LOGS/honest" 2>&1 &
	honest_pids+=" $!"
}

side() { # sets ns, dev and host of one of the two sides
	if [ $((RANDOM % 2)) = 0 ]; then ns=a dev=da host=1; else ns=b dev=db host=2; fi
}

# With the operations of RFC 7306, which peers have to be told of.
add_link() {
	rdma link show | grep -q "link $2/" || { link_add "$2" "$1" "v$1" && set_extensions "$2"; }
}

set_extensions() {
	local name
	for name in immediate atomics; do echo 1 >"/sys/class/infiniband/$1/settings/$name"; done
	# A process that is to end waits for what its peer leaves unanswered.
	echo 10000 >"/sys/class/infiniband/$1/settings/reply_timeout_ms"
}

netem() {
	local models=("loss 5%" "delay 3ms 2ms reorder 30%" "duplicate 5%" "corrupt 1%"
		"delay 20ms loss 1%" "rate 20mbit")
	if [ $((RANDOM % 3)) = 0 ]; then
		tc -n "$ns" qdisc del dev "v$ns" root
	else
		# shellcheck disable=SC2086
		tc -n "$ns" qdisc replace dev "v$ns" root netem ${models[RANDOM % ${#models[@]}]}
	fi
}

flap() {
	ip -n "$ns" link set "v$ns" down
	sleep "0.$((RANDOM % 10))"
	ip -n "$ns" link set "v$ns" up
}

readdress() {
	ip -n "$ns" addr del "10.1.0.$host/24" dev "v$ns"
	sleep "0.$((RANDOM % 10))"
	ip -n "$ns" addr add "10.1.0.$host/24" dev "v$ns"
}

setting() {
	local files=(/sys/class/infiniband/"$dev"/settings/*) file
	file=${files[RANDOM % ${#files[@]}]}
	# Not for how long a start-up may take: the end would take as long.
	case $file in *timeout* | *port_map*) return ;; esac
	echo $((RANDOM % 20)) >"$file"
}

relink() {
	rdma link delete "$dev"
	sleep "0.$((RANDOM % 10))"
	add_link "$ns" "$dev"
}

reload() {
	local rc=0
	without_nvme timeout 120 rmmod kiwarp || rc=$?
	[ "$rc" != 75 ] || { echo "NVMe connects: no rmmod"; return; }
	[ "$rc" = 0 ] || echo "rmmod: $rc"
	if insmod "$KIWARP_KO"; then echo "module loaded again"; else echo "insmod: $?"; fi
	add_link a da
	add_link b db
	nvme_relink
}

squeeze() {
	local sizes=(24M 48M 96M 256M) group=one
	[ -n "$grouped" ] || return
	[ $((RANDOM % 2)) = 0 ] || group=two
	echo "${sizes[RANDOM % 4]}" >"$groups/$group/memory.max"
}

# One in so many of the allocations that the module makes or causes, for some seconds.
fail_some() {
	local kind start size
	[ -e "$debugfs/failslab" ] || return
	read -r start size < <(awk '$1 == "kiwarp" {print $6, $2}' /proc/modules)
	[ -n "${start:-}" ] || return
	for kind in failslab fail_page_alloc; do
		echo N >"$debugfs/$kind/ignore-gfp-wait"
		echo 0 >"$debugfs/$kind/verbose"
		echo "$start" >"$debugfs/$kind/require-start"
		printf '%#x' $((start + size)) >"$debugfs/$kind/require-end"
		echo $((20 + RANDOM % 200)) >"$debugfs/$kind/interval"
		echo -1 >"$debugfs/$kind/times"
		echo 100 >"$debugfs/$kind/probability"
	done
	echo 0 >"$debugfs/fail_page_alloc/min-order"
	sleep 3
	fail_none
}

fail_none() {
	local kind
	[ -e "$debugfs/failslab" ] || return 0
	for kind in failslab fail_page_alloc; do echo 0 >"$debugfs/$kind/probability"; done
}

# Each of them may meet what another has just made impossible.
event() {
	local all=(netem netem netem flap flap readdress setting setting setting relink squeeze
		counters counters counters honest honest fail_some fail_some nvme_event nvme_event nvme_event) what
	side
	what=${all[RANDOM % ${#all[@]}]}
	[ $((RANDOM % 40)) != 0 ] || [ -n "${NVME_STAYS:-}" ] || what=reload
	events=$((events + 1))
	printf '%s %s %s\n' "$(cut -d' ' -f1 /proc/uptime)" "$what" "$ns"
	"$what"
}

# Not grep -q, which would end before dmesg does.
reported() { dmesg | grep -E "$splat" >/dev/null; }

silent() { ! reported; }

progress() {
	note "minute $minute of $MINUTES: $events events; $(grep -h '^#' "$LOGS/one" 2>/dev/null |
		tail -n 1 | cut -c3- | cut -c1-600)"
}

over() { # SECONDS
	[ "$1" -ge $((MINUTES * 60)) ] || return
	[ "$1" -ge $((MINUTES * 60 * longest)) ] || { did "${kinds[@]}" && was_bound; } >/dev/null
}

# Some queue pair has been bound to a counter.
was_bound() { grep -q 'one bound' "$LOGS/events"; }

run_events() {
	local begin=$SECONDS minute=0 next=$((SECONDS + 60))
	until over $((SECONDS - begin)); do
		event >>"$LOGS/events" 2>&1
		sleep "$((RANDOM % 3)).$((RANDOM % 10))"
		if [ "$SECONDS" -ge "$next" ]; then
			minute=$((minute + 1)) next=$((next + 60))
			progress
			reported && return 1
		fi
	done
	! reported
}

all_dead() { ! pgrep -f "^$chaos|^$traffic" >/dev/null; }

# The namespaces' own and those that the devices have made.
sockets() { ip netns exec "$1" ss -Htano | grep -v TIME-WAIT; }

no_sockets() { ! sockets "$1"; }

# With their states and timers, where some do not go.
sockets_gone() { until_true 30 no_sockets "$1" || no_sockets "$1"; }

no_namespaces() { [ -z "$(ip netns list)" ]; }

module_unused() { [ "$(cat /sys/module/kiwarp/refcnt)" = 0 ]; }

end_all() {
	kill "$one" "$two" 2>/dev/null
	fail_none
	end_honest
	for ns in a b; do tc -n $ns qdisc del dev v$ns root 2>/dev/null; done
	add_link a da
	add_link b db
}

came_to_end() { wait "$one" && wait "$two"; }

did() { # KIND...: each of them has succeeded, at one side or the other
	local kind
	for kind in "$@"; do
		grep -qE " $kind [1-9]" "$LOGS/one" "$LOGS/two" || { echo "no $kind"; return 1; }
	done
}

echo 0 >/proc/sys/debug/exception-trace
# NVMe needs minutes to connect again where the emulated CPUs share few real ones. What hangs for good
# does not end in the end.
echo 900 >/proc/sys/kernel/hung_task_timeout_secs
# Of a kernel without patches/linux: any process can crash it with rdma_cm alone.
if [ -n "${RDMA_CM_KO:-}" ]; then
	load_file "$RDMA_CM_KO/iw_cm.ko"
	load_file "$RDMA_CM_KO/rdma_ucm.ko"
fi
setup_pair
set_extensions da
set_extensions db
nvme_begin
exporter_begin
known_races
users
look_begin
honest
check "no report in $MINUTES minutes of seed $SEED" run_events
# After a report, nothing can be said of what is left.
! reported || finish
end_all
check "all processes end" until_true 600 all_dead
check "both users' programs came to their end" came_to_end
check "each kind of call was made" did "${kinds[@]}"
look_end
check "no dma-buf is left" until_true 20 unload_exporter
nvme_end
check "nothing is held" until_true 30 nothing_held
for ns in a b; do check "no sockets in namespace $ns" sockets_gone $ns; done
for ns in a b; do
	active d$ns || ip -n $ns link set v$ns up
done
check "the ports are active" until_true 10 active da
pair "rping works" 7174 a b rping -s -a 10.1.0.1 -C 3 -V -- rping -c -a 10.1.0.1 -C 3 -V
check "nobody uses the module" until_true 20 module_unused
teardown_pair kiwarp
ip netns del a
ip netns del b
check "the namespaces go" until_true 20 no_namespaces
if [ -n "$grouped" ]; then
	for group in one two; do check "group $group goes" until_true 20 rmdir "$groups/$group"; done
fi
check "no report in the end" silent
finish
