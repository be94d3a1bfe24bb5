#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Serve a file by HTTP to whoever connects, on sockets that can be taken over by LD_PRELOAD.

web.py ADDRESS PORT FILE

Python's own sockets are made with SOCK_CLOEXEC and accept4(), which rsockets does not take over.
"""
from __future__ import annotations

import ctypes
import os
import socket
import struct
import sys
from pathlib import Path


def checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def serve(libc: ctypes.CDLL, connection: int, content: bytes) -> None:
    request = b""
    buffer = ctypes.create_string_buffer(4096)
    while b"\r\n\r\n" not in request:
        got = checked(libc.recv(connection, buffer, len(buffer), 0))
        if not got:
            return
        request += buffer.raw[:got]
    answer = b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content) + content
    while answer:
        answer = answer[checked(libc.send(connection, answer, ctypes.c_size_t(len(answer)), 0)):]


def main() -> int:
    address, port, file = sys.argv[1:]
    content = Path(file).read_bytes()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.send.restype = libc.recv.restype = ctypes.c_ssize_t
    listener = checked(libc.socket(socket.AF_INET, socket.SOCK_STREAM, 0))
    name = struct.pack("=HH4s8x", socket.AF_INET, socket.htons(int(port)), socket.inet_aton(address))
    checked(libc.bind(listener, name, len(name)))
    checked(libc.listen(listener, 5))
    while True:
        connection = checked(libc.accept(listener, None, None))
        serve(libc, connection, content)
        libc.shutdown(connection, socket.SHUT_RDWR)
        libc.close(connection)


if __name__ == "__main__":
    sys.exit(main())
