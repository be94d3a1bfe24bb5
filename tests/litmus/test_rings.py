# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""rings.litmus: no program ends as it never may, each barrier is as necessary as its mark says, and is
where the sources have it."""
from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from model import Line, Program, allowed, parse, without

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent


@dataclass
class Case:
    """One program of the file."""
    name: str
    program: Program
    never: str

    def marked(self) -> list[tuple[str, int, Line]]:
        """Its barriers: thread, index and line."""
        return [(thread, index, line) for thread, lines in self.program.threads.items()
                for index, line in enumerate(lines) if line.mark]


def read_cases() -> list[Case]:
    """All of them."""
    cases = []
    for part in re.split(r"^= ", (HERE / "rings.litmus").read_text(), flags=re.MULTILINE)[1:]:
        name, body = part.split("\n", 1)
        code, never = body.split("\nnever ")
        cases.append(Case(name, parse(code), never.strip()))
    return cases


CASES = read_cases()
BARRIERS = [pytest.param(case, *barrier, id=f"{case.name}: {barrier[0]}, {barrier[2].source}")
            for case in CASES for barrier in case.marked()]


def one_line(text: str) -> str:
    """Sources without their line breaks, and without the stars of comments."""
    return re.sub(r"\s+", " ", re.sub(r"\n\s*\* ", "\n", text))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_never_happens(case: Case) -> None:
    assert not allowed(case.program, case.never)


@pytest.mark.parametrize("case, thread, index, line", BARRIERS)
def test_barrier_is_necessary(case: Case, thread: str, index: int, line: Line) -> None:
    assert allowed(without(case.program, thread, index), case.never) == (line.mark == "!")


@pytest.mark.parametrize("case, thread, index, line", BARRIERS)
def test_barrier_is_in_the_sources(case: Case, thread: str, index: int, line: Line) -> None:
    del case, thread, index
    file, text = line.source.split(": ", 1)
    wanted = one_line(text.removeprefix("* "))
    found = one_line((TOP / file).read_text()).count(wanted)
    assert found == 1, f"{file} has {wanted!r} {found} times"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_can_fail(case: Case) -> None:
    assert any(line.mark == "!" for _, _, line in case.marked())
