#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""tun_pair.py NAME NAME: two tun interfaces, each of which receives what the other sends.

They are there as long as this runs. Prints "joined" when they are.
"""
import errno
import fcntl
import os
import select
import struct
import sys

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000


def open_tun(name: str) -> int:
    """A new interface, which goes when this descriptor does."""
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return tun


def pass_on(source: int, sink: int) -> None:
    """One packet; an interface that is down loses it, as a wire does."""
    try:
        os.write(sink, os.read(source, 65535))
    except OSError as error:
        if error.errno not in (errno.EIO, errno.EAGAIN):
            raise


def main() -> None:
    """Until somebody ends it."""
    first, second = (open_tun(name) for name in sys.argv[1:])
    print("joined", flush=True)
    while True:
        for end in select.select((first, second), (), ())[0]:
            pass_on(end, second if end == first else first)


main()
