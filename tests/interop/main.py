#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Runs the cases of a peer of another make against Kiwarp; prints TAP.

main.py --subject COMMAND --device NAME --address ADDR --own ADDR [--netns NAME] [--only TEXT]
        [--terminates FILE]
  --subject  how to start kiwarp-subject where the device's interface is
  --address  of that interface
  --own      of the interface that the peer uses; --netns says in which namespace
  --only     cases whose names match the expression
  --terminates  write each Terminate that Kiwarp sent: ports from and to, layer, type, code
"""
import argparse
import ctypes
import re
import shlex
import sys
from pathlib import Path

import cases_errors  # noqa: F401  (registers cases, as do the others)
import cases_good  # noqa: F401
import cases_markers  # noqa: F401
import cases_reads  # noqa: F401
import cases_rev0  # noqa: F401
import cases_start  # noqa: F401
import cases_teardown  # noqa: F401
import cases_terminate  # noqa: F401
from harness import CASES, Env, run_cases
from subject import Device, Subject

CLONE_NEWNET = 0x40000000
PORT = 18650


def enter_namespace(name):
    """Sockets made from now on are in the namespace; files, and so sysfs, stay those of here."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{name}", "rb") as namespace:
        if libc.setns(namespace.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {name}")


def main():
    parser = argparse.ArgumentParser()
    for name in ("subject", "device", "address", "own"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--netns")
    parser.add_argument("--only", default=".")
    parser.add_argument("--terminates", type=Path)
    args = parser.parse_args()

    if args.netns:
        enter_namespace(args.netns)
    subject = Subject(shlex.split(args.subject), args.address, PORT)
    env = Env(subject, Device(args.device), args.address, PORT, args.own)
    env.start_bystander()
    chosen = [c for c in CASES if re.search(args.only, c[0])]
    failed = run_cases(env, chosen)
    subject.end()
    if args.terminates:
        lines = [" ".join(map(str, t)) for t in env.terminates]
        args.terminates.write_text("".join(f"{line}\n" for line in lines))
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
