# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Connections that do less than they should: tcp_peer.py MODE ADDRESS PORT COUNT [SOURCE]...

silent    nothing follows TCP's handshake; with COUNT of them open the oldest gives way to a new one
partial   MPA start-up, then an FPDU of which the end is missing
requests  MPA requests
ask       MPA requests with private data, one from each SOURCE at a time; COUNT times in a row the
          first answer is awaited

Says "there" once COUNT connections are open, and keeps them until it is killed. "ask" ends after its
last answer, and says how many SYNs were sent again. Connections are made from the first SOURCE.
"""
import collections
import resource
import select
import socket
import struct
import sys
import time

REQUEST = b"MPA ID Req Frame"
CRC, REVISION = 0x40, 1
REPLY_LEN = 20
# Less than a quarter of a receive buffer, so that it stays in the socket.
FPDU_LEN, FPDU_PART = 24000, 20000


# Of struct tcp_info: tcpi_total_retrans.
TOTAL_RETRANS = 100


def connect(address: str, port: int, source: str = "") -> socket.socket:
    return socket.create_connection((address, port), timeout=60, source_address=(source, 0))


def request(pd: bytes = b"") -> bytes:
    return REQUEST + struct.pack("!BBH", CRC, REVISION, len(pd)) + pd


def receive(sock: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = sock.recv(length - len(data))
        if not more:
            raise ConnectionError("closed during start-up")
        data += more
    return data


def partial(address: str, port: int, source: str) -> socket.socket:
    sock = connect(address, port, source)
    sock.sendall(request())
    (pd_len,) = struct.unpack("!16xxxH", receive(sock, REPLY_LEN))
    receive(sock, pd_len)
    sock.sendall(struct.pack("!H", FPDU_LEN) + bytes(FPDU_PART))
    return sock


def wanting(address: str, port: int, source: str) -> socket.socket:
    sock = connect(address, port, source)
    sock.sendall(request())
    return sock


def silent(address: str, port: int, count: int, source: str) -> None:
    """For ever: whoever has no place for so many sees new ones come all the time."""
    held: collections.deque[socket.socket] = collections.deque()
    while True:
        held.append(connect(address, port, source))
        if len(held) == count:
            print("there", flush=True)
        if len(held) > count:
            held.popleft().close()
            time.sleep(0.001)


def asking(address: str, port: int, source: str) -> socket.socket:
    sock = connect(address, port, source)
    sock.sendall(request(b"me"))
    return sock


def ask(address: str, port: int, count: int, sources: tuple[str, ...]) -> None:
    """Peers of one bucket share their places: of several addresses one is in another."""
    again = 0
    for _ in range(count):
        socks = [asking(address, port, source) for source in sources]
        for sock in socks:
            info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
            again += struct.unpack_from("I", info, TOTAL_RETRANS)[0]
        (answered, *_), _, _ = select.select(socks, [], [])
        receive(answered, REPLY_LEN)
        for sock in socks:
            sock.close()
    print(f"SYNs sent again: {again}")


def main(mode: str, address: str, port: str, count: str, *sources: str) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    source = sources[0] if sources else ""
    if mode == "ask":
        ask(address, int(port), int(count), sources)
        return
    if mode == "silent":
        silent(address, int(port), int(count), source)
    make = partial if mode == "partial" else wanting
    held = [make(address, int(port), source) for _ in range(int(count))]
    print("there", flush=True)
    while held:
        time.sleep(60)


main(*sys.argv[1:])
