# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Reading and changing kiwarp.conf."""
from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest
from kiwarp_tools import config
from kiwarp_tools.system import Failure

TWO = """# mine
[eth0]
# why not 0.1
name = kiwarp0
crc = 0

# about eth1
[eth1]
rtr = write read
"""


def test_sections() -> None:
    found = config.parse(TWO)
    assert found["eth0"] == config.Section("eth0", "kiwarp0", {"crc": "0"})
    assert found["eth1"] == config.Section("eth1", "", {"rtr": "write read"})


@pytest.mark.parametrize("text, says", [
    ("[eth0] # first", "line 1: a section begins"),
    (" [eth0]", "line 1: a section begins"),
    ("[eth 0]", "line 1: a section begins"),
    ("[eth0]\n[eth0]", "line 2: a second section for eth0"),
    ("crc = 0", "line 1: crc stands before"),
    ("[eth0]\ncrc", "line 2: neither"),
    ("[eth0]\ncrc = 0\ncrc = 1", "line 3: crc for the second time"),
    ("[eth0]\nname = a\nname = b", "line 3: name for the second time"),
    ("[eth0]\r\n", "line 1: the line ends with a carriage return"),
    ("[eth0]\ncrc = 0\r\n", "line 2: the line ends with a carriage return"),
    ("[eth0]\x0c[eth1]", "line 1: a section begins"),
])
def test_what_is_refused(text, says) -> None:
    with pytest.raises(Failure, match=says):
        config.parse(text)


def test_no_file_is_no_section(system) -> None:
    assert not config.load(system)


def test_a_new_file_has_a_head(system) -> None:
    config.store(system, config.Section("eth0", "kiwarp0", {"crc": "0"}))
    assert system.path(config.FILE).read_text() == config.HEAD + "\n[eth0]\nname = kiwarp0\ncrc = 0\n"
    assert system.path(config.FILE).stat().st_mode & 0o777 == 0o644


def test_a_section_is_changed_in_place(system) -> None:
    system.write(config.FILE, TWO.rstrip())
    config.store(system, config.Section("eth0", "kiwarp0", {"crc": "1", "p2p": "0"}))
    assert system.path(config.FILE).read_text() == TWO.replace("crc = 0\n", "crc = 1\np2p = 0\n")


def test_a_value_is_left_out(system) -> None:
    system.write(config.FILE, TWO.rstrip())
    config.store(system, config.Section("eth0", "kiwarp0"))
    assert system.path(config.FILE).read_text() == TWO.replace("crc = 0\n", "")


def test_a_second_section(system) -> None:
    system.write(config.FILE, TWO.rstrip())
    config.store(system, config.Section("eth2", "", {"crc": "0"}))
    assert system.path(config.FILE).read_text() == TWO + "\n[eth2]\ncrc = 0\n"


def test_indented_comments_stay(system) -> None:
    text = TWO.replace("# why", "  # why = because").rstrip()
    system.write(config.FILE, text)
    config.store(system, config.Section("eth0", "kiwarp0", {"crc": "0"}))
    assert system.path(config.FILE).read_text() == f"{text}\n"


@pytest.mark.parametrize("section", [
    config.Section("a]b"), config.Section("a b"), config.Section("a/b"), config.Section("eth2\n[eth3]"),
    config.Section("eth2", "k\ncrc = 0"), config.Section("eth2", " k"), config.Section("eth2", "k\udc80"),
    config.Section("eth2", "k", {"crc": "0\nrtr = read"}), config.Section("eth2", "k", {"crc": "0\r"}),
    config.Section("eth2", "k", {"#crc": "0"}), config.Section("eth2", "k", {"[crc": "0"}),
    config.Section("eth2", "k", {"name": "other"}), config.Section("eth0", "k", {"crc": "0\n[eth3]"}),
])
def test_what_would_not_be_read_back_is_not_written(system, section) -> None:
    system.write(config.FILE, TWO.rstrip())
    with pytest.raises(Failure, match=r"^/etc/rdma/kiwarp.conf can not have .*$") as failed:
        config.store(system, section)
    assert "\n" not in str(failed.value)
    assert system.path(config.FILE).read_text() == TWO


def test_a_section_is_removed_and_the_next_keeps_its_comment(system) -> None:
    system.write(config.FILE, TWO.rstrip())
    assert config.remove(system, "eth0")
    assert system.path(config.FILE).read_text() == "# mine\n# about eth1\n[eth1]\nrtr = write read\n"
    assert not config.remove(system, "eth0")


def test_what_is_added_and_removed_leaves_what_was(system) -> None:
    system.write(config.FILE, TWO.rstrip())
    config.store(system, config.Section("eth2", "", {"crc": "0"}))
    config.remove(system, "eth2")
    assert system.path(config.FILE).read_text() == TWO


BROKEN = """crc = 0
[eth0]
name = kiwarp0
[eth1]
crc
 [eth2]
crc = 0
[eth3]
crc = 0
[eth4]
[eth4]
"""


def test_a_fault_concerns_its_own_section(system) -> None:
    system.write(config.FILE, BROKEN.rstrip())
    found = config.contents(system)
    assert found.sections == {"eth0": config.Section("eth0", "kiwarp0"),
                              "eth3": config.Section("eth3", "", {"crc": "0"})}
    assert [(fault.interface, fault.text.split(": ")[0].split()[-1]) for fault in found.faults] == [
        ("", "1"), ("eth1", "5"), ("", "6"), ("eth4", "11")]
    assert config.section_of(system, "eth0").name == "kiwarp0"
    with pytest.raises(Failure, match="line 5: neither"):
        config.section_of(system, "eth1")
    # It may be the one that was meant.
    with pytest.raises(Failure, match=r"no section \[eth2\]; .*line 1: crc stands before"):
        config.section_of(system, "eth2")


@pytest.mark.parametrize("change", [lambda system: config.store(system, config.Section("eth0")),
                                    lambda system: config.remove(system, "eth0")])
def test_a_file_with_a_fault_is_not_changed(system, change) -> None:
    system.write(config.FILE, BROKEN.rstrip())
    with pytest.raises(Failure, match="line 1"):
        change(system)
    assert system.path(config.FILE).read_text() == BROKEN


def test_bytes_that_are_no_text_concern_their_own_section(system) -> None:
    text = b"# caf\xe9\r\n[eth0]\nname = kiwarp0\n[eth1]\ncrc = \xff\n"
    system.write(config.FILE, "")
    system.path(config.FILE).write_bytes(text)
    assert config.section_of(system, "eth0").name == "kiwarp0"
    config.store(system, config.Section("eth2"))
    assert system.path(config.FILE).read_bytes() == text + b"\n[eth2]\n"


def test_the_text_is_on_the_disk_before_it_has_the_name(system, monkeypatch) -> None:
    done: list[object] = []
    replace = Path.replace

    def note_sync(file: int) -> None:
        done.append(os.fstat(file).st_size)

    def note_replace(file: Path, to: Path) -> Path:
        done.append("named")
        return replace(file, to)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(Path, "replace", note_replace)
    config.store(system, config.Section("eth0"))
    assert done == [system.path(config.FILE).stat().st_size, "named"]


def test_a_write_that_fails_leaves_no_file(system, monkeypatch) -> None:
    def fail(*_args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    system.write(config.FILE, TWO.rstrip())
    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(Failure, match="No space left"):
        config.store(system, config.Section("eth0"))
    assert os.listdir(system.path(config.FILE).parent) == ["kiwarp.conf"]


def test_a_symbolic_link_stays_one(system) -> None:
    target = system.path("/srv/kiwarp.conf")
    system.write("/srv/kiwarp.conf", "[eth1]")
    system.path(config.FILE).parent.mkdir(parents=True)
    system.path(config.FILE).symlink_to(target)
    config.store(system, config.Section("eth0"))
    assert system.path(config.FILE).is_symlink() and list(config.load(system)) == ["eth1", "eth0"]
    assert os.listdir(target.parent) == ["kiwarp.conf"]


def test_changes_wait_for_each_other(system) -> None:
    def add(number: int) -> None:
        with config.locked(system):
            config.store(system, config.Section(f"eth{number}"))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(config.load(system)) == 30
