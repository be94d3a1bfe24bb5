# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""The verbs consumer on Kiwarp, driven line by line, and the device's counters and settings."""
import os
import subprocess
from dataclasses import dataclass

TERM_SENT, TERM_RECEIVED = 0x10000, 0x20000

SUCCESS, LOC_LEN_ERR, LOC_QP_OP_ERR = 0, 1, 2
LOC_PROT_ERR, WR_FLUSH_ERR, REM_ACCESS_ERR = 4, 5, 10
BAD_RESP_ERR, REM_INV_REQ_ERR, REM_OP_ERR = 7, 9, 11
WC_SEND, WC_WRITE, WC_READ, WC_RECV = 0, 1, 2, 128
WC_COMP_SWAP, WC_FETCH_ADD, WC_BIND_MW, WC_LOCAL_INV, WC_RECV_IMM = 3, 4, 5, 6, 129
WITH_IMM, WITH_INV = 2, 8

QP_FATAL, QP_REQ_ERR, QP_ACCESS_ERR = 1, 2, 3
SRQ_LIMIT, QP_LAST_WQE = 15, 16

WAIT_MS = 40000


class SubjectError(Exception):
    """The consumer could not do what it was told."""


@dataclass
class Completion:
    wr_id: int
    status: int
    opcode: int
    length: int
    flags: int
    stag: int
    reason: int  # which Terminate it was, for what completes in error
    imm: int


@dataclass
class CmEvent:
    kind: str
    status: int
    responder_resources: int
    initiator_depth: int
    pd: bytes


@dataclass
class Area:
    name: str
    size: int
    to: int
    stag: int


def _bytes(text):
    return b"" if text == "-" else bytes.fromhex(text)


def _hex(buf):
    return buf.hex() or "-"


class Subject:
    def __init__(self, command, address, port):
        self.pipe = subprocess.Popen(
            [*command, address, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.areas = {}
        self._answer("start")

    def _answer(self, line):
        answer = self.pipe.stdout.readline()
        if not answer:
            raise SubjectError(f"{line}: the program has ended")
        verdict, _, rest = answer.rstrip("\n").partition(" ")
        if verdict != "ok":
            raise SubjectError(f"{line}: {rest}")
        return rest.strip()

    def begin(self, *words, **options):
        """Gives the answer when it is called for."""
        line = " ".join([str(w) for w in words] + [f"{k}={v}" for k, v in options.items()])
        self.pipe.stdin.write(line + "\n")
        self.pipe.stdin.flush()
        return lambda: self._answer(line)

    def do(self, *words, **options):
        return self.begin(*words, **options)()

    def must(self, *words, **options):
        """For what returns an errno: it has to be none."""
        answer = self.do(*words, **options)
        if answer != "0":
            raise SubjectError(f"{' '.join(map(str, words))}: {answer}")

    def end(self):
        self.pipe.stdin.close()
        return self.pipe.wait(30)

    # --- memory ---

    def mr(self, name, size, access, **options):
        to, stag = map(int, self.do("mr", name, size, access, **options).split())
        self.areas[name] = Area(name, size, to, stag)
        return self.areas[name]

    def fill(self, name, offset, buf):
        self.do("fill", name, offset, buf.hex())

    def erase(self, name):
        self.do("fill", name)

    def look(self, name):
        """None if nothing was written to the area, or the first byte's offset and the bytes."""
        answer = self.do("look", name)
        if answer == "clean":
            return None
        offset, buf = answer.split()
        return int(offset), bytes.fromhex(buf)

    def touched(self):
        return set(self.do("touched").split())

    def window(self, name, kind):
        """A window of type 1 or 2, which is not bound: its STag."""
        return int(self.do("mw", name, kind))

    # --- connections ---

    def _event(self, answer):
        if answer == "none":
            return None
        kind, status, resources, depth, pd = answer.split()
        return CmEvent(
            kind.removeprefix("RDMA_CM_EVENT_"), int(status), int(resources), int(depth), _bytes(pd)
        )

    def request(self, link, wait_ms=WAIT_MS, **options):
        return self._event(self.do("request", link, wait_ms, **options))

    def event(self, link, wait_ms=WAIT_MS):
        return self._event(self.do("event", link, wait_ms))

    def async_event(self, link, wait_ms=WAIT_MS):
        return self._async_event(self.do("async", link, wait_ms))

    def _async_event(self, answer):
        return None if answer == "none" else int(answer)

    def accept(self, link, pd=b"", **options):
        return self.do("accept", link, pd=_hex(pd), **options)

    def begin_accept(self, link, pd=b"", **options):
        return self.begin("accept", link, pd=_hex(pd), **options)

    def connect(self, link, pd=b"", **options):
        return self.do("connect", link, pd=_hex(pd), **options)

    # --- work ---

    def recv(self, link, wr_id, *pieces):
        self.must("recv", link, wr_id, *pieces)

    def srq_recv(self, srq, wr_id, *pieces):
        self.must("srqrecv", srq, wr_id, *pieces)

    def srq_limit(self, srq, *limit):
        """Arms the event of the limit, if one is given: the limit as it is."""
        return int(self.do("srqlimit", srq, *limit))

    def srq_event(self, srq, wait_ms=WAIT_MS):
        return self._async_event(self.do("srqasync", srq, wait_ms))

    def completions(self, link, queue, count, wait_ms=WAIT_MS):
        answer = self.do("completions", link, queue, count, wait_ms)
        return [Completion(*map(int, item.split(":"))) for item in answer.split()]


class Device:
    def __init__(self, name):
        self.root = f"/sys/class/infiniband/{name}"
        self.counter_dir = f"{self.root}/ports/1/hw_counters"
        # Traffic of other connections moves these; everything else moves for a reason.
        self.names = [
            n
            for n in sorted(os.listdir(self.counter_dir))
            if n != "lifespan" and not n.startswith(("tx_", "rx_fpdus", "rx_octets"))
        ]

    def counters(self):
        return {name: self.counter(name) for name in self.names}

    def counter(self, name):
        with open(f"{self.counter_dir}/{name}", encoding="ascii") as file:
            return int(file.read())

    def set(self, name, value):
        with open(f"{self.root}/settings/{name}", "w", encoding="ascii") as file:
            file.write(f"{value}\n")

    def get(self, name):
        with open(f"{self.root}/settings/{name}", encoding="ascii") as file:
            return file.read().strip()
