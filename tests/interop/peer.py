# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""A peer over a plain TCP socket: start-up, FPDUs, and every way to cut the bytes."""
import fcntl
import itertools
import random
import socket
import struct
import sys
import termios
import time

import wire

TIME_LIMIT = 40.0
TCP_ESTABLISHED, TCP_CLOSE_WAIT = 1, 8
# Every connection has a port here that no other had: of two with the same ports Wireshark mixes up
# what it knows. They are below those that the kernel gives away.
ports = itertools.count(20000)


class Closed(Exception):
    """The other side has closed its half."""


class Reset(Exception):
    """The other side has reset the connection."""


class Silent(Exception):
    """Nothing came in time."""


def _pieces(buf, cut, rng):
    if cut == "whole":
        yield buf
    elif cut == "bytes":
        for at in range(len(buf)):
            yield buf[at : at + 1]
    elif cut in ("random", "urgent"):
        at = 0
        while at < len(buf):
            n = rng.choice((1, 2, 3, 5, 8, 17, 40, 100, 700))
            yield buf[at : at + n]
            at += n
    else:
        raise ValueError(cut)


class Peer:
    def __init__(self, sock, cut="whole", seed=0):
        self.sock = sock
        self.cut = cut
        self.rng = random.Random(seed)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.tx = wire.Framer()
        self.rx = wire.Deframer()
        self.msn = {wire.QN_SEND: 1, wire.QN_READ: 1, wire.QN_TERMINATE: 1}
        # A ready-to-receive message that may come again while nothing has been sent; harmless.
        self.repeated = None
        # Of DDP and RDMAP: what is given to send() has version 1.
        self.version = 1

    # --- bytes ---

    def send_bytes(self, buf, cut=None):
        cut = cut or self.cut
        flags = socket.MSG_OOB if cut == "urgent" else 0
        for piece in _pieces(buf, cut, self.rng):
            self.sock.sendall(piece, flags)

    def send_with_rest(self, buf, rest):
        """Bytes cut as this peer cuts, and a rest that may follow their last ones at once.

        The rest is for an end that has stopped listening, and may not wait long for it to end.
        """
        if self.cut == "whole":
            self.send_bytes(buf + rest)
        else:
            self.send_bytes(buf)
            self.send_bytes(rest, "whole")

    def send_with_fin(self, buf):
        """Bytes, and the end of this half in their last segment."""
        self.sock.send(buf, socket.MSG_MORE)
        self.fin()

    def recv_some(self, timeout=TIME_LIMIT):
        """What has come; raises Closed, Reset or Silent when there is nothing."""
        self.sock.settimeout(timeout)
        try:
            buf = self.sock.recv(65536)
        except ConnectionResetError:
            raise Reset from None
        except TimeoutError:
            raise Silent from None
        if not buf:
            raise Closed
        return buf

    def recv_exactly(self, count, timeout=TIME_LIMIT):
        end = time.monotonic() + timeout
        buf = b""
        while len(buf) < count:
            self.sock.settimeout(max(end - time.monotonic(), 0.001))
            try:
                more = self.sock.recv(count - len(buf))
            except ConnectionResetError:
                raise Reset from None
            except TimeoutError:
                raise Silent from None
            if not more:
                raise Closed
            buf += more
        return buf

    def state(self):
        """TCP's, by its number."""
        return self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]

    def data_segments(self):
        """How many segments with data have come: tcp_info.tcpi_data_segs_in."""
        info = self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        return int.from_bytes(info[152:156], sys.byteorder)

    def unacknowledged(self):
        """How many bytes the other side has not acknowledged."""
        (buf,) = struct.unpack("i", fcntl.ioctl(self.sock, termios.TIOCOUTQ, bytes(4)))
        return buf

    def fin(self):
        self.sock.shutdown(socket.SHUT_WR)

    def close(self):
        self.sock.close()

    def reset(self):
        """Closes with RST, whatever is unread or unsent."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()

    # --- start-up ---

    def recv_start_frame(self, timeout=TIME_LIMIT):
        head = self.recv_exactly(wire.FRAME_LEN, timeout)
        pd_len = int.from_bytes(head[18:20], "big")
        return wire.StartFrame(head[:16], head[16], head[17], self.recv_exactly(pd_len, timeout))

    def fpdu_mode(self, tx_markers=False, rx_markers=False, crc=True):
        self.tx = wire.Framer(tx_markers, crc)
        self.rx = wire.Deframer(rx_markers, crc)

    # --- FPDU mode ---

    def frame(self, *ulpdus):
        if self.version != 1:
            ulpdus = [wire.with_version(u, self.version) for u in ulpdus]
        return b"".join(self.tx.frame(u) for u in ulpdus)

    def send(self, *ulpdus, cut=None):
        self.send_bytes(self.frame(*ulpdus), cut)

    def recv(self, timeout=TIME_LIMIT):
        """The next DDP segment; every byte of its framing has been checked."""
        end = time.monotonic() + timeout
        while (ulpdu := self.rx.next()) in (None, self.repeated):
            if ulpdu is None:
                self.rx.feed(self.recv_some(max(end - time.monotonic(), 0.001)))
        return wire.Segment.parse(ulpdu, self.version)

    def next_msn(self, queue):
        msn = self.msn[queue]
        self.msn[queue] = (msn + 1) & 0xFFFFFFFF
        return msn

    def send_message(self, payload=b"", opcode=wire.SEND, ulp=0):
        """A Send in one segment, with the right MSN."""
        return wire.untagged(opcode, wire.QN_SEND, self.next_msn(wire.QN_SEND), payload, ulp=ulp)

    def read_request(self, sink_stag, sink_to, size, stag, to):
        body = wire.read_request_body(sink_stag, sink_to, size, stag, to)
        return wire.untagged(wire.READ_REQ, wire.QN_READ, self.next_msn(wire.QN_READ), body)

    def terminate(self, body):
        return wire.untagged(wire.TERMINATE, wire.QN_TERMINATE, 1, body)


def connect(address, port, window=None, **kwargs):
    sock = socket.socket()
    if window:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    sock.settimeout(TIME_LIMIT)
    sock.bind(("", next(ports)))
    sock.connect((address, port))
    return Peer(sock, **kwargs)


class Listener:
    def __init__(self, address, window=None):
        self.sock = socket.create_server((address, next(ports)))
        if window:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        self.sock.settimeout(TIME_LIMIT)
        self.port = self.sock.getsockname()[1]

    def accept(self, **kwargs):
        sock, _ = self.sock.accept()
        return Peer(sock, **kwargs)
