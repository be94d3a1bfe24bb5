# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""What the cases share: connections in both roles, the end of a connection, counters."""
import contextlib
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import peer as peers
import subject as subjects
import wire
from subject import QP_ACCESS_ERR, QP_FATAL, QP_LAST_WQE, QP_REQ_ERR, SUCCESS, WAIT_MS, WR_FLUSH_ERR
from wire import DDP, LLP, RDMAP

AREA = 4096
INBOX = "inbox"  # where receives point; 64 bytes each
INBOX_STEP = 256
INBOX_LEN = 64
BIG_AREA = 65536
HIGH_TO = 2**64 - AREA

CASES = []


class CheckFailed(Exception):
    """Kiwarp did something else than the specification says."""


def same(what, want, got):
    if want != got:
        raise CheckFailed(f"{what}: wanted {want!r}, got {got!r}")


def case(name):
    """Registers a function of the environment as a case."""

    def register(function):
        CASES.append((name, function))
        return function

    return register


@dataclass
class SharedQueue:
    """A shared receive queue, and how many receives were posted to it: their numbers."""

    name: str
    posted: int = 0


@dataclass
class Link:
    """A connection: the peer's end, and the subject's name for its own."""

    name: str
    peer: peers.Peer
    kiwarp: str  # "responder" or "initiator": who Kiwarp is
    frame: wire.StartFrame | None = None  # what Kiwarp sent in start-up
    open: bool = True
    receives: list = field(default_factory=list)  # posted to its own receive queue
    srq: SharedQueue | None = None

    def srq_option(self):
        return {"srq": self.srq.name} if self.srq else {}


def event_for(error):
    """The asynchronous event by which the consumer learns what its peer did wrong."""
    if error.layer == LLP or error.etype == 0:
        return QP_FATAL
    if error.layer == RDMAP:
        return QP_ACCESS_ERR if error.etype == 1 else QP_REQ_ERR
    return QP_ACCESS_ERR if error.etype == 1 else QP_REQ_ERR


def counter_for(error):
    if error.layer == LLP:
        return "rx_crc_errors" if error.code == 2 else "rx_marker_errors"
    return "rx_ddp_errors" if error.layer == DDP else "rx_rdmap_errors"


class Env:
    def __init__(self, subject, device, address, port, own_address):
        self.subject = subject
        self.device = device
        self.address, self.port = address, port
        self.listener = None
        self.own_address = own_address
        self.serial = 0
        self.links = []
        self.srqs = []
        self.moved = Counter()
        self._make_areas()
        self.bystander = None
        self.pings = 0
        self.terminates = []  # Kiwarp's: ports from and to, layer, type, code

    def _make_areas(self):
        mr = self.subject.mr
        full = "local_write,remote_write,remote_read"
        mr(INBOX, AREA, "local_write")
        mr("good", AREA, full)
        mr("target", AREA, full)
        mr("source", AREA, full)
        mr("readable", AREA, "remote_read")
        mr("writable", AREA, "local_write,remote_write")
        mr("local", AREA, "local_write")
        mr("foreign", AREA, full, pd="other")
        mr("gone", AREA, full)
        mr("high", AREA, full, iova=HIGH_TO)
        mr("atomic", AREA, full + ",remote_atomic")
        mr("bystander", AREA, full)
        mr("bindable", AREA, "local_write,mw_bind")
        self.subject.do("dereg", "gone")

    def area(self, name):
        return self.subject.areas[name]

    def big_area(self):
        """Room for the longest FPDU; made when a case asks for it, since looking at it costs time."""
        return self.subject.mr("big", BIG_AREA, "local_write,remote_write")

    # --- connections ---

    def _new(self, peer, kiwarp, srq=None):
        self.serial += 1
        link = Link(f"c{self.serial}", peer, kiwarp, srq=srq)
        self.links.append(link)
        return link

    def _post_receives(self, link, count):
        for i in range(0 if link.srq else count):
            self.receive(link)

    def receive(self, link, *pieces):
        """Posts a receive into the inbox, or where it is said; its number."""
        wr_id = len(link.receives) + 1
        link.receives.append(wr_id)
        self.subject.recv(link.name, wr_id, *(pieces or self._in_inbox(wr_id)))
        return wr_id

    def _in_inbox(self, wr_id):
        return (f"{INBOX}:{(wr_id - 1) * INBOX_STEP}:{INBOX_LEN}",)

    def shared_queue(self, receives):
        """A shared receive queue with so many receives into the inbox."""
        self.serial += 1
        srq = SharedQueue(f"s{self.serial}")
        self.subject.do("srq", srq.name, AREA // INBOX_STEP)
        self.srqs.append(srq)
        for _ in range(receives):
            self.share(srq)
        return srq

    def share(self, srq, *pieces):
        """Posts a receive that connections share, into the inbox or where it is said; its number."""
        srq.posted += 1
        self.subject.srq_recv(srq.name, srq.posted, *(pieces or self._in_inbox(srq.posted)))
        return srq.posted

    def inbox(self, wr_id, buf):
        """What the inbox looks like when receive wr_id, and only that, has these bytes."""
        return ((wr_id - 1) * INBOX_STEP, buf) if buf else None

    def open(self, kiwarp="responder", **options):
        opener = self.open_responder if kiwarp == "responder" else self.open_initiator
        return opener(**options)

    def open_responder(
        self,
        cut="whole",
        rev=2,
        enh=True,
        crc=True,
        markers=False,
        receives=2,
        ird=4,
        ord=4,
        pd=b"",
        window=None,
        start_cut="whole",
        srq=None,
    ):
        """Kiwarp accepts: the peer sends the request, and has to send the first FPDU."""
        peer = peers.connect(self.address, self.port, window, cut=cut, seed=self.serial)
        link = self._new(peer, "responder", srq)
        if enh is True:
            enh = wire.Enhanced() if rev == 2 else None
        flags = crc * wire.FLAG_C | markers * wire.FLAG_M | (wire.FLAG_S if enh else 0)
        data = (enh.build() if enh else b"") + pd
        peer.send_bytes(wire.start_frame(wire.REQ_KEY, flags, rev, data), start_cut)
        request = self.subject.request(link.name, **link.srq_option())
        if request is None:
            raise CheckFailed("the consumer heard of no connection request")
        link.request = request
        self._post_receives(link, receives)
        same("rdma_accept", "0", self.subject.accept(link.name, ird=ird, ord=ord))
        link.frame = peer.recv_start_frame()
        same("reply's key", wire.REP_KEY, link.frame.key)
        same("reply's revision", rev, link.frame.rev)
        same("rejected", 0, link.frame.flags & wire.FLAG_R)
        link.established = self.subject.event(link.name)
        same("event", "ESTABLISHED", link.established.kind)
        peer.fpdu_mode(bool(link.frame.flags & wire.FLAG_M), markers, bool(link.frame.flags & wire.FLAG_C))
        self.moved["conn_accepted"] += 1
        return link

    def open_initiator(
        self,
        cut="whole",
        rev=2,
        enh=True,
        crc=True,
        markers=False,
        receives=2,
        ird=4,
        ord=4,
        pd=b"",
        window=None,
        start_cut="whole",
        srq=None,
        renewed=None,
    ):
        """Kiwarp connects, and in the peer-to-peer model sends the first FPDU.

        renewed: a link that has ended, whose queue pair is in RESET, for another connection.
        """
        link = renewed or self._new(None, "initiator", srq)
        self.start_initiator(link, cut, window, receives=receives, ird=ird, ord=ord)
        if rev < link.frame.rev:
            # A peer that knows an older revision only closes, and is asked again (RFC 6581).
            link.peer.close()
            self.accept_initiator(link, cut)
            self.moved["conn_fallbacks"] += 1
        peer = link.peer
        asked = wire.Enhanced.parse(link.frame.pd) if link.frame.flags & wire.FLAG_S else None
        if enh is True:
            enh = wire.Enhanced(p2p=asked.p2p, write=asked.p2p) if asked else None
        flags = crc * wire.FLAG_C | markers * wire.FLAG_M | (wire.FLAG_S if enh else 0)
        data = (enh.build() if enh else b"") + pd
        peer.send_bytes(wire.start_frame(wire.REP_KEY, flags, rev, data), start_cut)
        link.reply = self.subject.event(link.name)
        same("event", "ESTABLISHED", link.reply.kind)
        use_crc = crc or bool(link.frame.flags & wire.FLAG_C)
        peer.fpdu_mode(bool(link.frame.flags & wire.FLAG_M), markers, use_crc)
        self.moved["conn_established"] += 1
        if enh and enh.p2p and enh.write:
            first = peer.recv()
            same("ready to receive", (wire.WRITE, True, b""), (first.opcode, first.last, first.payload))
            peer.repeated = first.ulpdu
        return link

    def start_initiator(self, link, cut="whole", window=None, receives=0, **options):
        """Kiwarp begins to connect: link gets its peer and the request frame."""
        self.prepare(link, window)
        self._post_receives(link, receives)
        same("rdma_connect", "0", self.subject.connect(link.name, **options))
        self.accept_initiator(link, cut)

    def prepare(self, link, window=None):
        """Kiwarp's end of a connection to a listener of its own."""
        self.listener = peers.Listener(self.own_address, window)
        where = link.name, self.own_address, self.listener.port
        if link.peer is None:
            self.subject.do("prepare", *where, **link.srq_option())
            return
        link.receives.clear()
        self.subject.do("renew", *where)

    def accept_initiator(self, link, cut="whole"):
        link.peer = self.listener.accept(cut=cut, seed=self.serial)
        link.frame = link.peer.recv_start_frame()
        same("request's key", wire.REQ_KEY, link.frame.key)

    def connect_failed(self, link, counter, again=False):
        """The consumer's connect has failed, after another try with an older revision if again."""
        if again:
            link.peer.close()
            self.accept_initiator(link)
            self.moved["conn_fallbacks"] += 1
            same("asked again with revision", 1, link.frame.rev)
            link.peer.reset()
        event = self.subject.event(link.name)
        if event.kind not in ("UNREACHABLE", "CONNECT_ERROR", "REJECTED") or event.status == 0:
            raise CheckFailed(f"the consumer was told {event}")
        same("QP", True, self.subject.do("state", link.name) in ("INIT", "ERR"))
        self.moved[counter] += 1

    def told_why(self, link, error):
        """The connection ends, after a Terminate that says why if there is an error to tell."""
        if error:
            got = link.peer.recv()
            same("operation", wire.TERMINATE, got.opcode)
            same("Terminate", wire.Terminate(error), wire.Terminate.parse(got.payload))
            self._count_terminate(link, error)
        try:
            link.peer.recv()
        except (peers.Closed, peers.Reset):
            return
        raise CheckFailed("bytes after the end")

    def ord_is(self, link, reads):
        """Kiwarp has this many Read Requests outstanding at a time, and not one more."""
        for n in range(reads + 1):
            self.subject.must("read", link.name, n + 1, 7, n, "local:0:1")
        asked = [link.peer.recv() for _ in range(reads)]
        same("operations", {wire.READ_REQ}, {seg.opcode for seg in asked})
        self.silent_for(link, "more than ORD at a time", 0.3)
        for n in range(reads + 1):
            sink = asked[n].payload
            to = int.from_bytes(sink[4:12], "big")
            link.peer.send(wire.tagged(wire.READ_RESP, int.from_bytes(sink[:4], "big"), to, b"r"))
            if len(asked) <= reads:
                asked.append(link.peer.recv())
        done = self.subject.completions(link.name, "send", reads + 1)
        same("Reads", [SUCCESS] * (reads + 1), [w.status for w in done])
        self.subject.erase("local")

    # --- the end of a connection ---

    def _count_terminate(self, link, error):
        self.moved["terminates_sent"] += 1
        ports = link.peer.sock.getpeername()[1], link.peer.sock.getsockname()[1]
        self.terminates.append((*ports, error.layer, error.etype, error.code))

    def terminated(self, link, error, ulpdu, behind=None):
        """The Terminate comes with everything in it, then FIN, and nothing else.

        behind: an opcode of FPDUs that may come before it.
        """
        got = link.peer.recv()
        while got.opcode == behind:
            got = link.peer.recv()
        same(
            "Terminate's segment",
            (wire.TERMINATE, False, True, wire.QN_TERMINATE, 1, 0, 0),
            (got.opcode, got.tagged, got.last, got.qn, got.msn, got.mo, got.ulp),
        )
        want = wire.expected_terminate(error, ulpdu)
        term = wire.Terminate.parse(got.payload)
        same("Terminate says", str(want.error), str(term.error))
        same("Terminate", want, term)
        self._count_terminate(link, error)
        self.moved[counter_for(error)] += 1
        self.peer_sees_fin(link)

    def peer_sees_fin(self, link):
        try:
            got = link.peer.recv()
        except peers.Closed:
            return
        raise CheckFailed(f"after the end came {got}")

    def ended(self, link, event=None, flushed=None, reason=0):
        """The consumer has heard all of it: asynchronous event, completions, DISCONNECTED.

        reason: the Terminate that what is flushed tells of.
        """
        events = [event] * (event is not None) + [QP_LAST_WQE] * (link.srq is not None)
        got = [self.subject.async_event(link.name) for _ in events]
        same("asynchronous events", Counter(events), Counter(got))
        left = link.receives if flushed is None else flushed
        # With a shared receive queue the last completion is there when the event is.
        wait_ms = 0 if link.srq else WAIT_MS
        done = self.subject.completions(link.name, "recv", len(left), wait_ms)
        same(
            "receives",
            [(i, WR_FLUSH_ERR, reason) for i in left],
            [(w.wr_id, w.status, w.reason) for w in done],
        )
        cm = self.subject.event(link.name)
        same("event", "DISCONNECTED", cm and cm.kind)
        same("QP", "ERR", self.subject.do("state", link.name))
        same("one more asynchronous event", None, self.subject.async_event(link.name, 0))
        same("more receives", [], self.subject.completions(link.name, "recv", 1, 0))
        same("sends", [], self.subject.completions(link.name, "send", 1, 0))
        link.open = False

    def graceful(self, link, flushed=None):
        """The peer closes in an orderly way, and that is how the consumer sees it."""
        link.peer.fin()
        self.peer_sees_fin(link)
        link.peer.close()
        self.ended(link, flushed=flushed)

    # --- what the administrator sees ---

    def details(self, link):
        """What `rdma resource` tells of Kiwarp's end."""
        return dict(item.split("=") for item in self.subject.do("details", link.name).split())

    def until_details(self, link, **want):
        """Waits until the values are what they have to be."""

        def come():
            got = self.details(link)
            return {name: int(got[name]) for name in want} == want

        self.until(f"{want}", come)

    # --- memory ---

    def holds(self, name, offset, buf):
        """The area holds these bytes at offset, and neither it nor its guards anything else."""
        want = (offset, buf) if buf else None
        same(f"bytes in {name}", want, self.subject.look(name))
        self.subject.erase(name)

    def erase_inbox(self):
        self.subject.erase(INBOX)

    def untouched(self):
        """No area but those that holds() has looked at was written to."""
        same("areas written to", set(), self.subject.touched())

    # --- the bystander ---

    def start_bystander(self):
        self.bystander = self.open_responder(rev=1, receives=0)
        self.links.remove(self.bystander)

    def ping_bystander(self):
        """Another connection of the same device still places and answers."""
        self.pings += 1
        area, peer = self.area("bystander"), self.bystander.peer
        buf = self.pings.to_bytes(8, "big")
        peer.send(
            wire.tagged(wire.WRITE, area.stag, area.to, buf),
            peer.read_request(1, 0, 8, area.stag, area.to),
        )
        got = peer.recv()
        same("bystander", (wire.READ_RESP, buf), (got.opcode, got.payload))
        self.subject.erase("bystander")

    # --- running ---

    def silent_for(self, link, what, secs=0.4):
        """Nothing comes: what is wrong may come later than that, what is right never comes too soon."""
        try:
            raise CheckFailed(f"{what}: {link.peer.recv(secs)}")
        except peers.Silent:
            pass

    @contextlib.contextmanager
    def sysctls(self, **values):
        """net.ipv4's, for connections that begin here."""
        paths = {Path("/proc/sys/net/ipv4", name): value for name, value in values.items()}
        before = {path: path.read_text(encoding="ascii") for path in paths}
        try:
            for path, value in paths.items():
                path.write_text(f"{value}\n", encoding="ascii")
            yield
        finally:
            for path, value in before.items():
                path.write_text(value, encoding="ascii")

    @contextlib.contextmanager
    def setting(self, name, value):
        before = self.device.get(name)
        self.device.set(name, value)
        try:
            yield
        finally:
            self.device.set(name, before)

    def run(self, function):
        self.moved = Counter()
        self.before = self.device.counters()
        try:
            function(self)
            self.untouched()
            self.ping_bystander()
            self._counters_moved(self.before)
        finally:
            self._tidy()

    def until(self, what, condition):
        end = time.monotonic() + peers.TIME_LIMIT
        while not condition():
            if time.monotonic() > end:
                raise CheckFailed(f"never came: {what}")
            time.sleep(0.05)

    def await_counters(self):
        """Waits until the counters have moved as far as the case has said up to now."""
        self._counters_moved(self.before)

    def _counters_moved(self, before):
        """Just what the case said, within the time that teardown may take."""
        want = {k: n for k, n in self.moved.items() if n}
        end = time.monotonic() + peers.TIME_LIMIT
        while True:
            now = self.device.counters()
            got = {k: now[k] - before[k] for k in now if now[k] != before[k]}
            # How many arrivals the dropped bytes came in, if any came late, is TCP's affair.
            dropped = got.pop("rx_dropped", 0)
            if "rx_dropped" in want:
                got["rx_dropped"] = min(dropped, want["rx_dropped"])
            if got == want:
                return
            if time.monotonic() > end:
                raise CheckFailed(f"counters: wanted {want}, got {got}")
            time.sleep(0.05)

    def _tidy(self):
        for link in self.links:
            if link.peer:
                link.peer.close()
            with contextlib.suppress(subjects.SubjectError):
                self.subject.do("forget", link.name)
        self.links = []
        for srq in self.srqs:
            with contextlib.suppress(subjects.SubjectError):
                self.subject.do("nosrq", srq.name)
        self.srqs = []
        # A request that nobody asked for would be the next case's.
        while self.subject.request("late", 0) is not None:
            self.subject.do("forget", "late")
        for name in self.subject.touched():
            self.subject.erase(name)
