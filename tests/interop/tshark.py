#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""tshark.py CAPTURE TERMINATES: does Wireshark read Kiwarp's Terminates as the cases did? Prints TAP.

TERMINATES is what main.py --terminates wrote: a line for each, ports from and to, layer, type and
code, as the case expected and got it.
"""
import subprocess
import sys
from collections import Counter

from wire import RDMAP, Error

# The ULPs' dissectors guess, and call malformed what is not theirs.
QUIET = ["--disable-protocol", "rpcordma", "--disable-protocol", "smb_direct"]
# One port of hundreds is another protocol's, by whose dissector Wireshark would read it.
NOT_BY_PORT = ["-o", "tcp.try_heuristic_first:TRUE"]
# A segment may be captured behind a later one where it was sent by another CPU.
REORDER = ["-o", "tcp.reassemble_out_of_order:TRUE"]
KIWARPS = "iwarp_rdma.terminate && ip.src == 10.1.0.1"
# Wireshark takes no segment of less than the shortest FPDU for a part of one, and finds none behind it.
SHORTEST_FPDU = 8
SHORT = f"tcp.len > 0 && tcp.len < {SHORTEST_FPDU} && ip.src == 10.1.0.1"
PORTS = ["tcp.srcport", "tcp.dstport"]
LAYER = ["iwarp_rdma.term_layer"]
# It has a field for each layer's types and codes, and one for what it does not know.
TYPES = [f"iwarp_rdma.term_etype{layer}" for layer in ("_rdma", "_ddp", "_llp", "")]
CODES = [
    f"iwarp_rdma.term_errcode{layer}"
    for layer in ("_rdma", "_ddp_tagged", "_ddp_untagged", "_llp", "")
]
LENGTH = ["iwarp_mpa.ulpdulength"]
WRONG = ["_ws.malformed", "iwarp_mpa.bad_length"]
# Of RDMAP's operation errors Wireshark takes every quoted DDP header for an untagged one, of 18
# bytes, and misses the last four of a tagged one's: own header, control, length, header.
TAGGED_QUOTE = 18 + 4 + 2 + 14


def fields(capture, frames_of, names):
    """What Wireshark has in these fields, of each frame that the filter lets through."""
    command = ["tshark", "-r", capture, *QUIET, *NOT_BY_PORT, *REORDER, "-Y", frames_of, "-T", "fields"]
    for name in names:
        command += ["-e", name]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [line.split("\t") for line in run.stdout.splitlines()]


def cut_short(capture):
    """Ports of connections of which TCP sent so short a segment, as into a window that is nearly closed."""
    return {tuple(map(int, ports)) for ports in fields(capture, SHORT, PORTS)}


def frames(capture):
    """Of each frame with a Terminate: ports and error, the ULPDU's length, what is wrong."""
    groups = PORTS, LAYER, TYPES, CODES, LENGTH, WRONG
    for line in fields(capture, KIWARPS, [field for group in groups for field in group]):
        values = iter(line)
        ports, layer, etype, code, length, wrong = [[next(values) for _ in g] for g in groups]
        read = [int(port) for port in ports]
        read += [int("".join(part), 0) for part in (layer, etype, code)]
        # The Terminate is the last of a frame's FPDUs.
        yield tuple(read), int(length[0].split(",")[-1]), "".join(wrong)


def main():
    number = failed = 0

    def fact(what, good):
        nonlocal number, failed
        number += 1
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {what}")

    with open(sys.argv[2]) as file:
        wanted = Counter(tuple(map(int, line.split())) for line in file)
    found = list(frames(sys.argv[1]))
    read = Counter(terminate for terminate, _, _ in found)
    short = cut_short(sys.argv[1])
    lost = Counter({t: n for t, n in (wanted - read).items() if t[:2] in short})
    wanted -= lost
    print(f"# {lost.total()} not read, behind a segment of less than {SHORTEST_FPDU} bytes")
    for error in sorted({t[2:] for t in wanted | read}):
        want = Counter({t: n for t, n in wanted.items() if t[2:] == error})
        got = Counter({t: n for t, n in read.items() if t[2:] == error})
        fact(f"{Error(*error)}: {got.total()} read, {want.total()} sent", want == got)
        for what, terminates in (("not read", want - got), ("not sent", got - want)):
            for source, sink, *_ in terminates.elements():
                print(f"# {what}: from port {source} to {sink}")
    cut = [t for t, length, _ in found if t[2:4] == (RDMAP, 2) and length == TAGGED_QUOTE]
    malformed = [t for t, _, wrong in found if wrong]
    what = f"{len(malformed)} of {len(found)} Terminates malformed, {len(cut)} read as untagged"
    fact(f"{what}: the same ones", malformed == cut)
    print(f"1..{number}")
    sys.exit(failed > 0)


main()
