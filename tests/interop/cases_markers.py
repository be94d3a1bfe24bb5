# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Markers in either direction: at every place, and wrong."""
import contextlib

import wire
from cases_errors import BAD_CRC, BAD_LENGTH
from cases_good import both_ways, completed, expect_send, inbox, open_gate, pattern
from harness import CheckFailed, case, event_for, same
from subject import TERM_SENT, WC_RECV, WC_SEND

KINDS = ("responder", "initiator")
CUTS = ("whole", "random", "bytes")


@contextlib.contextmanager
def marked(env, kiwarp, wanted_here, wanted_there, **options):
    """A connection of which Kiwarp, the peer, or both want markers in what they receive."""
    with env.setting("markers", int(wanted_here)):
        link = env.open(kiwarp, markers=wanted_there, **options)
    same("M bit", wanted_here, bool(link.frame.flags & wire.FLAG_M))
    yield link
    if wanted_there and not link.peer.rx.seen_markers:
        raise CheckFailed("no marker came")


for kiwarp in KINDS:
    for name, here, there in (
        ("Kiwarp wants them", True, False),
        ("the peer wants them", False, True),
        ("both want them", True, True),
    ):
        for cut in CUTS:

            @case(f"markers: {name}, Kiwarp is {kiwarp}, cut: {cut}")
            def _(env, kiwarp=kiwarp, here=here, there=there, cut=cut):
                with marked(env, kiwarp, here, there, cut=cut) as link:
                    env.graceful(link, both_ways(env, link))

    @case(f"markers: at every place of an FPDU, from the peer, Kiwarp is {kiwarp}")
    def _(env, kiwarp=kiwarp):
        with marked(env, kiwarp, True, False, cut="random") as link:
            area, buf = env.area("target"), pattern(3000)
            at, ulpdus = 0, []
            for n in range(140):
                size = n % 41
                part = buf[at : at + size]
                ulpdus.append(wire.tagged(wire.WRITE, area.stag, area.to + at, part))
                at += size
            link.peer.send(*ulpdus, link.peer.send_message(b"end"))
            completed(env, link, "recv", (1, WC_RECV, 3))
            env.holds("target", 0, buf[:at])
            inbox(env, b"end")
            env.graceful(link, [2])

    @case(f"markers: at every place of an FPDU, from Kiwarp, Kiwarp is {kiwarp}")
    def _(env, kiwarp=kiwarp):
        with marked(env, kiwarp, False, True) as link:
            buf = pattern(4000)
            env.subject.fill("source", 0, buf)
            open_gate(link)
            for n in range(1, 61):
                size = 3000 if n % 20 == 0 else n * 5 % 97
                env.subject.must("send", link.name, n, f"source:{n}:{size}")
                expect_send(link.peer, buf[n : n + size], wire.SEND, n)
            completed(env, link, "send", *[(n, WC_SEND) for n in range(1, 61)])
            env.graceful(link)
            env.subject.erase("source")


def wrong(name, want, build):
    """build: the bytes at fault from a framer and a ULPDU that is long enough for a marker."""
    for kiwarp in KINDS:

        @case(f"markers: {name}, Kiwarp is {kiwarp}")
        def _(env, kiwarp=kiwarp):
            with marked(env, kiwarp, True, True) as link:
                peer, area = link.peer, env.area("target")
                peer.send(wire.tagged(wire.WRITE, 0, 0))
                ulpdu = wire.tagged(wire.WRITE, area.stag, area.to, pattern(600))
                peer.send_bytes(build(peer.tx, ulpdu))
                env.terminated(link, want, None)
                peer.close()
                env.ended(link, event_for(want), reason=TERM_SENT | want.packed())


wrong(
    "a pointer that is four too large",
    BAD_LENGTH,
    lambda tx, ulpdu: tx.frame(ulpdu, pointer=wire.MARKER_INTERVAL - tx.offset + 4),
)
wrong(
    "a pointer that is four too small",
    BAD_LENGTH,
    lambda tx, ulpdu: tx.frame(ulpdu, pointer=wire.MARKER_INTERVAL - tx.offset - 4),
)
wrong(
    "a pointer of zero within an FPDU",
    BAD_LENGTH,
    lambda tx, ulpdu: tx.frame(ulpdu, pointer=0),
)
wrong(
    "a pointer far behind",
    BAD_LENGTH,
    lambda tx, ulpdu: tx.frame(ulpdu, pointer=0xFFFC),
)
wrong(
    "a CRC that is wrong where the pointer is, too",
    BAD_CRC,
    lambda tx, ulpdu: tx.frame(ulpdu, pointer=0, crc=b"none"),
)


@case("markers: a CRC that leaves the markers out")
def _(env):
    with marked(env, "responder", True, True) as link:
        peer, area = link.peer, env.area("target")
        ulpdu = wire.tagged(wire.WRITE, area.stag, area.to, pattern(30))
        peer.send_bytes(peer.tx.frame(ulpdu, crc=wire.Framer().frame(ulpdu)[-4:]))
        env.terminated(link, BAD_CRC, None)
        peer.close()
        env.ended(link, event_for(BAD_CRC), reason=TERM_SENT | BAD_CRC.packed())


@case("markers: reserved bytes, and the pointer's low bits, are not looked at")
def _(env):
    with marked(env, "responder", True, False) as link:
        peer, area = link.peer, env.area("target")
        buf = bytearray(peer.tx.frame(wire.tagged(wire.WRITE, area.stag, area.to, b"fine")))
        buf[0:4] = b"\xff\xff\0\3"
        buf[-4:] = wire.crc32c(buf[:-4])
        peer.send_bytes(bytes(buf))
        peer.send(peer.send_message(b"end"))
        completed(env, link, "recv", (1, WC_RECV, 3))
        env.holds("target", 0, b"fine")
        inbox(env, b"end")
        env.graceful(link, [2])
