# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Connections that do less than they should: tcp_peer.py MODE ADDRESS PORT COUNT

silent    nothing follows TCP's handshake; with COUNT of them open the oldest gives way to a new one
partial   MPA start-up, then an FPDU of which the end is missing

Says "there" once COUNT connections are open, and keeps them until it is killed.
"""
import collections
import resource
import socket
import struct
import sys
import time

REQUEST = b"MPA ID Req Frame"
CRC, REVISION = 0x40, 1
REPLY_LEN = 20
# Less than a quarter of a receive buffer, so that it stays in the socket.
FPDU_LEN, FPDU_PART = 24000, 20000


def connect(address: str, port: int) -> socket.socket:
    return socket.create_connection((address, port), timeout=60)


def receive(sock: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = sock.recv(length - len(data))
        if not more:
            raise ConnectionError("closed during start-up")
        data += more
    return data


def partial(address: str, port: int) -> socket.socket:
    sock = connect(address, port)
    sock.sendall(REQUEST + struct.pack("!BBH", CRC, REVISION, 0))
    (pd_len,) = struct.unpack("!16xxxH", receive(sock, REPLY_LEN))
    receive(sock, pd_len)
    sock.sendall(struct.pack("!H", FPDU_LEN) + bytes(FPDU_PART))
    return sock


def silent(address: str, port: int, count: int) -> None:
    """For ever: whoever has no place for so many sees new ones come all the time."""
    held: collections.deque[socket.socket] = collections.deque()
    while True:
        held.append(connect(address, port))
        if len(held) == count:
            print("there", flush=True)
        if len(held) > count:
            held.popleft().close()
            time.sleep(0.001)


def main(mode: str, address: str, port: str, count: str) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if mode == "silent":
        silent(address, int(port), int(count))
    held = [partial(address, int(port)) for _ in range(int(count))]
    print("there", flush=True)
    while held:
        time.sleep(60)


main(*sys.argv[1:])
