# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""doctor's checks of what programs need: device files, the provider, locked memory."""
from __future__ import annotations

import re
import sys
from typing import Iterator

from . import devices
from .findings import ERROR, NOTE, OK, WARNING, Finding, Question
from .system import System, listing

# Prints the devices that libibverbs finds. In a process of its own, since what a provider says goes to stderr.
LISTER = """
import ctypes
verbs = ctypes.CDLL("libibverbs.so.1")
number = ctypes.c_int()
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_get_device_name.restype = ctypes.c_char_p
verbs.ibv_get_device_name.argtypes = [ctypes.c_void_p]
found = verbs.ibv_get_device_list(ctypes.byref(number))
for i in range(number.value):
    print(verbs.ibv_get_device_name(found[i]).decode())
"""
# Below this a program that registers some buffers of the usual size fails.
ENOUGH_MEMORY = 64 << 20


def verbs(system: System, _question: Question, found: list[devices.Device]) -> Iterator[Finding]:
    if not found:
        return
    for module, file, what in (
            ("ib_uverbs", "/sys/class/infiniband_verbs/abi_version", "no program can open a device"),
            ("rdma_ucm", "/sys/class/misc/rdma_cm", "no program can connect")):
        if system.exists(file):
            yield Finding("verbs", OK, f"the module {module} is loaded")
        else:
            yield Finding("verbs", ERROR, f"the module {module} is not loaded: {what}",
                          f"modprobe {module}; the package rdma-core does that at boot")


def provider(system: System, _question: Question, found: list[devices.Device]) -> Iterator[Finding]:
    # It is loaded only if there is a device.
    if not found:
        yield from provider_is_installed(system)
        return
    lister = system.run(sys.executable or "python3", "-c", LISTER, timeout=20)
    if "libibverbs.so.1: cannot open" in lister.err:
        yield Finding("provider", ERROR, "libibverbs is not installed", "apt install libibverbs1 kiwarp-provider")
        return
    if lister.code:
        yield Finding("provider", ERROR, f"libibverbs can not list devices: {lister.said}")
        return
    unseen = [device.name for device in found if device.name not in lister.out.split()]
    if not unseen:
        yield Finding("provider", OK, f"libibverbs finds {listing([device.name for device in found])}")
        return
    text = f"libibverbs does not find {listing(unseen)}"
    said = [line for line in lister.err.splitlines() if "kiwarp" in line]
    if any("built for rdma-core" in line for line in said):
        yield Finding("provider", ERROR, f"{text}: {said[0]}",
                      "install the package kiwarp-provider of this release of Debian, or build it again")
    elif not system.exists("/sys/class/infiniband_verbs/abi_version"):
        yield Finding("provider", ERROR, f"{text}: the module ib_uverbs is not loaded", "modprobe ib_uverbs")
    else:
        missing = list(provider_is_installed(system))
        yield Finding("provider", ERROR, text + "".join(f": {m.text}" for m in missing[:1] if m.level != OK),
                      missing[0].advice if missing and missing[0].advice else
                      "IBV_SHOW_WARNINGS=1 ibv_devices says more")


def provider_is_installed(system: System) -> Iterator[Finding]:
    plugins = [f"/usr/lib/{arch}/libibverbs/{file}" for arch in system.names("/usr/lib")
               for file in system.names(f"/usr/lib/{arch}/libibverbs") if file.startswith("libkiwarp-rdmav")]
    named = any(re.search(r"^driver\s+(\S*/lib)?kiwarp\s*$", system.read(f"/etc/libibverbs.d/{file}") or "", re.M)
                for file in system.names("/etc/libibverbs.d") if file.endswith(".driver"))
    if not plugins:
        yield Finding("provider", WARNING, "the provider is not installed: only the kernel's consumers can use devices",
                      "apt install kiwarp-provider")
    elif not named:
        yield Finding("provider", ERROR, "no file of /etc/libibverbs.d names the provider",
                      'put the line "driver kiwarp" into /etc/libibverbs.d/kiwarp.driver')
    else:
        yield Finding("provider", OK, f"{plugins[0]} is installed")


def rdmav_drivers(system: System, _question: Question, _found: list[devices.Device]) -> Iterator[Finding]:
    for variable in ("RDMAV_DRIVERS", "IBV_DRIVERS"):
        for driver in filter(None, re.split("[:;]", system.environment(variable))):
            yield named_driver(system, variable, driver)


def named_driver(system: System, variable: str, driver: str) -> Finding:
    folder, _, name = driver.rpartition("/")
    if folder and not any(file.startswith(f"{name}-rdmav") for file in system.names(folder)):
        return Finding("rdmav-drivers", ERROR, f"{variable} names {driver}, but there is no {driver}-rdmavNN.so",
                       f"unset {variable}")
    installed = next(provider_is_installed(system))
    if name.endswith("kiwarp") and installed.level == OK:
        return Finding("rdmav-drivers", WARNING, f"{variable} names {driver}: programs take that provider, though one "
                       "is installed", f"unset {variable}, unless that is what you want to try")
    return Finding("rdmav-drivers", NOTE, f"{variable} names {driver}")


def memlock(system: System, _question: Question, _found: list[devices.Device]) -> Iterator[Finding]:
    limit = system.memlock()
    whose = "root's, but the kernel does not hold root to it" if system.is_root() else "this user's"
    text = f"the limit on locked memory (ulimit -l) is {limit >> 10} KiB ({whose})"
    if limit < 0 or limit >= ENOUGH_MEMORY:
        yield Finding("memlock", OK, "no limit on locked memory" if limit < 0 else text)
        return
    yield Finding("memlock", NOTE if system.is_root() else WARNING, f"{text}: registering more fails with ENOMEM",
                  "for users a file in /etc/security/limits.d with \"* - memlock unlimited\" (then log in again), for "
                  "services LimitMEMLOCK=infinity in their unit")
