# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""doctor's checks of the kernel's side: the module, its devices, those that should come back."""
from __future__ import annotations

import re
from typing import Iterator

from . import config, devices, service
from .findings import ERROR, NOTE, OK, WARNING, Finding, Question
from .system import Failure, System, listing

OLDEST = (6, 12)
# As debian/kiwarp-dkms.dkms has them: for a kernel without them DKMS builds no module.
OPTIONS = ("CONFIG_INFINIBAND", "CONFIG_INFINIBAND_ADDR_TRANS", "CONFIG_INFINIBAND_VIRT_DMA")
# From this release on a real-time kernel has to have a lock of its own kind.
RT_LOCK = (6, 18)
RT_OPTION = "CONFIG_PREEMPT_RT_NEEDS_BH_LOCK"
DEBIAN_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
NETNS_MODE = "/sys/module/ib_core/parameters/netns_mode"
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
SIG_ENFORCE = "/sys/module/module/parameters/sig_enforce"
LOCKDOWN = "/sys/kernel/security/lockdown"
ENROL = ("mokutil --import /var/lib/dkms/mok.pub, boot, and enrol the key in the menu that appears "
         "(Documentation/packages.md, Secure Boot)")


def module(system: System, _question: Question, _found: list[devices.Device]) -> Iterator[Finding]:
    release = system.release()
    installed = system.run("modinfo", "-F", "version", "kiwarp")
    if system.exists("/sys/module/kiwarp"):
        yield loaded(system, release, installed.out.strip()) if installed.code == 0 else Finding(
            "module", OK, f"version {running_version(system)} is loaded in Linux {release}; none is installed for it")
    elif installed.code == 0:
        yield not_loaded(system)
    else:
        yield not_installed(system, release)


def running_version(system: System) -> str:
    return system.read("/sys/module/kiwarp/version") or "of no number"


def loaded(system: System, release: str, on_disk: str) -> Finding:
    version, sources = running_version(system), system.read("/sys/module/kiwarp/srcversion")
    # A sum of the sources: whoever builds the same ones for this kernel has the same.
    sources_on_disk = system.run("modinfo", "-F", "srcversion", "kiwarp").out.strip()
    if on_disk and version != on_disk:
        what = f"version {version} is loaded, {on_disk} is installed"
    elif sources and sources_on_disk and sources != sources_on_disk:
        what = (f"version {version} is loaded, but was built from other sources than the one that is installed "
                f"(srcversion {sources}, {sources_on_disk})")
    else:
        return Finding("module", OK, f"version {version} is loaded in Linux {release}")
    return Finding("module", WARNING, what, "end what uses RDMA, then: modprobe -r kiwarp && modprobe kiwarp; its "
                   "devices go with it, and kiwarp doctor names those to bring back; or boot again")


def not_loaded(system: System) -> Finding:
    reason = what_wants_signatures(system)
    if reason:
        text = f"it is installed, but not loaded, and {reason}: the kernel loads only modules whose signature it knows"
        if not system.run("modinfo", "-F", "sig_id", "kiwarp").out.strip():
            return Finding("module", ERROR, f"{text}, and this one has none",
                           f"the package kiwarp-dkms has a module that DKMS signs with a key of this machine; {ENROL}")
        return Finding("module", WARNING, text, "if modprobe kiwarp says \"Key was rejected by service\" or "
                       f"\"Operation not permitted\": {ENROL}")
    options = module_options(system)
    given = f"; modprobe gives it {listing(options)}" if options else ""
    return Finding("module", NOTE, f"it is installed, but not loaded{given}",
                   "kiwarp add loads it, or: modprobe kiwarp; if that fails: journalctl -k -g kiwarp says why, and "
                   "modprobe -c | grep 'options kiwarp' what it is loaded with")


def module_options(system: System) -> list[str]:
    """The parameters that files of modprobe.d have for it: with a wrong value it does not load."""
    lines = (line.split(maxsplit=2) for line in system.run("modprobe", "-c").out.splitlines())
    return [words[2] for words in lines if words[:2] == ["options", "kiwarp"] and len(words) > 2]


def what_wants_signatures(system: System) -> str:
    """Why the kernel refuses modules of unknown origin, if it does."""
    if secure_boot(system):
        return "Secure Boot is on"
    if system.read(SIG_ENFORCE) == "Y":
        return "module.sig_enforce is set"
    # The level that is in force stands in brackets.
    if re.search(r"\[(integrity|confidentiality)\]", system.read(LOCKDOWN) or ""):
        return "the kernel is locked down"
    return ""


def secure_boot(system: System) -> bool:
    try:
        # Four bytes of attributes, then the variable.
        return system.path(SECURE_BOOT).read_bytes()[4:5] == b"\1"
    except OSError:
        return False


def not_installed(system: System, release: str) -> Finding:
    text = f"it is not installed for the running kernel, Linux {release}"
    number = re.match(r"(\d+)\.(\d+)", release)
    version = (int(number[1]), int(number[2])) if number else OLDEST
    if version < OLDEST:
        return Finding("module", ERROR, text, "it needs Linux 6.12 or later: install one, and boot it")
    missing = missing_options(system, release, version)
    if missing:
        what = "has no RDMA" if OPTIONS[0] in missing else "lacks what the module needs"
        return Finding("module", ERROR, f"{text}, which {what}: it was built without {listing(missing)}",
                       other_kernel(system))
    if not system.exists(f"/lib/modules/{release}/build"):
        return Finding("module", ERROR, text, f"install the kernel's headers: apt install linux-headers-{release}")
    if system.names("/var/lib/dkms/kiwarp"):
        return Finding("module", ERROR, text, f"dkms autoinstall -k {release}; what fails is in "
                       "/var/lib/dkms/kiwarp/*/build/make.log")
    return Finding("module", ERROR, text, "install the package kiwarp-dkms")


def missing_options(system: System, release: str, version: tuple[int, int]) -> list[str]:
    """Those that the running kernel was built without; none, if that can't be told."""
    build = f"/lib/modules/{release}/build"
    files = (f"/boot/config-{release}", f"{build}/.config", f"{build}/include/config/auto.conf")
    text = next(filter(None, map(system.read, files)), "")
    there = set(re.findall(r"^(CONFIG_\w+)=[ym]$", text, re.M))
    if not there:
        return []
    needed = [*OPTIONS, RT_OPTION] if "CONFIG_PREEMPT_RT" in there and version >= RT_LOCK else OPTIONS
    return [option for option in needed if option not in there]


def other_kernel(system: System) -> str:
    arch = DEBIAN_ARCHITECTURES.get(system.machine(), "")
    if not arch:
        return "boot a kernel that has it"
    return (f"apt install linux-image-{arch} linux-headers-{arch} (Debian 12: linux-image-6.12-{arch} "
            f"linux-headers-6.12-{arch}), and boot that kernel")


def present(system: System, question: Question, found: list[devices.Device]) -> Iterator[Finding]:
    if found:
        yield Finding("devices", OK, listing([device.name for device in found]))
    elif not question.device:
        others = devices.rdma_names(system)
        also = f"; there is {listing(others)}, of another driver" if others else ""
        text, advice = f"there is no device of Kiwarp{also}", "kiwarp add INTERFACE"
        if system.is_first_netns():
            advice += " --persistent"
        # "rdma system set netns exclusive" clears it.
        if system.read(NETNS_MODE) == "N":
            text += "; RDMA devices of other network namespaces are not seen here (netns exclusive)"
            advice += "; or, in the namespace that has the device: rdma dev set DEVICE netns NAME"
        yield Finding("devices", NOTE, text, advice)


def persistence(system: System, _question: Question, found: list[devices.Device]) -> Iterator[Finding]:
    if not system.is_first_netns():
        yield Finding("persistence", OK, f"{config.FILE} is not for the interfaces of this network namespace")
        return
    try:
        found_in_file = config.contents(system)
    except Failure as failure:
        if not system.is_root():
            raise
        yield Finding("persistence", ERROR, f"{failure}: no device comes with its interface",
                      "make it a file as kiwarp.conf(5) has it")
        return
    sections = found_in_file.sections
    for fault in found_in_file.faults:
        yield Finding("persistence", ERROR, fault.text, "kiwarp.conf(5) says what it may be")
    on = {device.interface: device.name for device in devices.devices(system)} if sections else {}
    for interface, section in sections.items():
        if interface not in system.names(devices.NET):
            yield Finding("persistence", NOTE, f"{config.FILE} names {interface}, which is not there",
                          "its device comes when the interface does; if it has another name now, change the file")
        elif interface not in on:
            yield Finding("persistence", ERROR, f"{config.FILE} names {interface}, which has no device",
                          what_to_start(system, interface))
        elif on[interface] != section.device:
            yield Finding("persistence", ERROR,
                          f"{interface} has the device {on[interface]}, {config.FILE} names it {section.device}",
                          f"kiwarp del {on[interface]}, then {what_to_start(system, interface)}")
        else:
            yield Finding("persistence", OK, f"{interface} has the device that {config.FILE} names")
            yield from wrong_settings(system, section)
    for device in found:
        spoiled = [fault.interface for fault in found_in_file.faults]
        if device.interface and device.interface not in [*sections, *spoiled]:
            yield Finding("persistence", NOTE, f"{device.name} is gone after a boot",
                          f"to keep it: kiwarp del {device.name}, then kiwarp add {device.interface} "
                          f"--name {device.name} --persistent")


def what_to_start(system: System, interface: str) -> str:
    if not system.has_systemd():
        return f"kiwarp up {interface}"
    name = service.unit(system, interface)
    # A unit whose device somebody has deleted is active all the same: starting it would do nothing.
    return f"systemctl restart '{name}'; if it fails: journalctl -u '{name}'"


def wrong_settings(system: System, section: config.Section) -> Iterator[Finding]:
    device = devices.on_interface(system, section.interface)
    if device is None:
        return
    now = devices.settings(system, device.name)
    for setting, value in section.settings.items():
        if setting not in now:
            yield Finding("persistence", ERROR, f"{config.FILE}, [{section.interface}]: no such setting: {setting}",
                          "kiwarp show --all names them")
        elif value.split() != now[setting].split():
            yield Finding("persistence", NOTE,
                          f"{setting} of {section.interface}'s device is \"{now[setting]}\", \"{value}\" in "
                          f"{config.FILE}, where it may be spelt in another way", f"kiwarp up {section.interface}")
    for setting, value in devices.changed(system, device.name).items():
        if setting not in section.settings:
            yield Finding("persistence", NOTE,
                          f"{setting} of {section.interface}'s device is \"{now[setting]}\", and \"{value}\" after a "
                          f"boot: {config.FILE} does not name it",
                          f"to keep it: kiwarp set {device.name} {setting}=\"{now[setting]}\" --persistent; or "
                          f"kiwarp up {section.interface}")
