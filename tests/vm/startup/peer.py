#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""A peer of plain sockets that says in MPA start-up what no RNIC would say. Prints TAP.

peer.py initiator ADDR PORT DEVICE          to a listener that accepts everything
peer.py unanswered ADDR PORT                to one whose consumer does not answer
peer.py responder ADDR PORT DEVICE CLIENT.. for a client, which is started for each case
peer.py idle ADDR PORT                      connects, then stays
peer.py silent ADDR PORT                    accepts, says nothing
"""

import contextlib
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

REQ, REP = b"MPA ID Req Frame", b"MPA ID Rep Frame"
PRIVATE, KEY = b"MPA private data", b"MPA ident frame"
M, C, R, S = 0x80, 0x40, 0x20, 0x10
A, SEND, WRITE, READ = 0x80000000, 0x40000000, 0x8000, 0x4000
NONE = 0x3FFF

failed = number = 0


def check(what, good, info=""):
    global failed, number
    number += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {number} - {what}{'' if good else f' ({info})'}", flush=True)


def frame(key, rev, flags, data=b"", length=None):
    return key + struct.pack(">BBH", flags, rev, len(data) if length is None else length) + data


def enhanced(bits=A | WRITE, ird=4, ord_=4):
    return struct.pack(">I", bits | ird << 16 | ord_)


def receive(s, n, limit=60.0):
    """What came, and how it ended: "full", "closed" or "silent"."""
    s.settimeout(limit)
    got = b""
    try:
        while len(got) < n:
            part = s.recv(n - len(got))
            if not part:
                return got, "closed"
            got += part
    except socket.timeout:
        return got, "silent"
    except ConnectionError:
        return got, "closed"
    return got, "full"


def receive_frame(s):
    head, how = receive(s, 20)
    if how != "full":
        return head, b"", how
    data, how = receive(s, struct.unpack(">H", head[18:])[0])
    return head, data, how


@contextlib.contextmanager
def setting(device, name, value):
    """Of time only while silence is what is tested: a slow machine is to have all it needs."""
    path = device / "settings" / name
    before = path.read_text()
    path.write_text(value)
    yield
    path.write_text(before)


class Initiator:
    def __init__(self, address, device=None):
        self.address = address
        self.device = device

    def count(self, name):
        return int((self.device / "ports/1/hw_counters" / name).read_text())

    def connect(self, data, slowly=False):
        s = socket.create_connection(self.address, timeout=60)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not slowly:
            s.sendall(data)
            return s
        for i in range(len(data)):
            s.sendall(data[i : i + 1])
            time.sleep(0.001)
        return s

    def refused(self, what, data, counter="conn_bad_start", after=0.0):
        before, begin = self.count(counter), time.time()
        with self.connect(data) as s:
            got, how = receive(s, 1)
        took = time.time() - begin
        good = not got and how == "closed" and took >= after
        check(f"{what}: closed", good, f"{got!r} {how} after {took:.1f} s")
        check(f"{what}: counted as {counter}", self.counted(counter, before + 1))

    def counted(self, counter, wanted):
        """The peer may see the end before the counter moves."""
        end = time.time() + 60
        while self.count(counter) != wanted and time.time() < end:
            time.sleep(0.05)
        return self.count(counter) == wanted

    def accepted(self, what, data, wanted, bits=None, slowly=False):
        """wanted: key, flags and revision of the reply; bits: its enhanced data."""
        with self.connect(data, slowly) as s:
            head, got, how = receive_frame(s)
        good = how == "full" and head[:18] == wanted[0] + bytes(wanted[1:])
        if bits is not None:
            good = good and struct.unpack(">I", got[:4])[0] == bits
        check(what, good, f"{head!r} {got!r} {how}")

    def frames(self):
        self.accepted("revision 1, 255 bytes", frame(REQ, 1, C, b"x" * 255), (REP, C, 1))
        self.accepted("revision 1, byte by byte", frame(REQ, 1, 0), (REP, C, 1), slowly=True)
        self.accepted("revision 1, reserved bits", frame(REQ, 1, 0x37), (REP, C, 1))
        self.accepted("revision 2, 255 bytes", frame(REQ, 2, C | S, enhanced() + b"x" * 255),
                      (REP, C | S, 2))
        self.accepted("revision 2, reserved bits", frame(REQ, 2, 0x37, enhanced()), (REP, C | S, 2))
        self.accepted("revision 2 without enhanced data", frame(REQ, 2, C, b"xx"), (REP, C, 2))
        self.accepted("revision 0 in a request", frame(REQ, 0, C), (REP, 0x80 | C, 0))
        self.accepted("depths that are not negotiated",
                      frame(REQ, 2, C | S, enhanced(0, NONE, NONE)), (REP, C | S, 2),
                      NONE << 16 | NONE)
        self.accepted("ready to receive by a send alone",
                      frame(REQ, 2, C | S, enhanced(A | SEND, NONE, NONE)), (REP, C | S, 2),
                      A | SEND | NONE << 16 | NONE)
        with setting(self.device, "rtr", "write read"):
            self.accepted("ready to receive by what is not known: what is known is named",
                          frame(REQ, 2, C | S, enhanced(A | SEND, NONE, NONE)), (REP, C | S, 2),
                          A | WRITE | READ | NONE << 16 | NONE)
        self.refused("garbage", b"GET / HTTP/1.0\r\n\r\n")
        self.refused("a key that is wrong in its last byte", frame(REQ[:15] + b"f", 1, C))
        self.refused("a reply", frame(REP, 1, C))
        self.refused("revision 3", frame(REQ, 3, C))
        self.refused("513 bytes of private data", frame(REQ, 1, C, b"", 513))
        self.refused("too little for enhanced data", frame(REQ, 2, S, b"xxx"))
        self.refused("bytes behind the request", frame(REQ, 2, C | S, enhanced()) + b"\0")
        self.refused("revision 0: 513 bytes of private data", frame(PRIVATE, 0, 0, b"", 513))
        self.refused("revision 0: private data of revision 1", frame(PRIVATE, 1, 0))
        self.refused("revision 0: a key with another revision", KEY + b"\x41")
        self.refused("revision 0: bytes behind the key", KEY + b"\x40\0")
        with setting(self.device, "start_timeout_ms", "4000"):
            self.refused("silence", b"", "conn_timeouts", 3)
            self.refused("half a request, then silence", frame(REQ, 1, C)[:19], "conn_timeouts", 3)

    def start_key(self):
        with self.connect(KEY + b"\x38", slowly=True) as s:
            got, how = receive(s, 16)
            check("revision 0: the key is answered, reserved bits are not looked at",
                  got == KEY + bytes([C]), f"{got!r} {how}")

    def private(self, what, data, then, wanted, counter=None):
        """Private data and their answer, then bytes and what comes back."""
        before = self.count(counter) if counter else 0
        with self.connect(frame(PRIVATE, 0, 0, data)) as s:
            head, _, how = receive_frame(s)
            check(f"{what}: private data are answered", head[:18] == PRIVATE + b"\0\0",
                  f"{head!r} {how}")
            s.sendall(then)
            got, how = receive(s, len(wanted) or 1)
            check(f"{what}: then the key", got == wanted and (wanted or how == "closed"),
                  f"{got!r} {how}")
        if counter:
            check(f"{what}: counted as {counter}", self.counted(counter, before + 1))

    def revision_0(self):
        self.start_key()
        self.private("revision 0, 255 bytes", b"x" * 255, KEY + bytes([C]), KEY + bytes([C]))
        self.private("revision 0, C is confirmed", b"x", KEY + b"\0", KEY + bytes([C]))
        self.private("revision 0, another key", b"x", REQ, b"", "conn_bad_start")
        self.private("revision 0, bytes behind the key", b"x", KEY + b"\x40\0", b"",
                     "conn_bad_start")
        with setting(self.device, "start_timeout_ms", "4000"):
            self.private("revision 0, no key", b"x", b"", b"", "conn_timeouts")
        with self.connect(frame(PRIVATE, 0, 0, b"x") + KEY + b"\x40") as s:
            got, how = receive(s, 1)
            check("revision 0: a key that does not wait for the answer", how == "closed", f"{got!r}")

    def unanswered(self):
        begin = time.time()
        with self.connect(frame(REQ, 2, C | S, enhanced())) as s:
            got, how = receive(s, 1)
        took = time.time() - begin
        check("a request that nobody answers ends", not got and how == "closed" and took > 2,
              f"{got!r} {how} {took:.1f} s")


class Responder:
    def __init__(self, address, device, client):
        self.device = device
        self.client = client
        self.listener = socket.create_server(address, backlog=8)
        self.listener.settimeout(90)

    def put(self, name, value):
        (self.device / "settings" / name).write_text(value)

    def fallbacks(self):
        return int((self.device / "ports/1/hw_counters/conn_fallbacks").read_text())

    def accept(self):
        s, _ = self.listener.accept()
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def case(self, what, outcome, script, args=()):
        """One client, whose connections the script's functions get in their order."""
        command = self.client + ["--outcome", f"RDMA_CM_EVENT_{outcome}", *args]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as client:
            open_sockets, results = [], []
            try:
                for step in script:
                    open_sockets.append(self.accept())
                    results.append(step(open_sockets[-1]))
                out, _ = client.communicate(timeout=120)
                code = client.returncode
            except (socket.timeout, subprocess.TimeoutExpired):
                client.kill()
                out, code = client.communicate()[0], "no end"
            for s in open_sockets:
                s.close()
        check(f"{what}: {outcome}", code == 0, f"{code} {out!r}")
        return results

    def answer(self, data):
        def step(s):
            head, _, _ = receive_frame(s)
            s.sendall(data)
            return head + receive(s, 64)[0]

        return step

    def terminated(self, what, outcome, reply, code, marker=b""):
        got = self.case(what, outcome, [self.answer(reply)])[0][20:]
        ddp = marker + struct.pack(">HBBIIII", 22, 0x41, 0x47, 0, 2, 1, 0) + code + b"\0\0"
        check(f"{what}: a Terminate, and the end", got[:-4] == ddp and len(got) == len(ddp) + 4,
              got.hex())

    def replies(self):
        refused = "REJECTED status -ECONNREFUSED"
        protocol = "CONNECT_ERROR status -EPROTO"
        good = enhanced()
        self.terminated("more reads than we serve", "CONNECT_ERROR status -ENOMEM",
                        frame(REP, 2, C | S, enhanced(ord_=129)), b"\x20\x06")
        self.terminated("no way to be ready to receive", protocol,
                        frame(REP, 2, C | S, enhanced(A)), b"\x20\x07")
        with setting(self.device, "rtr", "write read"):
            self.terminated("one that was not offered", protocol,
                            frame(REP, 2, C | S, enhanced(A | SEND)), b"\x20\x07")
        self.terminated("and markers", protocol, frame(REP, 2, C | S | M, enhanced(A)),
                        b"\x20\x07", b"\0\0\0\0")
        self.case("not a reply", protocol, [self.answer(b"HTTP/1.0 400 Bad\r\n\r\n")])
        self.case("a request for a reply", protocol, [self.answer(frame(REQ, 2, C | S, good))])
        self.case("a reply of revision 3", protocol, [self.answer(frame(REP, 3, C | S, good))])
        self.case("a reply without enhanced data", protocol, [self.answer(frame(REP, 2, C))])
        self.case("too long a reply", protocol, [self.answer(frame(REP, 2, C, b"", 513))])
        self.case("a reject without enhanced data", refused, [self.answer(frame(REP, 2, C | R))])
        with setting(self.device, "reply_timeout_ms", "4000"):
            self.case("half a reply, then silence", "UNREACHABLE status -ETIMEDOUT",
                      [self.answer(frame(REP, 2, C | S, good)[:23])])

    def fall_back(self):
        closed = "REJECTED status -ECONNRESET"

        def close(s):
            head, _, _ = receive_frame(s)
            s.close()
            return head

        self.put("mpa_rev_accept", "1 2")
        before = self.fallbacks()
        got = self.case("closed, and again", closed, [close, close])
        check("counted as conn_fallbacks", self.fallbacks() == before + 1)
        check("revision 2, then 1", [g[17] for g in got] == [2, 1], got)
        got = self.case("a reject of revision 1, and again", "REJECTED status -ECONNREFUSED",
                        [self.answer(frame(REP, 1, C | R))] * 2)
        check("revision 2, then 1", [g[17] for g in got] == [2, 1], got)
        self.put("mpa_rev_accept", "2")
        self.case("closed, with no earlier revision allowed", closed, [close])

    def revision_0(self):
        refused = "REJECTED status -ECONNREFUSED"
        private = ["--private", "3"]

        def key(data):
            def step(s):
                got, _ = receive(s, 16)
                s.sendall(data)
                if not data:
                    s.shutdown(socket.SHUT_WR)
                return got

            return step

        def answer(data, then):
            def step(s):
                head, mine, _ = receive_frame(s)
                s.sendall(data)
                return head + mine + key(then)(s)

            return step

        self.put("mpa_rev", "0")
        got = self.case("revision 0, closed", refused, [key(b"")])
        check("the initiator began with its key", got == [KEY + bytes([C])], got)
        self.case("revision 0, another key", "CONNECT_ERROR status -EPROTO", [key(REP)])
        self.case("revision 0, a key of another revision", "CONNECT_ERROR status -EPROTO",
                  [key(KEY + b"\x42")])
        got = self.case("revision 0, answered and closed", refused,
                        [answer(frame(PRIVATE, 0, 0), b"")], private)
        check("the initiator sent private data, then its key",
              got == [frame(PRIVATE, 0, 0, b"\1\2\3") + KEY + bytes([C])], got)
        with setting(self.device, "start_timeout_ms", "4000"):
            self.case("revision 0, answered, then silence", "UNREACHABLE status -ETIMEDOUT",
                      [answer(frame(PRIVATE, 0, 0), KEY)], private)


def silent(address):
    with socket.create_server(address) as listener:
        connections = []
        while True:
            connections.append(listener.accept())


def main():
    what, address = sys.argv[1], (sys.argv[2], int(sys.argv[3]))
    if what == "initiator":
        peer = Initiator(address, Path(sys.argv[4]))
        peer.frames()
        peer.revision_0()
    elif what == "unanswered":
        Initiator(address).unanswered()
    elif what == "responder":
        peer = Responder(address, Path(sys.argv[4]), sys.argv[5:])
        peer.replies()
        peer.fall_back()
        peer.revision_0()
    elif what == "idle":
        s = Initiator(address).connect(frame(REQ, 1, C))
        print("accepted" if receive_frame(s)[2] == "full" else "not accepted", flush=True)
        time.sleep(600)
    elif what == "silent":
        silent(address)
    else:
        sys.exit(__doc__)
    sys.exit(failed > 0)


main()
