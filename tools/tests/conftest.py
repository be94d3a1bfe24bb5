# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""A made-up system, in which rdma, ip and others are functions of the tests."""
from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Callable

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kiwarp_tools.system import KernelLog, Result, System  # noqa: E402

SETTINGS = {"mpa_rev": "2", "crc": "1", "rtr": "write read", "port_map": "none"}


class FakeLog(KernelLog):
    def __init__(self, system: FakeSystem) -> None:
        self.system = system

    def lines(self) -> list[str]:
        return self.system.log if "modprobe kiwarp" in self.system.commands[-1:] else []


class FakeSystem(System):
    """Files below a folder, and a kernel that knows rdma link."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.root_user = True
        self.links: dict[str, str | None] = {}
        self.answers: dict[str, Result] = {}
        self.commands: list[str] = []
        self.variables: dict[str, str] = {}
        self.locked = -1
        # So many lists of rdma's lack all devices.
        self.missing = 0
        # During so many of them a device of the list goes.
        self.going = 0
        # Devices that are about to go.
        self.dying: list[str] = []
        # What somebody else does while the command sleeps for the so manieth time.
        self.slept = 0
        self.other_runs_at = 3
        self.other: Callable[[], object] = lambda: None
        self.kernel = "6.12.1-test"
        self.processor = "x86_64"
        self.first_netns = True
        # What the kernel logs while modprobe runs.
        self.log: list[str] = []
        self.write("/sys/module/kiwarp/version", "0.2")
        self.write("/sys/class/infiniband_verbs/abi_version", "6")
        self.write("/sys/class/misc/rdma_cm/dev", "10:1")
        for setting, value in SETTINGS.items():
            self.write(f"/sys/module/kiwarp/parameters/{setting}", value)
        self.interface("eth0")

    def path(self, name: str) -> Path:
        return self.root / name.lstrip("/")

    def write(self, name: str, text: str) -> None:
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_text(f"{text}\n")

    def interface(self, name: str, **files: str) -> None:
        usual = {"mtu": "1500", "flags": "0x1003", "carrier": "1", "ifindex": "2", "iflink": "2"}
        for file, text in {**usual, **files}.items():
            self.write(f"/sys/class/net/{name}/{file}", text)

    def device(self, name: str, interface: str | None) -> None:
        self.links[name] = interface
        for setting, value in SETTINGS.items():
            self.write(f"/sys/class/infiniband/{name}/settings/{setting}", value)

    def rename(self, old: str, new: str) -> None:
        self.path(f"/sys/class/net/{old}").rename(self.path(f"/sys/class/net/{new}"))
        self.links = {name: new if on == old else on for name, on in self.links.items()}

    def remove(self, name: str) -> None:
        folder = self.path(f"/sys/class/infiniband/{name}")
        for file in [*folder.glob("settings/*")]:
            file.unlink()
        (folder / "settings").rmdir()
        folder.rmdir()
        del self.links[name]

    def is_root(self) -> bool:
        return self.root_user

    def release(self) -> str:
        return self.kernel

    def kernel_log(self) -> KernelLog:
        return FakeLog(self)

    def sleep(self, _seconds: float) -> None:
        self.slept += 1
        if self.slept == self.other_runs_at:
            self.other()

    def machine(self) -> str:
        return self.processor

    def is_first_netns(self) -> bool:
        return self.first_netns

    def environment(self, name: str) -> str:
        return self.variables.get(name, "")

    def memlock(self) -> int:
        return self.locked

    def run(self, *command: str, timeout: float = 60) -> Result:
        line = " ".join(command)
        self.commands.append(line)
        for begin, answer in self.answers.items():
            if line.startswith(begin):
                return answer
        if command[0] == "rdma" and self.missing:
            self.missing -= 1
            return Result(0, "[]") if command[1] == "-j" else Result(1, err=f"Wrong device name - {command[-1]}")
        if command[:4] == ("rdma", "-j", "link", "show"):
            if self.going:
                self.going -= 1
                return Result(1, "[", err="error: Invalid argument")
            return Result(0, json.dumps([
                {"ifname": name, "port": 1, "state": "ACTIVE", **({"netdev": netdev} if netdev else {})}
                for name, netdev in self.links.items()]))
        if command[:3] == ("rdma", "link", "add"):
            # The module waits for those.
            for name in self.dying:
                self.remove(name)
            self.dying = []
            if command[3] in self.names("/sys/class/infiniband") or command[7] in self.links.values():
                return Result(1, err="error: File exists")
            self.device(command[3], command[7])
            return Result(0)
        if command[:3] == ("rdma", "link", "delete"):
            self.remove(command[3])
            return Result(0)
        if command[0] == "systemd-escape":
            return Result(0, f"kiwarp@{command[2]}.service\n")
        return Result(127, err=f"{command[0]} is not installed")


@pytest.fixture
def system(tmp_path: Path) -> FakeSystem:
    return FakeSystem(tmp_path)
