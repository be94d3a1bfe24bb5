# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Every error that one message can be: what comes back, and that nothing else happens.

Each case runs on its own connection, with Kiwarp in one role and then in the other, the bytes cut
in a different way each time. The message at fault stands between good ones: those before it are
placed and delivered, those after it, sent with it and after the Terminate, are not.
"""
import contextlib

import wire
from harness import AREA, INBOX, case, event_for, same
from subject import LOC_LEN_ERR, LOC_PROT_ERR, SUCCESS, TERM_SENT, WR_FLUSH_ERR
from wire import DDP, LLP, QN_READ, QN_SEND, RDMAP, Error

CUTS = ("whole", "random", "bytes")
BEFORE, AFTER, LATE = b"placed before it", b"not placed after", b"nor when late..."
PAYLOAD = bytes(range(1, 33))
MOST_PARTS = 32  # what Kiwarp keeps of an unfinished message: Documentation/conformance

BAD_CRC = Error(LLP, 0, 0x02)
BAD_LENGTH = Error(LLP, 0, 0x03)
T_STAG, T_BOUNDS, T_ASSOC, T_WRAP, T_VERSION = (Error(DDP, 1, n) for n in range(5))
U_QN, U_NO_BUFFER, U_MSN, U_MO, U_LENGTH, U_VERSION = (Error(DDP, 2, n) for n in range(1, 7))
P_STAG, P_BOUNDS, P_ACCESS, P_ASSOC, P_WRAP = (Error(RDMAP, 1, n) for n in range(5))
P_INVALIDATE = Error(RDMAP, 1, 0x09)
O_VERSION, O_OPCODE = (Error(RDMAP, 2, n) for n in (5, 6))
O_UNSPECIFIED = Error(RDMAP, 2, 0xFF)
CATASTROPHE = Error(RDMAP, 0, 0)
DDP_CATASTROPHE = Error(DDP, 0, 0)

_cut = 0


class Scene:
    """A connection with something good already sent, and receives posted."""

    def __init__(self, env, kiwarp, receives=2, setting=None):
        global _cut
        self.env = env
        with env.setting(setting, 1) if setting else contextlib.nullcontext():
            self.link = env.open(kiwarp, cut=CUTS[_cut % 3], receives=receives)
        _cut += 1
        self.peer = self.link.peer
        self.good = env.area("good")

    def good_write(self, buf, offset):
        return wire.tagged(wire.WRITE, self.good.stag, self.good.to + offset, buf)

    def write(self, name, offset=0, payload=PAYLOAD, **fields):
        area = self.env.area(name)
        return wire.tagged(wire.WRITE, area.stag, (area.to + offset) % 2**64, payload, **fields)

    def send(self, payload=PAYLOAD, **fields):
        fields = {"opcode": wire.SEND, "qn": QN_SEND, "msn": 1, "payload": payload} | fields
        return wire.untagged(**fields)

    def read(self, name="target", offset=0, size=32, body=None, **fields):
        area = self.env.area(name)
        if body is None:
            body = wire.read_request_body(7, 0, size, area.stag, (area.to + offset) % 2**64)
        fields = {"opcode": wire.READ_REQ, "qn": QN_READ, "msn": 1, "payload": body} | fields
        return wire.untagged(**fields)


def error(name, want, receives=2, before=None, statuses=None, placed=b"", setting=None):
    """Registers the message that the function builds, once for each of Kiwarp's roles.

    The function returns a ULPDU, or the FPDU's bytes and the ULPDU that the Terminate copies.
    before: builds good ULPDUs that go ahead of it. statuses: receives that complete, in order.
    placed: what those before it put into the first receive. setting: that is on for the connection.
    """

    def register(build):
        for kiwarp in ("responder", "initiator"):

            def run(env, kiwarp=kiwarp):
                scene = Scene(env, kiwarp, receives, setting)
                peer, link = scene.peer, scene.link
                buf = peer.frame(scene.good_write(BEFORE, 0))
                if before:
                    buf += peer.frame(*before(scene))
                made = build(scene)
                if isinstance(made, tuple):
                    buf, fault = buf + made[0], made[1]
                else:
                    buf, fault = buf + peer.frame(made), made
                late = peer.frame(scene.good_write(AFTER, 64), scene.send())
                peer.send_with_rest(buf, late)
                env.terminated(link, want, fault)
                peer.send(scene.good_write(LATE, 128), cut="whole")
                peer.close()
                env.moved["rx_dropped"] += 1
                finish(env, link)
                env.holds("good", 0, BEFORE)
                env.holds(INBOX, 0, placed)

            case(f"{name}, Kiwarp is {kiwarp}")(run)
        return build

    def finish(env, link):
        done = statuses or []
        if done:
            got = env.subject.completions(link.name, "recv", len(done))
            same("receives", done, [w.status for w in got])
        env.ended(link, event_for(want), link.receives[len(done) :], TERM_SENT | want.packed())

    return register


# --- MPA ---


@error("MPA: CRC of all ones", BAD_CRC)
def _(s):
    return s.peer.tx.frame(s.write("target"), crc=b"\xff\xff\xff\xff"), None


@error("MPA: one bit of the payload flipped", BAD_CRC)
def _(s):
    buf = bytearray(s.peer.tx.frame(s.write("target")))
    buf[20] ^= 0x10
    return bytes(buf), None


@error("MPA: one bit of the header flipped", BAD_CRC)
def _(s):
    buf = bytearray(s.peer.tx.frame(s.send()))
    buf[2] ^= 0x80
    return bytes(buf), None


@error("MPA: CRC in network byte order", BAD_CRC)
def _(s):
    buf = s.peer.tx.frame(s.write("target"))
    return buf[:-4] + buf[:-5:-1], None


@error("MPA: ULPDU_Length four too small", BAD_CRC)
def _(s):
    ulpdu = s.write("target")
    buf = s.peer.tx.frame(ulpdu, length=len(ulpdu) - 4)
    return buf, None


@error("MPA: empty ULPDU", BAD_LENGTH)
def _(s):
    return s.peer.tx.frame(b""), None


@error("MPA: ULPDU of one byte", BAD_LENGTH)
def _(s):
    return s.peer.tx.frame(b"\xc1"), None


@error("MPA: ULPDU shorter than a tagged header", BAD_LENGTH)
def _(s):
    return s.peer.tx.frame(s.write("target")[:13]), None


@error("MPA: ULPDU shorter than an untagged header", BAD_LENGTH)
def _(s):
    return s.peer.tx.frame(s.send()[:17]), None


# --- DDP, tagged ---


@error("tagged: STag of no region", T_STAG)
def _(s):
    return wire.tagged(wire.WRITE, s.env.area("target").stag ^ 0x5A5A5A00, s.good.to, PAYLOAD)


@error("tagged: key of another registration", T_STAG)
def _(s):
    return wire.tagged(wire.WRITE, s.env.area("target").stag ^ 1, s.env.area("target").to, PAYLOAD)


@error("tagged: STag zero", T_STAG)
def _(s):
    return wire.tagged(wire.WRITE, 0, s.env.area("target").to, PAYLOAD)


@error("tagged: STag of a deregistered region", T_STAG)
def _(s):
    return s.write("gone")


@error("tagged: one byte past the end", T_BOUNDS)
def _(s):
    return s.write("target", AREA - 31)


@error("tagged: behind the end", T_BOUNDS)
def _(s):
    return s.write("target", AREA, b"x")


@error("tagged: one byte before the start", T_BOUNDS)
def _(s):
    return s.write("target", -1)


@error("tagged: far away", T_BOUNDS)
def _(s):
    return s.write("target", 1 << 40)


@error(
    "tagged: the second segment leaves the region",
    T_BOUNDS,
    before=lambda s: [s.write("good", 0, BEFORE, last=False)],
)
def _(s):
    return s.write("good", AREA - 8)


@error("tagged: region of another protection domain", T_ASSOC)
def _(s):
    return s.write("foreign")


@error("tagged: TO wraps", T_WRAP)
def _(s):
    return wire.tagged(wire.WRITE, s.env.area("target").stag, 2**64 - 16, PAYLOAD)


@error("tagged: TO wraps by one byte", T_WRAP)
def _(s):
    return wire.tagged(wire.WRITE, s.env.area("high").stag, 2**64 - 31, PAYLOAD)


# RFC 5041 section 7.1 has the sum of TO and length stay below 2^64, not the last byte's TO.
@error("tagged: TO and length come to 2^64", T_WRAP)
def _(s):
    return wire.tagged(wire.WRITE, s.env.area("high").stag, 2**64 - 32, PAYLOAD)


@error("tagged: wrap is found before bounds", T_WRAP)
def _(s):
    return wire.tagged(wire.WRITE, s.env.area("target").stag, 2**64 - 1, PAYLOAD)


@error("tagged: another protection domain is found before rights and bounds", T_ASSOC)
def _(s):
    return s.write("foreign", -1)


@error("tagged: bounds are found before rights", T_BOUNDS)
def _(s):
    return s.write("readable", -1)


@error("tagged: region without remote write", P_ACCESS)
def _(s):
    return s.write("readable")


@error("tagged: region with local write only", P_ACCESS)
def _(s):
    return s.write("local")


for dv in (0, 2, 3):

    @error(f"tagged: DDP version {dv}", T_VERSION)
    def _(s, dv=dv):
        return s.write("target", dv=dv)


for rv in (0, 2, 3):

    @error(f"tagged: RDMAP version {rv}", O_VERSION)
    def _(s, rv=rv):
        return s.write("target", rv=rv)


# --- DDP, untagged ---

for qn in (3, 0x80000000, 0xFFFFFFFF):

    @error(f"untagged: queue {qn:#x}", U_QN)
    def _(s, qn=qn):
        return s.send(qn=qn)


@error("untagged: no buffer", U_NO_BUFFER, receives=0)
def _(s):
    return s.send()


@error("untagged: no buffer for an empty Send", U_NO_BUFFER, receives=0)
def _(s):
    return s.send(b"")


@error(
    "untagged: no buffer for the next Send",
    U_NO_BUFFER,
    receives=1,
    before=lambda s: [s.send(b"")],
    statuses=[SUCCESS],
)
def _(s):
    return s.send(msn=2)


for msn in (0, 2, 0x80000001, 0xFFFFFFFF):

    @error(f"untagged: first MSN {msn:#x}", U_MSN)
    def _(s, msn=msn):
        return s.send(msn=msn)


@error("untagged: MSN twice", U_MSN, before=lambda s: [s.send(b"")], statuses=[SUCCESS])
def _(s):
    return s.send(msn=1)


@error("untagged: MSN left out", U_MSN, before=lambda s: [s.send(b"")], statuses=[SUCCESS])
def _(s):
    return s.send(msn=3)


@error("untagged: nothing before its MO", U_MO)
def _(s):
    return s.send(mo=4)


@error("untagged: MO behind the end of the receive", U_MO)
def _(s):
    return s.send(b"x", mo=65)


@error("untagged: MO beyond all", U_MO)
def _(s):
    return s.send(b"x", mo=0xFFFFFFFF)


@error("untagged: MO moves it over the end of the receive", U_LENGTH, statuses=[LOC_LEN_ERR])
def _(s):
    return s.send(mo=33)


@error(
    "untagged: the segments of a Send leave a gap",
    U_MO,
    before=lambda s: [s.send(PAYLOAD[:8], last=False), s.send(PAYLOAD[:8], mo=9, last=False)],
    placed=PAYLOAD[:8] + b"\xb6" + PAYLOAD[:8],
)
def _(s):
    return s.send(PAYLOAD[:8], mo=17)


@error(
    "untagged: the segments of a Send overlap",
    U_MO,
    before=lambda s: [s.send(PAYLOAD[:8], last=False)],
    placed=PAYLOAD[:8],
)
def _(s):
    return s.send(PAYLOAD[:8], mo=4, last=False)


def with_a_gap(s):
    """Bytes 0 to 7 and 16 to 23 of a Send."""
    return [s.send(PAYLOAD[:8], last=False), s.send(PAYLOAD[:8], mo=16, last=False)]


WITH_A_GAP = PAYLOAD[:8] + b"\xb6" * 8 + PAYLOAD[:8]


@error(
    "untagged: what fills the gap of a Send overlaps", U_MO, before=with_a_gap, placed=WITH_A_GAP
)
def _(s):
    return s.send(PAYLOAD[:9], mo=8, last=False)


@error(
    "untagged: a segment of a Send comes twice",
    U_MO,
    before=lambda s: [s.send(PAYLOAD[:8], last=False)],
    placed=PAYLOAD[:8],
)
def _(s):
    return s.send(PAYLOAD[:8], last=False)


# The lengths add up to 24 bytes, of which 8 never came.
@error(
    "untagged: an overlap makes up for the gap of a Send",
    U_MO,
    before=with_a_gap,
    placed=WITH_A_GAP,
)
def _(s):
    return s.send(PAYLOAD[:8], mo=16)


@error(
    "untagged: the last segment of a Send has not the highest MO",
    U_MO,
    before=with_a_gap,
    placed=WITH_A_GAP,
)
def _(s):
    return s.send(PAYLOAD[:8], mo=8)


def in_parts(s):
    s.env.receive(s.link, f"{INBOX}:0:{2 * MOST_PARTS + 1}")
    return [s.send(b"x", mo=2 * n, last=False) for n in range(MOST_PARTS)]


@error(
    "untagged: a Send in more parts than are kept track of",
    U_MO,
    receives=0,
    before=in_parts,
    placed=(b"x\xb6" * MOST_PARTS)[:-1],
)
def _(s):
    return s.send(b"x", mo=2 * MOST_PARTS, last=False)


@error(
    "Read Request: a segment that comes twice",
    U_MO,
    before=lambda s: [s.read(body=bytes(14), last=False)],
)
def _(s):
    return s.read(body=bytes(14), last=False)


def into_what_cannot_be_written(s):
    s.env.receive(s.link, "readable:0:64")
    return []


# The consumer's own fault, and nothing that the peer has sent is to be quoted.
@error(
    "untagged: the receive has no memory to write to",
    CATASTROPHE,
    receives=0,
    before=into_what_cannot_be_written,
    statuses=[LOC_PROT_ERR],
)
def _(s):
    return s.peer.tx.frame(s.send()), None


@error(
    "untagged: message too long for the receive, in its second segment",
    U_LENGTH,
    before=lambda s: [s.send(last=False)],
    statuses=[LOC_LEN_ERR],
    placed=PAYLOAD,
)
def _(s):
    return s.send(bytes(33), mo=32)


@error(
    "untagged: another message before the last one's end",
    U_MSN,
    before=lambda s: [s.send(b"", last=False)],
)
def _(s):
    return s.send(msn=2)


@error(
    "untagged: another opcode within a message",
    O_OPCODE,
    before=lambda s: [s.send(b"", last=False)],
)
def _(s):
    return s.send(opcode=wire.SEND_SE)


@error(
    "untagged: message too long for the receive",
    U_LENGTH,
    statuses=[LOC_LEN_ERR],
)
def _(s):
    return s.send(bytes(range(65)))


for dv in (0, 2, 3):

    @error(f"untagged: DDP version {dv}", U_VERSION)
    def _(s, dv=dv):
        return s.send(dv=dv)


# --- RDMAP ---


@error("untagged: the queue is looked at before RDMAP's version and opcode", U_QN)
def _(s):
    return s.send(qn=7, rv=0, opcode=15)


@error("untagged: DDP's version is looked at first", U_VERSION)
def _(s):
    return s.send(dv=0, qn=7, rv=0, opcode=15)


@error("tagged: RDMAP's version is looked at before the opcode and the STag", O_VERSION)
def _(s):
    return wire.tagged(15, 0, 0, PAYLOAD, rv=0)


for rv in (0, 2, 3):

    @error(f"untagged: RDMAP version {rv}", O_VERSION)
    def _(s, rv=rv):
        return s.send(rv=rv)


# 8 to 11 are RFC 7306's, which a device does not have without a setting.
for opcode in range(8, 16):

    @error(f"opcode {opcode}, untagged", O_OPCODE)
    def _(s, opcode=opcode):
        return s.send(opcode=opcode)

    @error(f"opcode {opcode}, tagged", O_OPCODE)
    def _(s, opcode=opcode):
        area = s.env.area("target")
        return wire.tagged(opcode, area.stag, area.to, PAYLOAD)


for name, opcode in (
    ("a Read Request", wire.READ_REQ),
    ("a Send", wire.SEND),
    ("a Send with SE", wire.SEND_SE),
    ("a Send with Invalidate", wire.SEND_INV),
    ("a Terminate", wire.TERMINATE),
):

    @error(f"opcode of {name}, tagged", O_OPCODE)
    def _(s, opcode=opcode):
        area = s.env.area("target")
        return wire.tagged(opcode, area.stag, area.to, PAYLOAD)


for name, opcode in (("a Write", wire.WRITE), ("a Read Response", wire.READ_RESP)):

    @error(f"opcode of {name}, untagged", O_OPCODE)
    def _(s, opcode=opcode):
        return s.send(opcode=opcode)


@error("Read Response that nobody asked for", O_OPCODE)
def _(s):
    area = s.env.area("target")
    return wire.tagged(wire.READ_RESP, area.stag, area.to, PAYLOAD)


@error("empty Read Response that nobody asked for", O_OPCODE)
def _(s):
    return wire.tagged(wire.READ_RESP, 0, 0, b"")


@error("Read Request: STag of no region", P_STAG)
def _(s):
    return s.read(body=wire.read_request_body(7, 0, 32, s.env.area("target").stag ^ 0x5A5A5A00, 0))


@error("Read Request: STag of a deregistered region", P_STAG)
def _(s):
    return s.read("gone")


@error("Read Request: one byte past the end", P_BOUNDS)
def _(s):
    return s.read(offset=AREA - 31)


@error("Read Request: one byte before the start", P_BOUNDS)
def _(s):
    return s.read(offset=-1)


@error("Read Request: more than there is", P_BOUNDS)
def _(s):
    return s.read(size=0xFFFFFFFF)


@error("Read Request: region without remote read", P_ACCESS)
def _(s):
    return s.read("writable")


@error("Read Request: region with local write only", P_ACCESS)
def _(s):
    return s.read("local")


@error("Read Request: region of another protection domain", P_ASSOC)
def _(s):
    return s.read("foreign")


@error("Read Request: TO wraps", P_WRAP)
def _(s):
    return s.read(body=wire.read_request_body(7, 0, 32, s.env.area("high").stag, 2**64 - 31))


for msn in (0, 2, 0xFFFFFFFF):

    @error(f"Read Request: first MSN {msn:#x}", U_MSN)
    def _(s, msn=msn):
        return s.read(msn=msn)


@error("Read Request: MO behind the end", U_MO)
def _(s):
    return s.read(mo=29, body=b"x")


@error("Read Request: MO moves it over the end", U_LENGTH)
def _(s):
    return s.read(mo=4)


@error("Read Request: nothing before its MO", U_MO)
def _(s):
    return s.read(mo=4, body=bytes(24))


@error("Read Request: 32 bytes", U_LENGTH)
def _(s):
    area = s.env.area("target")
    return s.read(body=wire.read_request_body(7, 0, 32, area.stag, area.to) + bytes(4))


@error("Read Request: 24 bytes", O_UNSPECIFIED)
def _(s):
    return s.read(body=bytes(24))


@error("Read Request: empty", O_UNSPECIFIED)
def _(s):
    return s.read(body=b"")


@error(
    "Read Request: two segments that end early",
    O_UNSPECIFIED,
    before=lambda s: [s.read(body=bytes(10), last=False)],
)
def _(s):
    return s.read(mo=10, body=bytes(17))


@error(
    "Read Request: a second segment that is too much",
    U_LENGTH,
    before=lambda s: [s.read(last=False)],
)
def _(s):
    return s.read(mo=28, body=b"x")


for msn in (0, 2, 0x80000001, 0xFFFFFFFF):

    @error(f"Read Request: first MSN {msn:#x}", U_MSN)
    def _(s, msn=msn):
        return s.read(msn=msn)


@error("Read Request: RDMAP version 0", O_VERSION)
def _(s):
    return s.read(rv=0)


# DDP knows queues 0 to 2 and no opcodes: what is wrong with these is for RDMAP to say.
for name, opcode, qn in (
    ("Send on queue 1", wire.SEND, 1),
    ("Send on queue 2", wire.SEND, 2),
    ("Read Request on queue 0", wire.READ_REQ, 0),
    ("Read Request on queue 2", wire.READ_REQ, 2),
    ("Terminate on queue 0", wire.TERMINATE, 0),
    ("Terminate on queue 1", wire.TERMINATE, 1),
):

    @error(name, O_OPCODE)
    def _(s, opcode=opcode, qn=qn):
        return s.send(opcode=opcode, qn=qn, payload=bytes(20))


@error("Read Request on queue 3", U_QN)
def _(s):
    return s.read(qn=3)


@error("Send with Invalidate: STag of no region", P_STAG, statuses=[WR_FLUSH_ERR])
def _(s):
    return s.send(opcode=wire.SEND_INV, ulp=s.env.area("target").stag ^ 0x5A5A5A00, payload=b"")


@error(
    "Send with Invalidate: region of another protection domain", P_INVALIDATE, statuses=[WR_FLUSH_ERR]
)
def _(s):
    return s.send(opcode=wire.SEND_SE_INV, ulp=s.env.area("foreign").stag, payload=b"")


@error("Send with Invalidate: region without remote access", P_INVALIDATE, statuses=[WR_FLUSH_ERR])
def _(s):
    return s.send(opcode=wire.SEND_INV, ulp=s.env.area("local").stag, payload=b"")


# Other connections use it as well.
@error("Send with Invalidate: an ordinary region", P_INVALIDATE, statuses=[WR_FLUSH_ERR])
def _(s):
    return s.send(opcode=wire.SEND_INV, ulp=s.env.area("target").stag, payload=b"")


# --- more Read Requests than IRD, and a queue pair that allows nothing: scenes of their own ---


@case("Read Requests: one more than IRD")
def _(env):
    scene = Scene(env, "responder")
    scene.peer.cut = "whole"
    env.subject.fill("target", 0, PAYLOAD)
    reads = [scene.read(msn=n, size=8) for n in range(1, 6)]
    scene.peer.send(*reads)
    env.terminated(scene.link, U_NO_BUFFER, reads[4])
    scene.peer.close()
    env.ended(scene.link, event_for(U_NO_BUFFER), reason=TERM_SENT | U_NO_BUFFER.packed())
    env.holds("target", 0, PAYLOAD)


RECEIVES, PIECES = 64, 4  # what the consumer's ring has room for

for what, value, flushed in (("pieces", PIECES + 1, 1), ("producer", RECEIVES + 1, RECEIVES + 1)):

    @case(f"a process has written nonsense to its own receive ring: {what}")
    def _(env, what=what, value=value, flushed=flushed):
        for kiwarp in ("responder", "initiator"):
            link = Scene(env, kiwarp, receives=0).link
            env.receive(link)
            env.subject.do("spoil", link.name, 1, what, value)
            link.peer.send(link.peer.send_message(b"for whom?"))
            env.terminated(link, DDP_CATASTROPHE, None)
            link.peer.close()
            # As many as the ring claims to have, one time round: what it has none of reads as 0.
            ids = link.receives + [0] * (flushed - 1)
            ids[RECEIVES:] = link.receives[: flushed - RECEIVES] if flushed > RECEIVES else []
            env.ended(link, event_for(DDP_CATASTROPHE), ids, TERM_SENT | DDP_CATASTROPHE.packed())


@case("first of two faults: that one is told")
def _(env):
    for kiwarp in ("responder", "initiator"):
        scene = Scene(env, kiwarp)
        scene.peer.cut = "whole"
        fault = scene.send(msn=7)
        scene.peer.send(fault, scene.write("target", dv=2), scene.write("local"))
        env.terminated(scene.link, U_MSN, fault)
        scene.peer.close()
        env.ended(scene.link, event_for(U_MSN), reason=TERM_SENT | U_MSN.packed())


for access, build, want in (
    ("remote_read", lambda s: s.write("target"), P_ACCESS),
    ("remote_write", lambda s: s.read("target"), P_ACCESS),
):

    @case(f"the queue pair allows {access} only")
    def _(env, access=access, build=build, want=want):
        scene = Scene(env, "responder")
        env.subject.do("qpaccess", scene.link.name, access)
        fault = build(scene)
        scene.peer.send(fault)
        env.terminated(scene.link, want, fault)
        scene.peer.close()
        env.ended(scene.link, event_for(want), reason=TERM_SENT | want.packed())
