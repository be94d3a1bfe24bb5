#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""start_keys.py CAPTURE OUT: revision 0 for a reader that knows revision 1 alone.

Writes the capture again. In place of each Start Key, 16 bytes, stands the frame of revision 1 that
says the same, of 20: request for the side whose key comes first, reply for the other. The sequence
numbers behind it are four higher for that, and the hosts have other addresses, so that a reader
that is given both captures keeps their connections apart; all else is as it was sent. Prints how
many keys there were.
"""
import struct
import sys

REQ, REP, KEY = b"MPA ID Req Frame", b"MPA ID Rep Frame", b"MPA ident frame"
ETHERNET = 14
SOURCE, DESTINATION = 12, 16
MORE = 4


class Translator:
    """Of IPv4 in Ethernet; the checksums, which nobody looks at, stay as they were."""

    def __init__(self):
        self.key_at = {}  # by source and destination port: the key's sequence number
        self.requests = set()

    def moved(self, way, seq):
        """A sequence number of this direction, behind its key or before."""
        behind = way in self.key_at and 0 < (seq - self.key_at[way]) % 2**32 < 2**31
        return (seq + MORE * behind) % 2**32

    def frame(self, frame):
        """What to write for it."""
        if frame[12:14] != b"\x08\0" or frame[ETHERNET + 9] != 6:
            return frame
        tcp = ETHERNET + (frame[ETHERNET] & 15) * 4
        (length,) = struct.unpack_from(">H", frame, ETHERNET + 2)
        payload = tcp + (frame[tcp + 12] >> 4) * 4
        buf = frame[payload : ETHERNET + length]
        way, back = frame[tcp : tcp + 4], frame[tcp + 2 : tcp + 4] + frame[tcp : tcp + 2]
        seq, ack = struct.unpack_from(">II", frame, tcp + 4)
        if buf.startswith(KEY):
            self.key_at[way] = seq
            if back not in self.requests:
                self.requests.add(way)
            key = REQ if way in self.requests else REP
            buf = key + bytes((buf[15] & 0xC0, 1, 0, 0)) + buf[16:]
            length += MORE
        headers = bytearray(frame[:payload])
        struct.pack_into(">H", headers, ETHERNET + 2, length)
        for host in SOURCE, DESTINATION:
            headers[ETHERNET + host] ^= 1
        struct.pack_into(">II", headers, tcp + 4, self.moved(way, seq), self.moved(back, ack))
        return bytes(headers) + buf


def main():
    with open(sys.argv[1], "rb") as file:
        data = file.read()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    translator, at = Translator(), 24
    with open(sys.argv[2], "wb") as out:
        out.write(data[:at])
        while at + 16 <= len(data):
            time, fraction, length, full = struct.unpack_from(order + "IIII", data, at)
            at += 16
            frame = translator.frame(data[at : at + length])
            at += length
            full += len(frame) - length
            out.write(struct.pack(order + "IIII", time, fraction, len(frame), full) + frame)
    print(f"{len(translator.key_at)} Start Keys")


main()
