# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""What start-up negotiates, in both roles: depths, ready-to-receive messages, private data, time."""
import errno
import time

import wire
import peer as peers
from cases_errors import CATASTROPHE, U_NO_BUFFER
from cases_good import completed, expect_response, expect_send, inbox, pattern, respond
from cases_start import connecting, gone, unheard
from harness import BIG_AREA, CheckFailed, case, same
from peer import Silent
from subject import LOC_QP_OP_ERR, QP_REQ_ERR, TERM_SENT, WC_SEND, WC_WRITE
from wire import FLAG_C, FLAG_R, FLAG_S, NOT_NEGOTIATED, REP_KEY, REQ_KEY, Enhanced, start_frame

DEVICE_DEPTH = 128  # what the device has; librdmacm accepts no more from a consumer
RTR = ("send", "write", "read")


def kinds(enh):
    return {kind for kind in RTR if getattr(enh, kind)}


def offer(*names, **options):
    return Enhanced(p2p=True, **dict.fromkeys(names, True), **options)


# --- depths: RFC 6581 section 9.1 ---

TOLD = (
    ("as the peer has them", 3, 2, 3, 2),
    ("more than Kiwarp's own", 9, 11, 9, 11),
    ("none", 0, 0, 0, 0),
    ("more than the device has", 500, 501, DEVICE_DEPTH, DEVICE_DEPTH),
    ("not negotiated", NOT_NEGOTIATED, NOT_NEGOTIATED, DEVICE_DEPTH, DEVICE_DEPTH),
)


def told(event):
    """As rdma_cm names them: the peer's IRD bounds what the consumer may initiate."""
    return event.initiator_depth, event.responder_resources


for name, ird, ord_, want_ird, want_ord in TOLD:

    @case(f"depths: a request tells the consumer the peer's: {name}")
    def _(env, ird=ird, ord_=ord_, want=(want_ird, want_ord)):
        link = env.open_responder(enh=Enhanced(ird=ird, ord=ord_), ird=5, ord=5)
        same("request's", want, told(link.request))
        same("ESTABLISHED's", want, told(link.established))
        env.graceful(link)

    @case(f"depths: a reply tells the consumer the peer's: {name}")
    def _(env, ird=ird, ord_=ord_, want=(want_ird, want_ord)):
        if ord_ > DEVICE_DEPTH and ord_ != NOT_NEGOTIATED:
            ord_, want = 4, (want[0], 4)
        link = env.open_initiator(enh=offer("write", ird=ird, ord=ord_), ird=5, ord=5)
        same("reply's", want, told(link.reply))
        env.graceful(link)


@case("depths: a reply that negotiates none leaves Kiwarp's as they are")
def _(env):
    enh = offer("write", ird=NOT_NEGOTIATED, ord=NOT_NEGOTIATED)
    link = env.open_initiator(enh=enh, ird=5, ord=3)
    env.ord_is(link, 3)
    peer, area = link.peer, env.area("target")
    env.subject.fill("target", 0, b"x")
    for n in range(5):
        peer.send(peer.read_request(n, n, 1, area.stag, area.to))
        expect_response(peer, n, n, b"x")
    # As many at once as there are places, and one more.
    reads = [peer.read_request(n, n, 1, area.stag, area.to) for n in range(6)]
    peer.send(*reads)
    env.terminated(link, U_NO_BUFFER, reads[5])
    peer.close()
    env.ended(link, QP_REQ_ERR, reason=TERM_SENT | U_NO_BUFFER.packed())
    env.subject.erase("target")


@case("depths: a Read that serves as ready-to-receive message leaves the consumer's ORD as it is")
def _(env):
    for ird, ord_ in ((0, 4), (1, 0), (0, 0)):
        link = env.open_initiator(enh=offer("read", ird=ird, ord=0), ird=4, ord=ord_)
        peer, first = link.peer, link.peer.recv()
        same("ready to receive", (wire.READ_REQ, 1), (first.opcode, first.msn))
        peer.send(*respond(int.from_bytes(first.payload[:4], "big"), 0, [b""]))
        env.subject.must("read", link.name, 1, 7, 0, "local:0:1")
        env.terminated(link, CATASTROPHE, None)
        env.moved["rx_rdmap_errors"] -= 1
        peer.close()
        done = env.subject.completions(link.name, "send", 1)
        same("Read", [(1, LOC_QP_OP_ERR)], [(w.wr_id, w.status) for w in done])
        env.ended(link, reason=TERM_SENT | CATASTROPHE.packed())


# --- rejections ---


@case("rejection: enhanced data as in a reply that accepts")
def _(env):
    for asked, want in (
        (offer("write", "read", ird=3, ord=2), {"write", "read"}),
        (offer("read", ird=0, ord=0), {"read"}),
        (offer("send", ird=3, ord=2), {"send"}),
        (offer(ird=3, ord=2), set(RTR)),
        (Enhanced(ird=3, ord=2), set()),
    ):
        peer = peers.connect(env.address, env.port)
        link = env._new(peer, "responder")
        peer.send_bytes(start_frame(REQ_KEY, FLAG_C | FLAG_S, 2, asked.build()))
        env.subject.request(link.name)
        env.subject.do("reject", link.name, b"no".hex())
        frame = peer.recv_start_frame()
        got = Enhanced.parse(frame.pd)
        same("flags", FLAG_R | FLAG_S, frame.flags & (FLAG_R | FLAG_S))
        same("connection model and messages", (asked.p2p, want), (got.p2p, kinds(got)))
        same("ORD", asked.ird, got.ord)
        same("an IRD for the Reads asked for", True, got.ird >= max(asked.ord, "read" in want))
        same("private data", b"no", frame.pd[4:])
        gone(peer)
        env.moved["conn_rejected"] += 1


# --- ready to receive ---


@case("ready to receive: the responder names all that both know, the initiator chooses")
def _(env):
    for chosen in RTR:
        with env.setting("rtr", "send write read"):
            link = env.open_responder(enh=offer(*RTR))
        got = Enhanced.parse(link.frame.pd)
        same("named", (True, set(RTR)), (got.p2p, kinds(got)))
        peer = link.peer
        if chosen == "send":
            peer.send(peer.send_message(b""))
        elif chosen == "write":
            peer.send(wire.tagged(wire.WRITE, 1, 0))
        else:
            peer.send(peer.read_request(1, 0, 0, 1, 0))
            expect_response(peer, 1, 0, b"")
        peer.send(peer.send_message(b"first"))
        completed(env, link, "recv", (1, 128, 5))
        env.graceful(link, [2])
        env.erase_inbox()


@case("ready to receive: by default Kiwarp offers all kinds and names all of those offered")
def _(env):
    for answer, opcode in ((RTR, wire.WRITE), (("send", "read"), wire.READ_REQ), (("send",), wire.SEND)):
        link = connecting(env)
        got = Enhanced.parse(link.frame.pd)
        same("offered", (True, set(RTR)), (got.p2p, kinds(got)))
        link.peer.send_bytes(start_frame(REP_KEY, FLAG_C | FLAG_S, 2, offer(*answer).build()))
        same("event", "ESTABLISHED", env.subject.event(link.name).kind)
        env.moved["conn_established"] += 1
        first = link.peer.recv()
        same("chosen", (opcode, True), (first.opcode, first.last))
        if opcode == wire.WRITE:
            link.peer.repeated = first.ulpdu
        elif opcode == wire.READ_REQ:
            link.peer.send(*respond(int.from_bytes(first.payload[:4], "big"), 0, [b""]))
        env.graceful(link, [])
    link = env.open_responder(enh=offer(*RTR))
    same("named", set(RTR), kinds(Enhanced.parse(link.frame.pd)))
    env.graceful(link)


@case("ready to receive: of those offered only what Kiwarp knows is named")
def _(env):
    for setting, offered, want in (
        ("write read", ("send", "write"), {"write"}),
        ("write read", RTR, {"write", "read"}),
        ("write read", ("read",), {"read"}),
        ("read", RTR, {"read"}),
    ):
        with env.setting("rtr", setting):
            link = env.open_responder(enh=offer(*offered))
        same("named", want, kinds(Enhanced.parse(link.frame.pd)))
        env.graceful(link)


@case("client/server model: kinds of ready-to-receive message in a request are ignored")
def _(env):
    link = env.open_responder(enh=Enhanced(send=True, write=True, read=True))
    got = Enhanced.parse(link.frame.pd)
    same("reply", (False, set()), (got.p2p, kinds(got)))
    # None is waited for: the time that other peers get to send first is short.
    env.subject.fill("source", 0, b"unasked")
    env.subject.must("send", link.name, 1, "source:0:7")
    expect_send(link.peer, b"unasked", wire.SEND, 1)
    completed(env, link, "send", (1, 0))
    env.graceful(link)
    env.subject.erase("source")


@case("client/server model: kinds of ready-to-receive message in a reply are ignored")
def _(env):
    link = env.open_initiator(enh=Enhanced(send=True, write=True, read=True))
    env.subject.fill("source", 0, b"first")
    env.subject.must("send", link.name, 1, "source:0:5")
    expect_send(link.peer, b"first", wire.SEND, 1)
    completed(env, link, "send", (1, 0))
    env.graceful(link)
    env.subject.erase("source")


@case("client/server model: a reply with the other model is one of this one all the same")
def _(env):
    for kind in RTR:
        with env.setting("p2p", 0):
            link = connecting(env, receives=2)
        same("asked for", (False, set()), (Enhanced.parse(link.frame.pd).p2p, kinds(Enhanced.parse(link.frame.pd))))
        link.peer.send_bytes(start_frame(REP_KEY, FLAG_C | FLAG_S, 2, offer(kind, ird=4, ord=4).build()))
        same("event", "ESTABLISHED", env.subject.event(link.name).kind)
        env.moved["conn_established"] += 1
        env.subject.fill("source", 0, b"first")
        env.subject.must("send", link.name, 1, "source:0:5")
        expect_send(link.peer, b"first", wire.SEND, 1)
        completed(env, link, "send", (1, 0))
        env.graceful(link)
        env.subject.erase("source")


@case("ready to receive by read: there is a place for it, whatever the consumer has")
def _(env):
    link = env.open_responder(enh=offer("read", ird=0, ord=0), ird=0, ord=0)
    same("reply's IRD", 1, Enhanced.parse(link.frame.pd).ird)
    link.peer.send(link.peer.read_request(1, 0, 0, 1, 0))
    expect_response(link.peer, 1, 0, b"")
    env.graceful(link)


@case("ready to receive by read: not named beside others if the consumer serves no Reads")
def _(env):
    with env.setting("rtr", "send write read"):
        link = env.open_responder(enh=offer(*RTR, ird=0, ord=0), ird=0, ord=0)
    same("named", {"send", "write"}, kinds(Enhanced.parse(link.frame.pd)))
    env.graceful(link)


@case("ready to receive: Kiwarp's names no STag 0")
def _(env):
    for kind in ("write", "read"):
        link = env.open_initiator(enh=offer(kind))
        if kind == "write":
            # The harness has taken it, and knows it again.
            first = wire.Segment.parse(link.peer.repeated)
            same("STag is not 0", True, first.stag != 0)
        else:
            first = link.peer.recv()
            same("operation", wire.READ_REQ, first.opcode)
            sink, source = first.payload[:4], first.payload[16:20]
            same("STags are not 0", True, bytes(4) not in (sink, source))
            stag = int.from_bytes(sink, "big")
            link.peer.send(wire.tagged(wire.READ_RESP, stag, int.from_bytes(first.payload[4:12], "big")))
        env.graceful(link)


@case("ready to receive by write: Kiwarp's comes once more while the peer is silent")
def _(env):
    link = env.open_initiator(enh=offer("write"))
    peer, first = link.peer, link.peer.repeated
    peer.repeated = None
    same("once more", first, peer.recv().ulpdu)
    env.silent_for(link, "and again")
    peer.repeated = first
    env.graceful(link)


@case("ready to receive by send or read: Kiwarp's comes once, however long the peer is silent")
def _(env):
    for kind, opcode in (("send", wire.SEND), ("read", wire.READ_REQ)):
        with env.setting("rtr", kind):
            link = env.open_initiator(enh=offer(kind))
        first = link.peer.recv()
        same("ready to receive", (opcode, 1), (first.opcode, first.msn))
        env.silent_for(link, "once more")
        if kind == "read":
            link.peer.send(*respond(int.from_bytes(first.payload[:4], "big"), 0, [b""]))
        env.graceful(link)


def long_send(env, attempt):
    """Whether the ready-to-receive message came once more behind the beginning of a long Send."""
    link = env.open_initiator(window=2048)
    peer, again = link.peer, link.peer.repeated
    peer.repeated = None
    env.subject.must("send", link.name, 1, *[f"big:0:{BIG_AREA}"] * 4)
    inside = None  # of the Send, once it has begun
    got = repeats = 0
    while inside is None or inside:
        seg = peer.recv()
        if seg.ulpdu == again:
            if inside:
                raise CheckFailed("a ready-to-receive message inside of a Send")
            repeats += 1
            continue
        if inside is None:
            # For as long as it takes TCP to be full, and for the message to be due.
            time.sleep(0.3)
        inside = not seg.last
        got += len(seg.payload)
    same("bytes", 4 * BIG_AREA, got)
    completed(env, link, "send", (1, 0))
    peer.repeated = again
    env.graceful(link)
    return repeats == 0


@case("ready to receive: what is repeated goes between messages")
def _(env):
    env.big_area()
    for attempt in range(20):
        if long_send(env, attempt):
            return
    raise CheckFailed("the consumer was never soon enough")


def write_then_imm(env, speaks):
    """
    A Write, silence for longer than until a ready-to-receive message is repeated, and Immediate Data.
    Whether it was not repeated before the Write. If the peer speaks meanwhile it is not repeated at all.
    """
    with env.setting("immediate", 1):
        link = env.open_initiator(enh=offer("write"))
    peer, again = link.peer, link.peer.repeated
    peer.repeated = None
    env.subject.must("write", link.name, 1, 0x11, 0, "source:0:9")
    seg = peer.recv()
    soon = seg.ulpdu != again
    if soon:
        same("the Write", (wire.WRITE, 9, True), (seg.opcode, len(seg.payload), seg.last))
        env.silent_for(link, "between a Write and Immediate Data")
        if speaks:
            peer.send(peer.send_message(b"hello"))
            completed(env, link, "recv", (1, 128, 5))
            inbox(env, b"hello")
        env.subject.must("send", link.name, 2, imm=7)
        seg = peer.recv()
        same("Immediate Data", (wire.IMM, 1), (seg.opcode, seg.msn))
        if speaks:
            env.silent_for(link, "after the peer has sent")
        else:
            same("once more", again, peer.recv().ulpdu)
        completed(env, link, "send", (1, WC_WRITE), (2, WC_SEND))
    peer.repeated = again
    env.graceful(link, link.receives[soon and speaks :])
    return soon


@case("ready to receive: what is repeated does not part a Write from Immediate Data")
def _(env):
    for speaks in (False, True):
        if not any(write_then_imm(env, speaks) for _ in range(20)):
            raise CheckFailed("the consumer was never soon enough")


@case("ready to receive: what is repeated may follow a Write if there is no Immediate Data")
def _(env):
    link = env.open_initiator(enh=offer("write"))
    peer, again = link.peer, link.peer.repeated
    peer.repeated = None
    env.subject.must("write", link.name, 1, 0x11, 0, "source:0:9")
    came = [peer.recv() for _ in range(2)]
    same("the Write, and once more", [0, 9], sorted(len(seg.payload) for seg in came))
    same("once more", True, again in [seg.ulpdu for seg in came])
    completed(env, link, "send", (1, WC_WRITE))
    peer.repeated = again
    env.graceful(link)


@case("ready to receive: nothing is sent before it, however long it takes")
def _(env):
    with env.setting("first_fpdu_timeout_ms", 50):
        link = env.open_responder(enh=offer("write"))
    env.subject.fill("source", 0, b"a letter")
    env.subject.must("send", link.name, 1, "source:0:8")
    env.silent_for(link, "before the peer was ready", 1.5)
    link.peer.send(wire.tagged(wire.WRITE, 1, 0))
    expect_send(link.peer, b"a letter", wire.SEND, 1)
    completed(env, link, "send", (1, 0))
    env.graceful(link)
    env.subject.erase("source")


# --- Reads of no length, which some RNICs send first, negotiated or not ---


@case("no Reads are served: but one of no length")
def _(env):
    for rev in (1, 2):
        link = env.open_responder(rev=rev, ird=0, ord=0)
        peer = link.peer
        for _ in range(3):
            peer.send(peer.read_request(1, 0, 0, 1, 0))
            expect_response(peer, 1, 0, b"")
        peer.send(peer.send_message(b"hello"))
        completed(env, link, "recv", (1, 128, 5))
        inbox(env, b"hello")
        area = env.area("target")
        fault = peer.read_request(1, 0, 1, area.stag, area.to)
        peer.send(fault)
        env.terminated(link, U_NO_BUFFER, fault)
        peer.close()
        env.ended(link, QP_REQ_ERR, [2], TERM_SENT | U_NO_BUFFER.packed())


def reads_of(env, peer, *sizes):
    area = env.area("target")
    return [peer.read_request(n, n, size, area.stag, area.to) for n, size in enumerate(sizes)]


@case("Reads as many as IRD allows: and one of no length besides")
def _(env):
    env.subject.fill("target", 0, b"x")
    for rev in (1, 2):
        for sizes in ((0, 1, 1, 1, 1), (1, 1, 1, 1, 0), (1, 1, 0, 1, 1), (0, 0, 0, 0, 1), (0,) * 5):
            link = env.open_responder(rev=rev, ird=4, ord=4)
            for _ in range(3):
                link.peer.send(*reads_of(env, link.peer, *sizes))
                for n, size in enumerate(sizes):
                    expect_response(link.peer, n, n, b"x" * size)
            env.graceful(link)
    env.subject.erase("target")


@case("Reads as many as IRD allows, and one of no length: no other has its place")
def _(env):
    for sizes in ((1, 1, 1, 1, 1), (0, 1, 1, 1, 1, 1), (0,) * 6, (1, 1, 1, 1, 0, 0)):
        link = env.open_responder(ird=4, ord=4)
        reads = reads_of(env, link.peer, *sizes)
        link.peer.send(*reads)
        env.terminated(link, U_NO_BUFFER, reads[-1])
        link.peer.close()
        env.ended(link, QP_REQ_ERR, reason=TERM_SENT | U_NO_BUFFER.packed())


# --- private data: rdma_cm carries 255 bytes ---


@case("private data: a request with more than the consumer can be given is rejected")
def _(env):
    for rev, length in ((1, 256), (1, 512), (2, 256), (2, 508)):
        peer = peers.connect(env.address, env.port)
        head = offer("write").build() if rev == 2 else b""
        flags = FLAG_C | (FLAG_S if rev == 2 else 0)
        peer.send_bytes(start_frame(REQ_KEY, flags, rev, head + pattern(length)))
        frame = peer.recv_start_frame()
        same("reply", (REP_KEY, FLAG_R, head[:0]), (frame.key, frame.flags & FLAG_R, frame.pd[4:]))
        gone(peer)
        peer.close()
        env.moved["conn_rejected"] += 1
    unheard(env)


@case("private data: a reply with more than the consumer can be given is an error")
def _(env):
    link = connecting(env)
    data = offer("write").build() + pattern(256)
    link.peer.send_bytes(start_frame(REP_KEY, FLAG_C | FLAG_S, 2, data))
    env.told_why(link, wire.Error(wire.LLP, 0, 5))
    event = env.subject.event(link.name)
    same("event", ("CONNECT_ERROR", -errno.EMSGSIZE), (event.kind, event.status))


@case("private data: of a rejection with too many the consumer gets none")
def _(env):
    for length in (255, 256):
        link = connecting(env)
        data = offer("write").build() + pattern(length)
        link.peer.send_bytes(start_frame(REP_KEY, FLAG_R | FLAG_C | FLAG_S, 2, data))
        event = env.subject.event(link.name)
        want = pattern(length) if length == 255 else b""
        same("event", ("REJECTED", want), (event.kind, event.pd))
        gone(link.peer)
        env.moved["conn_refused"] += 1


# --- time ---


@case("reply: the peer's consumer may take longer than any other step")
def _(env):
    with env.setting("start_timeout_ms", 100):
        link = connecting(env)
    try:
        raise CheckFailed(f"before the reply came {link.peer.recv_some(1.5).hex()}")
    except Silent:
        pass
    link.peer.send_bytes(start_frame(REP_KEY, FLAG_C | FLAG_S, 2, offer("write").build()))
    same("event", "ESTABLISHED", env.subject.event(link.name).kind)
    env.moved["conn_established"] += 1
    link.peer.repeated = link.peer.recv().ulpdu
    env.graceful(link)
