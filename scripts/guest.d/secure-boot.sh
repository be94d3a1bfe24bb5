# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# What scripts/guest does otherwise for --secure-boot: the firmware starts shim, that GRUB, and that the kernel, each
# signed by who the one before trusts. All are Debian's packages, of which nothing is installed here.

secure_boot_packages=(ovmf shim-signed shim-helpers-amd64-signed grub-efi-amd64-signed mokutil libefivar1)

# secure_boot_root: sets firmware, a folder with what those packages have.
secure_boot_root() {
	local apt=$cache/secure-boot tmp
	firmware=$apt/root
	exec 9>"$cache/secure-boot.lock"
	flock 9
	if [ ! -d "$firmware" ]; then
		mkdir -p "$apt/cache/archives"
		prepare_apt bookworm bookworm-security
		in_apt apt-get -qq -eany update
		(cd "$apt/cache/archives" && in_apt apt-get -qq download "${secure_boot_packages[@]}")
		tmp=$firmware.$$
		mkdir -p "$tmp"
		unpack_debs "$tmp" "$apt"/cache/archives/*.deb
		mv "$tmp" "$firmware"
	fi
	exec 9>&-
}

prepare_secure_boot() {
	local esp=$secure_boot/esp
	secure_boot_root
	# What the firmware keeps when the machine is off: in the beginning the keys of Microsoft, one of which signed shim.
	[ -e "$secure_boot/vars.fd" ] || cp "$firmware/usr/share/OVMF/OVMF_VARS_4M.ms.fd" "$secure_boot/vars.fd"
	rm -rf "$esp"
	mkdir -p "$esp"/EFI/{BOOT,debian}
	cp "$firmware/usr/lib/shim/shimx64.efi.signed" "$esp/EFI/BOOT/BOOTX64.EFI"
	cp "$firmware/usr/lib/shim/mmx64.efi.signed" "$esp/EFI/BOOT/mmx64.efi"
	cp "$firmware/usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed" "$esp/EFI/BOOT/grubx64.efi"
	cp "$image" "$esp/vmlinuz"
	cp "$initramfs" "$esp/initrd"
	envs+=("FIRMWARE=$firmware")
}

# secure_boot_args LINE: the kernel's command line is GRUB's to say.
secure_boot_args() {
	local from=$firmware/usr/share/OVMF
	# It may reboot, but not again and again after a panic.
	printf 'linux /vmlinuz %s panic=0\ninitrd /initrd\nboot\n' "$1" >"$secure_boot/esp/EFI/debian/grub.cfg"
	args+=(-machine smm=on -global cfi.pflash01.secure=on
		-drive "if=pflash,format=raw,unit=0,readonly=on,file=$from/OVMF_CODE_4M.secboot.fd"
		-drive "if=pflash,format=raw,unit=1,file=$secure_boot/vars.fd"
		-drive "if=virtio,format=raw,readonly=on,file=fat:$secure_boot/esp")
}
