#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# guest: --smp 1
#
# The command kiwarp on real devices: adding, showing, changing and deleting them, and what doctor finds. What
# systemd and udev make of the installed packages: scripts/package-test.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"

CONF=/etc/rdma/kiwarp.conf

# fields PROGRAM: what "kiwarp show --json" prints is in d.
fields() {
	kiwarp show --json |
		/usr/bin/python3 -c "import json, sys; d = json.load(sys.stdin)[0]; s = d['settings']; print($1)"
}
no_device() { [ -z "$(ls /sys/class/infiniband)" ]; }
exits() { # CODE COMMAND...
	local rc=0
	"${@:2}" || rc=$?
	[ "$rc" = "$1" ]
}
# Each program started is slow in an emulated machine: doctor runs once for several mistakes.
ask_doctor() { kiwarp doctor --all "$@" >"$OUT/doctor"; }
finds() { # WHAT PATTERN: in what doctor said last
	check_says "doctor: $1" "^$2" cat "$OUT/doctor"
}

# installed [FILE]: modinfo finds that module, or none. depmod would take long for all of the kernel's.
installed() {
	local dir
	dir=/lib/modules/$(uname -r)
	mkdir -p "$dir"
	mountpoint -q "$dir" || mount -t tmpfs none "$dir" || return
	rm -rf "${dir:?}"/*
	[ $# = 0 ] || install -D "$1" "$dir/updates/kiwarp.ko" || return
	depmod
}
# Of the same length, so that the file is a module still.
of_other_sources() { # FILE
	local sum
	sum=$(modinfo -F srcversion "$KIWARP_KO")
	[ -n "$sum" ] && sed "s/srcversion=$sum/srcversion=${sum//?/0}/" "$KIWARP_KO" >"$1"
}
not_installed() { umount "/lib/modules/$(uname -r)"; }

commands() {
	check_fails "no such interface" '^kiwarp: nothere: no such network interface' kiwarp add nothere
	check "add" kiwarp add ve0 --name kiwarp0 --set crc=0 --set "rtr=read send"
	check_says "show" '^ +crc = 0 +\(default: 1\)' kiwarp show ve0
	check_says "JSON" "^kiwarp0 ve0 1500 False $(find /sys/class/infiniband/kiwarp0/settings -type f | wc -l)$" fields \
		"d['name'], d['interface'], d['mtu'], d['persistent'], len(s)"
	check_fails "twice" 've0 has the device kiwarp0 already' kiwarp add ve0
	check_fails "a name that is none" "can not be the name of a device" kiwarp add ve1 --name .x
	check "set" kiwarp set kiwarp0 crc=1 mpa_rev=1
	check_fails "a value that is not possible: the module's reason" 'kiwarp0: mpa_rev: "3" is not 0 to 2' \
		kiwarp set kiwarp0 crc=0 mpa_rev=3
	check_says "and nothing is changed" '^1 1$' fields "s['crc'], s['mpa_rev']"
	check_fails "add with a wrong value" 'mpa_rev: "3" is not 0 to 2' kiwarp add ve1 --name kiwarp1 --set mpa_rev=3
	check "leaves no device" test ! -e /sys/class/infiniband/kiwarp1
	check "a wrong command line" exits 2 kiwarp set kiwarp0
	check_fails "who is not root" "needs root's rights" setpriv --reuid 65534 --clear-groups kiwarp del kiwarp0
	check "del" kiwarp del ve0
	check "no device is left" no_device
}

comes_back() {
	check "add --persistent" kiwarp add ve0 --name kiwarp0 --set crc=0 --persistent
	check "the file has it" grep -qxF '[ve0]' $CONF
	check "down" kiwarp down ve0
	check "down: no device" no_device
	check "up" kiwarp up ve0
	check_says "up: as it was" '^kiwarp0 True 0$' fields "d['name'], d['persistent'], s['crc']"
	sed -i 's/^crc = .*/crc = 1/' $CONF
	check "up again, with another value" kiwarp up ve0
	check "up again: the value" grep -qx 1 /sys/class/infiniband/kiwarp0/settings/crc
	echo 0 >/sys/class/infiniband/kiwarp0/settings/crc
	echo 3260:13260 >/sys/class/infiniband/kiwarp0/settings/port_map
	sed -i 's/^crc = .*/ [ve1]/' $CONF
	check "up again, without a value, beside a wrong line" kiwarp up ve0
	check_says "up again: all settings have their defaults" '^1 none True$' fields \
		"s['crc'], s['port_map'], d['persistent']"
	check_fails "the file is not changed then" 'kiwarp.conf, line 5: a section begins' kiwarp set ve0 crc=0 --persistent
	sed -i '/^ \[ve1\]$/d' $CONF
}

mistakes() {
	ip link set ve0 mtu 9000
	ip netns add far
	ip link add far0 netns far type veth peer name far1 netns far
	link_add far far far0
	printf '\n[ve1]\n' >>$CONF
	check_fails "another network namespace than process 1's: not persistent" 'namespace of process 1, which this is not' \
		ip netns exec far kiwarp add far0 --persistent
	start tcp - /usr/bin/python3 -c 'import socket, time
s = socket.create_server(("", 7199)); time.sleep(600)'
	wait_listen - 7199
	check "a module of other sources is installed" of_other_sources "$OUT/other.ko"
	check "modinfo finds it" installed "$OUT/other.ko"
	check "doctor fails" exits 1 wrong_environment --port 7199 --peer 127.0.0.1
	finds "an interface is down" 'error +interface: ve0, of kiwarp0, is down'
	finds "its MTU is not that of the other end" 'warning mtu: ve0 has MTU 9000, ve1, its other end, 1500'
	finds "the way to the peer has no device" 'error +route: the way to 127.0.0.1 is lo, which has no device'
	finds "the module that is loaded is another one" \
		'warning module: version [0-9.]+ is loaded, but was built from other sources .* 0{20,}\)'
	finds "another network namespace" 'warning namespace: the interface of far is in another network namespace'
	finds "a device that did not come back" 'error +persistence: /etc/rdma/kiwarp.conf names ve1, which has no device'
	finds "RDMAV_DRIVERS" 'error +rdmav-drivers: RDMAV_DRIVERS names /nowhere/libkiwarp'
	finds "no provider" 'error +provider: libibverbs does not find'
	finds "locked memory" 'note +memlock: .* is 64 KiB'
	finds "a TCP service has the port" 'warning port: a TCP service has port 7199'
	stop tcp
	rdma link delete far
	ip netns del far
}
wrong_environment() { (ulimit -l 64 && RDMAV_DRIVERS=/nowhere/libkiwarp ask_doctor "$@"); }

mended() {
	sed -i '/^\[ve1\]$/d' $CONF
	ip link set ve0 mtu 1500
	ip link set ve0 up
	ip link set ve1 up
	check "the module that is loaded is installed" installed "$KIWARP_KO"
	check "doctor fails still" exits 1 ask_doctor
	finds "the module that is loaded is that" 'ok +module: version [0-9.]+ is loaded in Linux [^;]*$'
	finds "no address" 'error +interface: ve0, of kiwarp0, has no IP address'
	ip addr add 10.3.0.1/24 dev ve0
	until_true 5 active kiwarp0
	start server - rping -s -a 10.3.0.1 -p 7198 -C 1
	wait_listen - 7198
	check "no module is installed" installed
	check "doctor: no error now" ask_doctor --port 7198
	finds "a module from a build folder" 'ok +module: version [0-9.]+ is loaded in Linux .*; none is installed for it$'
	finds "the interface" 'ok +interface: ve0, of kiwarp0, is up and has an address'
	finds "the MTU" 'ok +mtu: ve0: nothing near it has another'
	finds "libibverbs finds the device" 'ok +provider: libibverbs finds kiwarp0'
	finds "an RDMA service has the port" 'ok +port: an RDMA service listens on port 7198'
	stop server
	check "the kernel's own modules are back" not_installed
}

# What refuses connections, and what doctor reads of it: nft's own answer, and a daemon that runs. Who
# does as it says has a port that is open.
refuses() {
	check "a firewall that refuses what it has no rule for" firewall
	check "a port mapper runs" start_iwpmd
	check "doctor: refused, but no error" ask_doctor --port 7198
	finds "a firewall without a rule for the port" \
		'warning firewall: the chain inet filter input of nftables has no rule that accepts TCP port 7198'
	finds "iwpmd" 'note +iwpmd: iwpmd runs'
	pkill -x iwpmd
	check "the port mapper ends" until_true 20 no_iwpmd
	check "what doctor says opens the port" nft insert rule "$(advice)"
	check "doctor: no error with a rule for the port" ask_doctor --port 7198 --port 7050
	finds "the firewall's rule" 'ok +firewall: the chain inet filter input of nftables accepts TCP port 7198'
	finds "a range that it had" 'ok +firewall: the chain inet filter input of nftables accepts TCP port 7050'
	finds "no iwpmd" 'ok +iwpmd: iwpmd does not run'
	pair "rping through the open port" 7198 - - \
		rping -s -a 10.3.0.1 -p 7198 -C 1 -- rping -c -a 10.3.0.1 -p 7198 -C 1
	check "the firewall goes" nft flush ruleset
	ask_doctor
	finds "no firewall" 'ok +firewall: no chain of nftables refuses'
}
firewall() {
	nft -f - <<-END
		table inet filter {
			chain input {
				type filter hook input priority filter; policy drop;
				ct state established accept
				tcp dport { 22, 7000-7100 } accept
			}
		}
	END
}
start_iwpmd() { iwpmd && until_true 30 bash -c "ss -Hlun | grep -q :3935"; }
no_iwpmd() { ! pgrep -x iwpmd; }
# advice: the rule that doctor would have inserted.
advice() { sed -n 's/.*nft insert rule \(.* accept\),.*/\1/p' "$OUT/doctor"; }

ends() {
	kiwarp down ve0
	check "del --persistent without a device" kiwarp del kiwarp0 --persistent
	check "and the section is gone" no_section
	ask_doctor
	finds "no device" 'note +devices: there is no device'
	check "many go down side by side" side_by_side
}
# Services that stop side by side, as at shutdown: rdma's list may lack a device while others go.
side_by_side() {
	local i pids=() rv=0
	for i in 0 1 2 3 4 5; do
		ip link add "many$i" type dummy && kiwarp add "many$i" || return
	done
	for i in 0 1 2 3 4 5; do
		kiwarp down "many$i" &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i" || rv=1
	done
	# The interfaces would take their devices along.
	no_device || rv=1
	for i in 0 1 2 3 4 5; do
		ip link del "many$i"
	done
	return "$rv"
}
# A kernel that loads only signed modules: locked down, which allows for a better reason than sig_enforce, which is
# as with Secure Boot. Neither can be taken back.
signatures() {
	mountpoint -q /sys/kernel/security || mount -t securityfs none /sys/kernel/security
	check "a module without a signature is installed" installed "$KIWARP_KO"
	check "the kernel is locked down" set_to integrity /sys/kernel/security/lockdown
	check_fails "locked down: a module without a signature is refused" 'Operation not permitted' insmod "$KIWARP_KO"
	check "doctor: locked down: an error" exits 1 ask_doctor
	finds "locked down" 'error +module: .*, and the kernel is locked down: .*, and this one has none'
	check "signatures are enforced" set_to 1 /sys/module/module/parameters/sig_enforce
	check_fails "enforced: a module without a signature is refused" \
		'does not load .*Key was rejected by service.*kiwarp doctor says more' kiwarp add ve0
	check_says "enforced: the log says why" 'Loading of unsigned module is rejected' dmesg
	check "doctor: enforced: an error" exits 1 ask_doctor
	finds "no signature" 'error +module: .*, and module.sig_enforce is set: .*, and this one has none'
	check "a module with the signature of a key that the kernel does not know" signed
	check "is installed" installed "$OUT/signed.ko"
	check_fails "enforced: it is refused" 'Key was rejected by service' insmod "$OUT/signed.ko"
	check_says "enforced: the log says why this is" 'Loading of module with unavailable key is rejected' dmesg
	ask_doctor
	finds "a signature" 'warning module: it is installed, but not loaded, and module.sig_enforce is set'
	check_says "doctor: the key is to be enrolled" '-> if modprobe .*mokutil --import' cat "$OUT/doctor"
	not_installed
}
set_to() { echo "$1" >"$2"; }
# As DKMS does it.
signed() {
	local sign_file
	cp "$KIWARP_KO" "$OUT/signed.ko"
	sign_file=$(find /usr/lib/linux-kbuild-*/scripts/sign-file | tail -n 1)
	openssl req -new -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=unknown \
		-keyout "$OUT/key" -out "$OUT/certificate" && "$sign_file" sha256 "$OUT/key" "$OUT/certificate" "$OUT/signed.ko"
}
no_section() { ! grep -qxF '[ve0]' "$CONF"; }

# complete_words WORD...: what bash offers for the last word.
complete_words() {
	bash -c '. /usr/share/bash-completion/completions/kiwarp
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
		_kiwarp
		echo "${COMPREPLY[*]}"' - "$@"
}

files() {
	check "the units are valid" systemd-analyze verify kiwarp@ve0.service kiwarp-again@ve0.service
	check_says "completion: commands" '^doctor down$' complete_words kiwarp "do"
	check_says "completion: interfaces" '^ve0 ve1$' complete_words kiwarp add ve
	check_says "completion: settings" '^markers= mpa_rev= mpa_rev_accept=$' complete_words kiwarp set kiwarp0 m
	check_says "completion: options" '^--peer --port$' complete_words kiwarp doctor --p
}

load_modules
ip link add ve0 type veth peer name ve1
rm -f $CONF
check "make install-tools" make -C "$TOP" install-tools
files
commands
comes_back
mistakes
mended
refuses
ends
teardown_pair
signatures
finish
