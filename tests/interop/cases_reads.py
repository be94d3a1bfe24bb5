# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Kiwarp reads, and the peer's Read Responses are wrong."""
import wire
from cases_errors import CATASTROPHE, O_OPCODE, T_BOUNDS, T_STAG, T_VERSION, T_WRAP
from cases_good import completed, expect_request, expect_response, open_gate, pattern, respond
from harness import AREA, case, event_for, same
from subject import BAD_RESP_ERR, LOC_PROT_ERR, LOC_QP_OP_ERR, TERM_SENT, WC_READ, WR_FLUSH_ERR

SIZE = 48
WIDE = 1 << 18
BACKGROUND = b"\xb6"  # what an area holds where nobody has written: common/pattern.h
CUTS = ("whole", "random", "bytes")
BYTES = pattern(SIZE)

_cut = 0


def wrong(name, want, placed=0, status=BAD_RESP_ERR):
    """Registers wrong answers to the first of two Reads; placed: bytes of it that are right."""

    def register(build):
        global _cut
        kiwarp = ("responder", "initiator")[_cut % 2]
        cut = CUTS[_cut % 3]
        _cut += 1

        def run(env):
            link = env.open(kiwarp, cut=cut)
            open_gate(link)
            subject, peer = env.subject, link.peer
            subject.must("read", link.name, 1, 7, 100, f"local:64:{SIZE}")
            subject.must("read", link.name, 2, 7, 200, f"local:512:{SIZE}")
            first = expect_request(peer, 1, SIZE, 7, 100)
            second = expect_request(peer, 2, SIZE, 7, 200)
            good, fault = build(env, first, second)
            rest = respond(*second, [BYTES])
            peer.send_with_rest(peer.frame(*good, fault), peer.frame(*rest))
            env.terminated(link, want, fault)
            peer.close()
            done = subject.completions(link.name, "send", 2)
            same("Reads", [(1, status), (2, WR_FLUSH_ERR)], [(w.wr_id, w.status) for w in done])
            env.ended(link, event_for(want), reason=TERM_SENT | want.packed())
            env.holds("local", 64, BYTES[:placed])

        case(f"Read Response: {name}")(run)
        return build

    return register


def response(stag, to, payload=BYTES, **fields):
    return wire.tagged(wire.READ_RESP, stag, to, payload, **fields)


@wrong("another STag", T_STAG)
def _(env, first, second):
    return [], response(first[0] ^ 0x100, first[1])


@wrong("the STag of a region that would do as well", T_STAG)
def _(env, first, second):
    area = env.area("target")
    return [], response(area.stag, area.to)


@wrong("one byte too far", T_BOUNDS)
def _(env, first, second):
    return [], response(first[0], first[1] + 1)


@wrong("where the second Read's belongs", T_BOUNDS)
def _(env, first, second):
    return [], response(*second)


@wrong("one byte too many", T_BOUNDS)
def _(env, first, second):
    return [], response(*first, BYTES + b"x")


@wrong("one byte too few", T_BOUNDS, placed=SIZE - 1)
def _(env, first, second):
    return [], response(*first, BYTES[:-1])


@wrong("nothing at all", T_BOUNDS)
def _(env, first, second):
    return [], response(*first, b"")


@wrong("a gap between segments", T_BOUNDS, placed=16)
def _(env, first, second):
    return [response(*first, BYTES[:16], last=False)], response(first[0], first[1] + 17, BYTES[17:])


@wrong("the same segment twice", T_BOUNDS, placed=16)
def _(env, first, second):
    part = response(*first, BYTES[:16], last=False)
    return [part], part


@wrong("bytes behind the last", T_BOUNDS, placed=SIZE)
def _(env, first, second):
    return [response(*first, BYTES, last=False)], response(first[0], first[1] + SIZE, b"x")


@wrong("TO wraps", T_WRAP)
def _(env, first, second):
    return [], response(first[0], 2**64 - 8)


@wrong("DDP version 0", T_VERSION, status=WR_FLUSH_ERR)
def _(env, first, second):
    return [], response(*first, dv=0)


@case("Read Response: once more, when all Reads are done")
def _(env):
    link = env.open("responder")
    open_gate(link)
    env.subject.must("read", link.name, 1, 7, 100, f"local:64:{SIZE}")
    sink = expect_request(link.peer, 1, SIZE, 7, 100)
    good = response(*sink)
    link.peer.send(good)
    completed(env, link, "send", (1, WC_READ, SIZE))
    fault = response(sink[0], sink[1], b"not to be placed")
    link.peer.send(fault)
    env.terminated(link, O_OPCODE, fault)
    link.peer.close()
    env.ended(link, event_for(O_OPCODE), reason=TERM_SENT | O_OPCODE.packed())
    env.holds("local", 64, BYTES)


@case("Read Response: the sink is deregistered meanwhile")
def _(env):
    link = env.open("initiator")
    env.subject.mr("spare", 4096, "local_write")
    env.subject.must("read", link.name, 1, 7, 100, f"spare:64:{SIZE}")
    sink = expect_request(link.peer, 1, SIZE, 7, 100)
    env.subject.do("dereg", "spare")
    fault = response(*sink)
    link.peer.send(fault)
    env.terminated(link, T_STAG, fault)
    link.peer.close()
    done = env.subject.completions(link.name, "send", 1)
    same("Read", [(1, LOC_PROT_ERR)], [(w.wr_id, w.status) for w in done])
    env.ended(link, event_for(T_STAG), reason=TERM_SENT | T_STAG.packed())


@case("a Read where ORD is 0 completes in error, also one of nothing")
def _(env):
    for size in (0, SIZE):
        link = env.open_initiator(ord=0)
        env.subject.must("read", link.name, 1, 7, 100, f"local:64:{size}")
        env.told_why(link, CATASTROPHE)
        link.peer.close()
        done = env.subject.completions(link.name, "send", 1)
        same("Read", [(1, LOC_QP_OP_ERR)], [(w.wr_id, w.status) for w in done])
        env.ended(link, reason=TERM_SENT | CATASTROPHE.packed())


for kiwarp in ("responder", "initiator"):

    @case(f"rdma resource tells of Reads that are under way, Kiwarp is {kiwarp}")
    def _(env, kiwarp=kiwarp):
        # More than TCP takes from Kiwarp while the peer reads nothing.
        wide, count = env.subject.mr("wide", WIDE, "remote_read"), 3
        link = env.open(kiwarp, window=2048)
        subject, peer = env.subject, link.peer
        open_gate(link)
        at_rest = {"tx_read_msn": 1, "rx_read_msn": 1, "reads_out": 0, "reads_in": 0}
        env.until_details(link, **at_rest, sq_posted=0, sq_taken=0, sq_done=0, rq_posted=2, rq_taken=0)
        for n in (1, 2):
            subject.must("read", link.name, n, 7, 100 * n, f"local:{64 * n}:{SIZE}")
        sinks = [expect_request(peer, n, SIZE, 7, 100 * n) for n in (1, 2)]
        env.until_details(link, tx_read_msn=3, reads_out=2, sq_posted=2, sq_taken=2, sq_done=0)
        peer.send(*respond(*sinks[0], [BYTES]))
        completed(env, link, "send", (1, WC_READ, SIZE))
        env.until_details(link, tx_read_msn=3, reads_out=1, sq_taken=2, sq_done=1)
        peer.send(*[peer.read_request(8, 0, WIDE, wide.stag, wide.to) for _ in range(count)])
        env.until_details(link, rx_read_msn=1 + count, reads_in=count, reads_out=1)
        for _ in range(count):
            expect_response(peer, 8, 0, BACKGROUND * WIDE)
        env.until_details(link, rx_read_msn=1 + count, reads_in=0, reads_out=1)
        peer.send(*respond(*sinks[1], [BYTES]))
        completed(env, link, "send", (2, WC_READ, SIZE))
        env.until_details(link, tx_read_msn=3, reads_out=0, sq_taken=2, sq_done=2)
        subject.erase("local")
        # Looking at as much after each case to come would take its time.
        subject.mr("wide", AREA, "remote_read")
        env.graceful(link)
