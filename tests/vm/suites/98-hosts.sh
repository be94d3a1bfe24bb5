#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Two hosts at one NVMe target, with the commands of Documentation/scaling.md: the kernel's host is one
# for all network namespaces, so that the second is another guest. One that is not allowed is refused;
# both do verified I/O on the one disk; the second is lost, comes back, and is shut out, and the first
# sees nothing of it.
# guest: --mem 1024
# peer: hosts-second.sh
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/hosts.sh
. "$(dirname "$0")/../lib/hosts.sh"

second_host=10.2.0.2

all_active() { active kw_va && active kw_vb && active kw_eth0; }

target() {
	TARGETS="10.1.0.1 10.2.0.1"
	howto scaling nvme-subsystem && howto scaling hosts-allow && howto scaling nvme-ports
}

connect() { howto scaling hosts-name && TARGETS=$first howto scaling nvme-connect; }

# The target's end of the second host's connections.
second_is_there() { rdma resource show qp link kw_eth0/1 | grep -q lqpn; }
second_is_gone() { ! second_is_there; }

second_flows() { grows counter kw_eth0 rx_fpdus; }

# Nothing of the second host's arrives any more, as if it had died.
lose_second() {
	nft -f - <<-END
		table netdev wire {
			chain dead {
				type filter hook ingress device "eth0" priority 0;
				drop
			}
		}
	END
	until_true 60 second_is_gone || { echo "the target has not noticed"; return 1; }
}

# Not one of the first host's connections was made anew.
first_undisturbed() {
	ctrl_is "$(nvme_ctrl)/state" live && uses "$first" && [ "$(own_connections "$first")" = "$before" ]
}

# The host would connect again at once, and is refused for good.
break_second() { ss -K state established "sport = :$PORT and dst $second_host"; }

plug_cable 10.2.0.1/24
make_wire
howto_modprobe
modprobe brd rd_nr=1 rd_size=98304 || die "no RAM disk"
NETDEVS="va eth0" check "the target's devices" howto scaling devices
NETDEVS=vb check "the first host's device" howto scaling devices
check "all are active" until_true 10 all_active
hear_words || not_ok "the other guest can be heard"
check "the target: two ports, two hosts" target
check "it listens" wait_listen - "$PORT"
check "the first host connects" connect
check "its disk appears" until_true 20 have_disk
check "it has as many I/O queues as the target gives" one_io_queue
check "the second host may begin" tell "$second_host" begin
check "the first host's load" nvme_load load
before=$(own_connections "$first")
check "its connections are known" [ "$(wc -l <<<"$before")" = 2 ]
check "the second host's load" hear loaded || die "the second host is not as it should be"
check "both hosts' I/O goes on at once" uses "$first"
check "the second's, too" second_flows
check "the second host is lost, and the target drops it" lose_second
check "the first host has not noticed" first_undisturbed
check "the second host is back" nft flush ruleset
check "it is told so" tell "$second_host" back
check "it has connected again, and lost nothing" hear well || die "the second host is not as it should be"
check "the first host has not noticed that either" first_undisturbed
check "it reads what the second has written" mark --rw=read
check "the second host's name is taken away" howto scaling hosts-refuse
check "it is told so" tell "$second_host" refused
check "it is connected as before" hear stays
check "its connections are broken" break_second
check "it is shut out" hear "out"
check "the target has nothing of it" until_true 20 second_is_gone
check "the first host has noticed nothing" first_undisturbed
check "no error, no wrong checksum" fio_stop load
check "the first host disconnects" howto scaling nvme-disconnect
check "the names are taken away" howto scaling hosts-disallow
check "the target goes" howto scaling nvme-target-down
check "nothing is left on the devices" until_true 20 nothing_left
check "the consumers' modules are unloaded" consumers_gone
NETDEVS="va vb eth0" check "the devices go" howto scaling devices-down
howto_all_ran scaling 'hosts-*'
teardown_pair
finish
