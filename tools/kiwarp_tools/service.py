# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""kiwarp@INTERFACE.service: devices that come with their interface."""
from __future__ import annotations

import shlex

from . import config, devices
from .system import Failure, System

# At most so long a service waits for another to stop.
RENAME_WAITS = 100
RENAME_WAIT_S = 0.1


def unit(system: System, interface: str) -> str:
    result = system.run("systemd-escape", "--template=kiwarp@.service", interface)
    return result.out.strip() or f"kiwarp@{interface}.service"


def is_active(system: System, interface: str) -> bool:
    return system.has_systemd() and not system.run("systemctl", "-q", "is-active", unit(system, interface)).code


def look_again(system: System, interface: str) -> None:
    """Let udev apply its rules once more: whether the file names the interface has changed."""
    if system.has_systemd():
        system.run("udevadm", "trigger", "--settle", "--action=change", f"{devices.NET}/{interface}")


def start(system: System, interface: str) -> None:
    """Tell systemd of a device that is there: it then goes with its interface, and at shutdown in order."""
    if not system.has_systemd():
        return
    # Only then has lo a device unit.
    look_again(system, interface)
    name = unit(system, interface)
    result = system.run("systemctl", "start", name)
    if result.code:
        raise Failure(f"{name} does not start ({result.said}): journalctl -u {shlex.quote(name)}")


def stop(system: System, interface: str) -> None:
    """Stop it if it runs, which deletes the device."""
    if is_active(system, interface):
        name = unit(system, interface)
        result = system.run("systemctl", "stop", name)
        if result.code:
            raise Failure(f"{name} does not stop ({result.said}): journalctl -u {shlex.quote(name)}")


def await_rename(system: System, interface: str, name: str) -> None:
    """The service of an interface's former name deletes that name's device, while the new one's starts."""
    for _ in range(RENAME_WAITS):
        present = devices.on_interface(system, interface)
        if present is None or present.name == name or not any(
                section.device == present.name and not devices.is_interface(system, section.interface)
                for section in config.contents(system).sections.values()):
            break
        system.sleep(RENAME_WAIT_S)


def up(system: System, interface: str) -> devices.Device:
    """What the service does when it starts. A device that is there already is set up as it is wanted."""
    section = config.section_of(system, interface)
    name = section.device
    await_rename(system, interface, name)
    try:
        return devices.add(system, interface, name, section.settings)
    except devices.Present as failure:
        present = failure.device
        if present.name != name:
            raise Failure(f"{failure}, not {name}") from failure
    devices.load_clients(system)
    # What the file does not name has its default again.
    devices.set_all(system, name, {**devices.changed(system, name), **section.settings})
    return present


def down(system: System, interface: str) -> None:
    """What it does when it stops: the interface may have gone, and the device with it."""
    present = devices.on_interface(system, interface) or renamed(system, interface)
    if present:
        devices.delete(system, present.name)


def renamed(system: System, interface: str) -> devices.Device | None:
    """The device that an interface has taken along to a name whose section is not for it."""
    if devices.is_interface(system, interface):
        return None
    sections = config.contents(system).sections
    name = sections.get(interface, config.Section(interface)).device
    for device in devices.devices(system):
        other = sections.get(device.interface or "")
        if device.name == name and device.interface and (other is None or other.device != name):
            return device
    return None
