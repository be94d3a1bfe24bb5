# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# How a device follows its interface, of whatever kind that is, and what programs learn of it. To be
# sourced after lib.sh.

state_is() { rdma link show "$1/1" | grep -q "state $2 "; }
no_device() { ! rdma link show | grep -q "link $1/"; }

# has_netdev DEV NETDEV [NS]: rdma names an interface of its own namespace only.
has_netdev() { in_ns "${3:--}" rdma link show "$1/1" | grep -qE "netdev $2( |$)"; }

first_gid() { cat "/sys/class/infiniband/$1/ports/1/gids/0"; }

# A link-local GID: programs skip one whose second half is zero.
gid_is_set() { first_gid "$1" | grep -E '^fe80(:0000){3}:' | grep -vE '(:0000){4}$'; }

# gids_differ DEV...: each has a GID that no other of them has.
gids_differ() {
	local dev
	for dev; do gid_is_set "$dev" || return; done
	[ "$(for dev; do first_gid "$dev"; done | sort -u | wc -l)" = $# ]
}

# Events of a port, as a program sees them.
watch_events() { # DEV
	new_log asyncwatch
	timeout 600 stdbuf -oL ibv_asyncwatch -d "$1" >"$log" 2>&1 &
	watcher=$! events=$log
	until_true 10 grep -q 'async event FD' "$events"
}

times_told() { grep -c "$1" "$events"; }
told() { [ "$(times_told "$1")" -ge "$2" ]; }

end_watch() {
	kill "$watcher" 2>/dev/null
	wait "$watcher" 2>/dev/null
}

follows_state() { # WHAT DEV NS NETDEV
	in_ns "$3" ip link set "$4" down
	check "$1: interface down: port down" until_true 5 state_is "$2" DOWN
	check "$1: interface down: IBV_EVENT_PORT_ERR" until_true 5 told PORT_ERR 1
	in_ns "$3" ip link set "$4" up
	check "$1: interface up: port active" until_true 5 state_is "$2" ACTIVE
	check "$1: interface up: IBV_EVENT_PORT_ACTIVE" until_true 5 told PORT_ACTIVE 1
}

follows_mtu() { # WHAT DEV NS NETDEV
	local before
	before=$(in_ns "$3" cat "/sys/class/net/$4/mtu")
	in_ns "$3" ip link set "$4" mtu 9000
	check_says "$1: MTU 9000: active_mtu 4096" 'active_mtu:[[:space:]]+4096' ibv_devinfo -d "$2"
	in_ns "$3" ip link set "$4" mtu 1500
	check_says "$1: MTU 1500: active_mtu 1024" 'active_mtu:[[:space:]]+1024' ibv_devinfo -d "$2"
	in_ns "$3" ip link set "$4" mtu "$before"
}

follows_name() { # WHAT DEV NS NETDEV
	in_ns "$3" ip link set "$4" name other0
	check "$1: renamed interface: the link shows the new name" has_netdev "$2" other0 "$3"
	check "$1: renamed interface: port active" state_is "$2" ACTIVE
	in_ns "$3" ip link set other0 name "$4"
}

# Since Linux 6.14 the RDMA core would raise them, too.
none_came_twice() { # WHAT TIMES
	check_says "$1: no IBV_EVENT_PORT_ERR came twice" "^$2$" times_told PORT_ERR
	check_says "$1: no IBV_EVENT_PORT_ACTIVE came twice" "^$2$" times_told PORT_ACTIVE
}

follows_removal() { # WHAT DEV COMMAND...
	check "$1: the interface is deleted" "${@:3}"
	check "$1: interface unregistered: the device goes" until_true 10 no_device "$2"
	check "$1: interface unregistered: a program learns it" until_true 10 told DEVICE_FATAL 1
}
