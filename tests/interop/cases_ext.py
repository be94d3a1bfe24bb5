# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""RFC 7306: what comes and goes when the setting is on, and every error."""
import struct
import sys

import wire
from cases_errors import (
    O_OPCODE,
    O_UNSPECIFIED,
    P_ACCESS,
    P_ASSOC,
    P_BOUNDS,
    P_STAG,
    P_WRAP,
    U_LENGTH,
    U_MO,
    U_MSN,
    U_NO_BUFFER,
    U_QN,
    Scene,
    error,
)
from cases_good import (
    CUTS,
    completed,
    expect_request,
    expect_response,
    expect_send,
    expect_write,
    open_gate,
    pattern,
    respond,
    send_message,
    split,
    write_message,
)
from harness import AREA, INBOX, case, event_for, same
from subject import (
    BAD_RESP_ERR,
    LOC_PROT_ERR,
    SUCCESS,
    TERM_SENT,
    WC_COMP_SWAP,
    WC_FETCH_ADD,
    WC_READ,
    WC_RECV,
    WC_RECV_IMM,
    WC_SEND,
    WC_WRITE,
    WITH_IMM,
    WR_FLUSH_ERR,
)
from wire import CMP_SWAP, FETCH_ADD, QN_ATOMIC, QN_READ, QN_SEND, RDMAP, Error

O_CATASTROPHE = Error(RDMAP, 2, 0x07)
CATASTROPHE = Error(RDMAP, 0, 0)
ONES = 2**64 - 1


def extended(setting, name, cuts=CUTS, **options):
    """Registers a case for each role and each way to cut, with the setting on."""

    def register(function):
        for kiwarp in ("responder", "initiator"):
            for cut in cuts:

                def run(env, kiwarp=kiwarp, cut=cut):
                    with env.setting(setting, 1):
                        link = env.open(kiwarp, cut=cut, **options)
                    env.graceful(link, function(env, link))

                case(f"{name}, Kiwarp is {kiwarp}, cut: {cut}")(run)
        return function

    return register


# --- Immediate Data ---


def imm_body(imm, rest=0):
    """Eight bytes: the four of verbs first."""
    return struct.pack(">II", imm, rest)


def imm_message(msn, imm, opcode=wire.IMM, rest=0):
    return wire.untagged(opcode, QN_SEND, msn, imm_body(imm, rest))


def received(env, link, *want):
    """Exactly these receives: (number, opcode, length, immediate or None)."""
    done = env.subject.completions(link.name, "recv", len(want))
    same(
        "receives",
        [(n, SUCCESS, op, length, imm or 0, 0 if imm is None else WITH_IMM) for n, op, length, imm in want],
        [(c.wr_id, c.status, c.opcode, c.length, c.imm, c.flags & WITH_IMM) for c in done],
    )


@extended("immediate", "Immediate Data of both kinds", receives=5)
def _(env, link):
    link.peer.send(
        imm_message(1, 0x01020304),
        imm_message(2, 0xFFFFFFFF, wire.IMM_SE),
        *send_message(3, [b"between"]),
        imm_message(4, 0),
        imm_message(5, 0x80000001, rest=0xDEADBEEF),
    )
    received(
        env,
        link,
        (1, WC_RECV_IMM, 0, 0x01020304),
        (2, WC_RECV_IMM, 0, 0xFFFFFFFF),
        (3, WC_RECV, 7, None),
        (4, WC_RECV_IMM, 0, 0),
        (5, WC_RECV_IMM, 0, 0x80000001),
    )
    # Only the Send has written to its buffer.
    env.holds(INBOX, 2 * 256, b"between")
    return []


@extended("immediate", "Writes with Immediate: the length is that of the Write", receives=7)
def _(env, link):
    peer, area, buf = link.peer, env.area("target"), pattern(4000)
    peer.send(
        *write_message(area, 0, split(buf, 1000, 0, 1000, 900)),
        imm_message(1, 11),
        wire.tagged(wire.WRITE, 0, 0, b""),
        imm_message(2, 22),
        *write_message(area, 7, [buf[7:12]]),
        *write_message(area, 100, split(buf[100:110], 4)),
        imm_message(3, 33, wire.IMM_SE),
        *write_message(area, 0, [buf[:99]]),
        *send_message(4, [b""]),
        imm_message(5, 55),
        *write_message(area, 0, [buf[:50]]),
        imm_message(6, 66),
        imm_message(7, 77),
    )
    received(
        env,
        link,
        (1, WC_RECV_IMM, 4000, 11),
        (2, WC_RECV_IMM, 0, 22),
        (3, WC_RECV_IMM, 10, 33),
        (4, WC_RECV, 0, None),
        (5, WC_RECV_IMM, 0, 55),
        (6, WC_RECV_IMM, 50, 66),
        (7, WC_RECV_IMM, 0, 77),
    )
    env.holds("target", 0, buf)
    return []


@extended("immediate", "Immediate Data in segments", receives=2)
def _(env, link):
    for msn, order in ((1, (0, 1, 2)), (2, (1, 0, 2))):
        body = imm_body(0x10203040 + msn)
        pieces = [(0, body[:1]), (1, body[1:5]), (5, body[5:])]
        link.peer.send(
            *[
                wire.untagged(wire.IMM, QN_SEND, msn, pieces[n][1], mo=pieces[n][0], last=n == 2)
                for n in order
            ]
        )
    received(env, link, (1, WC_RECV_IMM, 0, 0x10203041), (2, WC_RECV_IMM, 0, 0x10203042))
    return []


@extended("immediate", "Immediate Data needs no buffer in its receive", cuts=("whole",), receives=0)
def _(env, link):
    env.subject.recv(link.name, 1)
    link.peer.send(imm_message(1, 5))
    received(env, link, (1, WC_RECV_IMM, 0, 5))
    return []


def expect_imm(peer, msn, imm, opcode=wire.IMM):
    """The one segment of Immediate Data."""
    seg = peer.recv()
    same(
        "Immediate Data",
        (opcode, False, True, QN_SEND, msn, 0, 0, imm_body(imm)),
        (seg.opcode, seg.tagged, seg.last, seg.qn, seg.msn, seg.mo, seg.ulp, seg.payload),
    )


@extended("immediate", "Kiwarp's Writes with Immediate", cuts=("whole",))
def _(env, link):
    peer, buf = link.peer, pattern(3000)
    env.subject.fill("source", 0, buf)
    open_gate(link)
    rows = [(0, 1, {}), (1, 0xFFFFFFFF, {"se": 1}), (3000, 0x01020304, {}), (8, 0, {})]
    for n, (size, imm, options) in enumerate(rows, 1):
        env.subject.must("write", link.name, n, 0x11223344, 5 * n, f"source:0:{size}", imm=imm, **options)
        expect_write(peer, buf[:size], 0x11223344, 5 * n)
        expect_imm(peer, n, imm, wire.IMM_SE if options else wire.IMM)
    env.subject.must("send", link.name, 5, "source:0:3")
    expect_send(peer, buf[:3], wire.SEND, 5)
    completed(env, link, "send", *[(n, WC_WRITE) for n in range(1, 5)], (5, WC_SEND))
    env.subject.erase("source")


@extended("immediate", "a Read Response does not part a Write from its Immediate Data", cuts=("whole",))
def _(env, link):
    peer, area, buf = link.peer, env.area("target"), pattern(3000)
    env.subject.fill("target", 0, buf)
    peer.send(*[peer.read_request(n, 0, 500, area.stag, area.to) for n in range(4)])
    for n in range(1, 5):
        env.subject.must("write", link.name, n, 0x11, 0, "target:0:3000", imm=n)
    seen, answers = [], 0
    while len(seen) < 4 or answers < 4:
        seg = peer.recv()
        if seg.opcode == wire.READ_RESP:
            answers += seg.last
        elif seg.last:
            same("operation", wire.WRITE, seg.opcode)
            expect_imm(peer, len(seen) + 1, len(seen) + 1)
            seen.append(seg)
    completed(env, link, "send", *[(n, WC_WRITE) for n in range(1, 5)])
    env.subject.erase("target")


@extended("immediate", "Kiwarp's Sends with Immediate have no payload", cuts=("whole",))
def _(env, link):
    peer = link.peer
    open_gate(link)
    env.subject.must("send", link.name, 1, imm=0x0A0B0C0D)
    expect_imm(peer, 1, 0x0A0B0C0D)
    env.subject.must("send", link.name, 2, "local:0:0", imm=7, se=1)
    expect_imm(peer, 2, 7, wire.IMM_SE)
    same("with payload", "EOPNOTSUPP", env.subject.do("send", link.name, 3, "local:0:1", imm=7))
    env.subject.must("send", link.name, 4)
    expect_send(peer, b"", wire.SEND, 3)
    completed(env, link, "send", (1, WC_SEND), (2, WC_SEND), (4, WC_SEND))


error("Immediate Data of 7 bytes", O_UNSPECIFIED, setting="immediate")(
    lambda s: s.send(imm_body(1)[:7], opcode=wire.IMM)
)
error("Immediate Data without bytes", O_UNSPECIFIED, setting="immediate")(
    lambda s: s.send(b"", opcode=wire.IMM_SE)
)
error("Immediate Data of 9 bytes", U_LENGTH, setting="immediate")(
    lambda s: s.send(bytes(9), opcode=wire.IMM)
)
error("Immediate Data: MO 4", U_MO, setting="immediate")(
    lambda s: s.send(bytes(4), opcode=wire.IMM, mo=4)
)
error("Immediate Data: MSN of the message after next", U_MSN, setting="immediate")(
    lambda s: s.send(imm_body(1), opcode=wire.IMM, msn=2)
)
error("Immediate Data: no receive", U_NO_BUFFER, receives=0, setting="immediate")(
    lambda s: s.send(imm_body(1), opcode=wire.IMM)
)
error("Immediate Data on queue 1", O_OPCODE, setting="immediate")(
    lambda s: s.send(imm_body(1), opcode=wire.IMM, qn=QN_READ)
)
error("Immediate Data, tagged", O_OPCODE, setting="immediate")(
    lambda s: wire.tagged(wire.IMM_SE, s.env.area("target").stag, s.env.area("target").to, imm_body(1))
)
error(
    "Immediate Data behind the first segment of a Send",
    O_OPCODE,
    placed=b"x",
    before=lambda s: [s.send(b"x", last=False)],
    setting="immediate",
)(lambda s: s.send(imm_body(1), opcode=wire.IMM))
error(
    "Immediate Data with SE behind the first segment of that without",
    O_OPCODE,
    before=lambda s: [s.send(bytes(4), opcode=wire.IMM, last=False)],
    setting="immediate",
)(lambda s: s.send(bytes(4), opcode=wire.IMM_SE, mo=4))


# --- atomic operations, with the pseudocode of RFC 7306 ---


def fetch_add(original, add, mask):
    """Section 5.1.1, bit by bit."""
    result = carry = 0
    for bit in range(64):
        at = 1 << bit
        total = carry + (original >> bit & 1) + (add >> bit & 1)
        carry = total >> 1
        if total & 1:
            result |= at
        carry = carry and not mask & at
    return result


def cmp_swap(original, swap, mask, compare, compare_mask):
    """Section 5.1.2."""
    if (compare ^ original) & compare_mask:
        return original
    return original & ~mask & ONES | swap & mask


def in_memory(value):
    return value.to_bytes(8, sys.byteorder)


def atomic(peer, op, request, area, offset, value, mask=ONES, compare=0, compare_mask=ONES):
    body = wire.atomic_body(op, request, area.stag, area.to + offset, value, mask, compare, compare_mask)
    return wire.untagged(wire.ATOMIC_REQ, QN_READ, peer.next_msn(QN_READ), body)


def expect_answer(peer, msn, request, value):
    seg = peer.recv()
    same(
        "Atomic Response",
        (wire.ATOMIC_RESP, False, True, QN_ATOMIC, msn, 0, 0, wire.atomic_answer(request, value).hex()),
        (seg.opcode, seg.tagged, seg.last, seg.qn, seg.msn, seg.mo, seg.ulp, seg.payload.hex()),
    )


ADDS = (
    (5, 7, 0),
    (ONES, 1, 0),
    (0x00000000FFFFFFFF, 1, 0),
    (1 << 63, 1 << 63, 0),
    (0x00000000FFFFFFFF, 1, 1 << 31),
    (0xFFFFFFFFFFFFFFFF, 0x0101010101010101, 0x8080808080808080),
    (0x7F80FF01FFFFFFFF, 0x0180010200000001, 0x8000800080008000),
    (0x0123456789ABCDEF, 0xFEDCBA9876543210, ONES),
    (0x0123456789ABCDEF, 0, 0),
)


@extended("atomics", "FetchAdd, with masks")
def _(env, link):
    area = env.area("atomic")
    for n, (original, add, mask) in enumerate(ADDS, 1):
        env.subject.fill("atomic", 16, in_memory(original))
        link.peer.send(atomic(link.peer, FETCH_ADD, 0xF0000000 + n, area, 16, add, mask, 77, 88))
        expect_answer(link.peer, n, 0xF0000000 + n, original)
        env.holds("atomic", 16, in_memory(fetch_add(original, add, mask)))


SWAPS = (
    (5, 9, ONES, 5, ONES),
    (5, 9, ONES, 6, ONES),
    (0x1122334455667788, 0xAABBCCDDEEFF0011, 0x00FF00FF00FF00FF, 0x1122334455667788, ONES),
    (0x1122334455667788, 0xAABBCCDDEEFF0011, ONES, 0x5566778800000000, 0x00000000FFFFFFFF),
    (0x1122334455667788, 0xAABBCCDDEEFF0011, ONES, 0x1122334400000000, 0xFFFFFFFF00000000),
    (0x1122334455667788, 0xAABBCCDDEEFF0011, ONES, 3, 0),  # a Swap
    (0x1122334455667788, 0xAABBCCDDEEFF0011, 0, 0x1122334455667788, ONES),
    (0x1122334455667788, ONES, 1 << 63, 0x8000000000000000, 1 << 63),
)


@extended("atomics", "CmpSwap, with masks")
def _(env, link):
    area = env.area("atomic")
    for n, (original, *given) in enumerate(SWAPS, 1):
        env.subject.fill("atomic", AREA - 8, in_memory(original))
        link.peer.send(atomic(link.peer, CMP_SWAP, n, area, AREA - 8, *given))
        expect_answer(link.peer, n, n, original)
        env.holds("atomic", AREA - 8, in_memory(cmp_swap(original, *given)))


@extended("atomics", "Reads and atomic operations are worked in order")
def _(env, link):
    peer, area = link.peer, env.area("atomic")
    for n in range(3):
        value = 1000 * n + 1
        env.subject.fill("atomic", 8, in_memory(value))
        peer.send(
            peer.read_request(1, 0, 8, area.stag, area.to + 8),
            atomic(peer, FETCH_ADD, 10, area, 8, 5, 0),
            peer.read_request(2, 0, 8, area.stag, area.to + 8),
            atomic(peer, CMP_SWAP, 11, area, 8, 99, ONES, value + 5),
        )
        expect_response(peer, 1, 0, in_memory(value))
        expect_answer(peer, 2 * n + 1, 10, value)
        expect_response(peer, 2, 0, in_memory(value + 5))
        expect_answer(peer, 2 * n + 2, 11, value + 5)
        env.holds("atomic", 8, in_memory(99))


@extended("atomics", "as many Atomic Requests at a time as IRD allows", cuts=("whole", "bytes"))
def _(env, link):
    peer, area = link.peer, env.area("atomic")
    env.subject.fill("atomic", 0, in_memory(0))
    for n in range(3):
        peer.send(*[atomic(peer, FETCH_ADD, k, area, 0, 1, 0) for k in range(4)])
        for k in range(4):
            expect_answer(peer, 4 * n + k + 1, k, 4 * n + k)
    env.holds("atomic", 0, in_memory(12))


@extended("atomics", "an Atomic Request in segments, its reserved bits set")
def _(env, link):
    peer, area = link.peer, env.area("atomic")
    env.subject.fill("atomic", 0, in_memory(3))
    for msn, order in ((1, (0, 1, 2)), (2, (1, 0, 2))):
        body = wire.atomic_body(0xFFFFFFF0, 9, area.stag, area.to, 1, 0)
        pieces = [(0, body[:1]), (1, body[1:30]), (30, body[30:])]
        peer.send(
            *[
                wire.untagged(
                    wire.ATOMIC_REQ, QN_READ, msn, pieces[n][1], mo=pieces[n][0], last=n == 2, ulp=5
                )
                for n in order
            ]
        )
        expect_answer(peer, msn, 9, 2 + msn)
    env.holds("atomic", 0, in_memory(5))


def expect_atomic(peer, msn, op, stag, to, value, mask, compare):
    """An Atomic Request; returns its identifier."""
    seg = peer.recv()
    same(
        "Atomic Request",
        (wire.ATOMIC_REQ, False, True, QN_READ, msn, 0, 0),
        (seg.opcode, seg.tagged, seg.last, seg.qn, seg.msn, seg.mo, seg.ulp),
    )
    request = int.from_bytes(seg.payload[4:8], "big")
    want = wire.atomic_body(op, request, stag, to, value, mask, compare)
    same("what is asked", want.hex(), seg.payload.hex())
    return request


def answer(msn, request, value, **fields):
    body = wire.atomic_answer(request, value)
    return wire.untagged(**{"opcode": wire.ATOMIC_RESP, "qn": QN_ATOMIC, "msn": msn, "payload": body} | fields)


@extended("atomics", "Kiwarp's atomic operations")
def _(env, link):
    peer, to = link.peer, 2**63 + 8
    open_gate(link)
    # The sink is eight bytes anywhere.
    env.subject.must("fetchadd", link.name, 1, 0x77, to, 0x0102030405060708, 4, "local:3:8")
    request = expect_atomic(peer, 1, FETCH_ADD, 0x77, to, 0x0102030405060708, 0, 0)
    peer.send(answer(1, request, 0x1112131415161718))
    completed(env, link, "send", (1, WC_FETCH_ADD, 8))
    env.holds("local", 3, in_memory(0x1112131415161718))
    env.subject.must("cmpswap", link.name, 2, 0x78, 16, 5, ONES, "local:8:8")
    request = expect_atomic(peer, 2, CMP_SWAP, 0x78, 16, ONES, ONES, 5)
    body = wire.atomic_answer(request, 0x2122232425262728)
    peer.send(
        answer(2, request, 0, payload=body[:5], last=False),
        answer(2, request, 0, payload=body[5:], mo=5, ulp=0xFFFFFFFF),
    )
    completed(env, link, "send", (2, WC_COMP_SWAP, 8))
    env.holds("local", 8, in_memory(0x2122232425262728))
    for sink in ("local:0:7", "local:0:9", "local:0:0"):
        same(f"into {sink}", "EINVAL", env.subject.do("fetchadd", link.name, 3, 1, 0, 1, 0, sink))
    same("into nothing", "EINVAL", env.subject.do("cmpswap", link.name, 3, 1, 0, 1, 0))


@extended("atomics", "Kiwarp keeps to its ORD with Reads and atomic operations", cuts=("whole",), ord=2)
def _(env, link):
    peer = link.peer
    open_gate(link)
    for n in range(3):
        env.subject.must("fetchadd", link.name, 2 * n + 1, 7, 8 * n, n, 0, f"local:{16 * n}:8")
        env.subject.must("read", link.name, 2 * n + 2, 7, 8 * n, f"local:{16 * n + 8}:8")
    for n in range(3):
        request = expect_atomic(peer, 2 * n + 1, FETCH_ADD, 7, 8 * n, n, 0, 0)
        sink = expect_request(peer, 2 * n + 2, 8, 7, 8 * n)
        env.silent_for(link, "more than ORD at a time", 0.3)
        peer.send(answer(n + 1, request, 0x3131313131313131), *respond(*sink, [b"2" * 8]))
    completed(
        env, link, "send", *[(n, (WC_READ, WC_FETCH_ADD)[n % 2], 8) for n in range(1, 7)]
    )
    env.holds("local", 0, (b"1" * 8 + b"2" * 8) * 3)


def atomic_error(name, want, fields=None, offset=0, area="atomic", op=FETCH_ADD, payload=None):
    """Registers an Atomic Request that is wrong, and must change nothing."""

    def build(s):
        where = s.env.area(area)
        to = (where.to + offset) % 2**64
        stag = where.stag ^ 0x5A5A5A00 if want == P_STAG else where.stag
        body = wire.atomic_body(op, 1, stag, to, 1, ONES if op else 0)
        if payload is not None:
            body = (body + bytes(8))[:payload]
        changed = {"opcode": wire.ATOMIC_REQ, "qn": QN_READ, "msn": 1, "payload": body} | (fields or {})
        return wire.untagged(**changed)

    error(f"Atomic Request: {name}", want, setting="atomics")(build)


for unaligned in (1, 2, 4, 7):
    atomic_error(f"FetchAdd {unaligned} bytes off the alignment", O_CATASTROPHE, offset=8 + unaligned)
atomic_error("CmpSwap 4 bytes off the alignment", O_CATASTROPHE, offset=4, op=CMP_SWAP)
atomic_error("CmpSwap that would go over the end of a page", O_CATASTROPHE, offset=AREA - 12, op=CMP_SWAP)
atomic_error("a region without the right", P_ACCESS, area="target")
atomic_error("a region of local rights", P_ACCESS, area="local")
atomic_error("STag of no region", P_STAG)
atomic_error("a region that was deregistered", P_STAG, area="gone")
atomic_error("another protection domain", P_ASSOC, area="foreign")
atomic_error("behind the end", P_BOUNDS, offset=AREA)
atomic_error("beyond the end", P_BOUNDS, offset=AREA - 4)
atomic_error("before the start", P_BOUNDS, offset=-8)
atomic_error("TO wraps", P_WRAP, area="high", offset=AREA - 4)
atomic_error("51 bytes", O_UNSPECIFIED, payload=51)
atomic_error("53 bytes", U_LENGTH, payload=53)
atomic_error("no bytes", O_UNSPECIFIED, payload=0)
for code in (1, 3, 15):
    atomic_error(f"operation {code}", O_OPCODE, op=code)
for queue in (0, 2, 3):
    atomic_error(f"on queue {queue}", O_OPCODE, fields={"qn": queue})
atomic_error("on queue 4", U_QN, fields={"qn": 4})
atomic_error("MSN of the request after next", U_MSN, fields={"msn": 2})
error("Read Request on queue 3, which there is", O_OPCODE, setting="atomics")(lambda s: s.read(qn=3))
error("Atomic Request, tagged", O_OPCODE, setting="atomics")(
    lambda s: wire.tagged(wire.ATOMIC_REQ, s.env.area("atomic").stag, s.env.area("atomic").to, bytes(52))
)
error(
    "Atomic Request behind the first segment of a Read Request",
    O_OPCODE,
    before=lambda s: [s.read(body=bytes(4), last=False)],
    setting="atomics",
)(lambda s: wire.untagged(wire.ATOMIC_REQ, QN_READ, 1, bytes(48), mo=4))
error("Atomic Response that nobody asked for", U_NO_BUFFER, setting="atomics")(lambda s: answer(1, 0, 0))
error("Atomic Response: MSN of the one after next", U_MSN, setting="atomics")(lambda s: answer(2, 0, 0))
error("without the setting, Atomic Request on queue 1", O_OPCODE)(
    lambda s: wire.untagged(wire.ATOMIC_REQ, QN_READ, 1, bytes(52))
)
error("without the setting, Atomic Response on queue 3", U_QN)(lambda s: answer(1, 0, 0))


@case("Atomic Requests: one more than IRD")
def _(env):
    scene = Scene(env, "responder", setting="atomics")
    scene.peer.cut = "whole"
    area, peer = env.area("atomic"), scene.peer
    env.subject.fill("atomic", 0, in_memory(7))
    requests = [atomic(peer, FETCH_ADD, n, area, 0, 1, 0) for n in range(2)]
    requests += [peer.read_request(1, 0, 8, area.stag, area.to) for n in range(2)]
    requests.append(atomic(peer, FETCH_ADD, 5, area, 0, 1, 0))
    peer.send(*requests)
    env.terminated(scene.link, U_NO_BUFFER, requests[4])
    peer.close()
    env.ended(scene.link, event_for(U_NO_BUFFER), reason=TERM_SENT | U_NO_BUFFER.packed())
    # Those that were not answered were not worked either.
    env.holds("atomic", 0, in_memory(7))


@case("atomic operations need the right of the queue pair")
def _(env):
    scene = Scene(env, "responder", setting="atomics")
    env.subject.do("qpaccess", scene.link.name, "remote_read,remote_write")
    request = atomic(scene.peer, FETCH_ADD, 1, env.area("atomic"), 0, 1, 0)
    scene.peer.send(request)
    env.terminated(scene.link, P_ACCESS, request)
    scene.peer.close()
    env.ended(scene.link, event_for(P_ACCESS), reason=TERM_SENT | P_ACCESS.packed())


def wrong_answer(name, want, build, status=BAD_RESP_ERR, sink="local:64:8"):
    """Registers wrong answers to the first of an atomic operation and a Read."""

    def run(env):
        with env.setting("atomics", 1):
            link = env.open()
        open_gate(link)
        subject, peer = env.subject, link.peer
        subject.must("fetchadd", link.name, 1, 7, 8, 1, 0, sink)
        subject.must("read", link.name, 2, 7, 200, "local:512:8")
        request = expect_atomic(peer, 1, FETCH_ADD, 7, 8, 1, 0, 0)
        second = expect_request(peer, 2, 8, 7, 200)
        fault = build(request, second)
        peer.send(fault)
        env.terminated(link, want, None if want == CATASTROPHE else fault)
        peer.close()
        done = subject.completions(link.name, "send", 2)
        same("work", [(1, status), (2, WR_FLUSH_ERR)], [(w.wr_id, w.status) for w in done])
        env.ended(link, event_for(want), reason=TERM_SENT | want.packed())

    case(f"Atomic Response: {name}")(run)


wrong_answer("another request's", O_UNSPECIFIED, lambda n, read: answer(1, n ^ 1, 0))
wrong_answer("11 bytes", O_UNSPECIFIED, lambda n, read: answer(1, n, 0, payload=bytes(11)))
wrong_answer("13 bytes", U_LENGTH, lambda n, read: answer(1, n, 0, payload=bytes(13)))
wrong_answer("MO 4", U_MO, lambda n, read: answer(1, n, 0, payload=bytes(8), mo=4))
wrong_answer("MSN 0", U_MSN, lambda n, read: answer(0, n, 0), WR_FLUSH_ERR)
wrong_answer("on queue 1", O_OPCODE, lambda n, read: answer(1, n, 0, qn=QN_READ), WR_FLUSH_ERR)
wrong_answer(
    "the answer to the Read behind comes first",
    O_OPCODE,
    lambda n, read: wire.tagged(wire.READ_RESP, read[0], read[1], bytes(8)),
    WR_FLUSH_ERR,
)


@case("Atomic Response: the one behind a Read comes first")
def _(env):
    with env.setting("atomics", 1):
        link = env.open()
    open_gate(link)
    subject, peer = env.subject, link.peer
    subject.must("read", link.name, 1, 7, 200, "local:512:8")
    subject.must("fetchadd", link.name, 2, 7, 8, 1, 0, "local:0:8")
    expect_request(peer, 1, 8, 7, 200)
    request = expect_atomic(peer, 2, FETCH_ADD, 7, 8, 1, 0, 0)
    fault = answer(1, request, 0)
    peer.send(fault)
    env.terminated(link, O_OPCODE, fault)
    peer.close()
    done = subject.completions(link.name, "send", 2)
    same("work", [(1, WR_FLUSH_ERR), (2, WR_FLUSH_ERR)], [(w.wr_id, w.status) for w in done])
    env.ended(link, event_for(O_OPCODE), reason=TERM_SENT | O_OPCODE.packed())


@case("an atomic operation into a region that may not be written to")
def _(env):
    with env.setting("atomics", 1):
        link = env.open()
    open_gate(link)
    env.subject.must("fetchadd", link.name, 1, 7, 8, 1, 0, "readable:0:8")
    env.terminated(link, CATASTROPHE, None)
    env.moved["rx_rdmap_errors"] -= 1
    link.peer.close()
    done = env.subject.completions(link.name, "send", 1)
    same("work", [(1, LOC_PROT_ERR)], [(w.wr_id, w.status) for w in done])
    env.ended(link, reason=TERM_SENT | CATASTROPHE.packed())
