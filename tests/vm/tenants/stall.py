# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""A process that stays in a system call on a device: stall.py DEVICE

The kernel copies the attributes of a verb from a page that a user fault handler (userfaultfd) has to
supply, and here never does. Says "stalled" when the kernel waits for it. Ends when it is killed.
"""

import ctypes
import fcntl
import glob
import mmap
import os
import struct
import sys
import threading

PAGE = mmap.PAGESIZE
SYS_USERFAULTFD = {"x86_64": 323, "aarch64": 282}
UFFD_API = 0xAA
UFFDIO_API = 0xC018AA3F
UFFDIO_REGISTER = 0xC020AA00
UFFDIO_REGISTER_MODE_MISSING = 1
UFFD_MSG_BYTES = 32
RDMA_VERBS_IOCTL = 0xC0181B01
HEADER = struct.Struct("=HHHHQII")  # struct ib_uverbs_ioctl_hdr
ATTRIBUTE_BYTES = 16
UVERBS_OBJECT_DEVICE = 0
UVERBS_METHOD_QUERY_PORT = 2
KIWARP_DRIVER_ID = 0x4B57


def user_fault_fd(address: int, length: int) -> int:
    """A descriptor that is told of missing pages in a range."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(SYS_USERFAULTFD[os.uname().machine], os.O_CLOEXEC)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "userfaultfd")
    fcntl.ioctl(fd, UFFDIO_API, struct.pack("=QQQ", UFFD_API, 0, 0))
    fcntl.ioctl(
        fd,
        UFFDIO_REGISTER,
        struct.pack("=QQQQ", address, length, UFFDIO_REGISTER_MODE_MISSING, 0),
    )
    return fd


def open_device(name: str) -> int:
    """The uverbs file of a device."""
    for path in glob.glob("/sys/class/infiniband_verbs/uverbs*/ibdev"):
        with open(path, encoding="ascii") as file:
            if file.read().strip() == name:
                return os.open(f"/dev/infiniband/{path.split('/')[-2]}", os.O_RDWR)
    raise SystemExit(f"no device {name}")


def main() -> None:
    """The header is in the first page's last bytes, the attribute in the missing second page."""
    pages = mmap.mmap(-1, 2 * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    header = HEADER.pack(
        HEADER.size + ATTRIBUTE_BYTES,
        UVERBS_OBJECT_DEVICE,
        UVERBS_METHOD_QUERY_PORT,
        1,
        0,
        KIWARP_DRIVER_ID,
        0,
    )
    pages[PAGE - HEADER.size : PAGE] = header
    faults = user_fault_fd(address + PAGE, PAGE)
    device = open_device(sys.argv[1])
    libc = ctypes.CDLL(None, use_errno=True)
    request = ctypes.c_void_p(address + PAGE - HEADER.size)
    thread = threading.Thread(
        target=libc.ioctl, args=(device, ctypes.c_ulong(RDMA_VERBS_IOCTL), request)
    )
    thread.start()
    os.read(faults, UFFD_MSG_BYTES)
    print("stalled", flush=True)
    thread.join()


main()
