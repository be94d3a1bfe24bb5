# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# What scripts/guest does otherwise for --arch arm64. That guest cannot run this machine's programs:
# its root file system is a disk with Debian's, and this tree is where it lies here.

prepare_arm64() {
	local dir
	command -v qemu-system-aarch64 >/dev/null ||
		die "no qemu-system-aarch64: run scripts/setup --arm64"
	dir=$("$top/scripts/arm64" "$debian")
	release=$(cat "$dir/release")
	modules=$dir/root disk=$dir/root.ext4
	# The disk has them where the guest looks for them.
	guest_modules=/
	busybox=$dir/root/bin/busybox init=init-disk common=''
	init_modules=(virtio_pci virtio_blk ext4 9pnet_virtio 9p overlay)
	initramfs=$cache/initramfs-arm64-$(key "$release" "$top/scripts/guest.d/init-disk" "$0" \
		"$modules/lib/modules/$release/modules.dep").cpio
	exec 9>"$cache/lock"
	flock 9
	[ -s "$initramfs" ] || make_initramfs "$initramfs"
	touch "$initramfs"
	exec 9>&-
	vmlinux=$(kernel_image "$dir/root" "$release")
}

arm64_args() {
	# TREE goes to init.
	local line="console=ttyAMA0 loglevel=5 panic=-1 oops=panic mitigations=off nokaslr"
	line+=" random.trust_cpu=on kfence.sample_interval=100 TREE=$top"
	qemu="qemu-system-aarch64"
	# A CPU of 2019, with the instructions for CRCs and atomics, and without those for signing
	# pointers, which take an emulator half of its time.
	args=(-machine "virt,gic-version=3" -cpu neoverse-n1 -accel "tcg,thread=multi" -smp "$smp"
		-nodefaults -no-user-config -display none -no-reboot -m "$mem"
		-serial "file:$out/console.log" -kernel "$vmlinux" -initrd "$initramfs"
		-device virtio-rng-pci
		-drive "if=none,id=root,file=$disk,format=raw,readonly=on"
		-device "virtio-blk-pci,drive=root"
		-virtfs "local,path=$top,mount_tag=tree,security_model=none,readonly=on,multidevs=remap"
		-virtfs "local,path=$out,mount_tag=out,security_model=none"
		-append "$line $append")
	add_cards
}
