#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# The commands of Documentation/containers.md, run with podman, crun and systemd-nspawn: programs in
# containers use Kiwarp without a capability, within limits, and where the device is theirs.
# guest: --smp 1
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/howto.sh
. "$(dirname "$0")/../lib/howto.sh"

TIME_LIMIT=240
export PARENT=va NETDEV=rdma0 ADDRESS=10.1.0.10/24 DEVICE=kw0 NAME=box
export ROOT=/run/image PROGRAM=true HANDLES=4 OBJECTS=1000
export IMAGE="--rootfs $ROOT"

# The packages' files are where installed ones are; the image is this machine's /usr.
make_image() {
	local dir
	dir=$(dirname "$(find /usr/lib/*/libibverbs -name 'lib*-rdmav*.so' | head -n 1)")
	cp "$TOP"/build/libkiwarp-rdmav*.so "$dir/"
	echo "driver kiwarp" >/etc/libibverbs.d/kiwarp.driver
	unset RDMAV_DRIVERS
	mkdir -p $ROOT/{proc,sys,dev,tmp,run,root,etc,usr}
	cp -a /etc/{passwd,group,ld.so.cache,libibverbs.d,rdma} $ROOT/etc/
	mount --bind /usr $ROOT/usr
	for dir in bin sbin lib lib64; do ln -s usr/$dir $ROOT/$dir; done
}

# No systemd here, and a root file system that cannot be an overlay's upper layer.
set_up_podman() {
	mkdir -p /etc/containers
	cat >/etc/containers/storage.conf <<-END
		[storage]
		driver = "vfs"
		runroot = "/run/podman/run"
		graphroot = "/run/podman/graph"
	END
	cat >/etc/containers/containers.conf <<-END
		[engine]
		cgroup_manager = "cgroupfs"
		events_logger = "none"
		runtime = "crun"
		[containers]
		log_driver = "none"
	END
}

# block NAME PROGRAM: a block of the page, with something to run in the container.
block() { PROGRAM="${2:-true}" howto containers "$1"; }

# For programs with an exit code of 255.
refused() { ! "$@"; }

seen() { block "$1" "ibv_devinfo -d $DEVICE"; }

serve() { # PORT
	start server b rping -s -a 10.1.0.2 -p "$1" -C 3 -V
	wait_server server b "$1"
}

# rping_from WHAT BLOCK: a client in a container, a server in another namespace.
rping_from() {
	port=$((port + 1))
	serve $port || not_ok "$1: the server listens" "$server_log"
	check "$1: rping" block "$2" "rping -c -a 10.1.0.2 -p $port -C 3 -V"
	check "$1: its server" await server
}
port=7300

# With two pages of locked memory: one is for opening the device.
poor() { # OPTION... -- COMMAND
	local options=() uverbs
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	uverbs=$(dirname "$(grep -lx kw0 /sys/class/infiniband_verbs/*/ibdev)")
	# shellcheck disable=SC2086
	podman run --rm --network ns:/run/netns/box --cap-drop=all --ulimit memlock=8192:8192 \
		--device /dev/infiniband/rdma_cm --device "/dev/infiniband/${uverbs##*/}" \
		"${options[@]}" $IMAGE "${@:2}"
}

nothing_charged() { ! grep -E 'hca_(handle|object)=[1-9]' "$1"; }

# The page's "first namespace" has va here, the wire to b.
make_wire() {
	ip netns add b || die "ip netns"
	ip link add va type veth peer name vb netns b || die "veth"
	ip addr add 10.1.0.1/24 dev va
	ip link set va up
	ip -n b addr add 10.1.0.2/24 dev vb
	ip -n b link set lo up
	ip -n b link set vb up
	link_add db b vb
}

engines() {
	check "the container's namespace, interface and device" howto containers namespace
	check "the port is active" until_true 20 active_in box kw0
	check_says "podman: the container has the device" 'PORT_ACTIVE' seen podman
	rping_from podman podman
	check "CDI: the file" howto containers cdi
	check_says "CDI: the container has the device" 'PORT_ACTIVE' seen podman-cdi
	rping_from CDI podman-cdi
	check_says "systemd-nspawn: the container has the device" 'PORT_ACTIVE' seen nspawn
	rping_from systemd-nspawn nspawn
}

limits() {
	HANDLES=0 check_fails "no handle: the device is not opened" 'Failed to open' \
		seen limit-parent
	check_says "some handles: it is" PORT_ACTIVE seen limit-parent
	check "nothing is charged any more" nothing_charged /sys/fs/cgroup/rdma-tenants/rdma.current
	check "the limit is taken back" howto containers limit-end
	check_says "little locked memory: too little for rping" 'rdma_create_qp: Cannot allocate memory' \
		refused poor -- rping -c -a 10.1.0.2 -p 7398 -C 3
	check_says "little locked memory: the device is there" PORT_ACTIVE poor -- ibv_devinfo -d kw0
	serve 7398 || not_ok "the server listens" "$server_log"
	check "little locked memory, but CAP_IPC_LOCK: rping" \
		poor --cap-add IPC_LOCK -- rping -c -a 10.1.0.2 -p 7398 -C 3 -V
	check "little locked memory, but CAP_IPC_LOCK: its server" await server
}

ask_doctor() { in_ns "$1" "$TOP/tools/kiwarp" doctor --all; }
# The advice for a device that is seen in another namespace only, followed: it comes, and goes back.
takes_back() {
	ip netns attach first 1 && ip netns exec box rdma dev set kw0 netns first && seen_in - kw0 &&
		rdma dev set kw0 netns box && ip netns del first
}

# A device that nobody else sees.
exclusive() {
	check "all namespaces are gone, and devices belong to one" \
		until_true 30 howto containers exclusive
	make_wire
	check "exclusive: b's device is b's" rdma dev set db netns b
	check "exclusive: a namespace once more" howto containers namespace
	check "exclusive: its device is given to it" howto containers give
	check "exclusive: the host does not see it" unseen_in - kw0
	check_says "doctor: devices of other namespaces are not seen" \
		'^note +devices: .* of other network namespaces are not seen here \(netns exclusive\)' ask_doctor -
	check_says "doctor: how to give one away" '-> .*in the namespace that has the device: rdma dev set' cat "$log"
	check "exclusive: who does as it says sees the device" takes_back
	check_says "doctor in its namespace: it is there" '^ok +devices: kw0$' ask_doctor box
	check "exclusive: its port is active" until_true 20 active_in box kw0
	check_says "exclusive: the container has the device" PORT_ACTIVE seen podman
	rping_from exclusive podman
	check_says "exclusive: another container does not, though it has the file" "No IB devices found|wasn't found" \
		refused block host-network "ibv_devinfo -d kw0"
	check "exclusive: the namespace goes" howto containers end
	ip netns del b
	check "all namespaces are gone" until_true 30 rdma system set netns shared
	check "exclusive: all devices went with them" until_true 20 no_devices
	check_says "doctor: all are seen now" '^note +devices: there is no device of Kiwarp$' ask_doctor -
}

load_modules
modprobe -a macvlan overlay
make_image
set_up_podman
make_wire
check "the host's device" link_add kwh - va
check_says "the host's network: the container has the device" 'PORT_ACTIVE' \
	block host-network "ibv_devinfo -d kwh"
rping_from "the host's network" host-network
engines
limits
check "the namespace goes" howto containers end
check "its device goes with it" until_true 20 unseen_in - kw0
ip netns del b
exclusive
howto_all_ran containers
teardown_pair
finish
