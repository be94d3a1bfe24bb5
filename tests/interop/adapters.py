# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""What other makes of RNIC do at start-up and at the end, read from their drivers' sources.

Documentation/interoperability.md says which source each field is from, and what is the firmware's.
"""
from dataclasses import dataclass, field

import wire
from harness import CheckFailed, same
from wire import Enhanced

KINDS = ("write", "read", "send")


def kinds_of(enh):
    return {kind for kind in KINDS if getattr(enh, kind)}


@dataclass(frozen=True)
class Adapter:
    """One make of RNIC. The defaults are what most have in common."""

    name: str
    crc: bool = True  # its frames have C
    markers: bool = False  # its frames have M
    flags: int = 0  # others of its request
    repeats_flags: bool = False  # its reply has all flags of the request
    offers: tuple = ("write", "read")  # ready-to-receive messages in its request; none: A = 0
    knows: tuple = ("write", "read")  # what its reply names, of those offered
    names_all: bool = False  # its reply names all of them, not only the first of knows
    picks: tuple = ("read", "write")  # the first of these that a reply names is what it sends
    only_own: bool = False  # its pick has to be the one kind that it offered
    depth: int = 32  # the most that the device has
    reply_limits: bool = False  # its reply has these, whatever its consumer asks for
    reply_raises: bool = False  # its reply's IRD is at least the request's ORD
    needs_p2p: bool = False  # resets the connection over a frame with A = 0
    always_p2p: bool = False  # its frames have A = 1, whatever a request has
    ord_bound: bool = False  # ends it if a reply's ORD is more than its IRD
    takes_markers: bool = True
    one_segment: bool = False  # a frame in more than one segment is none
    pd_max: int = 512  # of a frame, with the enhanced data
    falls_back: bool = False  # asks again with revision 1 after a reset
    rev1_read: bool = False  # begins with a Read of no length in revision 1
    sink: tuple = (1, 1)  # STag and TO of its ready-to-receive message
    source: tuple = (1, 1)
    swapped: bool = False  # layer and type of its Terminate are exchanged
    quotes: bool = True  # its Terminate quotes the segment's header
    term_fin: bool = True  # a FIN is behind its Terminate, at once
    sysctls: dict = field(default_factory=dict)  # of its TCP: net.ipv4.*
    window: int = 256 * 1024

    # --- what it sends ---

    def request(self, rev, ird, ord_, pd):
        flags = self.crc * wire.FLAG_C | self.markers * wire.FLAG_M | self.flags
        if rev == 1:
            return wire.start_frame(wire.REQ_KEY, flags, 1, pd)
        enh = Enhanced(bool(self.offers), ird=ird, ord=ord_)
        for kind in self.offers:
            setattr(enh, kind, True)
        if "read" in self.offers:
            enh.ord = max(enh.ord, 1)
        return wire.start_frame(wire.REQ_KEY, flags | wire.FLAG_S, 2, enh.build() + pd)

    def reply(self, request, ird, ord_, pd, reject=0):
        """Its answer, and the ready-to-receive messages that it names."""
        asked = Enhanced.parse(request.pd)
        if self.reply_limits:
            ird = ord_ = self.depth
        if self.reply_raises:
            ird = max(ird, min(asked.ord, self.depth))
        enh = Enhanced(asked.p2p or self.always_p2p, ird=ird, ord=min(ord_, asked.ird))
        known = [kind for kind in self.knows if kind in kinds_of(asked)] or list(self.knows)
        named = known if self.names_all else known[:1]
        for kind in named if asked.p2p else ():
            setattr(enh, kind, True)
        if "read" in named:
            enh.ird = max(enh.ird, 1)
        flags = request.flags if self.repeats_flags else self.crc * wire.FLAG_C
        flags |= self.markers * wire.FLAG_M | wire.FLAG_S | reject
        return wire.start_frame(wire.REP_KEY, flags, 2, enh.build() + pd), named

    def ready(self, peer, kind):
        """Its ready-to-receive message."""
        if kind == "send":
            return peer.send_message(b"")
        if kind == "write":
            return wire.tagged(wire.WRITE, *self.sink)
        return peer.read_request(*self.sink, 0, *self.source)

    def terminate(self, error, ulpdu):
        if not self.quotes:
            return wire.terminate_body(error, swapped=self.swapped)
        rest = len(ulpdu).to_bytes(2, "big") + ulpdu[: wire.header_len(ulpdu)]
        return wire.terminate_body(error, wire.TERM_M | wire.TERM_D, rest, self.swapped)

    # --- what it takes ---

    def recv_frame(self, peer, key):
        """A start frame, as the adapter reads it."""
        if self.one_segment:
            buf = peer.recv_some()
            if len(buf) < wire.FRAME_LEN or len(buf) != wire.FRAME_LEN + int.from_bytes(buf[18:20], "big"):
                raise CheckFailed(f"{self.name}: not one whole frame in the first segment: {buf.hex()}")
            same(f"{self.name}: segments that the frame came in", 1, peer.data_segments())
            frame = wire.StartFrame(buf[:16], buf[16], buf[17], buf[20:])
        else:
            frame = peer.recv_start_frame()
        same(f"{self.name}: key", key, frame.key)
        if len(frame.pd) > self.pd_max:
            raise CheckFailed(f"{self.name}: {len(frame.pd)} bytes of private data")
        if frame.flags & wire.FLAG_M and not self.takes_markers:
            raise CheckFailed(f"{self.name}: takes no markers")
        return frame

    def taken(self, frame, ird):
        """Its driver's checks of a revision 2 reply; the ready-to-receive message that it then sends."""
        same(f"{self.name}: revision and S", (2, wire.FLAG_S), (frame.rev, frame.flags & wire.FLAG_S))
        enh = Enhanced.parse(frame.pd)
        if self.needs_p2p:
            same(f"{self.name}: A", True, enh.p2p)
        if self.ord_bound and enh.ord > ird:
            raise CheckFailed(f"{self.name}: ORD {enh.ord}, its IRD is {ird}")
        if not self.offers:
            return None
        picked = [kind for kind in self.picks if kind in kinds_of(enh)]
        if not picked or picked[0] not in self.offers:
            raise CheckFailed(f"{self.name}: none of {self.offers} in {kinds_of(enh)}")
        if picked[0] == "read" and not enh.ird:
            raise CheckFailed(f"{self.name}: no IRD for its Read")
        return picked[0]


# The TCP of some adapters: neither SACK nor timestamps.
PLAIN_TCP = {"tcp_sack": 0, "tcp_timestamps": 0}

ADAPTERS = (
    Adapter(
        "cxgb4",
        offers=("read",),
        knows=("read",),
        reply_raises=True,
        picks=("write", "read"),
        pd_max=256,
        falls_back=True,
        rev1_read=True,
        sysctls=PLAIN_TCP,
    ),
    Adapter(
        "irdma",
        knows=("read", "write"),
        depth=127,
        reply_limits=True,
        needs_p2p=True,
        always_p2p=True,
        ord_bound=True,
        one_segment=True,
        falls_back=True,
        sink=(0xABCD, 0),
        source=(0x1234, 0),
        term_fin=False,
        sysctls=PLAIN_TCP,
        window=0x3FFFC,
    ),
    Adapter(
        "irdma with markers",
        markers=True,
        knows=("read", "write"),
        depth=127,
        reply_limits=True,
        needs_p2p=True,
        always_p2p=True,
        ord_bound=True,
        one_segment=True,
        sink=(0xABCD, 0),
        source=(0x1234, 0),
        term_fin=False,
        sysctls=PLAIN_TCP,
        window=0x3FFFC,
    ),
    Adapter(
        "qedr",
        offers=("send", "write", "read"),
        knows=("send", "write", "read"),
        names_all=True,
        picks=("write", "read", "send"),
    ),
    Adapter(
        "qedr, ready by a Send",
        offers=("send", "write", "read"),
        knows=("send", "write", "read"),
        names_all=True,
        picks=("send", "write", "read"),
    ),
    Adapter(
        "siw",
        crc=False,
        repeats_flags=True,
        offers=(),
        depth=128,
        reply_raises=True,
        takes_markers=False,
        swapped=True,
        sink=(1, 0),
        source=(1, 0),
    ),
    Adapter(
        "siw, peer to peer",
        crc=False,
        repeats_flags=True,
        offers=("write",),
        picks=("write", "read"),
        depth=128,
        reply_raises=True,
        takes_markers=False,
        swapped=True,
        sink=(1, 0),
        source=(1, 0),
    ),
)
