# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""The model itself: the classical tests, whose verdicts for Armv8 are published."""
import pytest

from model import allowed, parse

MP = "a:\n[x] = 1\n{wb}\n[y] ={rel} 1\nb:\np ={acq} [y]\n{rb}\nq = [x]"
MP_OUTCOME = "p == 1 and q == 0"
SB = "a:\n[x] = 1\n{one}\np = [y]\nb:\n[y] = 1\n{two}\nq = [x]"
LB = "a:\np = [x]\n{one}\n[y] ={rel} 1\nb:\nq = [y]\n{two}\n[x] = 1"


@pytest.mark.parametrize("program, outcome, verdict", [
    # Message passing
    (MP.format(wb="", rel="", acq="", rb=""), MP_OUTCOME, True),
    (MP.format(wb="mb", rel="", acq="", rb="mb"), MP_OUTCOME, False),
    (MP.format(wb="", rel="rel", acq="acq", rb=""), MP_OUTCOME, False),
    (MP.format(wb="", rel="rel", acq="", rb=""), MP_OUTCOME, True),
    (MP.format(wb="", rel="", acq="acq", rb=""), MP_OUTCOME, True),
    # A control dependency orders no loads ...
    (MP.format(wb="mb", rel="", acq="", rb="if p == 1"), MP_OUTCOME, True),
    # ... an address does.
    ("a:\n[x] = 1\nmb\n[y] = 1\nb:\np = [y]\nq = [x] via p", MP_OUTCOME, False),
    # Store buffering
    (SB.format(one="", two=""), "p == 0 and q == 0", True),
    (SB.format(one="mb", two=""), "p == 0 and q == 0", True),
    (SB.format(one="mb", two="mb"), "p == 0 and q == 0", False),
    # Load buffering: a control dependency orders a load and a store.
    (LB.format(one="", rel="", two=""), "p == 1 and q == 1", True),
    (LB.format(one="", rel="rel", two="if q == 1"), "p == 1 and q == 1", False),
    (LB.format(one="", rel="", two="if q == 1"), "p == 1 and q == 1", True),
    # Coherence: two loads of one place do not go back.
    ("a:\n[x] = 1\nb:\np = [x]\nq = [x]", "p == 1 and q == 0", False),
    # Writes reach all others at once (IRIW with order within the readers).
    ("a:\n[x] = 1\nb:\n[y] = 1\nc:\np =acq [x]\nq = [y]\nd:\nr =acq [y]\ns = [x]",
     "p == 1 and q == 0 and r == 1 and s == 0", False),
    ("a:\n[x] = 1\nb:\n[y] = 1\nc:\np = [x]\nq = [y]\nd:\nr =acq [y]\ns = [x]",
     "p == 1 and q == 0 and r == 1 and s == 0", True),
    # Write to read causality, and three threads in a row (ISA2)
    ("a:\n[x] = 1\nb:\np = [x]\n[y] =rel 1\nc:\nq =acq [y]\nr = [x]",
     "p == 1 and q == 1 and r == 0", False),
    ("a:\n[x] = 1\n[y] =rel 1\nb:\np =acq [y]\n[z] = 1\nc:\nq =acq [z]\nr = [x]",
     "p == 1 and q == 1 and r == 0", False),
    ("a:\n[x] = 1\n[y] =rel 1\nb:\np = [y]\n[z] = 1\nc:\nq =acq [z]\nr = [x]",
     "p == 1 and q == 1 and r == 0", True),
    # Two atomic operations do not read the same.
    ("a:\np = [x] + 1\nb:\nq = [x] + 1", "p == 0 and q == 0", False),
    # 2+2W
    ("a:\n[x] = 1\n[y] = 2\nb:\n[y] = 1\n[x] = 2\nc:\np = [x]\nmb\nq = [y]\nmb\nr = [x]\nmb\ns = [y]",
     "p == 2 and q == 2 and r == 1 and s == 1", True),
])
def test_verdicts(program: str, outcome: str, verdict: bool) -> None:
    assert allowed(parse(program), outcome) == verdict
