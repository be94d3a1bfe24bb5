# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""What pytest needs to run the cases of a peer of another make against Kiwarp: its options, the
environment that the cases share, and TAP for who started it.

The suite 65-interop runs it so: pytest -p no:terminal --subject COMMAND ... tests/interop
"""
import ctypes
import re
import shlex
from pathlib import Path

import pytest

from harness import Env
from subject import Device, Subject

CLONE_NEWNET = 0x40000000
PORT = 18650
EXTENSIONS = ("immediate", "atomics")


def pytest_addoption(parser):
    group = parser.getgroup("kiwarp")
    group.addoption("--subject", help="how to start kiwarp-subject where the device's interface is")
    group.addoption("--device", help="the RDMA device under test")
    group.addoption("--address", help="of its interface")
    group.addoption("--own", help="address of the interface that the peer uses")
    group.addoption("--netns", help="network namespace of that interface")
    group.addoption("--only", default=".", help="cases whose names match the expression")
    group.addoption("--terminates", type=Path, help="where to write each Terminate that Kiwarp sent: "
                    "ports from and to, layer, type, code")


def pytest_configure(config):
    if not config.pluginmanager.is_blocked("terminal"):
        return
    config.pluginmanager.register(Tap(), "kiwarp-tap")


def pytest_collection_modifyitems(config, items):
    only = re.compile(config.option.only)
    items[:] = [item for item in items if only.search(item.callspec.id)]


def enter_namespace(name):
    """Sockets made from now on are in the namespace; files, and so sysfs, stay those of here."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{name}", "rb") as namespace:
        if libc.setns(namespace.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {name}")


@pytest.fixture(scope="session")
def env(request):
    """One consumer, its memory, and a connection that nothing may disturb, for all cases."""
    option = request.config.option
    missing = [name for name in ("subject", "device", "address", "own") if not getattr(option, name)]
    if missing:
        raise pytest.UsageError(f"no --{missing[0]}")
    if option.netns:
        enter_namespace(option.netns)
    device = Device(option.device)
    # The consumer finds RFC 7306 when it opens the device; connections have it where a case says so.
    for name in EXTENSIONS:
        device.set(name, 1)
    subject = Subject(shlex.split(option.subject), option.address, PORT)
    for name in EXTENSIONS:
        device.set(name, 0)
    environment = Env(subject, device, option.address, PORT, option.own)
    environment.start_bystander()
    yield environment
    subject.end()
    if option.terminates:
        lines = [" ".join(map(str, t)) for t in environment.terminates]
        option.terminates.write_text("".join(f"{line}\n" for line in lines))


class Tap:
    """A fact for each case, as soon as it is over."""

    def __init__(self):
        self.number = 0

    def fact(self, verdict, what, details=""):
        self.number += 1
        print(f"{verdict} {self.number} - {what}")
        for line in details.splitlines():
            print(f"# {line}")

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.partition("[")[2].removesuffix("]")
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            why = crash.message.splitlines()[0] if crash else report.when
            self.fact("not ok", f"{name} ({why})", report.longreprtext)
        elif report.when == "call":
            self.fact("ok", name)
        if report.when == "call":
            print(f"# {name}: {report.duration:.2f} s", flush=True)

    def pytest_collectreport(self, report):
        if report.failed:
            self.fact("not ok", report.nodeid, report.longreprtext)

    def pytest_sessionfinish(self):
        print(f"1..{self.number}", flush=True)
