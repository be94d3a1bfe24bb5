# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""The formats of MPA, DDP and RDMAP, byte by byte.

Written from RFC 5040, 5041, 5044, 6581, 7306 and draft-culley-iwarp-mpa-03, and from nothing of Kiwarp's
own, so that a misreading there cannot hide behind the same misreading here. Everything can be
built wrong on purpose: no function refuses a value that its field can hold.
"""
import struct
from dataclasses import dataclass


def _crc_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return tuple(table)


_CRC_TABLE = _crc_table()


def crc32c(buf):
    """The FPDU's CRC field as it goes over the wire (Castagnoli, least significant byte first)."""
    table, crc = _CRC_TABLE, 0xFFFFFFFF
    for byte in buf:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return struct.pack("<I", crc ^ 0xFFFFFFFF)


# --- MPA start-up -------------------------------------------------------------------------------

REQ_KEY = b"MPA ID Req Frame"
REP_KEY = b"MPA ID Rep Frame"
START_KEY = b"MPA ident frame"
FLAG_M, FLAG_C, FLAG_R, FLAG_S = 0x80, 0x40, 0x20, 0x10
FRAME_LEN = 20
NOT_NEGOTIATED = 0x3FFF


@dataclass
class Enhanced:
    """RFC 6581's first four bytes of private data."""

    p2p: bool = False  # A
    send: bool = False  # B
    ird: int = 4
    write: bool = False  # C
    read: bool = False  # D
    ord: int = 4

    def build(self):
        return struct.pack(
            ">HH",
            self.p2p << 15 | self.send << 14 | self.ird,
            self.write << 15 | self.read << 14 | self.ord,
        )

    @staticmethod
    def parse(buf):
        a, b = struct.unpack(">HH", buf[:4])
        return Enhanced(
            bool(a & 0x8000),
            bool(a & 0x4000),
            a & 0x3FFF,
            bool(b & 0x8000),
            bool(b & 0x4000),
            b & 0x3FFF,
        )


def start_frame(key, flags=FLAG_C, rev=2, pd=b"", pd_len=None):
    return key + struct.pack(">BBH", flags, rev, len(pd) if pd_len is None else pd_len) + pd


@dataclass
class StartFrame:
    key: bytes
    flags: int
    rev: int
    pd: bytes


# --- FPDUs --------------------------------------------------------------------------------------

MARKER_INTERVAL = 512


def pad_len(ulpdu_len):
    return -(2 + ulpdu_len) % 4


class Framer:
    """One direction's FPDUs; with markers it knows its place in the stream."""

    def __init__(self, markers=False, crc=True):
        self.markers = markers
        self.crc = crc
        self.offset = 0

    def frame(self, ulpdu, length=None, pad=None, crc=None, pointer=None):
        """An FPDU. length, pad, crc and pointer (what every FPDUPTR says) replace what is right."""
        if length is None:
            length = len(ulpdu)
        if pad is None:
            pad = bytes(pad_len(len(ulpdu)))
        body = struct.pack(">H", length) + ulpdu + pad
        out = self._with_markers(body, pointer) if self.markers else body
        if crc is None:
            crc = crc32c(out) if self.crc else b"\0\0\0\0"
        self.offset += len(out) + len(crc)
        return out + crc

    def _with_markers(self, body, pointer):
        out = bytearray()
        start = self.offset
        header = start + (4 if start % MARKER_INTERVAL == 0 else 0)
        at = 0
        while True:
            here = start + len(out)
            # First of all: a marker directly behind the PAD belongs to this FPDU, before its CRC.
            if here % MARKER_INTERVAL == 0:
                distance = max(here - header, 0)
                out += struct.pack(">HH", 0, distance if pointer is None else pointer)
                continue
            if at == len(body):
                return bytes(out)
            room = MARKER_INTERVAL - here % MARKER_INTERVAL
            out += body[at : at + room]
            at = min(at + room, len(body))


class FramingError(Exception):
    """What the other side sent breaks RFC 5044."""


class Deframer:
    """The receiving direction: bytes in, ULPDUs out; every byte that is not payload is checked."""

    def __init__(self, markers=False, crc=True):
        self.markers = markers
        self.crc = crc
        self.buffer = bytearray()
        self.offset = 0  # of the buffer's first byte
        self.seen_markers = 0

    def feed(self, buf):
        self.buffer += buf

    def next(self):
        """The next FPDU's ULPDU, or None while bytes are missing."""
        taken = self._collect(2)
        if taken is None:
            return None
        length = struct.unpack(">H", taken[0])[0]
        taken = self._collect(2 + length + pad_len(length))
        if taken is None or len(self.buffer) < taken[1] + 4:
            return None
        clean, raw_len, markers = taken
        header = self.offset + (4 if markers and markers[0][0] == self.offset else 0)
        for at, reserved, pointer in markers:
            if reserved or pointer != max(at - header, 0):
                marker = f"{reserved:04x} {pointer:04x}"
                raise FramingError(f"marker {marker} at {at:#x} of the FPDU at {header:#x}")
        if any(clean[2 + length :]):
            raise FramingError("PAD is not zero")
        raw, crc = bytes(self.buffer[:raw_len]), bytes(self.buffer[raw_len : raw_len + 4])
        if self.crc and crc != crc32c(raw):
            raise FramingError(f"CRC {crc.hex()}, wanted {crc32c(raw).hex()}")
        del self.buffer[: raw_len + 4]
        self.offset += raw_len + 4
        self.seen_markers += len(markers)
        return clean[2 : 2 + length]

    def _collect(self, wanted):
        """wanted bytes, and a marker directly behind them: bytes, raw length, markers."""
        if not self.markers:
            if len(self.buffer) < wanted:
                return None
            return bytes(self.buffer[:wanted]), wanted, []
        clean, markers, at = bytearray(), [], 0
        while True:
            here = self.offset + at
            if here % MARKER_INTERVAL == 0:
                if len(self.buffer) < at + 4:
                    return None
                markers.append((here, *struct.unpack(">HH", self.buffer[at : at + 4])))
                at += 4
                continue
            if len(clean) == wanted:
                return bytes(clean), at, markers
            room = min(MARKER_INTERVAL - here % MARKER_INTERVAL, wanted - len(clean))
            if len(self.buffer) < at + room:
                return None
            clean += self.buffer[at : at + room]
            at += room


# --- DDP and RDMAP ------------------------------------------------------------------------------

WRITE, READ_REQ, READ_RESP, SEND, SEND_INV, SEND_SE, SEND_SE_INV, TERMINATE = range(8)
IMM, IMM_SE, ATOMIC_REQ, ATOMIC_RESP = range(8, 12)  # RFC 7306
QN_SEND, QN_READ, QN_TERMINATE, QN_ATOMIC = range(4)
FETCH_ADD, CMP_SWAP = 0, 2


def tagged(opcode, stag, to, payload=b"", last=True, dv=1, rv=1, reserved=0, rsvd_ulp=0):
    control = 0x80 | last << 6 | reserved << 2 | dv
    return struct.pack(">BBIQ", control, rv << 6 | rsvd_ulp << 4 | opcode, stag, to) + payload


def untagged(
    opcode, qn, msn, payload=b"", mo=0, last=True, dv=1, rv=1, ulp=0, reserved=0, rsvd_ulp=0
):
    control = last << 6 | reserved << 2 | dv
    rdmap = rv << 6 | rsvd_ulp << 4 | opcode
    return struct.pack(">BBIIII", control, rdmap, ulp, qn, msn, mo) + payload


def read_request_body(sink_stag, sink_to, size, source_stag, source_to):
    return struct.pack(">IQIIQ", sink_stag, sink_to, size, source_stag, source_to)


def atomic_body(op, request, stag, to, value, mask, compare=0, compare_mask=2**64 - 1):
    return struct.pack(">IIIQQQQQ", op, request, stag, to, value, mask, compare, compare_mask)


def atomic_answer(request, value):
    return struct.pack(">IQ", request, value)


def with_version(ulpdu, version):
    """The same with other versions of DDP and RDMAP."""
    return bytes((ulpdu[0] & 0xFC | version, ulpdu[1] & 0x3F | version << 6)) + ulpdu[2:]


@dataclass
class Segment:
    """A received DDP segment with its RDMAP control byte."""

    ulpdu: bytes
    tagged: bool = False
    last: bool = False
    opcode: int = 0
    stag: int = 0
    to: int = 0
    ulp: int = 0
    qn: int = 0
    msn: int = 0
    mo: int = 0
    payload: bytes = b""

    @staticmethod
    def parse(ulpdu, version=1):
        """Only what a sender may send: reserved bits zero, both versions as they are to be."""
        if len(ulpdu) < 2:
            raise FramingError(f"ULPDU of {len(ulpdu)} bytes")
        control, rdmap = ulpdu[0], ulpdu[1]
        if control & 0x3F != version or rdmap & 0xF0 != version << 6:
            raise FramingError(f"control bytes {control:02x} {rdmap:02x}")
        seg = Segment(ulpdu, bool(control & 0x80), bool(control & 0x40), rdmap & 0x0F)
        head = header_len(ulpdu)
        if len(ulpdu) < head:
            raise FramingError(f"ULPDU of {len(ulpdu)} bytes")
        if seg.tagged:
            seg.stag, seg.to = struct.unpack(">IQ", ulpdu[2:head])
        else:
            seg.ulp, seg.qn, seg.msn, seg.mo = struct.unpack(">IIII", ulpdu[2:head])
        seg.payload = ulpdu[head:]
        return seg


def header_len(ulpdu):
    return 14 if ulpdu[0] & 0x80 else 18


# --- Terminate ----------------------------------------------------------------------------------

RDMAP, DDP, LLP = range(3)
TERM_M, TERM_D, TERM_R = 0x80, 0x40, 0x20


@dataclass(frozen=True)
class Error:
    """What a Terminate says: layer, error type, error code."""

    layer: int
    etype: int
    code: int

    def packed(self):
        return self.layer << 12 | self.etype << 8 | self.code

    def __str__(self):
        layer = ("RDMAP", "DDP", "LLP")[self.layer] if self.layer < 3 else self.layer
        return f"{layer} {self.etype}/{self.code:02x}"


@dataclass
class Terminate:
    error: Error
    flags: int = 0
    seg_len: int = 0
    ddp_header: bytes = b""
    rdmap_header: bytes = b""
    rest: bytes = b""

    @staticmethod
    def parse(payload):
        if len(payload) < 4:
            raise FramingError(f"Terminate of {len(payload)} bytes")
        first, code, flags, reserved = payload[:4]
        if flags & 0x1F or reserved:
            raise FramingError(f"reserved bits of a Terminate: {flags:02x} {reserved:02x}")
        term = Terminate(Error(first >> 4, first & 0x0F, code), flags)
        at = 4
        if flags & TERM_M:
            term.seg_len = struct.unpack(">H", payload[at : at + 2])[0]
            at += 2
        if flags & TERM_D:
            end = at + header_len(payload[at:])
            term.ddp_header = payload[at:end]
            at = end
        if flags & TERM_R:
            term.rdmap_header = payload[at : at + 28]
            at += 28
        term.rest = payload[at:]
        return term


def terminate_body(error, flags=0, rest=b"", swapped=False):
    """swapped: layer and type exchanged, as a widespread software RNIC sends them."""
    first = error.etype << 4 | error.layer if swapped else error.layer << 4 | error.etype
    return struct.pack(">BBBB", first, error.code, flags, 0) + rest


def expected_terminate(error, ulpdu):
    """The Terminate that an error in this DDP segment has to give (RFC 5040 section 4.8).

    An LLP error leaves no header that could be believed. The RDMAP header is that of a Read Request
    and goes with what RDMAP found in it; with no other error anybody has read it.
    """
    term = Terminate(error)
    if error.layer == LLP or ulpdu is None:
        return term
    head = header_len(ulpdu)
    term.flags = TERM_M | TERM_D
    term.seg_len = len(ulpdu)
    term.ddp_header = ulpdu[:head]
    is_read = not ulpdu[0] & 0x80 and ulpdu[1] & 0x0F == READ_REQ
    if error.layer == RDMAP and error.etype == 1 and is_read:
        term.flags |= TERM_R
        term.rdmap_header = ulpdu[head:]
    return term
