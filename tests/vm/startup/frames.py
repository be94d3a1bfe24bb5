#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""frames.py FILE.pcap WIRE: is what MPA start-up said as it should be? Prints TAP.

WIRE has lines PORT|WHAT|PATTERN. The pattern is searched in the frames of all connections to
PORT, put together like this, in the order of the connections:

.N req frame rev=2 M=0 C=1 R=0 S=1 L=0 pd=4 A=1 send=1 write=1 read=1 ird=4 ord=4 .N rep ...

N counts the connections to the port, req and rep name the side that sent the frame, "frame",
"key" and "private" its kind. After its frames, "first" names the operation of the first FPDU of
each side, the error of a Terminate, its CRC (good, bad, or none: zero), and whether a marker stands
before it.
"""

import re
import struct
import sys

KEYS = (b"MPA ID Req Frame", b"MPA ID Rep Frame", b"MPA private data", b"MPA ident frame")


def packets(data):
    magic = struct.unpack_from("<I", data)[0]
    order = "<" if magic in (0xA1B2C3D4, 0xA1B23C4D) else ">"
    at = 24
    while at + 16 <= len(data):
        length = struct.unpack_from(order + "I", data, at + 8)[0]
        yield data[at + 16 : at + 16 + length]
        at += 16 + length


def segments(data):
    """(source port, destination port, flags, sequence number, payload) of IPv4 TCP."""
    for p in packets(data):
        if len(p) < 54 or p[12:14] != b"\x08\x00" or p[23] != 6:
            continue
        ip = p[14:]
        ip = ip[: struct.unpack_from(">H", ip, 2)[0]]
        tcp = ip[(ip[0] & 15) * 4 :]
        sport, dport, seq = struct.unpack_from(">HHI", tcp)
        yield sport, dport, tcp[13], seq, tcp[(tcp[12] >> 4) * 4 :]


class Side:
    """One direction's first bytes, in order."""

    def __init__(self, start):
        self.start = (start + 1) % 2**32
        self.buf = bytearray()

    def add(self, seq, payload):
        at = (seq - self.start) % 2**32
        if at <= len(self.buf) < 4096 and at + len(payload) > len(self.buf):
            self.buf[at:] = payload


def connections(data):
    live, done = {}, []
    for sport, dport, flags, seq, payload in segments(data):
        if flags & 0x12 == 0x02:
            live[sport, dport] = [Side(seq), None]
            done.append((dport, live[sport, dport]))
        elif flags & 0x12 == 0x12 and (dport, sport) in live:
            live[dport, sport][1] = Side(seq)
        for key, side in (((sport, dport), 0), ((dport, sport), 1)):
            if payload and key in live and live[key][side]:
                live[key][side].add(seq, payload)
    return done


def crc32c(buf):
    crc = 0xFFFFFFFF
    for b in buf:
        crc ^= b
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def flags_text(flags):
    return " ".join(f"{n}={int(bool(flags & b))}" for n, b in zip("MCRSL", (128, 64, 32, 16, 8)))


def frame(buf):
    """Text of the frame at the beginning, its length and whether it asks for markers."""
    key = next((k for k in KEYS if buf.startswith(k)), None)
    if key is None or len(buf) < (16 if key == KEYS[3] else 20):
        return None
    if key == KEYS[3]:
        return f"key rev={buf[15] & 7} {flags_text(buf[15] & 0xF8)}", 16, buf[15] & 128
    flags, rev, pd = struct.unpack_from(">BBH", buf, 16)
    name = "private" if key == KEYS[2] else "frame"
    text = f"{name} rev={rev} {flags_text(flags)} pd={pd}"
    if rev == 2 and flags & 16 and len(buf) >= 24:
        ird, ord_ = struct.unpack_from(">HH", buf, 20)
        text += f" A={ird >> 15} send={ird >> 14 & 1} write={ord_ >> 15} read={ord_ >> 14 & 1}"
        text += f" ird={ird & 0x3FFF} ord={ord_ & 0x3FFF}"
    return text, 20 + pd, flags & 128


def first_fpdu(buf, markers):
    body = buf[4:] if markers else buf
    if len(body) < 4:
        return None
    length = struct.unpack_from(">H", body)[0]
    whole = (2 + length + 3) // 4 * 4
    text = f"first op={body[3] & 15}"
    if body[3] & 15 == 7 and len(body) >= 22:
        text += f" error={body[20:22].hex()}"
    # Beyond the next marker it takes more than this to tell.
    if len(body) >= whole + 4 and whole < 100:
        covered = buf[: whole + (4 if markers else 0)]
        field = struct.unpack_from("<I", body, whole)[0]
        text += f" crc={'good' if field == crc32c(covered) else 'none' if not field else 'bad'}"
    # An FPDU itself begins with its length, which is never zero.
    return f"{text} mark={int(buf[:4] == bytes(4))}"


def describe(sides):
    """Both sides' frames, then both sides' first FPDUs."""
    rest, wants = [b"", b""], [0, 0]
    for i, name in enumerate(("req", "rep")):
        buf = bytes(sides[i].buf) if sides[i] else b""
        while (found := frame(buf)) is not None:
            text, length, markers = found
            yield f"{name} {text}"
            buf, wants[i] = buf[length:], markers or wants[i]
        rest[i] = buf
    for i, name in enumerate(("req", "rep")):
        if (text := first_fpdu(rest[i], wants[1 - i])) is not None:
            yield f"{name} {text}"


def main():
    with open(sys.argv[1], "rb") as f:
        said = {}
        for port, sides in connections(f.read()):
            said.setdefault(port, []).append(list(describe(sides)))
    with open(sys.argv[2]) as f:
        wanted = [line.rstrip("\n").split("|", 2) for line in f]
    failed = 0
    for number, (port, what, pattern) in enumerate(wanted, 1):
        text = " ".join(
            f".{n} {line}" for n, lines in enumerate(said.get(int(port), []), 1) for line in lines
        )
        good = re.search(pattern, text) is not None
        failed += not good
        why = "" if good else f" (wanted /{pattern}/: {text})"
        print(f"{'ok' if good else 'not ok'} {number} - port {port}: {what}{why}")
    sys.exit(failed > 0)


main()
