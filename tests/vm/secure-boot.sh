#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# secure-boot.sh new|enrolled
#
# In a guest that Secure Boot has started (tests/secure-boot), with a module that DKMS's key signed, $SIGNED, and its
# certificate, $CERTIFICATE. "new": the machine does not know the key. It is imported. "enrolled": it was enrolled.
# shellcheck source=lib/lib.sh
. "$(dirname "$0")/lib/lib.sh"

PASSWORD=$2
# installed FILE: what modinfo, modprobe and doctor find is that. depmod would take long for all of the kernel's.
installed() {
	local dir
	dir=/lib/modules/$(uname -r)
	mountpoint -q "$dir" || mount -t tmpfs none "$dir" || return
	install -D "$1" "$dir/updates/kiwarp.ko" && depmod
}
mokutil() { LD_LIBRARY_PATH=$FIRMWARE/usr/lib/x86_64-linux-gnu "$FIRMWARE/usr/bin/mokutil" "$@"; }
import() { printf '%s\n%s\n' "$PASSWORD" "$PASSWORD" | mokutil --import "$CERTIFICATE"; }
# Without it MokManager goes on after ten seconds in which no key was pressed, which may be too few.
menu_waits() { mokutil --timeout -1; }
# Its exit code is 1 when the key is enrolled.
enrolled() { mokutil --test-key "$CERTIFICATE" || [ $? = 1 ]; }
doctor() { kiwarp doctor --all >"$OUT/doctor"; }
says() { check_says "doctor: $1" "^$2" cat "$OUT/doctor"; }

modprobe efivarfs
mount -t efivarfs efivarfs /sys/firmware/efi/efivars
mount -t securityfs none /sys/kernel/security
ln -sfn "$TOP/tools/kiwarp" /usr/sbin/kiwarp
IFS=, read -ra needs < <(modinfo -F depends "$KIWARP_KO")
modprobe -a ib_uverbs rdma_ucm "${needs[@]}" || die "modprobe"
use_provider
check_says "Secure Boot is on" '^SecureBoot enabled' mokutil --sb-state
check_says "the kernel is locked down" '\[integrity\]' cat /sys/kernel/security/lockdown
check "a module without a signature is installed" installed "$KIWARP_KO"
check_fails "it is refused" 'Key was rejected by service' modprobe kiwarp
check_says "the log says why" 'Loading of unsigned module is rejected' dmesg
doctor
says "an error" 'error +module: .*, and Secure Boot is on: .*, and this one has none'
check "a module with the signature of DKMS's key is installed" installed "$SIGNED"
case $1 in
new)
	check_says "the machine does not know the key" 'is not enrolled' enrolled
	check_fails "the module is refused" 'Key was rejected by service' modprobe kiwarp
	check_says "the log says why this is" 'Loading of module with unavailable key is rejected' dmesg
	doctor
	says "that the key may have to be enrolled" 'warning module: it is installed, but not loaded, and Secure Boot is on'
	check "mokutil --import" import
	check "the menu waits for a key" menu_waits
	;;
enrolled)
	check_says "the machine knows the key" 'is already enrolled' enrolled
	check "the module loads" modprobe kiwarp
	check "a device on lo" rdma link add kiwarp0 type kiwarp netdev lo
	doctor
	says "the module is loaded" 'ok +module: version .* is loaded'
	check_says "its signature does not taint the kernel" '^O$' cat /sys/module/kiwarp/taint
	pair "rping" 7174 - - rping -s -a 127.0.0.1 -p 7174 -C 5 -- rping -c -a 127.0.0.1 -p 7174 -C 5
	check "the module goes" rmmod kiwarp
	;;
esac
finish
