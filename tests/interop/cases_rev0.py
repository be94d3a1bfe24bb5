# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""MPA revision 0: Start Keys, and the private data that may go before them in streaming mode.

And what the field has for it: the frames of revision 1, with 0 in them.
"""
import errno

import peer as peers
import wire
from cases_good import both_ways, pattern
from cases_start import gone, rejected, unheard
from harness import case, event_for, same
from subject import TERM_SENT
from wire import FLAG_C, FLAG_M, FLAG_R, REP_KEY, REQ_KEY, START_KEY, start_frame

PRIVATE_KEY = b"MPA private data"
CUTS = ("whole", "bytes")


def start_key(flags=FLAG_C, rev=0):
    return START_KEY + bytes((flags | rev,))


def served(env):
    return env.setting("mpa_rev_accept", "0 1 2")


def private(data, flags=0):
    return start_frame(PRIVATE_KEY, flags, 0, data)


def recv_private(peer):
    frame = peer.recv_start_frame()
    same("private data's key and revision", (PRIVATE_KEY, 0), (frame.key, frame.rev))
    return frame


def ask(env, buf, cut="whole"):
    """The peer's first frame, which the consumer hears of."""
    peer = peers.connect(env.address, env.port, cut=cut)
    link = env._new(peer, "responder")
    peer.send_bytes(buf)
    link.request = env.subject.request(link.name)
    env.receive(link)
    env.receive(link)
    return link


def connecting(env, cut="whole", **options):
    """Kiwarp begins to connect; nothing has been read from it."""
    link = env._new(None, "initiator")
    env.prepare(link)
    env.receive(link)
    env.receive(link)
    same("rdma_connect", "0", env.subject.connect(link.name, **options))
    link.peer = env.listener.accept(cut=cut)
    return link


def established(env, link, counter):
    same("event", "ESTABLISHED", env.subject.event(link.name).kind)
    env.moved[counter] += 1
    link.peer.fpdu_mode()
    env.graceful(link, both_ways(env, link))


for cut in CUTS:

    @case(f"revision 0: Start Keys alone, Kiwarp is responder, cut: {cut}")
    def _(env, cut=cut):
        with served(env):
            link = ask(env, start_key(), cut)
        same("private data", b"", link.request.pd)
        same("rdma_accept", "0", env.subject.accept(link.name))
        same("Start Key", start_key(), link.peer.recv_exactly(16))
        established(env, link, "conn_accepted")

    @case(f"revision 0: private data both ways, Kiwarp is responder, cut: {cut}")
    def _(env, cut=cut):
        with served(env):
            link = ask(env, private(pattern(99)), cut)
        same("private data", pattern(99), link.request.pd)
        # A process waits in rdma_accept() for the peer's Start Key.
        accepted = env.subject.begin_accept(link.name, pattern(44))
        answer = recv_private(link.peer)
        same("answer", (0, pattern(44)), (answer.flags, answer.pd))
        link.peer.send_bytes(start_key())
        same("rdma_accept", "0", accepted())
        same("Start Key", start_key(), link.peer.recv_exactly(16))
        established(env, link, "conn_accepted")

    @case(f"revision 0: Start Keys alone, Kiwarp is initiator, cut: {cut}")
    def _(env, cut=cut):
        with env.setting("mpa_rev", 0):
            link = connecting(env, cut)
        same("Start Key", start_key(), link.peer.recv_exactly(16))
        link.peer.send_bytes(start_key())
        established(env, link, "conn_established")

    @case(f"revision 0: private data both ways, Kiwarp is initiator, cut: {cut}")
    def _(env, cut=cut):
        with env.setting("mpa_rev", 0):
            link = connecting(env, cut, pd=pattern(20))
        same("private data", pattern(20), recv_private(link.peer).pd)
        link.peer.send_bytes(private(pattern(31)))
        same("Start Key", start_key(), link.peer.recv_exactly(16))
        link.peer.send_bytes(start_key())
        event = env.subject.event(link.name)
        same("event", ("ESTABLISHED", pattern(31)), (event.kind, event.pd))
        env.moved["conn_established"] += 1
        link.peer.fpdu_mode()
        env.graceful(link, both_ways(env, link))


def bad(name, buf, counter="conn_bad_start", end=None):
    @case(f"revision 0: {name}")
    def _(env):
        with served(env):
            peer = peers.connect(env.address, env.port)
            peer.send_bytes(buf)
            if end:
                peer.fin()
            gone(peer)
            peer.close()
        unheard(env)
        env.moved[counter] += 1


bad("last byte of the key", START_KEY[:-1] + b"f\x40")
bad("Start Key with Rev 1", start_key(rev=1))
bad("bytes behind the Start Key", start_key() + b"x")
bad("Start Key behind the private data at once", private(b"data") + start_key())
bad("private data with Rev 1", start_frame(PRIVATE_KEY, 0, 1, b"data"))
bad("513 bytes of private data", private(bytes(513)))
bad("FIN in the Start Key", start_key()[:9], "conn_reset", "fin")
bad("FIN in the private data", private(b"data")[:-1], "conn_reset", "fin")


@case("revision 0: not served unless a setting says so")
def _(env):
    for buf in (start_key(), private(b"data")):
        peer = peers.connect(env.address, env.port)
        peer.send_bytes(buf)
        gone(peer)
        peer.close()
        env.moved["conn_bad_start"] += 1
    unheard(env)


@case("revision 0: the consumer rejects, with private data")
def _(env):
    with served(env):
        link = ask(env, private(b"please"))
    env.subject.do("reject", link.name, b"no".hex())
    frame = recv_private(link.peer)
    same("answer", (FLAG_R, b"no"), (frame.flags, frame.pd))
    gone(link.peer)
    env.moved["conn_rejected"] += 1


@case("revision 0: the peer rejects, with private data")
def _(env):
    with env.setting("mpa_rev", 0):
        link = connecting(env, pd=b"please")
    recv_private(link.peer)
    link.peer.send_bytes(private(b"no", FLAG_R))
    rejected(env, link, b"no")


@case("revision 0: the peer closes instead of an answer")
def _(env):
    with env.setting("mpa_rev", 0):
        link = connecting(env, pd=b"please")
    recv_private(link.peer)
    link.peer.fin()
    rejected(env, link, b"")


@case("revision 0: the peer closes inside its answer: no rejection, and no private data")
def _(env):
    answer = private(pattern(31))
    for length in (1, len(answer) - 31, len(answer) - 1):
        with env.setting("mpa_rev", 0):
            link = connecting(env, pd=b"please")
        recv_private(link.peer)
        link.peer.send_bytes(answer[:length])
        link.peer.fin()
        gone(link.peer)
        event = env.subject.event(link.name)
        same("event", (-errno.ECONNRESET, b""), (event.status, event.pd))
        env.moved["conn_reset"] += 1


@case("revision 0: nothing is left of the answer to an earlier request")
def _(env):
    with served(env):
        link = connecting(env, pd=b"please")
    for rev in (2, 1):
        same("request's revision", rev, link.peer.recv_start_frame().rev)
        if rev == 2:
            link.peer.send_bytes(start_frame(REP_KEY, FLAG_C, 1, pattern(31)))
            gone(link.peer)
        link.peer.close()
        link.peer = env.listener.accept()
        env.moved["conn_fallbacks"] += 1
    recv_private(link.peer)
    link.peer.fin()
    rejected(env, link, b"")


@case("revision 0: a wrong Start Key for an answer")
def _(env):
    with env.setting("mpa_rev", 0):
        link = connecting(env)
    same("Start Key", start_key(), link.peer.recv_exactly(16))
    link.peer.send_bytes(start_key(rev=2))
    gone(link.peer)
    env.connect_failed(link, "conn_bad_start")


# --- the RDMA Consortium's RNICs: RFC 5044 appendix C ---


def rdmac(link, frame, markers=True):
    """FPDUs of a connection with such a peer: markers from it, and both versions 0."""
    link.peer.fpdu_mode(tx_markers=True, rx_markers=markers)
    link.peer.version = 0
    same("frame", (0, FLAG_M | FLAG_C), (frame.rev, frame.flags & (FLAG_M | FLAG_C | FLAG_R)))


def rdmac_request(env, data=b"", flags=FLAG_M | FLAG_C):
    with served(env):
        link = ask(env, start_frame(REQ_KEY, flags, 0, data))
    same("private data", data, link.request.pd)
    return link


for flags in (FLAG_M | FLAG_C, FLAG_C, FLAG_M):

    @case(f"revision 0: a request frame, with flags {flags:#x}")
    def _(env, flags=flags):
        link = rdmac_request(env, pattern(77), flags)
        same("rdma_accept", "0", env.subject.accept(link.name, pattern(44)))
        frame = link.peer.recv_start_frame()
        same("reply", (REP_KEY, pattern(44)), (frame.key, frame.pd))
        same("event", "ESTABLISHED", env.subject.event(link.name).kind)
        env.moved["conn_accepted"] += 1
        rdmac(link, frame, markers=bool(flags & FLAG_M))
        env.graceful(link, both_ways(env, link))


@case("revision 0: a request frame without C, and CRC off here: it is used")
def _(env):
    with env.setting("crc", 0):
        link = rdmac_request(env, flags=FLAG_M)
    same("rdma_accept", "0", env.subject.accept(link.name))
    frame = link.peer.recv_start_frame()
    same("event", "ESTABLISHED", env.subject.event(link.name).kind)
    env.moved["conn_accepted"] += 1
    rdmac(link, frame)
    env.graceful(link, both_ways(env, link))


@case("revision 0: a request frame is rejected, with private data")
def _(env):
    link = rdmac_request(env)
    env.subject.do("reject", link.name, b"no".hex())
    frame = link.peer.recv_start_frame()
    same("reply", (REP_KEY, 0, b"no"), (frame.key, frame.rev, frame.pd))
    same("rejected", FLAG_R, frame.flags & FLAG_R)
    gone(link.peer)
    env.moved["conn_rejected"] += 1


@case("revision 0: behind a request frame DDP and RDMAP have version 0 and no other")
def _(env):
    for dv, rv, error in ((1, 0, wire.Error(wire.DDP, 2, 6)), (0, 1, wire.Error(wire.RDMAP, 2, 5))):
        link = rdmac_request(env)
        same("rdma_accept", "0", env.subject.accept(link.name))
        frame = link.peer.recv_start_frame()
        same("event", "ESTABLISHED", env.subject.event(link.name).kind)
        env.moved["conn_accepted"] += 1
        rdmac(link, frame)
        fault = wire.untagged(wire.SEND, 0, 1, b"x", dv=dv, rv=rv)
        link.peer.send_bytes(link.peer.tx.frame(fault))
        env.terminated(link, error, fault)
        link.peer.close()
        env.ended(link, event_for(error), reason=TERM_SENT | error.packed())


@case("revision 0: a request frame is not served unless a setting says so")
def _(env):
    peer = peers.connect(env.address, env.port)
    peer.send_bytes(start_frame(REQ_KEY, FLAG_M | FLAG_C, 0))
    gone(peer)
    peer.close()
    env.moved["conn_bad_start"] += 1
    unheard(env)


@case("revision 0: a reply frame to a request of revision 1")
def _(env):
    with served(env), env.setting("mpa_rev", 1):
        link = connecting(env, pd=pattern(20))
    frame = link.peer.recv_start_frame()
    same("request", (REQ_KEY, 1, pattern(20)), (frame.key, frame.rev, frame.pd))
    link.peer.send_bytes(start_frame(REP_KEY, FLAG_M | FLAG_C, 0, pattern(31)))
    event = env.subject.event(link.name)
    same("event", ("ESTABLISHED", pattern(31)), (event.kind, event.pd))
    env.moved["conn_established"] += 1
    link.peer.fpdu_mode(tx_markers=True, rx_markers=True)
    link.peer.version = 0
    env.graceful(link, both_ways(env, link))


def answered_twice(env, data, flags=0):
    """Kiwarp begins with revision 2, and has a reply frame with Rev 0 for that and for what it asks next."""
    with served(env):
        link = connecting(env, pd=pattern(20))
    for rev in (2, 1):
        frame = link.peer.recv_start_frame()
        same("request", (REQ_KEY, rev, pattern(20)), (frame.key, frame.rev, frame.pd[-20:]))
        link.peer.send_bytes(start_frame(REP_KEY, FLAG_M | FLAG_C | flags, 0, data))
        if rev == 2:
            gone(link.peer)
            link.peer.close()
            link.peer = env.listener.accept()
            env.moved["conn_fallbacks"] += 1
    return link


@case("revision 0: a reply frame to a request of revision 2, then of revision 1")
def _(env):
    link = answered_twice(env, pattern(31))
    event = env.subject.event(link.name)
    same("event", ("ESTABLISHED", pattern(31)), (event.kind, event.pd))
    env.moved["conn_established"] += 1
    link.peer.fpdu_mode(tx_markers=True, rx_markers=True)
    link.peer.version = 0
    env.graceful(link, both_ways(env, link))


@case("revision 0: a reply frame to a request of revision 2, no answer to 1, then Start Keys")
def _(env):
    with served(env):
        link = connecting(env)
    for rev in (2, 1):
        frame = link.peer.recv_start_frame()
        same("request", (REQ_KEY, rev), (frame.key, frame.rev))
        if rev == 2:
            link.peer.send_bytes(start_frame(REP_KEY, FLAG_M | FLAG_C, 0))
            gone(link.peer)
        link.peer.close()
        link.peer = env.listener.accept()
        env.moved["conn_fallbacks"] += 1
    same("Start Key", start_key(), link.peer.recv_exactly(16))
    link.peer.send_bytes(start_key())
    established(env, link, "conn_established")


@case("revision 0: a reply frame rejects, with private data, a request of revision 1")
def _(env):
    with served(env), env.setting("mpa_rev", 1):
        link = connecting(env, pd=pattern(20))
    same("request's revision", 1, link.peer.recv_start_frame().rev)
    link.peer.send_bytes(start_frame(REP_KEY, FLAG_M | FLAG_C | FLAG_R, 0, b"not today"))
    rejected(env, link, b"not today")


@case("revision 0: reply frames reject a request of revision 2, and one of revision 1")
def _(env):
    link = answered_twice(env, b"not today", FLAG_R)
    rejected(env, link, b"not today")


@case("revision 0: a reply frame where a setting does not allow it")
def _(env):
    with env.setting("mpa_rev", 1):
        link = connecting(env)
    link.peer.recv_start_frame()
    link.peer.send_bytes(start_frame(REP_KEY, FLAG_M | FLAG_C, 0))
    gone(link.peer)
    env.connect_failed(link, "conn_bad_start")
