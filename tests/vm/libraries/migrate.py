#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Move a QEMU machine by RDMA, and compare its memory afterwards.

migrate.py --address IP --port PORT --folder DIR [--pin-all]
"""
from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MEMORY = 48 << 20
# Above what the firmware writes to.
START = 16 << 20
SIZE = 24 << 20


class Machine:
    """A stopped machine, and its monitor."""

    def __init__(self, name: str, folder: Path, *options: str) -> None:
        self.path = folder / f"{name}.qmp"
        self.process = subprocess.Popen(
            ["qemu-system-x86_64", "-name", name, "-machine", "pc", "-accel", "tcg", "-nodefaults", "-display", "none",
             "-S", "-m", f"{MEMORY >> 20}M", "-qmp", f"unix:{self.path},server=on,wait=off", *options])
        self.channel = self.connect()
        self.stream = self.channel.makefile("rw")
        self.stream.readline()
        self.ask("qmp_capabilities")

    def connect(self) -> socket.socket:
        while self.process.poll() is None:
            channel = socket.socket(socket.AF_UNIX)
            try:
                channel.connect(str(self.path))
                return channel
            except OSError:
                channel.close()
                time.sleep(0.05)
        raise SystemExit("QEMU has ended")

    def ask(self, command: str, **arguments: Any) -> Any:
        self.stream.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.stream.flush()
        while line := self.stream.readline():
            answer = json.loads(line)
            if "error" in answer:
                raise SystemExit(f"{command}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]
        raise SystemExit(f"{command}: QEMU has ended")

    def migrated(self) -> bool:
        state = self.ask("query-migrate")
        if state.get("status") in ("failed", "cancelled"):
            raise SystemExit(f"the migration failed: {state}")
        return state.get("status") == "completed"

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def migrate(address: str, port: int, folder: Path, pin_all: bool) -> None:
    content = os.urandom(SIZE)
    (folder / "content").write_bytes(content)
    uri = f"rdma:{address}:{port}"
    target = Machine("target", folder, "-incoming", "defer")
    source = Machine("source", folder, "-device", f"loader,file={folder}/content,addr={START},force-raw=on")
    try:
        if pin_all:
            for machine in (target, source):
                machine.ask("migrate-set-capabilities", capabilities=[{"capability": "rdma-pin-all", "state": True}])
        target.ask("migrate-incoming", uri=uri)
        source.ask("migrate", uri=uri)
        while not (source.migrated() and target.migrated()):
            time.sleep(0.05)
        print(json.dumps(source.ask("query-migrate"), indent=1))
        target.ask("pmemsave", val=START, size=SIZE, filename=str(folder / "arrived"))
    finally:
        source.end()
        target.end()
    if (folder / "arrived").read_bytes() != content:
        raise SystemExit("the memory is not what it was")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--pin-all", action="store_true")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    migrate(args.address, args.port, args.folder, args.pin_all)
    return 0


if __name__ == "__main__":
    sys.exit(main())
