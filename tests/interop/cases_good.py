# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Everything right, in both directions and both roles, with the bytes cut anywhere."""
import wire
from harness import AREA, INBOX, INBOX_STEP, CheckFailed, case, same
from subject import SUCCESS, WC_READ, WC_RECV, WC_SEND, WC_WRITE, WITH_INV
from wire import QN_READ, QN_SEND

CUTS = ("whole", "random", "bytes")


def pattern(length, seed=1):
    """Bytes of which none is the background that untouched memory holds."""
    return bytes((seed * 31 + n * 7 + (n >> 8)) % 180 + 1 for n in range(length))


def split(payload, *sizes):
    """The payload in pieces of these sizes, the rest at the end."""
    pieces, at = [], 0
    for size in sizes:
        pieces.append(payload[at : at + size])
        at += size
    return [*pieces, payload[at:]]


def write_message(area, offset, pieces):
    """A Write in several segments."""
    out, at = [], area.to + offset
    for piece in pieces:
        out.append(wire.tagged(wire.WRITE, area.stag, at, piece, last=False))
        at += len(piece)
    last = wire.tagged(wire.WRITE, area.stag, at - len(pieces[-1]), pieces[-1])
    return [*out[:-1], last]


def send_message(msn, pieces, opcode=wire.SEND, ulp=0):
    out, at = [], 0
    for n, piece in enumerate(pieces):
        last = n == len(pieces) - 1
        out.append(wire.untagged(opcode, QN_SEND, msn, piece, mo=at, last=last, ulp=ulp))
        at += len(piece)
    return out


def everywhere(name, cuts=CUTS, **options):
    """Registers a case for each role and each way to cut."""

    def register(function):
        for kiwarp in ("responder", "initiator"):
            for cut in cuts:

                def run(env, kiwarp=kiwarp, cut=cut):
                    link = env.open(kiwarp, cut=cut, **options)
                    flushed = function(env, link)
                    env.graceful(link, flushed)

                case(f"{name}, Kiwarp is {kiwarp}, cut: {cut}")(run)
        return function

    return register


def completed(env, link, queue, *want):
    """Exactly these completions: (number, opcode, length) and what else a row says."""
    done = env.subject.completions(link.name, queue, len(want))
    rows = [(c.wr_id, c.status, c.opcode, c.length, c.flags & WITH_INV, c.stag) for c in done]
    same(
        f"{queue} completions",
        [(w[0], SUCCESS, *w[1:]) for w in want],
        [row[: len(w) + 1] for row, w in zip(rows, want)],
    )


def inbox(env, *messages):
    """The inbox holds these messages, one to a receive, and nothing else."""
    want = bytearray()
    for n, message in enumerate(messages):
        want[n * INBOX_STEP :] = message.ljust(INBOX_STEP, b"\xb6")
    want = bytes(want).rstrip(b"\xb6")
    lead = len(want) - len(want.lstrip(b"\xb6"))
    env.holds(INBOX, lead, want[lead:])


# --- what the peer does ---


@everywhere("Writes of all small lengths")
def _(env, link):
    area, buf = env.area("target"), pattern(80)
    segments, at = [], 0
    for length in (0, 1, 2, 3, 4, 5, 7, 8, 13, 21):
        segments.append(wire.tagged(wire.WRITE, area.stag, area.to + at, buf[at : at + length]))
        at += length
    link.peer.send(*segments, link.peer.send_message(b"done"))
    completed(env, link, "recv", (1, WC_RECV, 4))
    env.holds("target", 0, buf[:at])
    inbox(env, b"done")
    return [2]


@everywhere("a Write in segments of odd lengths")
def _(env, link):
    buf = pattern(700)
    pieces = split(buf, 1, 0, 299, 64, 5)
    link.peer.send(*write_message(env.area("target"), 9, pieces), link.peer.send_message())
    completed(env, link, "recv", (1, WC_RECV, 0))
    env.holds("target", 9, buf)
    return [2]


@everywhere("a Write that fills the region to its last byte", cuts=("whole", "random"))
def _(env, link):
    buf = pattern(AREA)
    pieces = split(buf, 1000, 1448, 1447)
    link.peer.send(*write_message(env.area("target"), 0, pieces), link.peer.send_message())
    completed(env, link, "recv", (1, WC_RECV, 0))
    env.holds("target", 0, buf)
    return [2]


@everywhere("urgent data is data like all other", cuts=("urgent",), start_cut="urgent")
def _(env, link):
    buf = pattern(700)
    pieces = split(buf, 1, 0, 299, 64, 5)
    link.peer.send(*write_message(env.area("target"), 9, pieces), link.peer.send_message(b"done"))
    completed(env, link, "recv", (1, WC_RECV, 4))
    env.holds("target", 9, buf)
    inbox(env, b"done")
    return [2]


@everywhere("segments of a Write in descending order", cuts=("whole",))
def _(env, link):
    buf, area = pattern(300), env.area("target")
    low, middle, high = write_message(area, 0, split(buf, 100, 100))
    low = wire.tagged(wire.WRITE, area.stag, area.to, buf[:100])
    high = wire.tagged(wire.WRITE, area.stag, area.to + 200, buf[200:], last=False)
    link.peer.send(high, middle, low, link.peer.send_message())
    completed(env, link, "recv", (1, WC_RECV, 0))
    env.holds("target", 0, buf)
    return [2]


@everywhere("an FPDU of the greatest length", cuts=("whole", "random"))
def _(env, link):
    area = env.big_area()
    buf = pattern(65535 - 14)
    link.peer.send(wire.tagged(wire.WRITE, area.stag, area.to, buf), link.peer.send_message())
    completed(env, link, "recv", (1, WC_RECV, 0))
    env.holds("big", 0, buf)
    return [2]


@everywhere("Sends of all kinds", receives=7)
def _(env, link):
    m = [b"", pattern(1), pattern(64, 2), pattern(33, 3), pattern(17, 4), b"", pattern(3, 5)]
    link.peer.send(
        *send_message(1, [m[0]]),
        *send_message(2, [m[1]]),
        *send_message(3, split(m[2], 1, 0, 30, 33)),
        *send_message(4, [m[3]], wire.SEND_SE),
        *send_message(5, split(m[4], 16), wire.SEND_SE),
        *send_message(6, [m[5]], wire.SEND_SE),
        *send_message(7, [m[6]]),
    )
    completed(
        env,
        link,
        "recv",
        *[(n + 1, WC_RECV, len(m[n]), 0) for n in range(7)],
    )
    inbox(env, *m)
    return []


@everywhere("a Send over several buffers", receives=0)
def _(env, link):
    env.receive(link, f"{INBOX}:10:5", f"{INBOX}:15:0", "target:0:100", f"{INBOX}:15:7")
    buf = pattern(112)
    link.peer.send(*send_message(1, split(buf, 3, 4, 90, 9)))
    completed(env, link, "recv", (1, WC_RECV, 112))
    env.holds("target", 0, buf[5:105])
    env.holds(INBOX, 10, buf[:5] + buf[105:])
    return []


@everywhere("Write segments between the segments of a Send")
def _(env, link):
    area, message, buf = env.area("target"), pattern(60), pattern(90, 2)
    first, second, third = send_message(1, split(message, 20, 20))
    one, two, three = write_message(area, 0, split(buf, 40, 40))
    link.peer.send(first, one, second, two, three, third)
    completed(env, link, "recv", (1, WC_RECV, 60))
    env.holds("target", 0, buf)
    inbox(env, message)
    return [2]


def expect_response(peer, stag, to, buf):
    """A Read Response in whatever segments: each in its place, the last one marked."""
    got = b""
    while True:
        seg = peer.recv()
        same(
            "Read Response",
            (wire.READ_RESP, True, stag, to + len(got)),
            (seg.opcode, seg.tagged, seg.stag, seg.to),
        )
        got += seg.payload
        if seg.last:
            break
        if not seg.payload:
            raise CheckFailed("an empty segment that is not the last")
    same("bytes read", buf, got)


@everywhere("Read Requests of all lengths")
def _(env, link):
    peer, area, buf = link.peer, env.area("target"), pattern(AREA)
    env.subject.fill("target", 0, buf)
    for size, offset in ((0, 0), (1, 4095), (2, 0), (3, 5), (1000, 7), (4096, 0)):
        sink = (0xA0000000 + size, 2**63 + offset)
        peer.send(peer.read_request(*sink, size, area.stag, area.to + offset))
        expect_response(peer, *sink, buf[offset : offset + size])
    env.subject.erase("target")


@everywhere("as many Read Requests at a time as IRD allows", cuts=("whole", "bytes"))
def _(env, link):
    peer, area, buf = link.peer, env.area("target"), pattern(64)
    env.subject.fill("target", 0, buf)
    for _ in range(3):
        reads = [peer.read_request(n, n << 32, 16, area.stag, area.to + 16 * n) for n in range(4)]
        peer.send(*reads)
        for n in range(4):
            expect_response(peer, n, n << 32, buf[16 * n : 16 * n + 16])
    env.subject.erase("target")


@everywhere("a Read of what was just written", cuts=("whole", "bytes"))
def _(env, link):
    peer, area = link.peer, env.area("target")
    for n in range(1, 9):
        buf = pattern(50, n)
        peer.send(
            wire.tagged(wire.WRITE, area.stag, area.to, buf),
            peer.read_request(5, 0, 50, area.stag, area.to),
        )
        expect_response(peer, 5, 0, buf)
    env.subject.erase("target")


@everywhere("nothing of an empty message is checked", cuts=("whole",))
def _(env, link):
    peer = link.peer
    peer.send(
        wire.tagged(wire.WRITE, 0xDEADBEEF, 2**64 - 1, b""),
        wire.tagged(wire.WRITE, env.area("foreign").stag, 0, b"", last=False),
        wire.tagged(wire.WRITE, 0, 0, b""),
        peer.read_request(0xFFFFFFFF, 2**64 - 1, 0, 0xDEADBEEF, 2**64 - 1),
        peer.send_message(),
    )
    expect_response(peer, 0xFFFFFFFF, 2**64 - 1, b"")
    completed(env, link, "recv", (1, WC_RECV, 0))
    return [2]


@everywhere("Write and Read at the highest TO that there is", cuts=("whole",))
def _(env, link):
    high = env.area("high")
    same("region's end", 2**64, high.to + AREA)
    peer, buf = link.peer, pattern(32)
    peer.send(
        wire.tagged(wire.WRITE, high.stag, 2**64 - 33, buf),
        peer.read_request(1, 0, 32, high.stag, 2**64 - 33),
    )
    expect_response(peer, 1, 0, buf)
    env.holds("high", AREA - 33, buf)


# Increasing MO is only what a source should do (RFC 5041 section 5.3).
@everywhere("segments of a Send in another order", receives=3)
def _(env, link):
    message = pattern(60)
    a, b, c, d = split(message, 20, 7, 13)
    link.peer.send(
        wire.untagged(wire.SEND, QN_SEND, 1, c, mo=27, last=False),
        wire.untagged(wire.SEND, QN_SEND, 1, a, mo=0, last=False),
        wire.untagged(wire.SEND, QN_SEND, 1, b, mo=20, last=False),
        wire.untagged(wire.SEND, QN_SEND, 1, d, mo=40),
        *send_message(2, [b"next"]),
    )
    completed(env, link, "recv", (1, WC_RECV, 60), (2, WC_RECV, 4))
    inbox(env, message, b"next")
    return [3]


@everywhere("a Read Request in segments")
def _(env, link):
    peer, area, buf = link.peer, env.area("target"), pattern(100)
    env.subject.fill("target", 0, buf)
    body = wire.read_request_body(9, 8, 100, area.stag, area.to)
    for msn, order in ((1, (0, 1, 2)), (2, (1, 0, 2))):
        pieces = [(0, body[:1]), (1, body[1:17]), (17, body[17:])]
        peer.send(
            *[
                wire.untagged(wire.READ_REQ, QN_READ, msn, pieces[n][1], mo=pieces[n][0], last=n == 2)
                for n in order
            ]
        )
        expect_response(peer, 9, 8, buf)
    env.subject.erase("target")


@everywhere("reserved bits and PAD are not looked at", cuts=("whole",))
def _(env, link):
    peer, area, buf = link.peer, env.area("target"), pattern(33)
    fields = {"reserved": 0xF, "rsvd_ulp": 3}
    body = wire.read_request_body(3, 0, 33, area.stag, area.to)
    peer.send(
        wire.tagged(wire.WRITE, area.stag, area.to, buf, **fields),
        wire.untagged(wire.SEND, QN_SEND, peer.next_msn(QN_SEND), b"abc", ulp=0xFFFFFFFF, **fields),
        wire.untagged(wire.READ_REQ, QN_READ, peer.next_msn(QN_READ), body, ulp=0xFFFFFFFF, **fields),
    )
    expect_response(peer, 3, 0, buf)
    ulpdu = wire.tagged(wire.WRITE, area.stag, area.to + 33, buf[:1])
    peer.send_bytes(peer.tx.frame(ulpdu, pad=b"\xff" * wire.pad_len(len(ulpdu))))
    peer.send(peer.send_message(b"def"))
    completed(env, link, "recv", (1, WC_RECV, 3), (2, WC_RECV, 3))
    env.holds("target", 0, buf + buf[:1])
    inbox(env, b"abc", b"def")
    return []


@everywhere("many FPDUs in few segments", cuts=("whole", "random"))
def _(env, link):
    peer, area, buf = link.peer, env.area("target"), pattern(1200)
    pieces = [buf[n : n + 6] for n in range(0, 1200, 6)]
    writes = [wire.tagged(wire.WRITE, area.stag, area.to + 6 * n, p) for n, p in enumerate(pieces)]
    peer.send(*writes, peer.send_message())
    completed(env, link, "recv", (1, WC_RECV, 0))
    env.holds("target", 0, buf)
    return [2]


# --- what Kiwarp does ---


def expect_send(peer, buf, opcode, msn, ulp=0):
    got = b""
    while True:
        seg = peer.recv()
        same(
            "Send",
            (opcode, False, QN_SEND, msn, len(got), ulp),
            (seg.opcode, seg.tagged, seg.qn, seg.msn, seg.mo, seg.ulp),
        )
        got += seg.payload
        if seg.last:
            break
    same("bytes sent", buf, got)


def expect_write(peer, buf, stag, to):
    got = b""
    while True:
        seg = peer.recv()
        same("Write", (wire.WRITE, True, stag, to + len(got)), (seg.opcode, seg.tagged, seg.stag, seg.to))
        got += seg.payload
        if seg.last:
            break
    same("bytes written", buf, got)


def open_gate(link):
    """A responder sends nothing before it has an FPDU."""
    if link.kiwarp == "responder":
        link.peer.send(wire.tagged(wire.WRITE, 0, 0, b""))


@everywhere("Kiwarp's Sends", cuts=("whole",))
def _(env, link):
    peer, buf = link.peer, pattern(AREA)
    env.subject.fill("source", 0, buf)
    open_gate(link)
    rows = [
        (0, {}, wire.SEND, 0),
        (1, {}, wire.SEND, 0),
        (17, {"se": 1}, wire.SEND_SE, 0),
        (3000, {}, wire.SEND, 0),
        (4096, {"inv": 0x12345678}, wire.SEND_INV, 0x12345678),
        (2, {"inv": 0xFFFFFFFF, "se": 1}, wire.SEND_SE_INV, 0xFFFFFFFF),
    ]
    for msn, (size, options, opcode, ulp) in enumerate(rows, 1):
        env.subject.must("send", link.name, msn, f"source:0:{size}", **options)
        expect_send(peer, buf[:size], opcode, msn, ulp)
    env.subject.must("send", link.name, 7, "source:0:5", "source:100:0", "source:200:9")
    expect_send(peer, buf[:5] + buf[200:209], wire.SEND, 7)
    completed(env, link, "send", *[(n, WC_SEND) for n in range(1, 8)])
    env.subject.erase("source")


@everywhere("Kiwarp's Sends of one byte more than an FPDU holds", cuts=("whole",))
def _(env, link):
    peer, buf = link.peer, pattern(AREA)
    env.subject.fill("source", 0, buf)
    open_gate(link)
    env.subject.must("send", link.name, 1, f"source:0:{AREA}")
    first = seg = peer.recv()
    while not seg.last:
        seg = peer.recv()
    size = len(first.payload) + 1
    env.subject.must("send", link.name, 2, f"source:0:{size}")
    expect_send(peer, buf[:size], wire.SEND, 2)
    completed(env, link, "send", (1, WC_SEND), (2, WC_SEND))
    env.subject.erase("source")


@everywhere("Kiwarp's Writes", cuts=("whole",))
def _(env, link):
    peer, buf = link.peer, pattern(AREA)
    env.subject.fill("source", 0, buf)
    open_gate(link)
    for n, (size, stag, to) in enumerate(
        ((0, 1, 2), (1, 0xFFFFFFFF, 2**64 - 1), (4096, 0x11223344, 0x0102030405060708), (3, 0, 0)), 1
    ):
        env.subject.must("write", link.name, n, stag, to, f"source:0:{size}")
        expect_write(peer, buf[:size], stag, to)
    completed(env, link, "send", *[(n, WC_WRITE) for n in range(1, 5)])
    env.subject.erase("source")


def expect_request(peer, msn, size, stag, to):
    """A Read Request; returns the sink."""
    seg = peer.recv()
    same(
        "Read Request",
        (wire.READ_REQ, False, True, QN_READ, msn, 0, 0, 28),
        (seg.opcode, seg.tagged, seg.last, seg.qn, seg.msn, seg.mo, seg.ulp, len(seg.payload)),
    )
    sink_stag = int.from_bytes(seg.payload[:4], "big")
    sink_to = int.from_bytes(seg.payload[4:12], "big")
    same("what is read", wire.read_request_body(sink_stag, sink_to, size, stag, to), seg.payload)
    return sink_stag, sink_to


def respond(stag, to, pieces):
    out, at = [], to
    for n, piece in enumerate(pieces):
        out.append(wire.tagged(wire.READ_RESP, stag, at, piece, last=n == len(pieces) - 1))
        at += len(piece)
    return out


@everywhere("Kiwarp's Reads")
def _(env, link):
    peer = link.peer
    open_gate(link)
    for n, size in enumerate((1, 0, 300, 64), 1):
        buf = pattern(size, n)
        env.subject.must("read", link.name, n, 0x77, 1000 * n, f"local:8:{size}")
        sink = expect_request(peer, n, size, 0x77, 1000 * n)
        pieces = split(buf, 1, 0, size // 2) if size > 1 else [buf]
        peer.send(*respond(*sink, pieces))
        completed(env, link, "send", (n, WC_READ))
        env.holds("local", 8, buf)


@everywhere("Kiwarp keeps to its ORD", cuts=("whole",), ord=2)
def _(env, link):
    peer, buf = link.peer, pattern(50)
    open_gate(link)
    for n in range(5):
        env.subject.must("read", link.name, n + 1, 0x77, n, f"local:{10 * n}:10")
    sinks = [expect_request(peer, n + 1, 10, 0x77, n) for n in range(2)]
    for n in range(5):
        env.silent_for(link, "more than ORD at a time", 0.3)
        peer.send(*respond(*sinks[n], [buf[10 * n : 10 * n + 10]]))
        if n + 2 < 5:
            sinks.append(expect_request(peer, n + 3, 10, 0x77, n + 2))
    completed(env, link, "send", *[(n, WC_READ) for n in range(1, 6)])
    env.holds("local", 0, buf)


@everywhere("a fence: a Send waits for the Reads before it, others do not", cuts=("whole",))
def _(env, link):
    peer, buf = link.peer, pattern(20)
    env.subject.fill("source", 0, buf)
    open_gate(link)
    for n in range(2):
        env.subject.must("read", link.name, n + 1, 0x77, n, f"local:{10 * n}:10")
    sinks = [expect_request(peer, n + 1, 10, 0x77, n) for n in range(2)]
    env.subject.must("send", link.name, 3, "source:0:5")
    expect_send(peer, buf[:5], wire.SEND, 1)
    env.subject.must("send", link.name, 4, "source:0:9", fence=1)
    env.subject.must("send", link.name, 5, "source:0:7")
    for n in range(2):
        env.silent_for(link, "with a Read outstanding", 0.3)
        peer.send(*respond(*sinks[n], [buf[10 * n : 10 * n + 10]]))
    expect_send(peer, buf[:9], wire.SEND, 2)
    expect_send(peer, buf[:7], wire.SEND, 3)
    completed(env, link, "send", (1, WC_READ), (2, WC_READ), (3, WC_SEND), (4, WC_SEND), (5, WC_SEND))
    env.holds("local", 0, buf)
    env.subject.erase("source")


@everywhere("an empty Read Response is not checked", cuts=("whole",))
def _(env, link):
    open_gate(link)
    env.subject.must("read", link.name, 1, 0x77, 0, "local:0:0")
    expect_request(link.peer, 1, 0, 0x77, 0)
    link.peer.send(wire.tagged(wire.READ_RESP, 0xDEADBEEF, 2**64 - 1, b""))
    completed(env, link, "send", (1, WC_READ))


# --- what start-up negotiated ---


def both_ways(env, link):
    """A little of everything, for streams that are framed in some other way."""
    peer, area, buf = link.peer, env.area("target"), pattern(900)
    peer.send(*write_message(area, 0, split(buf, 3, 500)), peer.send_message(b"hello"))
    completed(env, link, "recv", (1, WC_RECV, 5))
    peer.send(peer.read_request(9, 77, 900, area.stag, area.to))
    expect_response(peer, 9, 77, buf)
    env.subject.must("send", link.name, 1, "target:1:700")
    expect_send(peer, buf[1:701], wire.SEND, 1)
    env.subject.must("read", link.name, 2, 5, 6, "local:0:600")
    sink = expect_request(peer, 1, 600, 5, 6)
    peer.send(*respond(*sink, split(buf[:600], 100, 450)))
    completed(env, link, "send", (1, WC_SEND), (2, WC_READ))
    env.holds("local", 0, buf[:600])
    env.holds("target", 0, buf)
    inbox(env, b"hello")
    return [2]


everywhere("MPA revision 1", rev=1)(both_ways)


@case("CRC off on both sides: none is sent, none is looked at")
def _(env):
    with env.setting("crc", 0):
        for kiwarp in ("responder", "initiator"):
            link = env.open(kiwarp, crc=False)
            same("C bit", 0, link.frame.flags & wire.FLAG_C)
            same("CRC in use", False, link.peer.rx.crc)
            env.graceful(link, both_ways(env, link))


@case("CRC off here, asked for by the peer: it is used")
def _(env):
    with env.setting("crc", 0):
        for kiwarp in ("responder", "initiator"):
            link = env.open(kiwarp)
            same("CRC in use", True, link.peer.rx.crc)
            env.graceful(link, both_ways(env, link))


@case("CRC on here, not asked for by the peer: it is used")
def _(env):
    for kiwarp in ("responder", "initiator"):
        link = env.open(kiwarp, crc=False)
        same("C bit", wire.FLAG_C, link.frame.flags & wire.FLAG_C)
        same("CRC in use", True, link.peer.rx.crc)
        env.graceful(link, both_ways(env, link))
