# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""The peer terminates, in every form that a Terminate can have, and in some that it must not."""
import wire
from cases_errors import BAD_CRC, CATASTROPHE, O_VERSION, P_ACCESS, P_BOUNDS, T_BOUNDS, U_NO_BUFFER
from cases_good import expect_request, open_gate
from harness import BIG_AREA, case, same
from subject import (
    QP_FATAL,
    REM_ACCESS_ERR,
    REM_INV_REQ_ERR,
    REM_OP_ERR,
    SUCCESS,
    TERM_RECEIVED,
    WR_FLUSH_ERR,
)
from wire import TERM_D, TERM_M, TERM_R, Error, terminate_body

KINDS = ("responder", "initiator")
_count = 0


def told(name, says, want=None):
    """Registers a Terminate; the function builds its ULPDUs from two outstanding Read Requests.

    says: the error that the consumer is told of. want: status of each Read. Whatever the Terminate
    holds, none comes back, nothing that follows is placed, and the connection ends.
    """

    def register(build):
        global _count
        kiwarp = KINDS[_count % 2]
        cut = ("whole", "random", "bytes")[_count % 3]
        _count += 1

        def run(env):
            link = env.open(kiwarp, cut=cut)
            open_gate(link)
            peer, area = link.peer, env.area("target")
            for n in (1, 2):
                env.subject.must("read", link.name, n, 7, n, f"local:{n}:1")
                expect_request(peer, n, 1, 7, n)
            requests = [
                wire.untagged(wire.READ_REQ, wire.QN_READ, n, wire.read_request_body(0, 0, 1, 7, n))
                for n in (1, 2)
            ]
            buf = peer.frame(*build(peer, requests))
            late = wire.tagged(wire.WRITE, area.stag, area.to, b"too late")
            peer.send_with_rest(buf, peer.frame(late, peer.send_message()))
            env.peer_sees_fin(link)
            peer.close()
            env.moved["terminates_received"] += 1
            done = env.subject.completions(link.name, "send", 2)
            statuses = want or [WR_FLUSH_ERR, WR_FLUSH_ERR]
            same("Reads", statuses, [w.status for w in done])
            reason = TERM_RECEIVED | says.packed() if says else 0
            same("Reads' reasons", [reason] * 2, [w.reason for w in done])
            env.ended(link, QP_FATAL, reason=reason)

        case(f"Terminate from the peer: {name}")(run)
        return build

    return register


def copied(error, ulpdu, flags=None, rdmap=True, swapped=False):
    """What a peer says about one of Kiwarp's segments."""
    head = wire.header_len(ulpdu)
    if flags is None:
        flags = TERM_M | TERM_D | (TERM_R if rdmap else 0)
    rest = (len(ulpdu).to_bytes(2, "big") if flags & TERM_M else b"") + ulpdu[:head]
    if flags & TERM_R:
        rest += ulpdu[head:]
    return terminate_body(error, flags, rest, swapped)


@told("without any header", T_BOUNDS)
def _(peer, requests):
    return [peer.terminate(terminate_body(T_BOUNDS))]


@told("about a CRC", BAD_CRC)
def _(peer, requests):
    return [peer.terminate(terminate_body(BAD_CRC))]


@told("about the first Read", P_ACCESS, [REM_ACCESS_ERR, WR_FLUSH_ERR])
def _(peer, requests):
    return [peer.terminate(copied(P_ACCESS, requests[0]))]


@told("about the second Read", P_BOUNDS, [WR_FLUSH_ERR, REM_ACCESS_ERR])
def _(peer, requests):
    return [peer.terminate(copied(P_BOUNDS, requests[1]))]


@told("about the second Read, layer and type exchanged", P_BOUNDS, [WR_FLUSH_ERR, REM_ACCESS_ERR])
def _(peer, requests):
    return [peer.terminate(copied(P_BOUNDS, requests[1], swapped=True))]


@told("about a CRC, layer and type exchanged", BAD_CRC)
def _(peer, requests):
    return [peer.terminate(terminate_body(BAD_CRC, swapped=True))]


@told("about a Read that nobody sent", P_ACCESS)
def _(peer, requests):
    body = wire.read_request_body(0, 0, 1, 7, 1)
    return [peer.terminate(copied(P_ACCESS, wire.untagged(wire.READ_REQ, wire.QN_READ, 9, body)))]


@told("about a Read with an MSN before the first", P_ACCESS)
def _(peer, requests):
    body = wire.read_request_body(0, 0, 1, 7, 1)
    return [peer.terminate(copied(P_ACCESS, wire.untagged(wire.READ_REQ, wire.QN_READ, 0, body)))]


@told("about a Write", T_BOUNDS)
def _(peer, requests):
    return [peer.terminate(copied(T_BOUNDS, wire.tagged(wire.WRITE, 1, 2, b"x"), TERM_M | TERM_D))]


@told("about a Send", U_NO_BUFFER)
def _(peer, requests):
    return [peer.terminate(copied(U_NO_BUFFER, wire.untagged(wire.SEND, 0, 1), TERM_M | TERM_D))]


@told("layer, type and code that do not exist", Error(0xF, 0xF, 0xFF))
def _(peer, requests):
    return [peer.terminate(terminate_body(Error(0xF, 0xF, 0xFF)))]


@told("reserved bits set", T_BOUNDS)
def _(peer, requests):
    body = bytearray(terminate_body(T_BOUNDS))
    body[2] |= 0x1F
    body[3] = 0xFF
    return [peer.terminate(bytes(body))]


@told("R without D", P_ACCESS)
def _(peer, requests):
    return [peer.terminate(terminate_body(P_ACCESS, TERM_R, bytes(28)))]


@told("M without a length", T_BOUNDS)
def _(peer, requests):
    return [peer.terminate(terminate_body(T_BOUNDS, TERM_M))]


@told("D with half a header", T_BOUNDS)
def _(peer, requests):
    return [peer.terminate(terminate_body(T_BOUNDS, TERM_M | TERM_D, b"\0\x20\x41\x40\0\0"))]


@told("R with half a Read Request", P_ACCESS, [REM_ACCESS_ERR, WR_FLUSH_ERR])
def _(peer, requests):
    return [peer.terminate(copied(P_ACCESS, requests[0])[:-14])]


@told("empty", None)
def _(peer, requests):
    return [peer.terminate(b"")]


@told("three bytes", None)
def _(peer, requests):
    return [peer.terminate(b"\0\0\0")]


@told("in two segments", P_ACCESS, [REM_ACCESS_ERR, WR_FLUSH_ERR])
def _(peer, requests):
    body = copied(P_ACCESS, requests[0])
    return [
        wire.untagged(wire.TERMINATE, wire.QN_TERMINATE, 1, body[:11], last=False),
        wire.untagged(wire.TERMINATE, wire.QN_TERMINATE, 1, body[11:], mo=11),
    ]


@told("with a segment that comes twice instead of the next", None)
def _(peer, requests):
    body = copied(P_ACCESS, requests[0])
    first = wire.untagged(wire.TERMINATE, wire.QN_TERMINATE, 1, body[:10], last=False)
    return [first, first, wire.untagged(wire.TERMINATE, wire.QN_TERMINATE, 1, body[20:], mo=20)]


@told("with an MSN that is not the first", None)
def _(peer, requests):
    return [wire.untagged(wire.TERMINATE, wire.QN_TERMINATE, 2, copied(P_ACCESS, requests[0]))]


@told("with nothing before its MO", None)
def _(peer, requests):
    return [wire.untagged(wire.TERMINATE, wire.QN_TERMINATE, 1, copied(P_ACCESS, requests[0]), mo=4)]


# Every error that the documents define, by layer and type.
DEFINED = {
    (wire.RDMAP, 0): (0x00,),
    (wire.RDMAP, 1): (0x00, 0x01, 0x02, 0x03, 0x04, 0x09, 0xFF),
    (wire.RDMAP, 2): (0x05, 0x06, 0x07, 0x08, 0x09, 0xFF),
    (wire.DDP, 0): (0x00,),
    (wire.DDP, 1): (0x00, 0x01, 0x02, 0x03, 0x04),
    (wire.DDP, 2): (0x01, 0x02, 0x03, 0x04, 0x05, 0x06),
    (wire.LLP, 0): (0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07),
}
BLAMED = {0: REM_OP_ERR, 1: REM_ACCESS_ERR, 2: REM_INV_REQ_ERR}


def every_error():
    for (layer, etype), codes in DEFINED.items():
        for code in codes:
            error = Error(layer, etype, code)
            if layer == wire.LLP:
                told(f"{error}", error)(lambda peer, _, e=error: [peer.terminate(terminate_body(e))])
            else:
                told(f"{error}", error, [BLAMED[etype], WR_FLUSH_ERR])(
                    lambda peer, requests, e=error: [peer.terminate(copied(e, requests[0], rdmap=False))]
                )


every_error()


@told("about the first Read, that its version is wrong", O_VERSION, [REM_INV_REQ_ERR, WR_FLUSH_ERR])
def _(peer, requests):
    return [peer.terminate(copied(O_VERSION, requests[0], rdmap=False))]


@told("about the first Read, for the peer's own reasons", CATASTROPHE, [REM_OP_ERR, WR_FLUSH_ERR])
def _(peer, requests):
    return [peer.terminate(copied(CATASTROPHE, requests[0], rdmap=False))]


@told("followed by bytes that nobody announced", P_ACCESS, [REM_ACCESS_ERR, WR_FLUSH_ERR])
def _(peer, requests):
    return [peer.terminate(copied(P_ACCESS, requests[0]) + bytes(range(100)))]


@case("Terminate from the peer: about a Write that is still being sent")
def _(env):
    env.big_area()
    # With next to no window, few Writes fit what TCP holds; one is half sent and the rest wait.
    blocked = env.device.counter("tx_blocked")
    link = env.open_responder(window=2048)
    open_gate(link)
    for n in range(1, 33):
        env.subject.must("write", link.name, n, 0x1234, 0x5678, f"big:0:{BIG_AREA}")
    env.until("wait for room", lambda: env.device.counter("tx_blocked") > blocked)
    error = copied(P_ACCESS, wire.tagged(wire.WRITE, 0x1234, 0x5678), TERM_M | TERM_D)
    link.peer.send(link.peer.terminate(error))
    done = [w.status for w in env.subject.completions(link.name, "send", 32)]
    half_sent = done.count(SUCCESS)
    want = [SUCCESS] * half_sent + [REM_ACCESS_ERR] + [WR_FLUSH_ERR] * (31 - half_sent)
    same("Writes", want, done)
    link.peer.reset()
    env.moved["terminates_received"] += 1
    env.ended(link, QP_FATAL, reason=TERM_RECEIVED | P_ACCESS.packed())
