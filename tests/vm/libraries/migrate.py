#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Move a QEMU machine by RDMA while it runs, and compare its memory afterwards.

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

# What the machine runs, in the place of its firmware: it writes a number that grows to the first word
# of one of these pages after the other, for ever.
BUSY, BUSY_SIZE, PAGE = 1 << 20, 12 << 20, 4096
ROM, RESET = 64 << 10, 0xFFF0
PROGRAM = bytes.fromhex(
    "fa"  # cli
    "2e660f01165000"  # lgdtl %cs:gdtr
    "0f20c0 0c01 0f22c0"  # protected mode: the lowest bit of %cr0
    "66ea18000f000800"  # ljmpl $8, $flat
    "66b81000 8ed8"  # flat: mov $16, %ax; mov %ax, %ds
    "31c0"  # xor %eax, %eax
    "bf00001000"  # 1: mov $BUSY, %edi
    "40"  # 2: inc %eax
    "8907"  # mov %eax, (%edi)
    "81c700100000"  # add $PAGE, %edi
    "81ff0000d000"  # cmp $(BUSY + BUSY_SIZE), %edi
    "72ef"  # jb 2b
    "ebe8"  # jmp 1b
    "0000000000000000 ffff0000009acf00 ffff00000092cf00"  # gdt: none, flat code, flat data
    "1700 38000f00"  # gdtr
)
# How long the machine may stand still, in ms: QEMU goes into another round while more is left than it could send
# in that time. It counts a page that goes by RDMA as one byte, so that what it could send in NEVER is less than
# 12 MiB on any machine; but more than nothing on a slow one, or it would end after the first round.
NEVER, AT_ONCE = 5000, 600000
ROUNDS = 3


class Machine:
    """A machine that is stopped at first, and its monitor."""

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

    def migration(self) -> dict[str, Any]:
        state: dict[str, Any] = self.ask("query-migrate")
        if state.get("status") in ("failed", "cancelled"):
            raise SystemExit(f"the migration failed: {state}")
        return state

    def migrated(self) -> bool:
        return self.migration().get("status") == "completed"

    def save(self, start: int, size: int, name: Path) -> bytes:
        self.ask("pmemsave", val=start, size=size, filename=str(name))
        return name.read_bytes()

    def written(self, folder: Path) -> int:
        """The last number that the program has written."""
        pages = self.save(BUSY, BUSY_SIZE, folder / "busy")
        return max(int.from_bytes(pages[n : n + 4], "little") for n in range(0, len(pages), PAGE))

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def migrate(address: str, port: int, folder: Path, pin_all: bool) -> None:
    content = os.urandom(SIZE)
    (folder / "content").write_bytes(content)
    # Far jump to the first byte of the ROM.
    rom = PROGRAM.ljust(RESET, b"\xf4") + bytes.fromhex("ea000000f0")
    (folder / "rom").write_bytes(rom.ljust(ROM, b"\0"))
    uri = f"rdma:{address}:{port}"
    bios = ("-bios", str(folder / "rom"))
    target = Machine("target", folder, *bios, "-incoming", "defer")
    source = Machine("source", folder, *bios, "-device", f"loader,file={folder}/content,addr={START},force-raw=on")
    try:
        if pin_all:
            for machine in (target, source):
                machine.ask("migrate-set-capabilities", capabilities=[{"capability": "rdma-pin-all", "state": True}])
        target.ask("migrate-incoming", uri=uri)
        source.ask("migrate-set-parameters", **{"downtime-limit": NEVER})
        source.ask("cont")
        while not (begun := source.written(folder)):
            time.sleep(0.05)
        source.ask("migrate", uri=uri)
        # What it has written since it was sent is sent again, and again.
        while (state := source.migration()).get("ram", {}).get("dirty-sync-count", 0) < ROUNDS:
            if state.get("status") == "completed":
                break
            time.sleep(0.05)
        source.ask("migrate-set-parameters", **{"downtime-limit": AT_ONCE})
        while not (source.migrated() and target.migrated()):
            time.sleep(0.05)
        state = source.migration()
        print(json.dumps(state, indent=1))
        moved = target.save(START, SIZE, folder / "arrived")
        ended = target.written(folder)
        same = source.save(0, MEMORY, folder / "left") == target.save(0, MEMORY, folder / "arrived")
    finally:
        source.end()
        target.end()
    print(f"{state['ram']['dirty-sync-count']} rounds; it wrote {begun} before, {ended} in the end")
    if moved != content or not same:
        raise SystemExit("the memory is not what it was")
    if ended <= begun or state["ram"]["dirty-sync-count"] < ROUNDS:
        raise SystemExit("the machine did not run meanwhile")


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
