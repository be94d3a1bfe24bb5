#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""stream_check.py CAPTURE [--markers]

Follow every MPA stream of a capture byte by byte, from the start-up frame on, the way RFC 5044
describes it: where each FPDU begins follows from the lengths before it, a marker stands at every
512th byte and points to the ULPDU_Length of its FPDU, the CRC covers both. Prints a line for
each stream with what was found; exits with 1 if anything is wrong.

Wireshark's dissector loses a marked stream when a segment holds more than one FPDU, or when a
marker stands directly behind a CRC, which is why this exists.
"""
import struct
import subprocess
import sys

START_KEYS = (b"MPA ID Req Frame", b"MPA ID Rep Frame")


def crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


CRC_TABLE = crc_table()


def crc32c(buf):
    crc = 0xFFFFFFFF
    for byte in buf:
        crc = (crc >> 8) ^ CRC_TABLE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


class Direction:
    """What one side of a connection sent, put back in order."""

    def __init__(self, first_seq):
        self.first_seq = first_seq
        self.buf = bytearray()
        self.segments = []
        self.received = []

    def add(self, seq, payload):
        self.received.append(((seq - self.first_seq) & 0xFFFFFFFF, payload))

    def join(self):
        for at, payload in sorted(self.received):
            if at > len(self.buf):
                raise SystemExit("bytes are missing from the capture")
            if at + len(payload) > len(self.buf):
                self.segments.append((at, at + len(payload)))
                self.buf[at:] = payload


def directions(capture):
    fields = ["tcp.stream", "tcp.srcport", "tcp.seq_raw", "tcp.payload"]
    command = ["tshark", "-r", capture, "-Y", "tcp.len > 0", "-T", "fields"]
    for field in fields:
        command += ["-e", field]
    lines = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ).stdout
    found = {}
    for line in lines.splitlines():
        stream, port, seq, payload = line.split("\t")
        direction = found.setdefault((stream, port), Direction(int(seq)))
        direction.add(int(seq), bytes.fromhex(payload.replace(":", "")))
    for direction in found.values():
        direction.join()
    return found


class Checker:
    """The FPDUs of one direction."""

    def __init__(self, stream, markers):
        self.stream = stream
        self.markers = markers
        self.at = 0
        self.header = 0
        self.fpdus = self.marks = self.wrong_markers = self.wrong_crcs = 0
        self.ends = {0}

    def marker(self, expected):
        if self.markers and self.at % 512 == 0:
            reserved, pointer = struct.unpack_from(">HH", self.stream, self.at)
            self.wrong_markers += reserved != 0 or pointer != expected()
            self.marks += 1
            self.at += 4

    def fpdu(self):
        begin = self.at
        self.marker(lambda: 0)
        self.header = self.at
        (length,) = struct.unpack_from(">H", self.stream, self.at)
        for word in range((2 + length + 3) // 4 + 1):
            if word:
                self.marker(lambda: self.at - self.header)
            self.at += 4
        (crc,) = struct.unpack_from("<I", self.stream, self.at - 4)
        self.wrong_crcs += crc != crc32c(self.stream[begin : self.at - 4])
        self.fpdus += 1
        self.ends.add(self.at)

    def run(self):
        while self.at < len(self.stream):
            self.fpdu()


def check(name, direction, markers):
    """Returns whether all is well, or None for what is not MPA."""
    if bytes(direction.buf[:16]) not in START_KEYS:
        return None
    (private,) = struct.unpack_from(">H", direction.buf, 18)
    start = 20 + private
    checker = Checker(bytes(direction.buf[start:]), markers)
    try:
        checker.run()
        complete = checker.at == len(checker.stream)
    except struct.error:
        complete = False
    segments = [(a - start, b - start) for a, b in direction.segments if a >= start]
    whole = sum(a in checker.ends and b in checker.ends for a, b in segments)
    print(
        f"{name}: {checker.fpdus} FPDUs, {checker.wrong_crcs} wrong CRCs, {checker.marks} markers,"
        f" {checker.wrong_markers} wrong, {whole} of {len(segments)} segments hold whole FPDUs,"
        f" {'complete' if complete else 'the lengths do not lead to its end'}"
    )
    # Segments that carry SACK blocks are shorter than those that FPDUs were cut for.
    aligned = whole >= len(segments) * 9 // 10
    return complete and aligned and not checker.wrong_crcs and not checker.wrong_markers


def main():
    found = directions(sys.argv[1])
    verdicts = [
        check(f"stream {stream} from port {port}", direction, "--markers" in sys.argv)
        for (stream, port), direction in sorted(found.items())
    ]
    verdicts = [verdict for verdict in verdicts if verdict is not None]
    print(f"{len(verdicts)} directions, {verdicts.count(False)} of them wrong")
    return 0 if verdicts and all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
