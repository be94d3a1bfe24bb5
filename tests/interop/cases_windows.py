# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Memory windows, as a peer of another make sees them: STags that are for one stream, or for all.

The windows are bound to a part of a region that no peer may use as such.
"""
import wire
from cases_errors import (
    P_ACCESS,
    P_ASSOC,
    P_BOUNDS,
    P_INVALIDATE,
    P_STAG,
    PAYLOAD,
    T_ASSOC,
    T_BOUNDS,
    T_STAG,
    Scene,
    error,
)
from cases_ext import CMP_SWAP, FETCH_ADD, ONES, O_CATASTROPHE, atomic, expect_answer, extended, in_memory
from cases_good import completed, expect_response
from harness import case, event_for, same
from subject import SUCCESS, WC_BIND_MW, WC_LOCAL_INV, WC_RECV, WITH_INV, WR_FLUSH_ERR, Area

REGION = "bindable"
FROM, LENGTH = 1000, 1500
BOTH = "remote_write,remote_read"
BACKGROUND = b"\xb6"  # what an area holds where nobody has written: common/pattern.h


def next_key(stag):
    return stag & ~0xFF | (stag + 1) & 0xFF


def local(env, link, opcode, *words):
    """A request that sends nothing is posted, and succeeds."""
    env.subject.must(*words)
    done = env.subject.completions(link.name, "send", 1)
    same("completion", [(SUCCESS, opcode)], [(w.status, w.opcode) for w in done])


def bound(env, link, kind=2, access=BOTH, start=FROM, length=LENGTH):
    """A new window, bound in the link's send queue: its STag, and the TO of its first byte."""
    stag = next_key(env.subject.window(f"window{kind}", kind))
    local(
        env, link, WC_BIND_MW, "bind", link.name, 77, f"window{kind}", stag, REGION, start, length, access
    )
    return stag, 0 if "zero_based" in access else env.area(REGION).to + start


def invalidate(env, link, stag):
    local(env, link, WC_LOCAL_INV, "invalidate", link.name, 78, stag)


def read_request(scene, stag, to, size=32):
    return scene.read(body=wire.read_request_body(7, 0, size, stag, to))


for kiwarp in ("responder", "initiator"):
    for kind, access in ((1, BOTH), (2, BOTH), (2, BOTH + ",zero_based")):

        @case(f"window of type {kind}, {access}: Write and Read up to its ends, Kiwarp is {kiwarp}")
        def _(env, kiwarp=kiwarp, kind=kind, access=access):
            link = env.open(kiwarp)
            stag, to = bound(env, link, kind, access)
            last = to + LENGTH - len(PAYLOAD)
            link.peer.send(
                wire.tagged(wire.WRITE, stag, last, PAYLOAD),
                link.peer.read_request(7, 0, len(PAYLOAD), stag, last),
                wire.tagged(wire.WRITE, stag, to, PAYLOAD[:1]),
                link.peer.read_request(8, 0, 1, stag, to),
            )
            expect_response(link.peer, 7, 0, PAYLOAD)
            expect_response(link.peer, 8, 0, PAYLOAD[:1])
            gap = BACKGROUND * (LENGTH - len(PAYLOAD) - 1)
            env.holds(REGION, FROM, PAYLOAD[:1] + gap + PAYLOAD)
            env.graceful(link)

    @case(f"window: Send with Invalidate by the peer that it is for, Kiwarp is {kiwarp}")
    def _(env, kiwarp=kiwarp):
        link = env.open(kiwarp)
        stag, _ = bound(env, link)
        link.peer.send(wire.untagged(wire.SEND_INV, wire.QN_SEND, 1, payload=b"", ulp=stag))
        done = env.subject.completions(link.name, "recv", 1)
        same("receive", [(1, SUCCESS, WITH_INV, stag)], [(w.wr_id, w.status, w.flags, w.stag) for w in done])
        # It can be bound again, and is valid again.
        env.subject.must("bind", link.name, 77, "window2", stag, REGION, FROM, LENGTH, BOTH)
        same("bind", [SUCCESS], [w.status for w in env.subject.completions(link.name, "send", 1)])
        link.peer.send(wire.tagged(wire.WRITE, stag, env.area(REGION).to + FROM, PAYLOAD))
        link.peer.send(wire.untagged(wire.SEND, wire.QN_SEND, 2, payload=b""))
        completed(env, link, "recv", (2, WC_RECV, 0))
        env.holds(REGION, FROM, PAYLOAD)
        env.graceful(link, flushed=[])


# --- through the window, and not beyond ---


@error("window: Write one byte past its end", T_BOUNDS)
def _(s):
    stag, to = bound(s.env, s.link)
    return wire.tagged(wire.WRITE, stag, to + LENGTH - len(PAYLOAD) + 1, PAYLOAD)


@error("window: Write one byte before its start", T_BOUNDS)
def _(s):
    stag, to = bound(s.env, s.link)
    return wire.tagged(wire.WRITE, stag, to - 1, PAYLOAD)


@error("window, zero-based: Read Request one byte past its end", P_BOUNDS)
def _(s):
    stag, to = bound(s.env, s.link, access=BOTH + ",zero_based")
    return read_request(s, stag, to + LENGTH - 31)


@error("window without remote write: Write", P_ACCESS)
def _(s):
    stag, to = bound(s.env, s.link, access="remote_read")
    return wire.tagged(wire.WRITE, stag, to, PAYLOAD)


@error("window without remote read: Read Request", P_ACCESS)
def _(s):
    return read_request(s, *bound(s.env, s.link, access="remote_write"))


@error("window: Write with the key of the last time", T_STAG)
def _(s):
    stag, to = bound(s.env, s.link)
    invalidate(s.env, s.link, stag)
    s.env.subject.must("bind", s.link.name, 79, "window2", next_key(stag), REGION, FROM, LENGTH, BOTH)
    same("bind", [SUCCESS], [w.status for w in s.env.subject.completions(s.link.name, "send", 1)])
    return wire.tagged(wire.WRITE, stag, to, PAYLOAD)


@error("window that was invalidated: Write", T_STAG)
def _(s):
    stag, to = bound(s.env, s.link)
    invalidate(s.env, s.link, stag)
    return wire.tagged(wire.WRITE, stag, to, PAYLOAD)


@error("window that was invalidated: Read Request", P_STAG)
def _(s):
    stag, to = bound(s.env, s.link)
    invalidate(s.env, s.link, stag)
    return read_request(s, stag, to)


# --- of another stream of the same protection domain (RFC 5041 section 8.2) ---


@error("window of another stream: Write", T_ASSOC)
def _(s):
    stag, to = bound(s.env, s.env.open())
    return wire.tagged(wire.WRITE, stag, to, PAYLOAD)


@error("window of another stream: Read Request", P_ASSOC)
def _(s):
    return read_request(s, *bound(s.env, s.env.open()))


@error("window of another stream: Send with Invalidate", P_INVALIDATE, statuses=[WR_FLUSH_ERR])
def _(s):
    stag, _ = bound(s.env, s.env.open())
    return s.send(opcode=wire.SEND_INV, ulp=stag, payload=b"")


# All streams of the domain may have it.
@error("window of type 1: Send with Invalidate", P_INVALIDATE, statuses=[WR_FLUSH_ERR])
def _(s):
    stag, _ = bound(s.env, s.link, kind=1)
    return s.send(opcode=wire.SEND_INV, ulp=stag, payload=b"")


@error("window that was invalidated: Send with Invalidate", P_STAG, statuses=[WR_FLUSH_ERR])
def _(s):
    stag, _ = bound(s.env, s.link)
    invalidate(s.env, s.link, stag)
    return s.send(opcode=wire.SEND_INV, ulp=stag, payload=b"")


@case("window: a Write ends the other stream, and its own goes on using it")
def _(env):
    scene = Scene(env, "responder", receives=0)
    own = env.open()
    stag, to = bound(env, own)
    fault = wire.tagged(wire.WRITE, stag, to, PAYLOAD)
    scene.peer.send(fault, cut="whole")
    env.terminated(scene.link, T_ASSOC, fault)
    scene.peer.close()
    env.ended(scene.link, event_for(T_ASSOC))
    own.peer.send(fault, own.peer.read_request(7, 0, len(PAYLOAD), stag, to))
    expect_response(own.peer, 7, 0, PAYLOAD)
    env.holds(REGION, FROM, PAYLOAD)
    env.graceful(own)


# --- atomic operations: it is the address that is aligned, whatever the window's start and the offset ---

ODD = FROM + 3
ALIGN = -ODD % 8


def words(env, link, access="remote_atomic,zero_based", start=ODD):
    """A window for atomic operations, as an area of its own."""
    stag, to = bound(env, link, access=access, start=start)
    return Area("window", LENGTH, to, stag)


for access in ("remote_atomic,zero_based", "remote_atomic"):

    @extended("atomics", f"window, {access}, from an odd address: FetchAdd and CmpSwap at both ends")
    def _(env, link, access=access):
        window, peer = words(env, link, access), link.peer
        last = (LENGTH - ALIGN) // 8 * 8 - 8 + ALIGN
        for n, offset in enumerate((ALIGN, last)):
            env.subject.fill(REGION, ODD + offset, in_memory(40 + n))
            peer.send(
                atomic(peer, FETCH_ADD, 2 * n, window, offset, 2, 0),
                atomic(peer, CMP_SWAP, 2 * n + 1, window, offset, 0xA0B0, ONES, 42 + n),
            )
            expect_answer(peer, 2 * n + 1, 2 * n, 40 + n)
            expect_answer(peer, 2 * n + 2, 2 * n + 1, 42 + n)
            env.holds(REGION, ODD + offset, in_memory(0xA0B0))


def atomic_request(s, window, offset, op=FETCH_ADD):
    return atomic(s.peer, op, 1, window, offset, 1, ONES if op else 0)


@error("window without the right: Atomic Request", P_ACCESS, setting="atomics")
def _(s):
    return atomic_request(s, words(s.env, s.link, BOTH + ",zero_based"), ALIGN)


for op, offset in ((FETCH_ADD, 0), (FETCH_ADD, 8), (CMP_SWAP, ALIGN + 4), (CMP_SWAP, ALIGN + 1)):

    @error(f"window from an odd address: operation {op} at offset {offset}", O_CATASTROPHE, setting="atomics")
    def _(s, op=op, offset=offset):
        return atomic_request(s, words(s.env, s.link), offset, op)


@error("window from an odd address: Atomic Request beyond its end", P_BOUNDS, setting="atomics")
def _(s):
    return atomic_request(s, words(s.env, s.link), LENGTH - 7)


@error("window of another stream: Atomic Request", P_ASSOC, setting="atomics")
def _(s):
    return atomic_request(s, words(s.env, s.env.open()), ALIGN)


@error("window that was invalidated: Atomic Request", P_STAG, setting="atomics")
def _(s):
    window = words(s.env, s.link)
    invalidate(s.env, s.link, window.stag)
    return atomic_request(s, window, ALIGN)
