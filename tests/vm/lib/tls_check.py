#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""tls_check.py CAPTURE

Does every TCP connection of a capture carry TLS records (RFC 8446 section 5.1) and nothing else? Each direction is
followed from its first byte on: it begins with a handshake record, has records of data, and where each record begins
follows from the lengths before it. Prints a line for each direction; exits with 1 if one is anything else, or none
is there.

Wireshark's dissector counts bytes that it cannot parse as segments of a record that is still to come.
"""
import struct
import sys

from stream_check import directions

CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, DATA = range(20, 24)
NAMES = {CHANGE_CIPHER_SPEC: "change_cipher_spec", ALERT: "alert", HANDSHAKE: "handshake", DATA: "data"}
VERSIONS = (0x0301, 0x0303)  # of a ClientHello, and of all else since TLS 1.2
LONGEST = (1 << 14) + 256


def records(stream):
    """The type of each record, or None for what is none, or does not end."""
    at = 0
    while at < len(stream):
        if at + 5 > len(stream):
            yield None
            return
        kind, version, length = struct.unpack_from(">BHH", stream, at)
        at += 5 + length
        if kind not in NAMES or version not in VERSIONS or length > LONGEST or at > len(stream):
            yield None
            return
        yield kind


def check(name, stream):
    kinds = list(records(stream))
    right = None not in kinds and kinds[0] == HANDSHAKE and DATA in kinds
    counts = ", ".join(f"{kinds.count(kind)} {what}" for kind, what in NAMES.items())
    print(f"{name}: {len(stream)} bytes, records: {counts}{'' if right else ', and what is no TLS'}")
    return right


def main():
    found = directions(sys.argv[1])
    verdicts = [
        check(f"stream {stream} from port {port}", direction.buf)
        for (stream, port), direction in sorted(found.items())
    ]
    print(f"{len(verdicts)} directions, {verdicts.count(False)} of them wrong")
    return 0 if verdicts and all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
