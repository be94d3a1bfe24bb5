# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Kiwarp's devices: finding, adding and deleting them, and their settings."""
from __future__ import annotations

import json
from dataclasses import dataclass

from .system import Failure, KernelLog, System, listing

INFINIBAND = "/sys/class/infiniband"
NET = "/sys/class/net"
PARAMETERS = "/sys/module/kiwarp/parameters"
# The kernel lists RDMA devices one by one, by their places in the list: where one is deleted meanwhile, as all are
# side by side at shutdown, the list that rdma gets lacks another, which it then says does not exist. rdma also asks
# for the ports of each device of the list: EINVAL, if the device has gone.
TRIES = 10
GONE = "Invalid argument"


@dataclass(frozen=True)
class Device:
    """A device. Its interface is None if it is in another network namespace."""

    name: str
    interface: str | None
    state: str


class NotFound(Failure):
    """There is no such device."""


class Present(Failure):
    """An interface has a device already."""

    def __init__(self, interface: str, device: Device) -> None:
        super().__init__(f"{interface} has the device {device.name} already")
        self.device = device


def rdma_names(system: System) -> list[str]:
    """All RDMA devices, of any driver."""
    return system.names(INFINIBAND)


def is_kiwarp(system: System, name: str) -> bool:
    # No other driver's devices have settings.
    return system.exists(f"{INFINIBAND}/{name}/settings/mpa_rev")


def links(system: System) -> dict[str, dict]:
    """What rdma says of each device's port."""
    for _ in range(TRIES):
        result = system.run("rdma", "-j", "link", "show")
        if not result.code or GONE not in result.said:
            break
    if result.code:
        raise Failure(f"rdma link show: {result.said}")
    return {link["ifname"]: link for link in json.loads(result.out or "[]")}


def devices(system: System) -> list[Device]:
    ours = [name for name in rdma_names(system) if is_kiwarp(system, name)]
    if not ours:
        return []
    for _ in range(TRIES):
        known = links(system)
        if not (set(ours) - known.keys()) & set(rdma_names(system)):
            break
    return [Device(name, known.get(name, {}).get("netdev"), known.get(name, {}).get("state", "UNKNOWN"))
            for name in ours]


def on_interface(system: System, interface: str) -> Device | None:
    return next((d for d in devices(system) if d.interface == interface), None)


def find(system: System, name: str) -> Device:
    """The device of that name or, if there is none, on that interface."""
    known = devices(system)
    for device in known:
        if device.name == name:
            return device
    for device in known:
        if device.interface == name:
            return device
    raise NotFound(f"{name}: no such device of Kiwarp, nor an interface with one")


def default_name(interface: str) -> str:
    """The same at each boot, whatever the order in which interfaces come."""
    return f"kiwarp_{interface}"


def is_interface(system: System, name: str) -> bool:
    # A bonding driver has a file beside the interfaces' folders.
    return "/" not in name and system.path(f"{NET}/{name}").is_dir()


def require_interface(system: System, interface: str) -> None:
    if not is_interface(system, interface):
        there = [name for name in system.names(NET) if is_interface(system, name)]
        raise Failure(f"{interface}: no such network interface; there are {listing(there)}")


def load_module(system: System) -> None:
    if system.exists("/sys/module/kiwarp"):
        return
    log = system.kernel_log()
    result = system.run("modprobe", "kiwarp")
    if result.code:
        # Of a wrong parameter modprobe knows only that there is one: "Invalid argument".
        said = "; ".join([result.said, *module_lines(log)])
        raise Failure(f"the module does not load ({said}): kiwarp doctor says more")


def load_clients(system: System) -> None:
    """Load what programs open. rdma-core would, where it is installed; the kernel's consumers need neither."""
    for module, file in (("ib_uverbs", "/sys/class/infiniband_verbs/abi_version"),
                         ("rdma_ucm", "/sys/class/misc/rdma_cm")):
        if not system.exists(file):
            system.run("modprobe", "-q", module)


def add(system: System, interface: str, name: str, wanted: dict[str, str]) -> Device:
    """Add a device and set it up; if its settings can't be had there is none."""
    require_interface(system, interface)
    load_module(system)
    log = system.kernel_log()
    # Whether something is in the way is for the module to say: it waits for a device that is about to go, which looks
    # like any other from here.
    result = system.run("rdma", "link", "add", name, "type", "kiwarp", "netdev", interface)
    if result.code:
        # The kernel's answer is an errno; the module says more in the log.
        raise not_added(system, interface, name, module_said(log) or result.said)
    load_clients(system)
    try:
        set_all(system, name, wanted)
    except Failure:
        delete(system, name)
        raise
    return find(system, name)


def not_added(system: System, interface: str, name: str, said: str) -> Failure:
    present = on_interface(system, interface)
    if present:
        return Present(interface, present)
    if name in rdma_names(system):
        return Failure(f"there is an RDMA device {name} already: choose another name with --name")
    return Failure(f"{interface}: {said}")


def delete(system: System, name: str) -> None:
    for _ in range(TRIES):
        result = system.run("rdma", "link", "delete", name)
        # Its interface may have gone meanwhile, and the device with it.
        if not result.code or name not in rdma_names(system):
            return
        if "Wrong device name" not in result.said:
            break
    raise Failure(f"{name}: {result.said}")


def settings(system: System, name: str) -> dict[str, str]:
    folder = f"{INFINIBAND}/{name}/settings"
    return {setting: system.read(f"{folder}/{setting}") or "" for setting in system.names(folder)}


def defaults(system: System) -> dict[str, str]:
    """The module's parameters, which are the settings of new devices."""
    return {setting: system.read(f"{PARAMETERS}/{setting}") or "" for setting in system.names(PARAMETERS)}


def changed(system: System, name: str) -> dict[str, str]:
    """The defaults of those settings of a device that have another value."""
    now = settings(system, name)
    return {setting: value for setting, value in defaults(system).items()
            if setting in now and now[setting] != value}


def port_map(system: System, name: str) -> list[str]:
    """A device's pairs of ports, each "the services' : the wire's"."""
    return [pair for pair in settings(system, name).get("port_map", "").split() if ":" in pair]


def wire_port(system: System, name: str, port: int) -> int:
    """The TCP port that a port of a device's services has on the wire."""
    pairs = [pair.split(":") for pair in port_map(system, name)]
    return next((int(wire) for own, wire in pairs if own == str(port)), port)


def module_lines(log: KernelLog) -> list[str]:
    """The module's lines in the log, without its own name."""
    # In that name the kernel logs, too, that the module is from elsewhere or not signed.
    return [line.removeprefix("kiwarp: ") for line in log.lines()
            if line.startswith("kiwarp: ") and "taint" not in line]


def module_said(log: KernelLog) -> str:
    """The last of them."""
    return (module_lines(log) or [""])[-1]


def write(system: System, name: str, setting: str, value: str) -> None:
    log = system.kernel_log()
    try:
        system.path(f"{INFINIBAND}/{name}/settings/{setting}").write_text(f"{value}\n", encoding="utf-8")
    except UnicodeEncodeError as error:
        raise Failure(f"{name}: {setting}: {value!r} is not UTF-8") from error
    except OSError as error:
        # Of a wrong value the module says in the log which are right.
        raise Failure(module_said(log) or f'{name}: {setting}: "{value}": {error.strerror}') from error


def set_all(system: System, name: str, wanted: dict[str, str]) -> None:
    """Change settings: all of them, or none."""
    before = settings(system, name)
    unknown = [setting for setting in wanted if setting not in before]
    if unknown:
        raise Failure(f"{name}: no such setting: {listing(unknown)}; there are {listing(list(before))}")
    done: list[str] = []
    try:
        for setting, value in wanted.items():
            write(system, name, setting, value)
            done.append(setting)
    except Failure:
        for setting in done:
            write(system, name, setting, before[setting])
        raise
