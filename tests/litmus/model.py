# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Whether arm64's memory model allows an outcome of a small program.

The model is the axiomatic one of the Arm Architecture Reference Manual (B2.3), for what the rings
use: plain, acquire and release accesses, read-modify-writes, full barriers and dependencies. Acquire
is the weaker one of LDAPR, so that no verdict rests on its order after an earlier release. All
candidate executions of a program are enumerated, so programs have to be small.

A program is one block of lines for each thread:

    [x] = 1         store            [x] =rel 1    store-release
    r = [x]         load             r =acq [x]    load-acquire
    r = [x] via m   load through an address that depends on register m
    r = [x] | 2     atomic operation: | and & with a constant, +, cas OLD NEW; its order is
                    relaxed, or =al: acquire and release
    mb              full barrier
    if r == 1       the lines behind are run only then, and depend on it

All memory is 0 at first, unless "init x=1" says otherwise. Registers have names of their own in
each thread. What may follow a line is a mark and a place in the sources: see Test.
"""
from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field, replace
from typing import Iterator


@dataclass(frozen=True)
class Line:
    """An instruction."""
    kind: str  # load, store, rmw, mb, if
    loc: str = ""
    reg: str = ""
    value: str = ""  # what is stored; of "if" the condition
    operation: str = ""  # of rmw
    order: str = ""  # acq, rel, al
    via: str = ""
    mark: str = ""  # "!" or "~"
    source: str = ""


@dataclass(frozen=True)
class Event:
    """One access or barrier of an execution."""
    thread: int  # -1: the memory's first value
    index: int
    kind: str  # R, W, F
    loc: str = ""
    value: int = 0
    acquire: bool = False
    release: bool = False
    ctrl: frozenset[int] = frozenset()  # events of the thread that decide whether this happens
    addr: frozenset[int] = frozenset()
    data: frozenset[int] = frozenset()
    rmw: int = -1  # of the write of an atomic operation: its read


@dataclass
class Program:
    """Threads by name, and what is in memory at first."""
    threads: dict[str, list[Line]] = field(default_factory=dict)
    init: dict[str, int] = field(default_factory=dict)


LINE = [
    ("mb", r"mb"),
    ("if", r"if (?P<value>.+)"),
    ("store", r"\[(?P<loc>\w+)\] =(?P<order>rel)? (?P<value>\w+)"),
    ("rmw", r"(?P<reg>\w+) =(?P<order>al)? \[(?P<loc>\w+)\] (?P<operation>[|&+] \d+|cas \d+ \d+)"),
    ("load", r"(?P<reg>\w+) =(?P<order>acq)? \[(?P<loc>\w+)\](?: via (?P<via>\w+))?"),
]


def parse_line(text: str) -> Line:
    """An instruction, its mark and its place."""
    code, mark, source = (re.split(r"\s+([!~])\s+", text, maxsplit=1) + ["", ""])[:3]
    for kind, pattern in LINE:
        if match := re.fullmatch(pattern, code.strip()):
            known = {k: v or "" for k, v in match.groupdict().items()}
            return Line(kind, mark=mark, source=source.strip(), **known)
    raise ValueError(f"no instruction: {text!r}")


def parse(text: str) -> Program:
    """A program: "NAME:" begins a thread."""
    program = Program()
    thread: list[Line] = []
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if match := re.fullmatch(r"(\w+):", line):
            thread = program.threads.setdefault(match[1], [])
        elif match := re.fullmatch(r"init (\w+)=(\d+)", line):
            program.init[match[1]] = int(match[2])
        else:
            thread.append(parse_line(line))
    return program


def result_of(operation: str, old: int) -> int | None:
    """What an atomic operation stores; None for nothing."""
    name, *numbers = operation.split()
    if name == "cas":
        return int(numbers[1]) if old == int(numbers[0]) else None
    number = int(numbers[0])
    return {"|": old | number, "&": old & number, "+": old + number}[name]


def values(program: Program) -> dict[str, set[int]]:
    """All that each place of memory can hold: more than it ever will does no harm."""
    lines = [line for thread in program.threads.values() for line in thread]
    known = {line.loc: {program.init.get(line.loc, 0)} for line in lines if line.loc}
    for line in lines:
        if line.kind == "store":
            known[line.loc].add(int(line.value))
    for _ in range(4):
        for line in lines:
            if line.kind == "rmw":
                new = {result_of(line.operation, old) for old in known[line.loc]}
                known[line.loc] |= {value for value in new if value is not None and value < 8}
    return known


@dataclass
class Trace:
    """What one thread does, if its loads return certain values."""
    events: list[Event]
    registers: dict[str, int]


def traces(number: int, lines: list[Line], known: dict[str, set[int]]) -> Iterator[Trace]:
    """All of them."""
    loads = [line for line in lines if line.kind in ("load", "rmw")]
    seen = set()
    for chosen in itertools.product(*(sorted(known[line.loc]) for line in loads)):
        trace = run(number, lines, list(chosen))
        # Loads that did not happen have no value.
        identity = (tuple(trace.events), tuple(sorted(trace.registers.items())))
        if identity not in seen:
            seen.add(identity)
            yield trace


def run(number: int, lines: list[Line], chosen: list[int]) -> Trace:
    """A thread whose loads return these values."""
    events: list[Event] = []
    registers: dict[str, int] = {}
    origin: dict[str, int] = {}
    ctrl: set[int] = set()
    left = iter(chosen)

    def add(kind: str, **known: object) -> int:
        events.append(Event(number, len(events), kind, ctrl=frozenset(ctrl), **known))  # type: ignore[arg-type]
        return len(events) - 1

    for line in lines:
        if line.kind == "mb":
            add("F")
        elif line.kind == "store":
            add("W", loc=line.loc, value=int(line.value), release=line.order == "rel")
        elif line.kind == "if":
            ctrl |= {origin[name] for name in re.findall(r"[a-z]\w*", line.value) if name in origin}
            if not eval(line.value, {}, registers):  # pylint: disable=eval-used
                break
        else:
            value = next(left)
            registers[line.reg] = value
            addr = frozenset({origin[line.via]}) if line.via else frozenset()
            read = add("R", loc=line.loc, value=value, addr=addr,
                       acquire=line.order in ("acq", "al"))
            origin[line.reg] = read
            new = result_of(line.operation, value) if line.kind == "rmw" else None
            if new is not None:
                add("W", loc=line.loc, value=new, release=line.order == "al", rmw=read,
                    data=frozenset({read}))
    return Trace(events, registers)


Pair = tuple[Event, Event]


def has_cycle(pairs: set[Pair]) -> bool:
    """Of a relation."""
    after: dict[Event, list[Event]] = {}
    for one, two in pairs:
        after.setdefault(one, []).append(two)
    state: dict[Event, int] = {}

    def visit(event: Event) -> bool:
        state[event] = 1
        for then in after.get(event, ()):
            if state.get(then) == 1 or (then not in state and visit(then)):
                return True
        state[event] = 2
        return False

    return any(visit(event) for event in list(after) if event not in state)


def ordered_locally(events: list[Event]) -> set[Pair]:
    """What one thread's events keep of their order (lob of the manual), one step each."""
    kept: set[Pair] = set()
    for one, two in itertools.combinations(events, 2):
        between = events[one.index + 1:two.index]
        if one.kind == "F" or two.kind == "F":
            continue
        depends = one.index in two.addr | two.data
        controls = one.index in two.ctrl and two.kind == "W"
        # A write waits until the addresses of what is before it are known.
        after_address = two.kind == "W" and any(one.index in e.addr for e in between)
        barrier = any(e.kind == "F" for e in between)
        # An atomic instruction that is both acquire and release is a full barrier, too; not so here.
        if (depends or controls or after_address or barrier or one.acquire or two.release or
                (two.kind == "W" and one.loc == two.loc) or two.rmw == one.index):
            kept.add((one, two))
    return kept


def consistent(events: list[Event], source: dict[Event, Event], order: dict[str, list[Event]]) -> bool:
    """Whether the model allows an execution: where reads read from, and the order of writes."""
    place = {event: n for writes in order.values() for n, event in enumerate(writes)}
    reads_from = {(write, read) for read, write in source.items()}
    coherence = {pair for writes in order.values() for pair in itertools.combinations(writes, 2)}
    from_reads = {(read, write) for read, first in source.items() for write in order[read.loc]
                  if place[write] > place[first]}
    accesses = [event for event in events if event.kind != "F" and event.thread >= 0]
    same_place = {(one, two) for one in accesses for two in accesses
                  if one.thread == two.thread and one.index < two.index and one.loc == two.loc}
    # Each place of memory by itself is as if there were one thread (SC per location) ...
    if has_cycle(same_place | reads_from | coherence | from_reads):
        return False
    # ... atomic operations are atomic ...
    for write in accesses:
        if write.rmw >= 0:
            read = next(e for e in accesses if e.thread == write.thread and e.index == write.rmw)
            if place[write] != place[source[read]] + 1:
                return False
    # ... and what one thread sees of another fits what each keeps of its order.
    external = {(one, two) for one, two in reads_from | coherence | from_reads
                if one.thread != two.thread}
    local: set[Pair] = set()
    for thread in {event.thread for event in accesses}:
        mine = [event for event in events if event.thread == thread]
        local |= ordered_locally(mine)
    # A load that gets what its own thread stores, after what the store depends on.
    for write, read in reads_from:
        if write.thread == read.thread:
            local |= {(e, read) for e, to in list(local) if to == write and
                      e.index in write.addr | write.data}
            if write.rmw >= 0 and read.acquire:
                local.add((write, read))
    return not has_cycle(external | local)


def outcomes(program: Program) -> Iterator[dict[str, int]]:
    """The registers after each execution that the model allows."""
    known = values(program)
    first = {loc: Event(-1, n, "W", loc, program.init.get(loc, 0))
             for n, loc in enumerate(sorted(known))}
    each = [list(traces(n, lines, known)) for n, lines in enumerate(program.threads.values())]
    for chosen in itertools.product(*each):
        events = list(first.values()) + [event for trace in chosen for event in trace.events]
        writes = {loc: [e for e in events if e.kind == "W" and e.loc == loc and e.thread >= 0]
                  for loc in known}
        reads = [event for event in events if event.kind == "R"]
        sources = [[e for e in writes[read.loc] + [first[read.loc]] if e.value == read.value]
                   for read in reads]
        if any(not options for options in sources):
            continue
        registers = {name: value for trace in chosen for name, value in trace.registers.items()}
        orders = [[[first[loc], *some] for some in itertools.permutations(writes[loc])]
                  for loc in sorted(known)]
        if any(consistent(events, dict(zip(reads, source)), dict(zip(sorted(known), order)))
               for source in itertools.product(*sources)
               for order in itertools.product(*orders)):
            yield registers


def allowed(program: Program, outcome: str) -> bool:
    """Whether an execution ends like this. A register that has no value is in no outcome."""
    names = set(re.findall(r"[a-z]\w*", outcome)) - {"and", "or", "not"}
    return any(names <= set(registers) and eval(outcome, {}, registers)  # pylint: disable=eval-used
               for registers in outcomes(program))


def without(program: Program, thread: str, index: int) -> Program:
    """The program without one barrier, or with one access that orders nothing."""
    lines = list(program.threads[thread])
    if lines[index].kind == "mb":
        del lines[index]
    else:
        lines[index] = replace(lines[index], order="")
    return Program({**program.threads, thread: lines}, program.init)
