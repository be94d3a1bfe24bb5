# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Connections that share a receive queue: whose message takes which receive, and what the end of one
means for the others.

A message takes the queue's next receive with its first segment. MSNs are each connection's own.
"""
import contextlib
import random

import wire
from cases_errors import P_STAG, PAYLOAD, U_LENGTH, U_MO, U_MSN, U_NO_BUFFER
from cases_ext import imm_message, received
from cases_good import completed, pattern, send_message, split
from cases_teardown import after_reset, both_close, broken_off
from harness import AREA, INBOX, INBOX_LEN, INBOX_STEP, CheckFailed, case, event_for, same
from peer import Closed, Reset
from subject import LOC_LEN_ERR, QP_FATAL, SRQ_LIMIT, SUCCESS, TERM_RECEIVED, TERM_SENT, WC_RECV, WC_RECV_IMM

BACKGROUND = b"\xb6"  # what an area holds where nobody has written: common/pattern.h
CUTS = ("whole", "random", "bytes")
ROLES = (("responder", "initiator"), ("initiator", "responder"))

_cut = 0


class Scene:
    """Connections that share receives into the inbox, and what the inbox has to hold."""

    def __init__(self, env, roles, receives, cut):
        self.env = env
        self.srq = env.shared_queue(receives)
        self.links = [env.open(role, cut=cut, srq=self.srq) for role in roles]
        self.want = bytearray(BACKGROUND * AREA)

    def placed(self, wr_id, mo, payload):
        """From now on the receive wr_id has these bytes, and the inbox what it had."""
        at = (wr_id - 1) * INBOX_STEP + mo
        self.want[at : at + len(payload)] = payload

    def _look(self):
        held = self.want.strip(BACKGROUND)
        return (self.want.index(held), bytes(held)) if held else None

    def awaits(self):
        """Waits until the inbox holds what it has to."""
        self.env.until("the bytes in the inbox", lambda: self.env.subject.look(INBOX) == self._look())

    def begin(self, link, msn, wr_id, payload):
        """The first segment of a message arrives, and takes the receive."""
        link.peer.send(wire.untagged(wire.SEND, wire.QN_SEND, msn, payload, last=False))
        self.placed(wr_id, 0, payload)
        self.awaits()

    def whole(self, link, msn, wr_id, payload):
        """A message arrives, and takes the receive."""
        link.peer.send(wire.untagged(wire.SEND, wire.QN_SEND, msn, payload))
        completed(self.env, link, "recv", (wr_id, WC_RECV, len(payload)))
        self.placed(wr_id, 0, payload)

    def terminated(self, link, error, fault, taken=()):
        """One connection ends by what it has sent last; taken: the receive that it had."""
        self.env.terminated(link, error, fault)
        link.peer.close()
        self.env.ended(link, event_for(error), list(taken), TERM_SENT | error.packed())

    def goes_on(self, link, msn=1, wr_id=None):
        """A connection has not noticed: it takes the next receive, wr_id or a new one. It closes."""
        same("asynchronous event", None, self.env.subject.async_event(link.name, 0))
        self.whole(link, msn, wr_id or self.env.share(self.srq), PAYLOAD)
        self.env.graceful(link)

    def holds(self):
        look = self._look()
        self.env.holds(INBOX, *(look or (0, b"")))


def shared(name, receives=2, roles=ROLES, setting=None):
    """Registers a case of connections that share so many receives, for each of the roles.

    setting: that is on for the connections.
    """

    def register(function):
        global _cut
        for kiwarp in roles:
            cut = CUTS[_cut % 3]
            _cut += 1

            def run(env, kiwarp=kiwarp, cut=cut):
                with env.setting(setting, 1) if setting else contextlib.nullcontext():
                    scene = Scene(env, kiwarp, receives, cut)
                function(scene, *scene.links)
                scene.holds()

            case(f"shared receives: {name}, Kiwarp is {' and '.join(kiwarp)}")(run)
        return function

    return register


# --- whose message is where ---


@shared("messages of two connections, segment by segment, each in a receive of its own", receives=3)
def _(s, one, two):
    long, short = pattern(60), pattern(33, 2)
    s.begin(one, 1, 1, long[:20])
    s.begin(two, 1, 2, short[:10])
    one.peer.send(wire.untagged(wire.SEND, wire.QN_SEND, 1, long[20:41], mo=20, last=False))
    s.placed(1, 20, long[20:41])
    s.awaits()
    # What was begun last ends first.
    two.peer.send(wire.untagged(wire.SEND, wire.QN_SEND, 1, short[10:], mo=10))
    s.placed(2, 10, short[10:])
    completed(s.env, two, "recv", (2, WC_RECV, 33))
    s.whole(two, 2, 3, b"one more, in between")
    one.peer.send(wire.untagged(wire.SEND, wire.QN_SEND, 1, long[41:], mo=41))
    s.placed(1, 41, long[41:])
    completed(s.env, one, "recv", (1, WC_RECV, 60))
    s.goes_on(one, msn=2)
    s.goes_on(two, msn=3)


def mixed(rng, flows):
    """The flows' items in any order that keeps each flow's own."""
    flows = [list(reversed(flow)) for flow in flows]
    while flow := [f for f in flows if f]:
        yield rng.choice(flow).pop()


@shared(
    "many messages of three connections at a time: each whole",
    receives=15,
    roles=(("responder", "initiator", "responder"), ("initiator", "responder", "initiator")),
)
def _(s, *links):
    rng = random.Random(s.env.serial)
    messages = {
        link.name: [pattern(rng.randint(1, INBOX_LEN), 16 * n + msn) for msn in range(1, 6)]
        for n, link in enumerate(links)
    }
    flows = []
    for link in links:
        flow = []
        for msn, buf in enumerate(messages[link.name], 1):
            sizes = [rng.randint(0, len(buf) // 3) for _ in range(3)]
            flow += [(link.peer, segment) for segment in send_message(msn, split(buf, *sizes))]
        flows.append(flow)
    for peer, segment in mixed(rng, flows):
        peer.send(segment)

    taken = []
    for link in links:
        done = s.env.subject.completions(link.name, "recv", 5)
        sent = messages[link.name]
        same("messages", [(SUCCESS, len(m)) for m in sent], [(w.status, w.length) for w in done])
        ids = [w.wr_id for w in done]
        # A connection has one message at a time, and takes what is next.
        same("order", sorted(ids), ids)
        for wr_id, buf in zip(ids, sent):
            s.placed(wr_id, 0, buf)
        taken += ids
    same("receives", list(range(1, 16)), sorted(taken))
    for link in links:
        s.env.graceful(link)


@shared("Immediate Data takes a receive as a Send does, and none of its bytes", receives=5, setting="immediate")
def _(s, one, two):
    target, long = s.env.area("target"), pattern(60)
    s.whole(one, 1, 1, b"a Send")
    two.peer.send(imm_message(1, 0x01020304))
    received(s.env, two, (2, WC_RECV_IMM, 0, 0x01020304))
    # Between the segments of another connection's message.
    s.begin(one, 2, 3, long[:20])
    two.peer.send(wire.tagged(wire.WRITE, target.stag, target.to, PAYLOAD), imm_message(2, 7, wire.IMM_SE))
    received(s.env, two, (4, WC_RECV_IMM, len(PAYLOAD), 7))
    one.peer.send(wire.untagged(wire.SEND, wire.QN_SEND, 2, long[20:], mo=20), imm_message(3, 0))
    s.placed(3, 20, long[20:])
    received(s.env, one, (3, WC_RECV, 60, None), (5, WC_RECV_IMM, 0, 0))
    s.env.holds("target", 0, PAYLOAD)
    fault = imm_message(3, 1)
    two.peer.send(fault)
    s.terminated(two, U_NO_BUFFER, fault)
    s.goes_on(one, msn=4)


# --- no receive left ---


@shared("another connection has used the last one up", receives=1)
def _(s, one, two):
    s.whole(one, 1, 1, PAYLOAD)
    fault = wire.untagged(wire.SEND, wire.QN_SEND, 1, b"nowhere to go")
    two.peer.send(fault)
    s.terminated(two, U_NO_BUFFER, fault)
    s.goes_on(one, msn=2)


@shared("an empty Send needs one, too", receives=0)
def _(s, one, two):
    fault = wire.untagged(wire.SEND, wire.QN_SEND, 1)
    two.peer.send(fault)
    s.terminated(two, U_NO_BUFFER, fault)
    s.goes_on(one)


@shared("the last one has an unfinished message of another connection's", receives=1)
def _(s, one, two):
    s.begin(one, 1, 1, PAYLOAD[:9])
    fault = wire.untagged(wire.SEND, wire.QN_SEND, 1, b"nowhere to go", last=False)
    two.peer.send(fault)
    s.terminated(two, U_NO_BUFFER, fault)
    one.peer.send(wire.untagged(wire.SEND, wire.QN_SEND, 1, PAYLOAD[9:], mo=9))
    s.placed(1, 9, PAYLOAD[9:])
    completed(s.env, one, "recv", (1, WC_RECV, len(PAYLOAD)))
    s.goes_on(one, msn=2)


@shared("a connection has used them up itself", receives=2)
def _(s, one, two):
    s.whole(two, 1, 1, PAYLOAD)
    s.whole(two, 2, 2, b"the last")
    fault = wire.untagged(wire.SEND, wire.QN_SEND, 3, b"nowhere to go")
    two.peer.send(fault)
    s.terminated(two, U_NO_BUFFER, fault)
    s.goes_on(one)


# --- what ends a connection takes no receive from the others, but that of its open message ---


for msn in (0, 2, 0xFFFFFFFF):

    @shared(f"first MSN {msn:#x}")
    def _(s, one, two, msn=msn):
        fault = wire.untagged(wire.SEND, wire.QN_SEND, msn, b"not the first")
        two.peer.send(fault)
        s.terminated(two, U_MSN, fault)
        s.goes_on(one, wr_id=1)


@shared("the MSN that the other connection has come to")
def _(s, one, two):
    s.whole(one, 1, 1, PAYLOAD)
    fault = wire.untagged(wire.SEND, wire.QN_SEND, 2, b"the second of both")
    two.peer.send(fault)
    s.terminated(two, U_MSN, fault)
    s.goes_on(one, msn=2, wr_id=2)


for name, msn in (("twice", 1), ("left out", 3)):

    @shared(f"MSN {name}")
    def _(s, one, two, msn=msn):
        s.whole(two, 1, 1, PAYLOAD)
        fault = wire.untagged(wire.SEND, wire.QN_SEND, msn, b"not the second")
        two.peer.send(fault)
        s.terminated(two, U_MSN, fault)
        s.goes_on(one, wr_id=2)


# A wrong MSN names no receive, whether there is one or not.
@shared("a wrong MSN, and no receive", receives=0)
def _(s, one, two):
    fault = wire.untagged(wire.SEND, wire.QN_SEND, 2, b"not the first")
    two.peer.send(fault)
    s.terminated(two, U_MSN, fault)
    s.goes_on(one)


@shared("another MSN in the middle of a message")
def _(s, one, two):
    s.begin(two, 1, 1, PAYLOAD[:9])
    fault = wire.untagged(wire.SEND, wire.QN_SEND, 2, PAYLOAD[9:], mo=9)
    two.peer.send(fault)
    s.terminated(two, U_MSN, fault, [1])
    s.goes_on(one, wr_id=2)


@shared("a gap in a message")
def _(s, one, two):
    s.begin(two, 1, 1, PAYLOAD[:9])
    fault = wire.untagged(wire.SEND, wire.QN_SEND, 1, PAYLOAD[10:], mo=10)
    two.peer.send(fault)
    s.terminated(two, U_MO, fault, [1])
    s.goes_on(one, wr_id=2)


@shared("a message that is longer than the receive that it takes", receives=1)
def _(s, one, two):
    short = s.env.share(s.srq, f"{INBOX}:{INBOX_STEP}:8")
    # It fits the first one, which is taken already.
    s.begin(one, 1, 1, PAYLOAD[:9])
    fault = wire.untagged(wire.SEND, wire.QN_SEND, 1, PAYLOAD[:9])
    two.peer.send(fault)
    s.env.terminated(two, U_LENGTH, fault)
    two.peer.close()
    done = s.env.subject.completions(two.name, "recv", 1)
    same("receive", [(short, LOC_LEN_ERR)], [(w.wr_id, w.status) for w in done])
    s.env.ended(two, event_for(U_LENGTH))
    one.peer.send(wire.untagged(wire.SEND, wire.QN_SEND, 1, PAYLOAD[9:], mo=9))
    s.placed(1, 9, PAYLOAD[9:])
    completed(s.env, one, "recv", (1, WC_RECV, len(PAYLOAD)))
    s.goes_on(one, msn=2)


@shared("a Send with Invalidate of no region")
def _(s, one, two):
    stag = s.env.area("target").stag ^ 0x5A5A5A00
    fault = wire.untagged(wire.SEND_INV, wire.QN_SEND, 1, PAYLOAD, ulp=stag)
    s.placed(1, 0, PAYLOAD)
    two.peer.send(fault)
    s.terminated(two, P_STAG, fault, [1])
    s.goes_on(one, wr_id=2)


@shared("a Terminate from the peer in the middle of its Send")
def _(s, one, two):
    s.begin(two, 1, 1, b"half of it")
    two.peer.send(two.peer.terminate(wire.terminate_body(U_NO_BUFFER)))
    s.env.moved["terminates_received"] += 1
    both_close(s.env, two)
    s.env.ended(two, QP_FATAL, [1], TERM_RECEIVED | U_NO_BUFFER.packed())
    s.goes_on(one, wr_id=2)


@shared("FIN in the middle of a Send")
def _(s, one, two):
    s.begin(two, 1, 1, b"half of it")
    broken_off(s.env, two, b"", [1])
    s.goes_on(one, wr_id=2)


@shared("FIN in the middle of the first FPDU of a Send: nothing is taken")
def _(s, one, two):
    ulpdu = wire.untagged(wire.SEND, wire.QN_SEND, 1, b"never placed")
    broken_off(s.env, two, two.peer.frame(ulpdu)[:-1])
    s.goes_on(one, wr_id=1)


@shared("RST in the middle of a Send")
def _(s, one, two):
    s.begin(two, 1, 1, b"half of it")
    two.peer.reset()
    after_reset(s.env, two, [1])
    s.goes_on(one, wr_id=2)


@shared("RST behind a Send, before anybody has asked for its completion")
def _(s, one, two):
    two.peer.send(two.peer.send_message(b"whole"))
    s.placed(1, 0, b"whole")
    s.awaits()
    two.peer.reset()
    s.env.until("the reset", lambda: s.env.subject.do("state", two.name) == "ERR")
    completed(s.env, two, "recv", (1, WC_RECV, 5))
    after_reset(s.env, two)
    s.goes_on(one, wr_id=2)


@shared("the consumer destroys its queue pair in the middle of a Send")
def _(s, one, two):
    s.begin(two, 1, 1, b"half of it")
    s.env.subject.do("forget", two.name)
    try:
        raise CheckFailed(f"from a destroyed queue pair came {two.peer.recv()}")
    except (Closed, Reset):
        pass
    s.goes_on(one, wr_id=2)


# --- events ---


@shared("the last WQE event of an end in order, which no receive had a part in")
def _(s, one, two):
    s.env.graceful(one)
    s.goes_on(two, wr_id=1)


@shared("the last WQE event when the consumer disconnects behind a message")
def _(s, one, two):
    s.whole(two, 1, 1, PAYLOAD)
    s.env.subject.do("disconnect", two.name)
    both_close(s.env, two)
    s.env.ended(two)
    s.goes_on(one, wr_id=2)


@shared("the event of the limit comes with a message's first segment, once", receives=4)
def _(s, one, two):
    subject = s.env.subject
    same("limit", 3, subject.srq_limit(s.srq.name, 3))
    s.begin(one, 1, 1, PAYLOAD[:9])
    # As many are left as the limit says.
    same("limit, not passed", 3, subject.srq_limit(s.srq.name))
    same("event", None, subject.srq_event(s.srq.name, 0))
    s.begin(two, 1, 2, b"half of it")
    same("event", SRQ_LIMIT, subject.srq_event(s.srq.name))
    same("limit, passed", 0, subject.srq_limit(s.srq.name))
    one.peer.send(wire.untagged(wire.SEND, wire.QN_SEND, 1, PAYLOAD[9:], mo=9))
    s.placed(1, 9, PAYLOAD[9:])
    completed(s.env, one, "recv", (1, WC_RECV, len(PAYLOAD)))
    s.whole(one, 2, 3, b"once only")
    same("event", None, subject.srq_event(s.srq.name, 0))
    # The receive of a message that is broken off does not come back.
    same("limit", 1, subject.srq_limit(s.srq.name, 1))
    two.peer.reset()
    after_reset(s.env, two, [2])
    same("limit, not passed", 1, subject.srq_limit(s.srq.name))
    s.whole(one, 3, 4, b"the last")
    same("event", SRQ_LIMIT, subject.srq_event(s.srq.name))
    s.goes_on(one, msn=4)
