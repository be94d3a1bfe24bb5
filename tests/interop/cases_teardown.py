# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""The ends of a connection: FIN, half-close and RST, from either side, at every place."""
import time

import wire
from cases_good import completed, expect_request, expect_response, expect_send, expect_write
from cases_good import inbox, open_gate, pattern, respond
from harness import BIG_AREA, CheckFailed, case, same
from peer import TCP_CLOSE_WAIT, Closed, Reset
from subject import QP_ACCESS_ERR, QP_FATAL, QP_REQ_ERR, SUCCESS, TERM_SENT
from subject import WC_READ, WC_RECV, WC_SEND, WC_WRITE, WR_FLUSH_ERR

KINDS = ("responder", "initiator")


def both(name):
    def register(function):
        for kiwarp in KINDS:
            case(f"{name}, Kiwarp is {kiwarp}")(lambda env, kiwarp=kiwarp: function(env, kiwarp))
        return function

    return register


def read_outstanding(env, kiwarp):
    """A link on which Kiwarp has sent a Read Request for 20 bytes; and the sink that it named."""
    link = env.open(kiwarp)
    open_gate(link)
    env.subject.must("read", link.name, 1, 7, 0, "local:0:20")
    return link, expect_request(link.peer, 1, 20, 7, 0)


def read_flushed(env, link):
    done = env.subject.completions(link.name, "send", 1)
    same("Read", [(1, WR_FLUSH_ERR)], [(w.wr_id, w.status) for w in done])


def send_posted(env, kiwarp):
    """A link on which the consumer has posted a Send, and disconnects then."""
    link = env.open(kiwarp)
    open_gate(link)
    buf = pattern(4000)
    env.subject.fill("source", 0, buf)
    env.subject.must("send", link.name, 1, "source:0:4000")
    env.subject.do("disconnect", link.name)
    return link, buf


def both_close(env, link):
    env.peer_sees_fin(link)
    link.peer.close()


# --- in order ---


@both("FIN from the peer before any FPDU")
def _(env, kiwarp):
    env.graceful(env.open(kiwarp))


@both("FIN from the peer with its last message")
def _(env, kiwarp):
    link = env.open(kiwarp)
    area = env.area("target")
    link.peer.send(wire.tagged(wire.WRITE, area.stag, area.to, b"last"), link.peer.send_message(b"bye"))
    link.peer.fin()
    both_close(env, link)
    completed(env, link, "recv", (1, WC_RECV, 3))
    env.ended(link, flushed=[2])
    env.holds("target", 0, b"last")
    inbox(env, b"bye")


@both("the consumer disconnects")
def _(env, kiwarp):
    link = env.open(kiwarp)
    open_gate(link)
    env.subject.do("disconnect", link.name)
    both_close(env, link)
    env.ended(link)


@both("the consumer disconnects behind its last Send")
def _(env, kiwarp):
    link, buf = send_posted(env, kiwarp)
    expect_send(link.peer, buf, wire.SEND, 1)
    both_close(env, link)
    completed(env, link, "send", (1, WC_SEND))
    env.ended(link)
    env.subject.erase("source")


@both("the consumer disconnects with a Read outstanding: its response is awaited")
def _(env, kiwarp):
    link, sink = read_outstanding(env, kiwarp)
    env.subject.do("disconnect", link.name)
    env.silent_for(link, "before the response")
    # Nor is Kiwarp's half closed: it still answers.
    area = env.area("target")
    env.subject.fill("target", 0, b"asked")
    link.peer.send(link.peer.read_request(1, 0, 5, area.stag, area.to))
    same("bytes read", b"asked", link.peer.recv().payload)
    link.peer.send(*respond(*sink, [pattern(20)]))
    both_close(env, link)
    completed(env, link, "send", (1, WC_READ, 20))
    env.ended(link)
    env.holds("local", 0, pattern(20))
    env.subject.erase("target")


@both("the consumer disconnects with a Read outstanding: the response ends the wait, not its limit")
def _(env, kiwarp):
    link, sink = read_outstanding(env, kiwarp)
    # It acknowledges the request too. When the limit is over a peer that has taken nothing more is reset.
    link.peer.send(write_of(env, b"acknowledged"))
    env.until("the Write", lambda: env.subject.look("target"))
    env.subject.do("disconnect", link.name)
    link.peer.send(*respond(*sink, [pattern(20)]))
    both_close(env, link)
    completed(env, link, "send", (1, WC_READ, 20))
    env.ended(link)
    env.holds("local", 0, pattern(20))
    env.holds("target", 0, b"acknowledged")


@case("the consumer disconnects before the ready-to-receive message: it is awaited, and answered")
def _(env):
    enh = wire.Enhanced(p2p=True, read=True)
    link = env.open_responder(enh=enh)
    env.subject.do("disconnect", link.name)
    env.silent_for(link, "before the ready-to-receive message")
    link.peer.send(link.peer.read_request(1, 0, 0, 1, 0))
    expect_response(link.peer, 1, 0, b"")
    both_close(env, link)
    env.ended(link)


@both("a queue pair begins another connection when one has ended")
def _(env, kiwarp):
    link = env.open(kiwarp)
    env.graceful(link)
    env.subject.do("reset", link.name)
    link = env.open_initiator(renewed=link)
    env.subject.fill("source", 0, b"once more")
    env.subject.must("send", link.name, 1, "source:0:9")
    expect_send(link.peer, b"once more", wire.SEND, 1)
    completed(env, link, "send", (1, WC_SEND))
    env.graceful(link)
    env.subject.erase("source")


@both("a Send posted after the consumer has disconnected: it is not sent")
def _(env, kiwarp):
    link, sink = read_outstanding(env, kiwarp)
    env.subject.do("disconnect", link.name)
    env.subject.fill("source", 0, b"too late")
    env.subject.must("send", link.name, 2, "source:0:8")
    link.peer.send(*respond(*sink, [pattern(20)]))
    both_close(env, link)
    done = env.subject.completions(link.name, "send", 2)
    same("work", [(1, SUCCESS), (2, WR_FLUSH_ERR)], [(w.wr_id, w.status) for w in done])
    env.ended(link)
    env.holds("local", 0, pattern(20))
    env.subject.erase("source")


@both("FIN from the peer with a Read of Kiwarp's outstanding")
def _(env, kiwarp):
    link, _ = read_outstanding(env, kiwarp)
    link.peer.fin()
    both_close(env, link)
    read_flushed(env, link)
    env.ended(link, QP_FATAL)


@both("FIN from the peer behind its Read Request: the response still comes")
def _(env, kiwarp):
    link = env.open(kiwarp)
    area, buf = env.area("target"), pattern(3000)
    env.subject.fill("target", 0, buf)
    link.peer.send(link.peer.read_request(1, 0, 3000, area.stag, area.to))
    link.peer.fin()
    got = b""
    while len(got) < 3000:
        got += link.peer.recv().payload
    same("bytes read", buf, got)
    both_close(env, link)
    env.ended(link)
    env.subject.erase("target")


def closing(env, kiwarp):
    """The consumer has disconnected, Kiwarp has sent its FIN, the peer has not."""
    link = env.open(kiwarp)
    open_gate(link)
    env.subject.do("disconnect", link.name)
    env.peer_sees_fin(link)
    return link


@both("messages behind Kiwarp's FIN, from a peer that is not done yet")
def _(env, kiwarp):
    link = closing(env, kiwarp)
    area = env.area("target")
    link.peer.send(wire.tagged(wire.WRITE, area.stag, area.to, b"placed"), link.peer.send_message(b"heard"))
    completed(env, link, "recv", (1, WC_RECV, 5))
    link.peer.close()
    env.ended(link, flushed=[2])
    env.holds("target", 0, b"placed")
    inbox(env, b"heard")


# No Terminate can follow a FIN: only a reset can still say that something was wrong.
for name, fault, event, counter in (
    ("a Write into nothing", wire.tagged(wire.WRITE, 0, 0, b"x"), QP_ACCESS_ERR, "rx_ddp_errors"),
    ("a Send too many", wire.untagged(wire.SEND, 0, 2, b"x"), QP_REQ_ERR, "rx_ddp_errors"),
    ("a Read Request", wire.untagged(wire.READ_REQ, 1, 1, bytes(28)), QP_REQ_ERR, "rx_rdmap_errors"),
):

    @both(f"{name} behind Kiwarp's FIN")
    def _(env, kiwarp, fault=fault, event=event, counter=counter):
        link = closing(env, kiwarp)
        link.peer.send(fault)
        env.moved[counter] += 1
        env.ended(link, event)


# --- broken off ---


def broken_off(env, link, buf, flushed=None):
    """FIN behind bytes that are not the end of anything: an error."""
    link.peer.send_bytes(buf)
    link.peer.fin()
    try:
        raise CheckFailed(f"after a broken-off stream came {link.peer.recv()}")
    except (Closed, Reset):
        pass
    link.peer.close()
    env.ended(link, QP_FATAL, flushed)


def write_of(env, buf=b"never placed"):
    area = env.area("target")
    return wire.tagged(wire.WRITE, area.stag, area.to, buf)


for where, cut in (("its length", 1), ("its header", 9), ("its payload", 20), ("its CRC", -1)):

    @both(f"FIN in the middle of an FPDU: in {where}")
    def _(env, kiwarp, cut=cut):
        link = env.open(kiwarp)
        broken_off(env, link, link.peer.frame(write_of(env))[:cut])


@both("FIN in the middle of a Send")
def _(env, kiwarp):
    link = env.open(kiwarp)
    first = wire.untagged(wire.SEND, 0, 1, b"half of it", last=False)
    broken_off(env, link, link.peer.frame(first), flushed=[1, 2])
    env.holds("inbox", 0, b"half of it")


@both("FIN in the middle of a Read Response")
def _(env, kiwarp):
    link, (stag, to) = read_outstanding(env, kiwarp)
    link.peer.send(wire.tagged(wire.READ_RESP, stag, to, b"0123456789", last=False))
    link.peer.fin()
    both_close(env, link)
    read_flushed(env, link)
    env.ended(link, QP_FATAL)
    env.holds("local", 0, b"0123456789")


@both("FIN in the middle of a Write")
def _(env, kiwarp):
    link = env.open(kiwarp)
    area = env.area("target")
    first = wire.tagged(wire.WRITE, area.stag, area.to, b"half of it", last=False)
    broken_off(env, link, link.peer.frame(first))
    env.holds("target", 0, b"half of it")


def unfinished(env, kiwarp, first):
    """A whole Send comes behind the first segment of another message, but the rest never does."""
    link = env.open(kiwarp)
    link.peer.send(first, link.peer.send_message(b"whole"))
    completed(env, link, "recv", (1, WC_RECV, 5))
    inbox(env, b"whole")
    broken_off(env, link, b"", [2])


@both("FIN behind a Send, and a Write that was not finished")
def _(env, kiwarp):
    area = env.area("target")
    unfinished(env, kiwarp, wire.tagged(wire.WRITE, area.stag, area.to, b"half of it", last=False))
    env.holds("target", 0, b"half of it")


@both("FIN behind a Send, and a Read Request that was not finished")
def _(env, kiwarp):
    unfinished(env, kiwarp, wire.untagged(wire.READ_REQ, wire.QN_READ, 1, bytes(10), last=False))


@both("FIN behind a Send, and a Terminate that was not finished")
def _(env, kiwarp):
    unfinished(env, kiwarp, wire.untagged(wire.TERMINATE, wire.QN_TERMINATE, 1, bytes(3), last=False))


@both("FIN in the middle of a Terminate")
def _(env, kiwarp):
    link = env.open(kiwarp)
    first = wire.untagged(wire.TERMINATE, wire.QN_TERMINATE, 1, bytes(3), last=False)
    broken_off(env, link, link.peer.frame(first))


# --- RST ---


def after_reset(env, link, flushed=None):
    env.moved["conn_reset"] += 1
    env.ended(link, QP_FATAL, flushed)


@both("RST before any FPDU")
def _(env, kiwarp):
    link = env.open(kiwarp)
    link.peer.reset()
    after_reset(env, link)


@both("RST behind a message")
def _(env, kiwarp):
    link = env.open(kiwarp)
    link.peer.send(link.peer.send_message(b"whole"))
    completed(env, link, "recv", (1, WC_RECV, 5))
    link.peer.reset()
    after_reset(env, link, [2])
    inbox(env, b"whole")


@both("RST in the middle of an FPDU")
def _(env, kiwarp):
    link = env.open(kiwarp)
    link.peer.send_bytes(link.peer.frame(write_of(env))[:30])
    link.peer.reset()
    after_reset(env, link)


@both("RST in the middle of a Send")
def _(env, kiwarp):
    link = env.open(kiwarp)
    link.peer.send(wire.untagged(wire.SEND, 0, 1, b"half of it", last=False))
    while env.subject.look("inbox") is None:
        pass
    link.peer.reset()
    after_reset(env, link, [1, 2])
    env.holds("inbox", 0, b"half of it")


@both("RST with a Read of Kiwarp's outstanding")
def _(env, kiwarp):
    link, _ = read_outstanding(env, kiwarp)
    link.peer.reset()
    read_flushed(env, link)
    after_reset(env, link)


@both("RST after the peer's FIN")
def _(env, kiwarp):
    link = env.open(kiwarp)
    link.peer.fin()
    env.peer_sees_fin(link)
    link.peer.reset()
    env.ended(link)


@both("RST instead of an answer to Kiwarp's FIN")
def _(env, kiwarp):
    link = env.open(kiwarp)
    open_gate(link)
    env.subject.do("disconnect", link.name)
    env.peer_sees_fin(link)
    link.peer.reset()
    env.moved["conn_reset"] += 1
    env.ended(link)


@both("RST instead of an answer to a Terminate")
def _(env, kiwarp):
    link = env.open(kiwarp)
    fault = wire.tagged(wire.WRITE, 0, 0, b"x")
    link.peer.send(fault)
    error = wire.Error(wire.DDP, 1, 0)
    env.terminated(link, error, fault)
    link.peer.reset()
    env.ended(link, QP_ACCESS_ERR, reason=TERM_SENT | error.packed())


@case("what comes after an error is taken out of the socket, however much it is")
def _(env):
    with env.sysctls(tcp_rmem="4096 8192 16384"):
        link = env.open_initiator()
    fault = wire.tagged(wire.WRITE, 0, 0, b"x")
    link.peer.send(fault)
    error = wire.Error(wire.DDP, 1, 0)
    env.terminated(link, error, fault)
    # More than fits: TCP would not acknowledge it if it stayed there.
    link.peer.send_bytes(bytes(128 * 1024))
    env.until("acknowledgment", lambda: link.peer.unacknowledged() == 0)
    same("TCP", TCP_CLOSE_WAIT, link.peer.state())
    link.peer.close()
    env.moved["rx_dropped"] += 1
    env.ended(link, QP_ACCESS_ERR, reason=TERM_SENT | error.packed())


@both("the consumer destroys its queue pair")
def _(env, kiwarp):
    link = env.open(kiwarp)
    open_gate(link)
    env.subject.do("forget", link.name)
    try:
        raise CheckFailed(f"from a destroyed queue pair came {link.peer.recv()}")
    except (Closed, Reset):
        pass


@both("the consumer destroys its queue pair behind its last Send: that arrives, and what comes is dropped")
def _(env, kiwarp):
    link = env.open(kiwarp)
    open_gate(link)
    area, buf = env.area("target"), pattern(4000)
    env.subject.fill("source", 0, buf)
    env.subject.must("send", link.name, 1, "source:0:4000")
    completed(env, link, "send", (1, WC_SEND))
    env.subject.do("forget", link.name)
    for _ in range(20):
        link.peer.send(wire.tagged(wire.WRITE, area.stag, area.to, b"too late"))
    expect_send(link.peer, buf, wire.SEND, 1)
    env.peer_sees_fin(link)
    link.peer.send(wire.tagged(wire.WRITE, area.stag, area.to, b"much too late"))
    link.peer.close()
    env.subject.erase("source")


@case("the consumer destroys its queue pair: a Terminate that TCP still holds goes out")
def _(env):
    env.big_area()
    link = env.open_responder(window=2048)
    open_gate(link)
    # More than the peer takes, but not more than TCP does.
    env.subject.must("write", link.name, 1, 0x1234, 0x5678, "big:0:12000")
    completed(env, link, "send", (1, WC_WRITE))
    fault = wire.tagged(wire.WRITE, 0, 0, b"x")
    link.peer.send(fault)
    same("asynchronous event", QP_ACCESS_ERR, env.subject.async_event(link.name))
    env.subject.do("forget", link.name)
    expect_write(link.peer, bytes([0xB6]) * 12000, 0x1234, 0x5678)
    env.terminated(link, wire.Error(wire.DDP, 1, 0), fault)
    link.peer.close()


def write_until_blocked(env, link, ids):
    blocked = env.device.counter("tx_blocked")
    for n in ids:
        env.subject.must("write", link.name, n, 0x1234, 0x5678, f"big:0:{BIG_AREA}")
    env.until("wait for room", lambda: env.device.counter("tx_blocked") > blocked)


@case("the consumer destroys its queue pair: a Terminate for which TCP has no room yet goes out")
def _(env):
    env.big_area()
    link = env.open_responder(window=2048)
    open_gate(link)
    write_until_blocked(env, link, range(1, 32))
    # It acknowledges what the window had room for: no more room comes from now on.
    link.peer.send(write_of(env, b"acknowledged"))
    env.until("the Write", lambda: env.subject.look("target"))
    write_until_blocked(env, link, [32])
    fault = wire.tagged(wire.WRITE, 0, 0, b"x")
    link.peer.send(fault)
    same("asynchronous event", QP_ACCESS_ERR, env.subject.async_event(link.name))
    env.subject.do("forget", link.name)
    # Before it comes what was framed.
    env.terminated(link, wire.Error(wire.DDP, 1, 0), fault, behind=wire.WRITE)
    link.peer.close()
    env.subject.erase("target")


# As kernel consumers do, which drain and destroy right after.
@both("the consumer disconnects and destroys its queue pair at once: the end stays graceful")
def _(env, kiwarp):
    link, buf = send_posted(env, kiwarp)
    env.subject.do("forget", link.name)
    expect_send(link.peer, buf, wire.SEND, 1)
    both_close(env, link)
    env.subject.erase("source")


@both("the same with buffers that TCP still holds: the queue pair goes when the peer has acknowledged them")
def _(env, kiwarp):
    env.big_area()
    with env.setting("zcopy_min", 4096):
        link = env.open(kiwarp, window=8192)
    open_gate(link)
    before = env.device.counter("tx_zcopy_octets")
    # More than the peer takes, but not more than TCP does.
    env.subject.must("send", link.name, 1, "big:0:24000")
    env.until("a message without a copy", lambda: env.device.counter("tx_zcopy_octets") > before)
    env.subject.do("disconnect", link.name)
    forgotten = env.subject.begin("forget", link.name)
    # If it were an abort that resets, it would be one by now.
    time.sleep(0.5)
    expect_send(link.peer, bytes([0xB6]) * 24000, wire.SEND, 1)
    both_close(env, link)
    forgotten()


@both("an error with buffers that TCP still holds: the Send completes when the peer has acknowledged it")
def _(env, kiwarp):
    env.big_area()
    with env.setting("zcopy_min", 4096):
        link = env.open(kiwarp, window=8192)
    open_gate(link)
    before = env.device.counter("tx_zcopy_octets")
    env.subject.must("send", link.name, 1, "big:0:24000")
    env.until("a message without a copy", lambda: env.device.counter("tx_zcopy_octets") > before)
    fault = wire.tagged(wire.WRITE, 0, 0, b"x")
    error = wire.Error(wire.DDP, 1, 0)
    reason = TERM_SENT | error.packed()
    link.peer.send(fault)
    # Sends are flushed before receives: this one would have been, too.
    done = env.subject.completions(link.name, "recv", len(link.receives))
    same("receives", [(i, WR_FLUSH_ERR, reason) for i in link.receives], [(w.wr_id, w.status, w.reason) for w in done])
    same("sends", [], env.subject.completions(link.name, "send", 1, 0))
    expect_send(link.peer, bytes([0xB6]) * 24000, wire.SEND, 1)
    env.terminated(link, error, fault)
    done = env.subject.completions(link.name, "send", 1)
    same("Send", [(1, WR_FLUSH_ERR)], [(w.wr_id, w.status) for w in done])
    link.peer.close()
    env.ended(link, QP_ACCESS_ERR, flushed=[], reason=reason)
