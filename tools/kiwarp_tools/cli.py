# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""The command line of kiwarp(8)."""
from __future__ import annotations

import argparse
import io
import json
import sys
from contextlib import nullcontext
from typing import Callable, ContextManager, Sequence

from . import VERSION, config, devices, doctor, service
from .system import Failure, System, require_root

Command = Callable[[System, argparse.Namespace], int]


def assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text} is not SETTING=VALUE")
    if not config.is_text(text):
        raise argparse.ArgumentTypeError(f"{text} is not UTF-8")
    return name, value


def name_of(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("an empty name")
    return text


def described(system: System, device: devices.Device) -> dict:
    net = f"{devices.NET}/{device.interface}"
    mtu = system.read(f"{net}/mtu") if device.interface else None
    return {
        "name": device.name,
        "interface": device.interface,
        "state": device.state,
        "mtu": int(mtu) if mtu else None,
        "persistent": is_persistent(system, device),
        "settings": devices.settings(system, device.name),
    }


def is_persistent(system: System, device: devices.Device) -> bool | None:
    """None if that is not known."""
    if not system.is_first_netns():
        # An interface of that name in the file is another one.
        return False
    try:
        return bool(device.interface) and device.interface in config.contents(system).sections
    except Failure:
        return None


def print_json(data: object) -> None:
    print(json.dumps(data, indent=2))


def print_device(found: dict, usual: dict[str, str], every: bool) -> None:
    interface = found["interface"] or "(an interface of another network namespace)"
    mtu = f", MTU {found['mtu']}" if found["mtu"] else ""
    stays = ", comes back after a boot" if found["persistent"] else ""
    print(f"{found['name']}: on {interface}, {found['state']}{mtu}{stays}")
    for setting, value in found["settings"].items():
        default = usual.get(setting, value)
        if every or value != default:
            print(f"    {setting} = {value}" + (f"   (default: {default})" if value != default else ""))


def report(system: System, args: argparse.Namespace, device: devices.Device) -> int:
    """A device that was changed."""
    if args.json:
        print_json(described(system, device))
    return 0


def report_none(args: argparse.Namespace) -> int:
    """There is no device any more."""
    if args.json:
        print_json({})
    return 0


def changing_file(system: System, args: argparse.Namespace) -> ContextManager[None]:
    """From reading the file to writing it: nobody else may."""
    if args.persistent and not system.is_first_netns():
        raise Failure(f"{config.FILE} is for interfaces in the network namespace of process 1, which this is not: "
                      "without --persistent")
    return config.locked(system) if args.persistent else nullcontext()


def command_add(system: System, args: argparse.Namespace) -> int:
    require_root(system, "adding a device")
    with changing_file(system, args):
        return report(system, args, add(system, args))


def add(system: System, args: argparse.Namespace) -> devices.Device:
    wanted = dict(args.settings)
    name = args.name or devices.default_name(args.interface)
    section = config.Section(args.interface, name, wanted)
    if not args.persistent:
        return devices.add(system, args.interface, name, wanted)
    known = config.load(system)
    clash = next((s.interface for s in known.values()
                  if s.interface != args.interface and s.device == name), "")
    if clash:
        raise Failure(f"{config.FILE} has {name} as the name of {clash}'s device: choose another with --name")
    # Before there is a device: can it be written?
    config.text_with(system, section)
    device = devices.add(system, args.interface, name, wanted)
    keep(system, device, section, known.get(args.interface))
    return device


def keep(system: System, device: devices.Device, section: config.Section, before: config.Section | None) -> None:
    """Let a device that was just added come back after a boot; if that can't be there is no device, and the file is as
    it was."""
    try:
        config.store(system, section)
        service.start(system, section.interface)
    except Failure as failure:
        try:
            take_back(system, device, section.interface, before)
        except Failure as second:
            raise Failure(f"{failure}; nor could that be undone: {second}") from failure
        raise


def take_back(system: System, device: devices.Device, interface: str, before: config.Section | None) -> None:
    delete_device(system, device)
    if before is None:
        forget(system, interface)
    elif config.load(system).get(interface) != before:
        config.store(system, before)


def delete_device(system: System, device: devices.Device) -> None:
    if device.interface:
        service.stop(system, device.interface)
    # The service may have.
    if device.name in devices.rdma_names(system):
        devices.delete(system, device.name)


def command_del(system: System, args: argparse.Namespace) -> int:
    require_root(system, "deleting a device")
    with changing_file(system, args):
        delete(system, args)
    return report_none(args)


def delete(system: System, args: argparse.Namespace) -> None:
    sections = list(config.load(system).values()) if args.persistent else []
    try:
        device = devices.find(system, args.device)
    except devices.NotFound:
        # A section can be removed though there is no device now.
        unwanted = [s for s in sections if s.device == args.device] or [
            s for s in sections if s.interface == args.device]
        if not unwanted:
            raise
    else:
        delete_device(system, device)
        # Its interface may have another name than in the file, or be in another network namespace.
        unwanted = [s for s in sections if s.interface == device.interface or s.device == device.name]
        if args.persistent and not unwanted:
            print(f"kiwarp: {config.FILE} has no section for {device.name}", file=sys.stderr)
    for section in unwanted:
        forget(system, section.interface)


def forget(system: System, interface: str) -> None:
    if config.remove(system, interface):
        service.look_again(system, interface)


def command_show(system: System, args: argparse.Namespace) -> int:
    chosen = [devices.find(system, args.device)] if args.device else devices.devices(system)
    found = [described(system, device) for device in chosen]
    if args.json:
        print_json(found)
        return 0
    usual = devices.defaults(system)
    for device in found:
        print_device(device, usual, args.all)
    return 0


def command_set(system: System, args: argparse.Namespace) -> int:
    require_root(system, "changing settings")
    with changing_file(system, args):
        return report(system, args, change(system, args))


def change(system: System, args: argparse.Namespace) -> devices.Device:
    wanted = dict(args.settings)
    device = devices.find(system, args.device)
    section = None
    if args.persistent:
        section = config.load(system).get(device.interface or "")
        if section is None:
            raise Failure(f"{config.FILE} has no section for {device.name}: only a device that was added with "
                          "--persistent comes back")
        section.settings.update(wanted)
        # Before something changes: can it be written?
        config.text_with(system, section)
    before = devices.settings(system, device.name)
    devices.set_all(system, device.name, wanted)
    if section:
        try:
            config.store(system, section)
        except Failure:
            devices.set_all(system, device.name, {setting: before[setting] for setting in wanted})
            raise
    return device


def command_up(system: System, args: argparse.Namespace) -> int:
    require_root(system, "adding a device")
    return report(system, args, service.up(system, args.interface))


def command_down(system: System, args: argparse.Namespace) -> int:
    require_root(system, "deleting a device")
    service.down(system, args.interface)
    return report_none(args)


def command_doctor(system: System, args: argparse.Namespace) -> int:
    findings = doctor.examine(system, doctor.Question(args.device or "", args.peer or "", args.port or []))
    if args.json:
        print_json([finding.as_json() for finding in findings])
    else:
        doctor.print_findings(findings, args.all)
    return doctor.exit_code(findings)


def port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text} is no TCP port")
    return int(text)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kiwarp", description="RDMA devices of Kiwarp: see kiwarp(8).")
    parser.add_argument("--version", action="version", version=f"kiwarp {VERSION}")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("-j", "--json", action="store_true", help="print JSON")
    stays = argparse.ArgumentParser(add_help=False)
    stays.add_argument("-p", "--persistent", action="store_true", help=f"also in {config.FILE}: for the next boot, too")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, run: Command, text: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text, parents=[common, *parents])
        made.set_defaults(run=run)
        return made

    made = command("add", command_add, "add a device to a network interface", stays)
    made.add_argument("interface", metavar="INTERFACE", type=name_of)
    made.add_argument("-s", "--set", dest="settings", metavar="SETTING=VALUE", type=assignment, action="append",
                      default=[], help="with another value of a setting than the default; may be given again")
    made.add_argument("-n", "--name", type=name_of, help="the device's name [kiwarp_INTERFACE]")
    made = command("del", command_del, "delete a device", stays)
    made.add_argument("device", metavar="DEVICE|INTERFACE", type=name_of)
    made = command("show", command_show, "show devices, and which of their settings are not the default")
    made.add_argument("-a", "--all", action="store_true", help="all settings")
    made.add_argument("device", metavar="DEVICE|INTERFACE", type=name_of, nargs="?")
    made = command("set", command_set, "change settings of a device", stays)
    made.add_argument("device", metavar="DEVICE|INTERFACE", type=name_of)
    made.add_argument("settings", metavar="SETTING=VALUE", type=assignment, nargs="+")
    made = command("doctor", command_doctor, "look for what usually goes wrong, and say what to do")
    made.add_argument("-a", "--all", action="store_true", help="also what is right")
    made.add_argument("--peer", metavar="ADDRESS", help="also the way to this host")
    made.add_argument("--port", metavar="PORT", type=port, action="append", help="also this port of a service here")
    made.add_argument("device", metavar="DEVICE|INTERFACE", type=name_of, nargs="?")
    made = command("up", command_up, f"add an interface's device as {config.FILE} has it: for the service")
    made.add_argument("interface", metavar="INTERFACE", type=name_of)
    made = command("down", command_down, "delete an interface's device, if there is one: for the service")
    made.add_argument("interface", metavar="INTERFACE", type=name_of)
    return parser


def main(argv: Sequence[str] | None = None, system: System | None = None) -> int:
    """The exit code: 0, or 1 if something could not be done or doctor found a fault. argparse exits with 2."""
    args = make_parser().parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names of interfaces, and what the file has, may be no text.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = args.run(system or System(), args)
        if sys.stdout:
            sys.stdout.flush()
        return code
    except Failure as failure:
        print(f"kiwarp: {failure}", file=sys.stderr)
        return 1
    except OSError as error:
        # Whoever reads from a pipe may have seen enough.
        if not isinstance(error, BrokenPipeError):
            print(f"kiwarp: {error}", file=sys.stderr)
        # What is left in its buffer would be written at the end.
        sys.stdout = None  # type: ignore[assignment]
        return 1
