# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""The peer plays other makes of RNIC (adapters.py), in both roles, from the start to each end."""
import wire
import peer as peers
from adapters import ADAPTERS
from cases_good import (
    completed,
    expect_request,
    expect_response,
    expect_send,
    expect_write,
    inbox,
    pattern,
    respond,
    split,
    write_message,
)
from cases_start import gone
from harness import CheckFailed, case, same
from peer import Closed, Reset
from subject import QP_ACCESS_ERR, QP_FATAL, TERM_RECEIVED, TERM_SENT, WC_READ, WC_RECV, WC_SEND, WC_WRITE
from wire import FLAG_C, FLAG_M, FLAG_R, FLAG_S, REP_KEY, REQ_KEY

PD = pattern(40)
IRD, ORD = 8, 6  # the consumer's behind the adapter
ROLES = ("connects", "accepts")


# --- start-up ---


def dial(env, adapter, rev=2, ird=IRD, ord_=ORD):
    """The adapter connects; Kiwarp's consumer has heard of it."""
    with env.sysctls(**adapter.sysctls):
        link = env._new(peers.connect(env.address, env.port, adapter.window), "responder")
    link.peer.send_bytes(adapter.request(rev, ird, ord_, PD))
    return link


def fpdu_mode(adapter, link):
    crc = adapter.crc or bool(link.frame.flags & FLAG_C)
    link.peer.fpdu_mode(bool(link.frame.flags & FLAG_M), adapter.markers, crc)


def connects(env, adapter, rev=2, depths=(IRD, ORD), own=(4, 4)):
    """A connection that the adapter began, with all of start-up behind it.

    depths: IRD and ORD of the consumer behind the adapter; own: of Kiwarp's.
    """
    link = dial(env, adapter, rev, *depths)
    request = env.subject.request(link.name)
    same("the request's private data", PD, request.pd)
    env.receive(link)
    env.receive(link)
    ird, ord_ = own
    same("rdma_accept", "0", env.subject.accept(link.name, PD[::-1], ird=ird, ord=ord_))
    link.frame = adapter.recv_frame(link.peer, REP_KEY)
    kind = adapter.taken(link.frame, depths[0]) if rev == 2 else ("read" if adapter.rev1_read else None)
    same("the reply's private data", PD[::-1], link.frame.pd[4 * (rev == 2) :])
    same("event", "ESTABLISHED", env.subject.event(link.name).kind)
    env.moved["conn_accepted"] += 1
    fpdu_mode(adapter, link)
    env.subject.fill("source", 0, pattern(900))
    env.subject.must("write", link.name, 90, 0x11, 0x22, "source:0:9")
    if kind:
        if rev == 2:
            env.silent_for(link, "before the adapter was ready", 0.2)
        link.peer.send(adapter.ready(link.peer, kind))
        if kind == "read":
            expect_response(link.peer, *adapter.sink, b"")
    else:
        # Its consumer is the first to send.
        link.peer.send(wire.tagged(wire.WRITE, 0x33, 0, b""))
    expect_write(link.peer, pattern(9), 0x11, 0x22)
    completed(env, link, "send", (90, WC_WRITE))
    link.reads = 0
    return link


def answer(env, adapter, link, pd=PD, reject=0):
    """The adapter has got Kiwarp's request, and answers; the kinds that it names."""
    link.frame = adapter.recv_frame(link.peer, REQ_KEY)
    if adapter.needs_p2p:
        same(f"{adapter.name}: A", True, wire.Enhanced.parse(link.frame.pd).p2p)
    same("the request's private data", PD, link.frame.pd[4:])
    buf, named = adapter.reply(link.frame, IRD, ORD, pd, reject)
    if reject:
        link.peer.send_with_fin(buf)
    else:
        link.peer.send_bytes(buf)
    return named


def asked(env, adapter):
    """Kiwarp connects to the adapter."""
    link = env._new(None, "initiator")
    with env.sysctls(**adapter.sysctls):
        env.prepare(link, adapter.window)
        env.receive(link)
        env.receive(link)
        same("rdma_connect", "0", env.subject.connect(link.name, PD, ird=4, ord=4))
        link.peer = env.listener.accept()
    return link


def accepts(env, adapter):
    """A connection that Kiwarp began, with all of start-up behind it."""
    link = asked(env, adapter)
    named = answer(env, adapter, link)
    event = env.subject.event(link.name)
    same("event", ("ESTABLISHED", PD), (event.kind, event.pd))
    env.moved["conn_established"] += 1
    fpdu_mode(adapter, link)
    first = link.peer.recv()
    link.reads = 0
    if "write" in named:
        same("ready to receive", (wire.WRITE, True, b""), (first.opcode, first.last, first.payload))
        link.peer.repeated = first.ulpdu
    else:
        same("ready to receive", (wire.READ_REQ, True, 28), (first.opcode, first.last, len(first.payload)))
        sink = int.from_bytes(first.payload[:4], "big"), int.from_bytes(first.payload[4:12], "big")
        same("bytes to read", 0, int.from_bytes(first.payload[12:16], "big"))
        link.peer.send(*respond(*sink, [b""]))
        link.reads = 1
    return link


def transfer(env, link):
    """Write, Send and Read in both directions."""
    peer, area, buf = link.peer, env.area("target"), pattern(900, 3)
    peer.send(*write_message(area, 0, split(buf, 3, 500)), peer.send_message(b"hello"))
    completed(env, link, "recv", (1, WC_RECV, 5))
    peer.send(peer.read_request(9, 77, 900, area.stag, area.to))
    expect_response(peer, 9, 77, buf)
    env.subject.must("send", link.name, 1, "target:1:700")
    expect_send(peer, buf[1:701], wire.SEND, 1)
    env.subject.must("write", link.name, 2, 0x44, 0x55, "target:2:800")
    expect_write(peer, buf[2:802], 0x44, 0x55)
    env.subject.must("read", link.name, 3, 5, 6, "local:0:600")
    sink = expect_request(peer, link.reads + 1, 600, 5, 6)
    peer.send(*respond(*sink, split(buf[:600], 100, 450)))
    completed(env, link, "send", (1, WC_SEND), (2, WC_WRITE), (3, WC_READ))
    env.holds("local", 0, buf[:600])
    env.holds("target", 0, buf)
    inbox(env, b"hello")
    env.subject.erase("source")


# --- the ends ---


def by_fin(env, adapter, link):
    env.graceful(link, [2])


def by_kiwarps_fin(env, adapter, link):
    env.subject.do("disconnect", link.name)
    env.peer_sees_fin(link)
    link.peer.close()
    env.ended(link, flushed=[2])


def by_reset(env, adapter, link):
    link.peer.reset()
    env.moved["conn_reset"] += 1
    env.ended(link, QP_FATAL, [2])


def by_its_terminate(env, adapter, link):
    """Kiwarp writes where it may not."""
    peer, error = link.peer, wire.Error(wire.DDP, 1, 0)
    env.subject.must("write", link.name, 4, 0xBAD, 0, "source:0:8")
    fault = peer.recv().ulpdu
    completed(env, link, "send", (4, WC_WRITE))
    peer.send(peer.terminate(adapter.terminate(error, fault)))
    if adapter.term_fin:
        peer.fin()
    env.peer_sees_fin(link)
    peer.close()
    env.moved["terminates_received"] += 1
    env.ended(link, QP_FATAL, [2], TERM_RECEIVED | error.packed())


def by_kiwarps_terminate(env, adapter, link):
    """The adapter's consumer writes where it may not; the adapter answers a Terminate by FIN."""
    fault = wire.tagged(wire.WRITE, 0xBAD, 0, b"x")
    link.peer.send(fault)
    error = wire.Error(wire.DDP, 1, 0)
    env.terminated(link, error, fault)
    link.peer.fin()
    link.peer.close()
    env.ended(link, QP_ACCESS_ERR, [2], TERM_SENT | error.packed())


ENDS = (
    ("its FIN", by_fin),
    ("Kiwarp's FIN", by_kiwarps_fin),
    ("its RST", by_reset),
    ("its Terminate", by_its_terminate),
    ("Kiwarp's Terminate", by_kiwarps_terminate),
)

for adapter in ADAPTERS:
    for role, start in zip(ROLES, (connects, accepts)):
        for name, end in ENDS:
            # Wireshark loses its place in so much with markers; cases_markers has that Terminate.
            if adapter.markers and end is by_kiwarps_terminate:
                continue

            @case(f"adapters: {adapter.name} {role}, the end is {name}")
            def _(env, adapter=adapter, start=start, end=end):
                link = start(env, adapter)
                transfer(env, link)
                end(env, adapter, link)

    @case(f"adapters: {adapter.name} connects, Kiwarp's consumer rejects")
    def _(env, adapter=adapter):
        link = dial(env, adapter)
        env.subject.request(link.name)
        env.subject.do("reject", link.name, b"not today".hex())
        frame = adapter.recv_frame(link.peer, REP_KEY)
        # irdma makes the checks of a reply before it looks at R.
        adapter.taken(frame, IRD)
        same("rejected", (FLAG_R, b"not today"), (frame.flags & FLAG_R, frame.pd[4:]))
        gone(link.peer)
        env.moved["conn_rejected"] += 1

    @case(f"adapters: {adapter.name} rejects, with a FIN in the same segment")
    def _(env, adapter=adapter):
        link = asked(env, adapter)
        answer(env, adapter, link, b"not today", FLAG_R)
        event = env.subject.event(link.name)
        same("event", ("REJECTED", b"not today"), (event.kind, event.pd))
        gone(link.peer)
        env.moved["conn_refused"] += 1

    @case(f"adapters: {adapter.name} connects, neither consumer reads")
    def _(env, adapter=adapter):
        link = connects(env, adapter, depths=(0, 0), own=(0, 0))
        env.subject.erase("source")
        env.graceful(link)

    if adapter.needs_p2p:

        @case(f"adapters: {adapter.name} resets a request of the client/server model, and is asked again")
        def _(env, adapter=adapter):
            with env.setting("p2p", 0):
                link = asked(env, adapter)
            frame = adapter.recv_frame(link.peer, REQ_KEY)
            same("the request's A", False, wire.Enhanced.parse(frame.pd).p2p)
            link.peer.reset()
            link.peer = env.listener.accept()
            env.moved["conn_fallbacks"] += 1
            link.frame = adapter.recv_frame(link.peer, REQ_KEY)
            same("asked again with", (1, 0, PD), (link.frame.rev, link.frame.flags & FLAG_S, link.frame.pd))
            flags = FLAG_C | (FLAG_M if adapter.markers else 0)
            link.peer.send_bytes(wire.start_frame(REP_KEY, flags, 1, PD))
            same("event", "ESTABLISHED", env.subject.event(link.name).kind)
            env.moved["conn_established"] += 1
            fpdu_mode(adapter, link)
            env.subject.fill("source", 0, pattern(900))
            link.reads = 0
            transfer(env, link)
            env.graceful(link, [2])

    if adapter.falls_back:

        @case(f"adapters: {adapter.name} connects, and again in revision 1 after a reset")
        def falls_back(env, adapter=adapter):
            with env.setting("mpa_rev_accept", "1"):
                peer = dial(env, adapter).peer
                try:
                    raise CheckFailed(f"for revision 2 came {peer.recv_some().hex()}")
                except Closed:
                    raise CheckFailed(f"{adapter.name} falls back after a reset, not after a FIN") from None
                except Reset:
                    env.moved["conn_bad_start"] += 1
                link = connects(env, adapter, rev=1)
            transfer(env, link)
            env.graceful(link, [2])
