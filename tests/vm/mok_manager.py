#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""mok_manager.py SOCKET PASSWORD: answer shim's menu on a guest's console as who enrolls an imported key does.

SOCKET: of scripts/guest --console; it is waited for. Prints what was pressed. Ends when the console closes, with
exit code 0 if the menu came to its end, and 1 if it did not.
"""
import re
import socket
import sys
import time

DOWN, ENTER = b"\x1b[B", b"\r"
CONTROL = re.compile(rb"\x1b\[[0-9;=?]*[A-Za-z]|[\r\n]")
# What the screen says, and what is pressed then.
STEPS = [
    (b"Enroll hash from disk", DOWN + ENTER),                   # Continue boot; Enroll MOK
    (b"View key 0", DOWN + ENTER),                              # View key 0; Continue
    (b"Enroll the key(s)?", DOWN + ENTER),                      # No; Yes
    (b"Password:", None),
    (b"Reboot", ENTER),                                         # Reboot; Enroll key from disk
]


def connect(path: str) -> socket.socket:
    console = socket.socket(socket.AF_UNIX)
    while True:
        try:
            console.connect(path)
            return console
        except OSError:
            time.sleep(0.1)


def main(path: str, password: str) -> int:
    console = connect(path)
    steps = iter(STEPS)
    text, keys = next(steps)
    seen = b""
    done = False
    while data := console.recv(65536):
        # An escape sequence may be cut anywhere.
        seen += data
        if done or text not in CONTROL.sub(b"", seen):
            continue
        pressed = password.encode() + ENTER if keys is None else keys
        console.sendall(pressed)
        print(f"{text.decode()}: {pressed!r}", flush=True)
        seen = b""
        text, keys = next(steps, (b"", b""))
        done = not text
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
