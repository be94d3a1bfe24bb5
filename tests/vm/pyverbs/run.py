#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Run rdma-core's own tests (python3-pyverbs) on a device, and print TAP.

run.py --tests DIR --dev NAME --gid INDEX --address IP --left-out FILE... [--only REGEX]

DIR holds rdma-core's folder "tests". Its tests connect queue pairs as InfiniBand has it: each side
is told the other's number and moves its own through the states. An iWARP connection is made by
rdma_cm, so that is put in the place of it; all else is theirs.

FILE names the tests that cannot pass here, and why. What does not pass without being named there, and
what is named there but passes, is a failure.
"""
from __future__ import annotations

import argparse
import enum
import fnmatch
import importlib
import os
import re
import sys
import traceback
import unittest
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class Expected:
    """FILEs: in each line a pattern of test names, how they end, and why; each has to be of use.

    They end with "passes", "skipped" or "fails", and behind a colon may be what is found in what they say.
    """

    def __init__(self, files: list[Path]) -> None:
        self.lines: dict[str, tuple[str, str]] = {}
        for line in "\n".join(file.read_text() for file in files).splitlines():
            if line and not line.startswith("#"):
                pattern, how, reason = line.split(None, 2)
                self.lines[pattern] = (how, reason)
        self.unused = set(self.lines)

    def look_up(self, name: str) -> tuple[str, str]:
        """How the test is to end, and why."""
        for pattern, expected in self.lines.items():
            if fnmatch.fnmatchcase(name, pattern):
                self.unused.discard(pattern)
                return expected
        return "passes", ""


class Tap(unittest.TestResult):
    """A fact for each test but those that FILE leaves out: they are comments."""

    def __init__(self, out: Any, expected: Expected) -> None:
        super().__init__()
        self.out = out
        self.expected = expected
        self.facts = 0
        self.left_out = 0

    def fact(self, holds: bool, what: str, details: str = "") -> None:
        self.facts += 1
        print(f"{'ok' if holds else 'not ok'} {self.facts} - {what}", file=self.out)
        for line in details.splitlines():
            print(f"#   {line}", file=self.out)
        self.out.flush()

    @staticmethod
    def name(test: unittest.TestCase) -> str:
        return test.id().removeprefix("tests.").removeprefix("test_")

    def ended(self, test: unittest.TestCase, how: str, details: str) -> None:
        name = self.name(test)
        wanted, why = self.expected.look_up(name)
        wanted, _, message = wanted.partition(":")
        if how != wanted or not re.search(message, details):
            self.fact(False, name, f"{how}, where this is expected: {wanted} {message} {why}\n{details}")
        elif how == "passes":
            self.fact(True, name)
        else:
            self.left_out += 1
            print(f"# left out: {name} {how}: {why}", file=self.out, flush=True)

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.ended(test, "passes", "")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.ended(test, "skipped", reason)

    def add_broken(self, test: unittest.TestCase, err: Any) -> None:
        self.ended(test, "fails", "".join(traceback.format_exception(*err)))

    addError = add_broken
    addFailure = add_broken


def constants(name: str, before: str) -> SimpleNamespace:
    """pyverbs' constants of a module, which newer releases call otherwise and have in enumerations."""
    try:
        module = importlib.import_module(f"pyverbs.{name}")
    except ModuleNotFoundError:
        module = importlib.import_module(f"pyverbs.{before}")
    found = dict(vars(module))
    for kind in vars(module).values():
        if isinstance(kind, enum.EnumMeta):
            found.update(kind.__members__)
    return SimpleNamespace(**found)


class Connector:
    """Connects the queue pairs of two of rdma-core's "resources", both in this process."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.port = 20000
        self.waiting: dict[tuple[int, ...], Any] = {}
        self.kept: list[Any] = []

    def pre_run(self, mine: Any, rpsns: Any, rqps_num: list[int]) -> None:
        """RCResources.pre_run(): both sides call it, and with the second both can be connected."""
        mine.rpsns = rpsns
        mine.rqps_num = rqps_num
        other = self.waiting.pop(tuple(rqps_num), None)
        if other is None:
            self.waiting[tuple(mine.qps_num)] = mine
            return
        for one, two in zip(other.qps, mine.qps):
            self.connect(one, two)

    def restate(self, test: Any) -> None:
        """MRTest.restate_qps(): both from ERR by RESET to a new connection."""
        from pyverbs.qp import QPAttr
        e = constants("libibverbs_enums", "enums")
        for side in (test.server, test.client):
            side.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
            side.qp.to_init(side.create_qp_attr())
        self.connect(test.client.qp, test.server.qp)

    def forget(self) -> None:
        """The test is over: its connections may go."""
        self.waiting.clear()
        self.kept.clear()

    def connect(self, one: Any, two: Any) -> None:
        from pyverbs.cmid import CMID, AddrInfo, CMEvent, CMEventChannel, ConnParam
        ce = constants("librdmacm_enums", "cm_enums")

        def event(channel: Any, kind: int) -> Any:
            arrived = CMEvent(channel)
            if arrived.event_type != kind:
                raise RuntimeError(f"{arrived.event_str()}, not event {kind}")
            return arrived

        self.port += 1
        service = str(self.port)
        there = CMEventChannel()
        listener = CMID(creator=there, port_space=ce.RDMA_PS_TCP)
        listener.bind_addr(AddrInfo(src=self.address, src_service=service, port_space=ce.RDMA_PS_TCP,
                                    flags=ce.RAI_PASSIVE))
        listener.listen()
        here = CMEventChannel()
        active = CMID(creator=here, port_space=ce.RDMA_PS_TCP)
        active.resolve_addr(AddrInfo(src=self.address, dst=self.address, dst_service=service,
                                     port_space=ce.RDMA_PS_TCP))
        event(here, ce.RDMA_CM_EVENT_ADDR_RESOLVED).ack_cm_event()
        active.resolve_route()
        event(here, ce.RDMA_CM_EVENT_ROUTE_RESOLVED).ack_cm_event()
        active.connect(ConnParam(qp_num=one.qp_num, resources=16, depth=16))
        request = event(there, ce.RDMA_CM_EVENT_CONNECT_REQUEST)
        passive = CMID(creator=request, listen_id=listener)
        request.ack_cm_event()
        passive.accept(ConnParam(qp_num=two.qp_num, resources=16, depth=16))
        event(there, ce.RDMA_CM_EVENT_ESTABLISHED).ack_cm_event()
        event(here, ce.RDMA_CM_EVENT_ESTABLISHED).ack_cm_event()
        self.kept.append((listener, active, passive, here, there))


def flat(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            yield from flat(part)
        else:
            yield part


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tests", type=Path, required=True)
    parser.add_argument("--dev", required=True)
    parser.add_argument("--gid", default="0")
    parser.add_argument("--address", required=True)
    parser.add_argument("--left-out", type=Path, nargs="+", required=True)
    parser.add_argument("--only", default="")
    args = parser.parse_args()

    # What the tests print is no TAP.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.path[:0] = [str(args.tests), str(args.tests / "tests")]
    sys.argv[1:] = ["--dev", args.dev, "--gid", args.gid]
    from args_parser import parser as theirs
    theirs.parse_args()
    import tests
    from tests import base

    connector = Connector(args.address)
    base.RCResources.pre_run = lambda self, rpsns, rqps_num: connector.pre_run(self, rpsns, rqps_num)
    from tests import test_mr
    test_mr.MRTest.restate_qps = lambda self: connector.restate(self)
    # They look for the address below the device's PCI function.
    base.RDMATestCase._get_ip_mac = lambda self, dev, port, gid: self.args.append(
        [dev, port, gid, args.address, "02:00:00:00:00:01"])

    expected = Expected(args.left_out)
    tap = Tap(out, expected)
    for test in flat(unittest.defaultTestLoader.loadTestsFromModule(tests)):
        if re.search(args.only, Tap.name(test)):
            test.run(tap)
            connector.forget()
    if not args.only:
        for pattern in sorted(expected.unused):
            tap.fact(False, f"the list is right: no test is left out as {pattern}")
    print(f"# {tap.left_out} left out\n1..{tap.facts}", file=out)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception:  # 1, as Python has it, would be "some fact failed".
        traceback.print_exc()
        sys.exit(2)
