# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""The file /etc/rdma/kiwarp.conf: which interfaces have a device, its name and its settings.

The udev rule searches the file for a line that is "[", the interface's name and "]", and nothing else. So
that is what begins a section here, too, and a line ends where it does for grep.
"""
from __future__ import annotations

import fcntl
import os
import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Iterator

from .devices import default_name
from .system import Failure, System

FILE = "/etc/rdma/kiwarp.conf"
LOCK = "/run/kiwarp.conf.lock"
HEAD = "# Devices of Kiwarp that are added when their interface appears: see kiwarp.conf(5).\n"


@dataclass
class Section:
    """What is wanted of the device on an interface."""

    interface: str
    name: str = ""
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def device(self) -> str:
        return self.name or default_name(self.interface)


@dataclass(frozen=True)
class Fault:
    """A line that can not be read. Of its section, if it is in one, nothing is known for certain then."""

    interface: str
    text: str


@dataclass
class Contents:
    """What a file has: the sections without a fault, and the faults of the others."""

    sections: dict[str, Section] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)


CARRIAGE_RETURN = "the line ends with a carriage return"


def read(text: str) -> Contents:
    """A faulty line concerns its own section: each of the others has a device all the same."""
    found = Contents()
    # Lines before the first section are in none. Nor are those after a line that begins one wrongly.
    section: Section | None = None
    lost = False
    for number, line in enumerate(_lines(text), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        fault = ""
        if line.lstrip().startswith("["):
            section, fault = _begun(line, found)
            lost = section is None
        elif section:
            fault = _add(section, line)
        elif not lost:
            fault = f"{line.partition('=')[0].strip()} stands before the first [INTERFACE]"
        if fault:
            found.faults.append(Fault(section.interface if section else "", f"{FILE}, line {number}: {fault}"))
    for interface in {fault.interface for fault in found.faults}:
        found.sections.pop(interface, None)
    return found


def _begun(line: str, found: Contents) -> tuple[Section | None, str]:
    """The section that a line begins, and what is wrong with it."""
    name = re.fullmatch(r"\[([^\]\s/]+)\]", line)
    if not name and line.endswith("\r"):
        return None, CARRIAGE_RETURN
    if not name:
        return None, "a section begins with a line that is [INTERFACE] and nothing else"
    section = Section(name[1])
    if section.interface in found.sections:
        return section, f"a second section for {section.interface}"
    found.sections[section.interface] = section
    return section, ""


def _add(section: Section, line: str) -> str:
    """Add a line to a section; what is wrong with it."""
    key, equals, value = (part.strip() for part in line.partition("="))
    if line.endswith("\r"):
        return CARRIAGE_RETURN
    if not equals or not key:
        return "neither [INTERFACE] nor NAME = VALUE"
    if key in section.settings or (key == "name" and section.name):
        return f"{key} for the second time"
    if key == "name":
        section.name = value
    else:
        section.settings[key] = value
    return ""


def parse(text: str) -> dict[str, Section]:
    """The sections of a text that has no fault."""
    found = read(text)
    if found.faults:
        raise Failure(found.faults[0].text)
    return found.sections


def _text(system: System) -> str | None:
    try:
        # Bytes that are no text concern the line that they are in.
        return system.path(FILE).read_bytes().decode(errors="surrogateescape")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Failure(f"{FILE}: {error.strerror}") from error


def contents(system: System) -> Contents:
    return read(_text(system) or "")


def load(system: System) -> dict[str, Section]:
    """All sections of a file without a fault: to change it."""
    return parse(_text(system) or "")


def section_of(system: System, interface: str) -> Section:
    """An interface's section, whatever is wrong elsewhere in the file."""
    found = contents(system)
    if interface in found.sections:
        return found.sections[interface]
    own = [fault.text for fault in found.faults if fault.interface == interface]
    others = [fault.text for fault in found.faults if not fault.interface]
    raise Failure(own[0] if own else "; ".join([f"{FILE} has no section [{interface}]", *others[:1]]))


@contextmanager
def locked(system: System) -> Iterator[None]:
    """Nobody else changes the file: what is written back is what was read, changed."""
    file = system.path(LOCK)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = file.open("a")
    except OSError as error:
        raise Failure(f"{LOCK}: {error.strerror}") from error
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def is_text(text: str) -> bool:
    """Whether it has no bytes that are not UTF-8, as a command line may."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _write(system: System, text: str) -> None:
    # A symbolic link stays one.
    file = system.path(FILE).resolve()
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as written:
            written.write(text.encode(errors="surrogateescape"))
            written.flush()
            temporary.chmod(0o644)
            # Or the file may be empty after a crash.
            os.fsync(written.fileno())
        temporary.replace(file)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise Failure(f"{FILE}: {error.strerror}") from error


def _bounds(lines: list[str], interface: str) -> tuple[int, int]:
    """Where a section begins, and where it ends: behind its last line with a value, as comments that follow may be
    about the next section."""
    start = lines.index(f"[{interface}]")
    end = start + 1
    for at in range(start + 1, len(lines)):
        if lines[at].startswith("["):
            break
        if lines[at].strip() and not lines[at].lstrip().startswith("#"):
            end = at + 1
    return start, end


def _edited(lines: list[str], values: dict[str, str]) -> list[str]:
    """A section's lines with other values. Comments stay."""
    left = dict(values)
    result = []
    for line in lines:
        key = line.partition("=")[0].strip()
        if not line.strip() or line.lstrip().startswith(("[", "#")):
            result.append(line)
        elif key in left:
            result.append(f"{key} = {left.pop(key)}")
    return result + [f"{key} = {value}" for key, value in left.items()]


def text_with(system: System, section: Section) -> str:
    """The file with an interface's section: behind the others, or in the place of the one that there is. Fails if
    the file would not be read back as that: it would be of no use to any device."""
    text = _text(system)
    before = parse(text or "")
    lines = _lines(HEAD if text is None else text)
    values = {**({"name": section.name} if section.name else {}), **section.settings}
    if section.interface in before:
        start, end = _bounds(lines, section.interface)
    else:
        lines += ["", f"[{section.interface}]"] if lines else [f"[{section.interface}]"]
        start, end = len(lines) - 1, len(lines)
    lines[start:end] = _edited(lines[start:end], values)
    result = _joined(lines)
    words = [section.interface, *values, *values.values()]
    if not all(map(is_text, words)) or not _reads_as(result, {**before, section.interface: section}):
        raise Failure(f"{FILE} can not have {section.interface!r} with {values!r}: only UTF-8, no line breaks, no "
                      "white space around a name or value, and in the interface's name no white space, / or ]")
    return result


def _reads_as(text: str, wanted: dict[str, Section]) -> bool:
    try:
        return parse(text) == wanted
    except Failure:
        return False


def store(system: System, section: Section) -> None:
    """Write an interface's section."""
    _write(system, text_with(system, section))


def remove(system: System, interface: str) -> bool:
    """Remove an interface's section; False if there was none."""
    text = _text(system) or ""
    if interface not in parse(text):
        return False
    lines = _lines(text)
    start, end = _bounds(lines, interface)
    del lines[start:end]
    # Nor two empty lines where it was.
    if start < len(lines) and not lines[start].strip():
        del lines[start]
    while lines and not lines[-1].strip():
        lines.pop()
    _write(system, _joined(lines))
    return True
