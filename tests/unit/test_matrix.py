# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""What scripts/matrix keeps of what it tries, and what it makes of it."""
from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent.parent
LOADER = SourceFileLoader("record", str(TOP / "scripts/matrix.d/record"))
SPEC = spec_from_loader("record", LOADER)
assert SPEC
record = module_from_spec(SPEC)
LOADER.exec_module(record)
PAGE = "# A page\n\n<!-- matrix -->\nold\n<!-- end -->\n\nand more\n"
PARTS = "build\t10-link\t20-rdmacm"


class Tree:
    """One that has only the two files."""

    def __init__(self, top: Path, patch: pytest.MonkeyPatch, captured: pytest.CaptureFixture[str]):
        self.patch = patch
        self.captured = captured
        self.top = top
        self.record = top / "Documentation/compatibility.tsv"
        self.page = top / "Documentation/compatibility.md"
        self.page.parent.mkdir()
        self.page.write_text(PAGE)

    def run(self, *words: str, says: str = "", day: str = "2026-11-25") -> str:
        self.patch.setattr(sys, "stdin", io.StringIO(says))
        assert record.main(["--top", str(self.top), "--day", day, *words]) == 0
        return self.captured.readouterr().out

    def add(self, *words: str, day: str = "2026-11-25") -> str:
        return self.run("add", *words, day=day)

    def lines(self) -> list[list[str]]:
        return [line.split("\t") for line in self.record.read_text().splitlines() if not line.startswith("#")]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Tree:
    return Tree(tmp_path, monkeypatch, capsys)


def test_results_are_kept(tree: Tree) -> None:
    assert tree.add("kernel", "sid", "7.2", "build=ok", "10-link=114 passed") == "new: kernel sid 7.2\n"
    assert tree.lines() == [["kernel", "sid", "7.2", "build", "ok", "2026-11-25", "-"],
                            ["kernel", "sid", "7.2", "10-link", "114 passed", "2026-11-25", "-"]]
    assert tree.record.read_text().startswith("# SPDX-License-Identifier: ")


def test_parts_of_one_version_come_together(tree: Tree) -> None:
    tree.add("kernel", "sid", "7.2", "build=ok", "10-link=114 passed", "20-rdmacm=1 passed", day="2026-11-23")
    assert tree.add("kernel", "sid", "7.2", "build=ok", "20-rdmacm=37 passed") == ""
    assert [line[3:6] for line in tree.lines()] == [
        ["build", "ok", "2026-11-25"], ["10-link", "114 passed", "2026-11-23"],
        ["20-rdmacm", "37 passed", "2026-11-25"]]


def test_another_version_replaces_all(tree: Tree) -> None:
    tree.add("kernel", "sid", "7.2", "build=ok", "10-link=114 passed", day="2026-11-23")
    assert tree.add("kernel", "sid", "7.3", "build=ok") == "new: kernel sid 7.3, after 7.2\n"
    assert tree.lines() == [["kernel", "sid", "7.3", "build", "ok", "2026-11-25", "-"]]


def test_what_does_not_build_has_no_tests(tree: Tree) -> None:
    tree.add("kernel", "sid", "7.2", "build=ok", "10-link=114 passed")
    tree.add("kernel", "sid", "7.2", "build=failed")
    assert [line[3:5] for line in tree.lines()] == [["build", "failed"]]


def test_other_rows_stay_where_they_are(tree: Tree) -> None:
    tree.add("arm64", "bookworm", "6.12", "build=ok")
    tree.add("kernel", "trixie", "6.12", "build=ok")
    tree.add("kernel", "sid", "7.2", "build=ok")
    tree.add("rdma-core", "sid", "65.0", "build=ok")
    tree.add("userspace", "sid", "7.2, fio 3.4", "build=ok")
    tree.add("kernel", "trixie", "6.13", "build=ok")
    assert [line[:3] for line in tree.lines()] == [
        ["kernel", "trixie", "6.13"], ["kernel", "sid", "7.2"], ["userspace", "sid", "7.2, fio 3.4"],
        ["rdma-core", "sid", "65.0"], ["arm64", "bookworm", "6.12"]]


def test_a_failure_that_was_a_success(tree: Tree) -> None:
    tree.add("kernel", "sid", "7.2", "build=ok", "10-link=114 passed", day="2026-11-23")
    assert tree.add("kernel", "sid", "7.3", "build=ok", "10-link=113 passed, 1 failed, exit code 1").splitlines() == [
        "new: kernel sid 7.3, after 7.2",
        "broke: kernel sid 7.3: 10-link: 113 passed, 1 failed, exit code 1 (114 passed, with 7.2 on 2026-11-23)"]


@pytest.mark.parametrize("result", ["failed", "warnings", "1 of 11 failed", "11 passed, 0 failed, exit code 124"])
def test_what_fails_the_first_time_broke(tree: Tree, result: str) -> None:
    assert tree.add("rdma-core", "sid", "65.0", f"build={result}").splitlines()[1:] == [
        f"broke: rdma-core sid 65.0: build: {result} (not tried before)"]


def test_a_failure_that_stays(tree: Tree) -> None:
    tree.add("kernel", "sid", "7.2", "build=failed", day="2026-11-23")
    assert tree.add("kernel", "sid", "7.2", "build=warnings") == (
        "still fails: kernel sid 7.2: build: warnings (failed, with 7.2 on 2026-11-23)\n")


def test_a_success_that_was_a_failure(tree: Tree) -> None:
    tree.add("kernel", "sid", "7.2", "build=failed", day="2026-11-23")
    assert tree.add("kernel", "sid", "7.3", "build=ok").splitlines()[1:] == [
        "mended: kernel sid 7.3: build: ok (failed, with 7.2 on 2026-11-23)"]


@pytest.mark.parametrize("results, why", [
    (["7.3", "build=ok", "10-link=114 passed", "20-rdmacm=37 passed"], None),
    (["7.3", "build=ok (layout_65.h)", "10-link=passed (by hand)", "20-rdmacm=37 passed (by hand)"], None),
    (["7.3", "build=ok", "10-link=passed in part", "20-rdmacm=37 passed"], "passed in part last time: 10-link"),
    (["7.3", "build=ok", "10-link=passed in part (by hand)"], "passed in part last time: 10-link"),
    (["7.2", "build=ok", "10-link=114 passed", "20-rdmacm=37 passed"], "7.2 was tried last"),
    (["7.3", "build=failed"], "failed last time: build"),
    (["7.3", "build=ok", "10-link=3 passed, 1 failed", "20-rdmacm=0 failed"], "failed last time: 10-link, 20-rdmacm"),
    (["7.3", "build=ok", "20-rdmacm=37 passed"], "not tried before: 10-link"),
    ([], "not tried before"),
])
def test_what_to_try(tree: Tree, results: list[str], why: str | None) -> None:
    tree.add("kernel", "trixie", "7.3", "build=ok")
    tree.add("rdma-core", "sid", "7.3", "build=ok", "10-link=114 passed", "20-rdmacm=37 passed")
    if results:
        tree.add("kernel", "sid", *results)
    assert tree.run("todo", says=f"kernel\tsid\t7.3\t{PARTS}\n") == (f"kernel\tsid\t7.3\t{why}\n" if why else "")


def test_what_passes_in_part_has_neither_failed_nor_passed(tree: Tree) -> None:
    tree.add("arm64", "bookworm", "6.12", "build=ok", "unit=9 passed", day="2026-11-23")
    assert tree.add("arm64", "bookworm", "6.12", "unit=passed in part") == (
        "in part: arm64 bookworm 6.12: unit: passed in part (9 passed, with 6.12 on 2026-11-23)\n")
    assert tree.add("arm64", "bookworm", "6.12", "unit=9 passed") == ""
    tree.add("arm64", "bookworm", "6.12", "unit=passed in part")
    assert tree.add("arm64", "bookworm", "6.12", "unit=1 of 9 failed").startswith("broke: ")


def git(tree: Tree, *words: str) -> str:
    return subprocess.run(["git", "-C", tree.top, "-c", "user.name=a", "-c", "user.email=a@b", *words],
                          stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def commit(tree: Tree, file: str, text: str) -> str:
    """The revision in which the file has that text."""
    (tree.top / file).parent.mkdir(parents=True, exist_ok=True)
    (tree.top / file).write_text(text)
    git(tree, "add", file)
    git(tree, "commit", "-q", "-m", text)
    return git(tree, "rev-parse", "--short", "HEAD")


@pytest.fixture
def sources(tree: Tree) -> Tree:
    git(tree, "init", "-q")
    commit(tree, "kernel/main.c", "module")
    commit(tree, "userspace-provider/qp.cc", "provider")
    return tree


def test_results_have_the_revision_that_was_tried(sources: Tree) -> None:
    revision = commit(sources, "README", "a page")
    sources.add("kernel", "sid", "7.2", "build=ok", day="2026-11-23")
    assert sources.lines()[0][6] == revision
    (sources.top / "kernel/main.c").write_text("changed")
    sources.add("kernel", "sid", "7.2", "10-link=114 passed")
    sources.add("rdma-core", "sid", "65.0", "build=ok")
    assert [line[6] for line in sources.lines()] == [revision, f"{revision}+", revision]
    assert sources.run("table", says="kernel\tsid\n").splitlines()[2] == (
        f"| kernel | sid  | 7.2     | ok (2026-11-23, {revision}) | 10-link: 114 passed | 2026-11-25 | {revision}+ |")


OFFERS = """\
kernel\tsid\t7.2\tbuild
userspace\tsid\t7.2, fio 3.4\tbuild
rdma-core\tsid\t65.0\tbuild
arm64\tbookworm\t6.12\tbuild
"""


def test_what_has_changed_is_tried_again(sources: Tree) -> None:
    first = git(sources, "rev-parse", "--short", "HEAD")
    sources.add("kernel", "sid", "7.2", "build=ok")
    sources.add("userspace", "sid", "7.2, fio 3.4", "build=ok")
    sources.add("rdma-core", "sid", "65.0", "build=ok")
    sources.add("arm64", "bookworm", "6.12", "build=ok")
    commit(sources, "README", "a page")
    assert sources.run("todo", says=OFFERS) == ""
    commit(sources, "kernel/main.c", "a better module")
    assert sources.run("todo", says=OFFERS) == (
        f"kernel\tsid\t7.2\tthe sources have changed since {first}\n"
        f"userspace\tsid\t7.2, fio 3.4\tthe sources have changed since {first}\n"
        f"arm64\tbookworm\t6.12\tthe sources have changed since {first}\n")
    sources.add("kernel", "sid", "7.2", "build=ok")
    sources.add("arm64", "bookworm", "6.12", "build=ok")
    sources.add("userspace", "sid", "7.2, fio 3.4", "build=ok")
    second = commit(sources, "userspace-provider/qp.cc", "a better provider")
    assert [line.split("\t")[0] for line in sources.run("todo", says=OFFERS).splitlines()] == [
        "userspace", "rdma-core", "arm64"]
    # The same sources in another revision are the same.
    commit(sources, "userspace-provider/qp.cc", "provider")
    sources.add("arm64", "bookworm", "6.12", "build=ok")
    sources.add("userspace", "sid", "7.2, fio 3.4", "build=ok")
    assert sources.run("todo", says=OFFERS) == ""
    assert second not in sources.record.read_text()


def test_what_was_tried_with_unknown_sources_is_tried_again(sources: Tree) -> None:
    (sources.top / "kernel/main.c").write_text("changed")
    sources.add("kernel", "sid", "7.2", "build=ok")
    assert sources.run("todo", says=OFFERS.splitlines()[0] + "\n") == ""
    git(sources, "checkout", "-q", "kernel/main.c")
    assert "the sources have changed since" in sources.run("todo", says=OFFERS.splitlines()[0] + "\n")
    # As lines were before revisions were kept.
    sources.record.write_text("kernel\tsid\t7.2\tbuild\tok\t2026-11-23\n")
    assert sources.run("todo", says=OFFERS.splitlines()[0] + "\n") == (
        "kernel\tsid\t7.2\tit is not known with which sources it was tried\n")


def test_nothing_on_offer_is_nothing_to_try(tree: Tree) -> None:
    tree.add("kernel", "sid", "7.2", "build=failed")
    assert tree.run("todo") == ""


def test_a_table_of_some_rows(tree: Tree) -> None:
    tree.add("kernel", "trixie", "6.12", "build=ok")
    tree.add("kernel", "sid", "7.2", "build=ok", "10-link=114 passed", day="2026-11-23")
    tree.add("kernel", "sid", "7.2", "build=ok", "20-rdmacm=37 passed")
    assert tree.run("table", says="kernel\tnever\tnot found\nkernel\tsid\nkernel\tsid\n") == """\
| what   | from  | version   | build | tests                                                  | day        | revision |
| ---    | ---   | ---       | ---   | ---                                                    | ---        | ---      |
| kernel | never | not found |       |                                                        |            |          |
| kernel | sid   | 7.2       | ok    | 10-link: 114 passed (2026-11-23), 20-rdmacm: 37 passed | 2026-11-25 | -        |
"""


def test_the_page_has_all_rows_between_its_marks(tree: Tree) -> None:
    tree.add("arm64", "bookworm", "6.12", "build=ok", "unit=9 passed")
    tree.add("kernel", "sid", "7.2", "build=failed", day="2026-11-23")
    tree.add("kernel", "trixie", "6.12", "build=ok", "20-rdmacm=37 passed")
    tree.add("kernel", "trixie", "6.12", "10-link=187 passed, 1 failed, exit code 1", day="2026-11-26")
    tree.run("document")
    assert tree.page.read_text() == """\
# A page

<!-- matrix -->
| kernel | sid | trixie |
| --- | --- | --- |
| version | 7.2 | 6.12 |
| build | failed | ok (2026-11-25) |
| 10-link |  | 187 passed, 1 failed, exit code 1 |
| 20-rdmacm |  | 37 (2026-11-25) |
| day | 2026-11-23 | 2026-11-26 |
| revision | - | - |

| arm64 | bookworm |
| --- | --- |
| version | 6.12 |
| build | ok |
| unit | 9 |
| day | 2026-11-25 |
| revision | - |
<!-- end -->

and more
"""


def test_the_page_has_one_line_for_libraries_of_which_the_same_came_out(tree: Tree) -> None:
    for suite, version, load in (("37", "37.15", 3), ("installed", "44.0", 3), ("36", "36.16", 3), ("45", "45.11", 2)):
        tree.add("rdma-core", suite, version, "build=ok", f"load={load} passed", day=f"2026-11-{version[-1]}")
    tree.run("document")
    assert tree.page.read_text().split("<!--")[1] == """ matrix -->
| rdma-core | build | load | days | revisions |
| --- | --- | --- | --- | --- |
| 36.16, 37.15, 44.0 (installed) | ok | 3 | 2026-11-0, 2026-11-5, 2026-11-6 | - |
| 45.11 | ok | 2 | 2026-11-1 | - |
"""


def test_a_page_without_marks_is_left_alone(tree: Tree) -> None:
    tree.add("kernel", "sid", "7.2", "build=ok")
    tree.page.write_text("no marks\n")
    with pytest.raises(SystemExit, match="no place for the table"):
        tree.run("document")
    assert tree.page.read_text() == "no marks\n"


def test_the_page_of_this_tree_has_what_is_recorded(tree: Tree) -> None:
    page = TOP / "Documentation/compatibility.md"
    tree.page.write_text(page.read_text())
    tree.record.write_text((TOP / "Documentation/compatibility.tsv").read_text())
    tree.run("document")
    assert tree.page.read_text() == page.read_text(), "scripts/matrix --document"


# In the place of a part of scripts/matrix: what it offers, and what comes out of what is tried.
PART = """#!/bin/bash
. "$(dirname "$0")/../lib.sh"
. "$top/scripts/matrix.d/rows.sh"
if [ "$1" = --offer ]; then
    [ -z "$OFFERS" ] || offer "$KIND" sid 65.0 build load
    [ -n "$OFFERS" ]
    exit
fi
[ -z "$STOPS" ] || exit 1
add_row "$KIND" "$1" 65.0 build=ok "load=$LOAD"
print_table
[ "$LOAD" = "3 passed" ]
"""


@pytest.fixture
def weekly(tree: Tree) -> Iterator[Callable[..., tuple[int, list[str]]]]:
    """Runs scripts/matrix --weekly; returns its exit code and what it printed, but for the table."""
    scripts = tree.top / "scripts"
    (scripts / "matrix.d").mkdir(parents=True)
    for name in ("matrix", "lib.sh", "debian.sh", "matrix.d/rows.sh", "matrix.d/record"):
        shutil.copy(TOP / "scripts" / name, scripts / name)
    for name in ("providers", "userspace"):
        part = scripts / "matrix.d" / name
        part.write_text(PART)
        part.chmod(0o755)

    def run(offers: str = "yes", load: str = "3 passed", stops: str = "",
            kind: str = "rdma-core") -> tuple[int, list[str]]:
        done = subprocess.run([scripts / "matrix", "--weekly", kind], stdout=subprocess.PIPE, text=True, check=False,
                              env={**os.environ, "OFFERS": offers, "LOAD": load, "STOPS": stops, "KIND": kind})
        lines = done.stdout.splitlines()
        assert sum(line.startswith("| ---") for line in lines) == any(line.startswith("to try") for line in lines)
        return done.returncode, [line for line in lines if not line.startswith("|")]
    yield run


def test_a_week_without_anything_new(tree: Tree, weekly: Callable[..., tuple[int, list[str]]]) -> None:
    tree.add("rdma-core", "sid", "65.0", "build=ok", "load=3 passed")
    assert weekly(stops="yes") == (0, ["nothing new"])


def test_a_week_with_something_new(tree: Tree, weekly: Callable[..., tuple[int, list[str]]]) -> None:
    tree.add("rdma-core", "sid", "64.0", "build=ok", "load=3 passed")
    assert weekly() == (0, ["to try: rdma-core sid 65.0 (64.0 was tried last)",
                            "new: rdma-core sid 65.0, after 64.0", "nothing broke"])
    assert weekly() == (0, ["nothing new"])


def test_a_week_with_another_user_space(tree: Tree, weekly: Callable[..., tuple[int, list[str]]]) -> None:
    assert weekly(kind="userspace") == (0, ["to try: userspace sid 65.0 (not tried before)",
                                            "new: userspace sid 65.0", "nothing broke"])
    assert weekly(kind="userspace") == (0, ["nothing new"])


def test_a_week_in_which_something_broke(tree: Tree, weekly: Callable[..., tuple[int, list[str]]]) -> None:
    tree.add("rdma-core", "sid", "64.0", "build=ok", "load=3 passed")
    code, lines = weekly(load="1 of 3 failed")
    assert code == 1
    assert lines[2].startswith("broke: rdma-core sid 65.0: load: 1 of 3 failed (3 passed, with 64.0 on ")
    # It is tried again, and has broken before.
    code, lines = weekly(load="1 of 3 failed")
    assert code == 0
    assert lines[-1] == "nothing new broke, 1 still fails"
    assert lines[0] == "to try: rdma-core sid 65.0 (failed last time: load)"
    assert lines[1].startswith("still fails: rdma-core sid 65.0: load: 1 of 3 failed (1 of 3 failed, with 65.0 on ")


def test_a_week_that_could_not_look(weekly: Callable[..., tuple[int, list[str]]]) -> None:
    assert weekly(offers="") == (1, [])


def test_a_week_in_which_a_part_stopped(weekly: Callable[..., tuple[int, list[str]]]) -> None:
    assert weekly(stops="yes") == (1, ["to try: rdma-core sid 65.0 (not tried before)",
                                       "not tried: rdma-core\tsid\t65.0\tnot tried before"])
