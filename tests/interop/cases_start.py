# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""MPA start-up: every frame that is right, every frame that is wrong, and every way to break off."""
import contextlib
import errno
import time

import wire
import peer as peers
from cases_good import both_ways, completed, expect_send, expect_response, pattern
from harness import CheckFailed, case, same
from peer import TCP_ESTABLISHED, Closed, Reset, Silent
from subject import QP_FATAL, TERM_RECEIVED
from wire import FLAG_C, FLAG_M, FLAG_R, FLAG_S, REP_KEY, REQ_KEY, Enhanced, start_frame

GOOD = start_frame(REQ_KEY, FLAG_C | FLAG_S, 2, Enhanced().build())


def gone(peer, what="a start-up that failed"):
    """The other side ends the connection, in either way, and says nothing more."""
    try:
        raise CheckFailed(f"after {what} came {peer.recv_some().hex()}")
    except (Closed, Reset):
        pass


def rejected(env, link, pd):
    """The consumer gets the peer's rejection and its private data, and the connection ends."""
    event = env.subject.event(link.name)
    same("event", ("REJECTED", pd), (event.kind, event.pd))
    gone(link.peer)
    env.moved["conn_refused"] += 1


def unheard(env):
    same("connection request", None, env.subject.request("late", 0))


# --- requests that are none ---


def bad_request(name, buf, counter="conn_bad_start", cut="whole"):
    @case(f"request: {name}")
    def _(env):
        peer = peers.connect(env.address, env.port, cut=cut)
        peer.send_bytes(buf)
        gone(peer)
        peer.close()
        unheard(env)
        env.moved[counter] += 1


bad_request("another protocol", b"GET / HTTP/1.0\r\n\r\n")
bad_request("first byte of the key", b"X")
bad_request("last byte of the key", REQ_KEY[:-1] + b"f" + GOOD[16:])
bad_request("key in lower case", REQ_KEY.lower() + GOOD[16:])
bad_request("key of a reply", REP_KEY + GOOD[16:])
bad_request("wrong key, one byte at a time", b"MPA IX", cut="bytes")
bad_request("revision 3", start_frame(REQ_KEY, rev=3))
bad_request("revision 255", start_frame(REQ_KEY, rev=255))
bad_request("revision 0 with the key of revision 1", start_frame(REQ_KEY, rev=0))
bad_request("513 bytes of private data", start_frame(REQ_KEY, rev=1, pd=bytes(513)))
bad_request("65535 bytes of private data announced", start_frame(REQ_KEY, rev=1, pd_len=65535))
bad_request("enhanced data announced, none there", start_frame(REQ_KEY, FLAG_C | FLAG_S, 2))
bad_request("three bytes of enhanced data", start_frame(REQ_KEY, FLAG_C | FLAG_S, 2, bytes(3)))


def broken_request(name, buf, end):
    @case(f"request: {end.upper()} {name}")
    def _(env):
        peer = peers.connect(env.address, env.port)
        peer.send_bytes(buf)
        if end == "fin":
            peer.fin()
            gone(peer)
            peer.close()
        else:
            peer.reset()
        env.moved["conn_reset"] += 1


for end in ("fin", "rst"):
    broken_request("instead of it", b"", end)
    broken_request("in its key", GOOD[:7], end)
    broken_request("behind its key", GOOD[:16], end)
    broken_request("in its private data", GOOD[:-1], end)


def times_out(env, attempt, setting="start_timeout_ms"):
    """A start-up step that the peer leaves undone ends in time.

    The peer has its own part to do before that time is over: where it was too slow, attempt says
    so, and has more of it the next time.
    """
    for ms in (300, 1500, 7500, 37500):
        with env.setting(setting, ms):
            done = attempt()
        env.moved["conn_timeouts"] += 1
        env.await_counters()
        if done:
            return
    raise CheckFailed("the peer was never in time")


def all_acknowledged(peer):
    """Everything sent has reached a connection that still lives."""
    with contextlib.suppress(OSError):
        while peer.state() == TCP_ESTABLISHED:
            if not peer.unacknowledged():
                return True
            time.sleep(0.001)
    return False


def silent_request(env, buf):
    """Sends the bytes and nothing more; whether they arrived before the connection ended."""
    peer = None
    try:
        peer = peers.connect(env.address, env.port)
        peer.send_bytes(buf)
    except ConnectionError:
        pass
    in_time = peer is not None and all_acknowledged(peer)
    if peer:
        gone(peer)
        peer.close()
    return in_time


@case("request: silence")
def _(env):
    times_out(env, lambda: silent_request(env, b""))


@case("request: silence behind half of it")
def _(env):
    times_out(env, lambda: silent_request(env, GOOD[:19]))


@case("request: one more byte with it")
def _(env):
    peer = peers.connect(env.address, env.port)
    peer.send_bytes(GOOD + b"x")
    gone(peer)
    peer.close()
    env.moved["conn_bad_start"] += 1


def waiting(env):
    """A request that the consumer has heard of and not answered."""
    peer = peers.connect(env.address, env.port)
    link = env._new(peer, "responder")
    peer.send_bytes(GOOD)
    if env.subject.request(link.name) is None:
        raise CheckFailed("the consumer heard of no connection request")
    return link


@case("request: an FPDU before the reply")
def _(env):
    link = waiting(env)
    link.peer.send(wire.tagged(wire.WRITE, 0, 0))
    gone(link.peer)
    env.moved["conn_bad_start"] += 1
    same("rdma_accept", "ECONNRESET", env.subject.accept(link.name))


for end in ("fin", "rst"):

    @case(f"request: {end.upper()} before the reply")
    def _(env, end=end):
        link = waiting(env)
        if end == "fin":
            link.peer.fin()
            gone(link.peer)
        else:
            link.peer.reset()
        env.moved["conn_reset"] += 1
        env.await_counters()
        same("rdma_accept", "ECONNRESET", env.subject.accept(link.name))


# --- requests that are right ---


@case("request: in single bytes")
def _(env):
    link = env.open_responder("bytes", pd=pattern(30), start_cut="bytes")
    same("private data", pattern(30), link.request.pd)
    env.graceful(link)


@case("request: reserved flags are not looked at")
def _(env):
    for flags, rev in ((0x0F, 1), (FLAG_R | FLAG_S | 0x0F, 1), (FLAG_R | 0x0F, 2)):
        peer = peers.connect(env.address, env.port)
        link = env._new(peer, "responder")
        peer.send_bytes(start_frame(REQ_KEY, FLAG_C | flags, rev, b"data"))
        request = env.subject.request(link.name)
        same("private data", b"data", request.pd)
        env.receive(link)
        same("rdma_accept", "0", env.subject.accept(link.name))
        frame = peer.recv_start_frame()
        same("reply", (REP_KEY, FLAG_C, rev, b""), (frame.key, frame.flags, frame.rev, frame.pd))
        same("event", "ESTABLISHED", env.subject.event(link.name).kind)
        env.moved["conn_accepted"] += 1
        peer.send(peer.send_message(b"hello"))
        completed(env, link, "recv", (1, 128, 5))
        env.graceful(link, [])
        env.erase_inbox()


@case("private data of every length")
def _(env):
    for rev, length in ((1, 0), (1, 1), (1, 254), (1, 255), (2, 251), (2, 255)):
        data = pattern(length)
        for cut in ("whole", "random"):
            link = env.open_responder(cut, rev=rev, pd=data, receives=0)
            same("private data", data, link.request.pd)
            env.graceful(link)


@case("private data in the reply")
def _(env):
    for length in (0, 1, 200, 255):
        data = pattern(length)
        link = waiting(env)
        same("rdma_accept", "0", env.subject.accept(link.name, data))
        same("reply's private data", data, link.peer.recv_start_frame().pd[4:])
        same("event", "ESTABLISHED", env.subject.event(link.name).kind)
        env.moved["conn_accepted"] += 1
        env.graceful(link)


@case("the consumer rejects, with private data")
def _(env):
    for rev, flags, head in ((2, FLAG_C | FLAG_S, Enhanced().build()), (1, FLAG_C, b""), (1, 0, b"")):
        peer = peers.connect(env.address, env.port)
        link = env._new(peer, "responder")
        peer.send_bytes(start_frame(REQ_KEY, flags, rev, head))
        env.subject.request(link.name)
        env.subject.do("reject", link.name, b"not today".hex())
        frame = peer.recv_start_frame()
        same("reply", (REP_KEY, FLAG_R, rev), (frame.key, frame.flags & (FLAG_R | FLAG_M), frame.rev))
        same("private data", b"not today", frame.pd[len(head) :])
        gone(peer)
        env.moved["conn_rejected"] += 1


# name: what the request says, the consumer's depths, what the reply has to say
DEPTHS = (
    ("both as asked", Enhanced(ird=3, ord=2), (4, 4), (4, 3)),
    ("ORD is bounded by the peer's IRD", Enhanced(ird=1, ord=1), (4, 4), (4, 1)),
    ("no Reads at all", Enhanced(ird=0, ord=0), (4, 4), (4, 0)),
    ("fewer Reads served than asked for", Enhanced(ird=9, ord=9), (2, 3), (2, 3)),
    ("not negotiated", Enhanced(ird=0x3FFF, ord=0x3FFF), (4, 4), (0x3FFF, 0x3FFF)),
)

for name, asked, (ird, ord_), (want_ird, want_ord) in DEPTHS:

    @case(f"depths: {name}")
    def _(env, asked=asked, ird=ird, ord_=ord_, want=(want_ird, want_ord)):
        link = env.open_responder(enh=asked, ird=ird, ord=ord_)
        got = Enhanced.parse(link.frame.pd)
        same("reply's IRD and ORD", want, (got.ird, got.ord))
        env.graceful(link)


@case("depths: the reply lowers Kiwarp's ORD")
def _(env):
    for answer, reads in ((1, 1), (2, 2)):
        link = env.open_initiator(enh=Enhanced(ird=answer, ord=1, p2p=True, write=True))
        env.ord_is(link, reads)
        env.graceful(link)


RTR = ("send", "write", "read")

for kind in RTR:

    @case(f"ready to receive by {kind}, from the peer")
    def _(env, kind=kind):
        with env.setting("rtr", kind):
            link = env.open_responder(enh=Enhanced(p2p=True, send=True, write=True, read=True))
        peer, got = link.peer, Enhanced.parse(link.frame.pd)
        same("reply", (True, kind), (got.p2p, " ".join(k for k in RTR if getattr(got, k))))
        if kind == "send":
            peer.send(peer.send_message(b""))
        elif kind == "write":
            peer.send(wire.tagged(wire.WRITE, 0, 0))
        else:
            peer.send(peer.read_request(5, 6, 0, 0, 0))
            expect_response(peer, 5, 6, b"")
        peer.send(peer.send_message(b"first"))
        completed(env, link, "recv", (1, 128, 5))
        env.graceful(link, [2])
        env.erase_inbox()


@case("ready to receive: none of those offered will do")
def _(env):
    with env.setting("rtr", "write"):
        link = env.open_responder(enh=Enhanced(p2p=True, send=True, read=True))
    got = Enhanced.parse(link.frame.pd)
    same("reply", (True, False, True, False), (got.p2p, got.send, got.write, got.read))
    # It is the initiator's to end that.
    error = wire.Error(wire.LLP, 0, 7)
    link.peer.send(link.peer.terminate(wire.terminate_body(error)))
    env.peer_sees_fin(link)
    link.peer.close()
    env.moved["terminates_received"] += 1
    env.ended(link, QP_FATAL, reason=TERM_RECEIVED | error.packed())


@case("ready to receive: the responder waits for it, then sends")
def _(env):
    link = env.open_responder(enh=Enhanced(p2p=True, write=True))
    env.subject.fill("source", 0, b"a letter")
    env.subject.must("send", link.name, 1, "source:0:8")
    link.peer.send(wire.tagged(wire.WRITE, 0, 0))
    expect_send(link.peer, b"a letter", wire.SEND, 1)
    completed(env, link, "send", (1, 0))
    env.graceful(link)
    env.subject.erase("source")


# --- Kiwarp connects ---


def connecting(env, cut="whole", **options):
    link = env._new(None, "initiator")
    env.start_initiator(link, cut, **options)
    return link


@case("Kiwarp's request")
def _(env):
    data = pattern(80)
    link = connecting(env, pd=data, ird=3, ord=5)
    frame = link.frame
    same("revision and flags", (2, FLAG_C | FLAG_S), (frame.rev, frame.flags & ~FLAG_M))
    asked = Enhanced.parse(frame.pd)
    same("depths", (3, 5), (asked.ird, asked.ord))
    same("peer to peer", True, asked.p2p and (asked.write or asked.read or asked.send))
    same("private data", data, frame.pd[4:])
    try:
        raise CheckFailed(f"before the reply came {link.peer.recv_some(0.3).hex()}")
    except Silent:
        pass
    link.peer.reset()
    env.connect_failed(link, "conn_reset", again=True)


REPLY = Enhanced(p2p=True, write=True).build()


def bad_reply(name, buf, counter="conn_bad_start", again=False, says=None, rtr="send write read"):
    """again: Kiwarp may try an older revision. says: the Terminate that may tell why."""

    @case(f"reply: {name}")
    def _(env):
        with env.setting("rtr", rtr):
            link = connecting(env)
        link.peer.send_bytes(buf)
        if not again:
            env.told_why(link, says)
        env.connect_failed(link, counter, again)


bad_reply("another protocol", b"HTTP/1.0 400 Bad Request\r\n\r\n")
bad_reply("last byte of the key", REP_KEY[:-1] + b"f" + start_frame(b"", FLAG_C | FLAG_S, 2, REPLY))
bad_reply("key of a request", start_frame(REQ_KEY, FLAG_C | FLAG_S, 2, REPLY))
bad_reply("revision 3", start_frame(REP_KEY, FLAG_C | FLAG_S, 3, REPLY))
bad_reply("513 bytes of private data", start_frame(REP_KEY, FLAG_C | FLAG_S, 2, REPLY + bytes(509)))
bad_reply("enhanced data announced, none there", start_frame(REP_KEY, FLAG_C | FLAG_S, 2))
bad_reply(
    "a ready-to-receive message that was not offered",
    start_frame(REP_KEY, FLAG_C | FLAG_S, 2, Enhanced(p2p=True, send=True).build()),
    says=wire.Error(wire.LLP, 0, 7),
    rtr="write read",
)
bad_reply(
    "no ready-to-receive message",
    start_frame(REP_KEY, FLAG_C | FLAG_S, 2, Enhanced(p2p=True).build()),
    says=wire.Error(wire.LLP, 0, 7),
)
bad_reply(
    "more Reads wanted than can be served",
    start_frame(REP_KEY, FLAG_C | FLAG_S, 2, Enhanced(p2p=True, write=True, ord=16382).build()),
    says=wire.Error(wire.LLP, 0, 6),
)


@case("reply: good, but the queue pair cannot take the connection any more")
def _(env):
    link = connecting(env)
    # Only INIT leads to a connection.
    env.subject.do("reset", link.name)
    link.peer.send_bytes(start_frame(REP_KEY, FLAG_C | FLAG_S, 2, REPLY))
    env.told_why(link, wire.Error(wire.LLP, 0, 5))
    event = env.subject.event(link.name)
    same("event", ("CONNECT_ERROR", -errno.EINVAL), (event.kind, event.status))


for end in ("fin", "rst"):
    for name, length in (("in its key", 9), ("in its private data", 22)):

        @case(f"reply: {end.upper()} {name}")
        def _(env, end=end, length=length):
            link = connecting(env)
            link.peer.send_bytes(start_frame(REP_KEY, FLAG_C | FLAG_S, 2, REPLY)[:length])
            if end == "fin":
                link.peer.fin()
            else:
                link.peer.reset()
            env.connect_failed(link, "conn_reset", again=True)


@case("reply: silence")
def _(env):
    def attempt():
        link = env._new(None, "initiator")
        try:
            env.start_initiator(link)
            gone(link.peer)
            in_time = True
        except (Closed, Reset):
            in_time = False
        event = env.subject.event(link.name)
        same("event", ("UNREACHABLE", -errno.ETIMEDOUT), (event.kind, event.status))
        return in_time

    times_out(env, attempt, "reply_timeout_ms")


@case("reply: rejected, with private data")
def _(env):
    for flags, head in ((FLAG_R | FLAG_C | FLAG_S, Enhanced().build()), (FLAG_R, b"")):
        link = connecting(env)
        link.peer.send_bytes(start_frame(REP_KEY, flags, 2, head + b"go away"))
        rejected(env, link, b"go away")


@case("reply: private data, and bytes that follow at once")
def _(env):
    data = pattern(255)
    link = connecting(env, receives=2)
    peer = link.peer
    frame = start_frame(REP_KEY, FLAG_C | FLAG_S, 2, REPLY + data)
    peer.send_bytes(frame + peer.frame(peer.send_message(b"at once")))
    event = env.subject.event(link.name)
    same("event", ("ESTABLISHED", data), (event.kind, event.pd))
    env.moved["conn_established"] += 1
    completed(env, link, "recv", (1, 128, 7))
    same("ready to receive", (wire.WRITE, b""), (peer.recv().opcode, b""))
    peer.repeated = wire.tagged(wire.WRITE, 1, 0)
    env.graceful(link, [2])
    env.erase_inbox()


@case("reply: in single bytes")
def _(env):
    link = env.open_initiator("bytes", pd=pattern(30), start_cut="bytes")
    same("private data", pattern(30), link.reply.pd)
    env.graceful(link)


@case("reply: of revision 1, as a peer gives it that knows no other")
def _(env):
    link = connecting(env)
    link.peer.send_bytes(start_frame(REP_KEY, FLAG_C, 1))
    gone(link.peer)
    env.accept_initiator(link)
    env.moved["conn_fallbacks"] += 1
    same("asked again with", (1, 0), (link.frame.rev, link.frame.flags & FLAG_S))
    env.receive(link)
    env.receive(link)
    link.peer.send_bytes(start_frame(REP_KEY, FLAG_C, 1))
    same("event", "ESTABLISHED", env.subject.event(link.name).kind)
    env.moved["conn_established"] += 1
    env.graceful(link, both_ways(env, link))
