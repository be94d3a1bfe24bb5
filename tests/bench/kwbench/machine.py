# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Builds what is measured, and boots the machines in which it is: the cost bench and native speed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable, Iterable, Iterator

from .plan import Build, Job, script, variant_of, wants_cards
from .results import Result

TOP = Path(__file__).resolve().parents[3]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kiwarp"


class Failed(Exception):
    """What ends a run; its text is for the user."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def output_of(command: list[str | Path], cwd: Path = TOP) -> str:
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))} failed")
    return done.stdout.strip()


def make(top: Path, log: Path, *arguments: str) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as out:
        done = subprocess.run(["make", "-C", top, "FOR_GUESTS=1", *arguments], stdout=out, stderr=out, check=False)
    if done.returncode:
        say("".join(log.read_text(errors="replace").splitlines(True)[-30:]))
        raise Failed(f"the build failed: {log}")


def build_here(build: Path, target: str = "bench") -> Build:
    make(TOP, build / "bench" / "make.log", target)
    return Build(str(build / "kiwarp.ko"), str(build / "libkiwarp"))


def build_revision(revision: str, uml: Path | None = None) -> tuple[Build, str]:
    """Module and provider of another revision, built once, outside the tree."""
    commit = output_of(["git", "rev-parse", "--verify", f"{revision}^{{commit}}"])
    kernel = uml.name if uml else output_of(["bash", "-c", ". scripts/lib.sh; guest_kernel"])
    kept = CACHE / f"rev-{commit[:16]}-{kernel}"
    if not (kept / "kiwarp.ko").exists():
        say(f"Building {revision} ({commit[:12]})")
        tree = CACHE / f"{kept.name}.{os.getpid()}"
        try:
            output_of(["git", "worktree", "add", "-q", "--detach", tree, commit])
            build_tree(tree, tree / "build", CACHE / f"{kept.name}.log", uml)
            kept.mkdir(parents=True, exist_ok=True)
            shutil.copy(tree / "build" / "libkiwarp-rdmav34.so", kept)
            shutil.copy(tree / "build" / "kiwarp.ko", kept)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=TOP, check=False)
    return Build(str(kept / "kiwarp.ko"), str(kept / "libkiwarp")), commit


def build_tree(tree: Path, build: Path, log: Path, uml: Path | None = None) -> Build:
    """Module and provider of a source tree, for a User-Mode Linux or for the guests' kernel."""
    kernel = [f"KDIR={uml}", "ARCH=um"] if uml else []
    make(tree, log, "module", f"BUILD={build}", *kernel)
    make(tree, log, "provider", f"BUILD={build}")
    return Build(str(build / "kiwarp.ko"), str(build / "libkiwarp"))


class CostBench:
    """A guest whose one CPU's clock counts instructions."""

    name = "cost"
    # Its clock does not notice what else this machine does.
    lanes = os.cpu_count() or 1

    def __init__(self, build: Path) -> None:
        self.build = build

    def builds(self, names: Iterable[str], extra: dict[str, Build]) -> dict[str, Build]:
        found = dict(extra)
        for name in names:
            variant = variant_of(name)
            if variant.siw is not None:
                found[name] = Build(output_of([TOP / "scripts" / "siw", *variant.siw.split()]))
            elif variant.type and name not in found:
                found[name] = Build(str(self.build / "kiwarp.ko"), str(self.build / "libkiwarp"))
        return found

    def command(self, out: Path, memory: int, cards: bool = False) -> list[str]:
        # The clock of a guest that waits for a file of the host's goes on to the next timer: on a machine
        # whose disk is busy a program has taken 72 s of it until it ran.
        return [str(TOP / "scripts" / "guest"), "--quiet", "--icount", "--timeout", "7200",
                "--env", "BENCH_TIME_LIMIT=600",
                *(("--wire", "e1000e") if cards else ()), "--mem", str(memory), "--out", str(out),
                str(TOP / "tests/bench/guest.sh")]


class NativeBench:
    """User-Mode Linux: a kernel that is a process, at the speed of this machine."""

    def __init__(self, build: Path, newest: bool = False, cpus: int = 1, checkers: bool = False) -> None:
        """With checkers, it is the one that other tests have: what it measures says nothing."""
        self.options: list[str] = []
        configs: list[str | Path] = [] if checkers else ["--measure", TOP / "tests/bench/uml.config"]
        if newest:
            configs.append(TOP / "tests/bench/uml-newest.config")
            self.options = ["seccomp=on", f"ncpus={cpus}"]
        self.uml = Path(output_of([TOP / "scripts/uml", *["--newest"] * newest, *configs]))
        self.build = build / self.uml.name

    @property
    def release(self) -> str:
        return (self.uml / "include/config/kernel.release").read_text().strip()

    def builds(self, names: Iterable[str], extra: dict[str, Build]) -> dict[str, Build]:
        found: dict[str, Build] = dict(extra)
        self.build.mkdir(parents=True, exist_ok=True)
        for name in names:
            variant = variant_of(name)
            if variant.siw is not None:
                found[name] = Build(output_of([TOP / "scripts/siw", *variant.siw.split(),
                                               "--uml", self.uml]))
            elif variant.type == "rxe":
                found[name] = Build(str(next((self.uml / "root").rglob("rdma_rxe.ko"))))
            elif variant.type and name not in found:
                make(TOP, self.build / "make.log", "module", f"KDIR={self.uml}", "ARCH=um",
                     f"BUILD={self.build}")
                found[name] = Build(str(self.build / "kiwarp.ko"), str(TOP / "build/libkiwarp"))
        return found

    def command(self, out: Path, memory: int) -> list[str]:
        return [str(self.uml / "linux"), f"mem={memory}M", *self.options,
                "rootfstype=hostfs", "rootflags=/", "ro", f"init={TOP}/tests/bench/uml-init",
                "con=null", "con0=null,fd:1", "loglevel=5", "panic=-1", "null_blk.gb=1",
                "null_blk.irqmode=0", f"BENCH_TOP={TOP}", f"BENCH_UML={self.uml}", f"BENCH_OUT={out}"]


def follow(process: subprocess.Popen[bytes], path: Path) -> Iterator[str]:
    """The lines of a file that a process writes, until it has ended."""
    at, rest = 0, ""
    while True:
        ended = process.poll() is not None
        if path.exists():
            with path.open(errors="replace") as file:
                file.seek(at)
                rest += file.read()
                at = file.tell()
        *whole, rest = rest.split("\n")
        yield from whole
        if ended:
            return
        time.sleep(0.2)


def why(text: str) -> str:
    """The last thing a failed measurement said, in one line."""
    said = [line.strip("# \t") for line in text.splitlines() if line.strip("# \t")]
    telling = [line for line in said if "failed" in line or "rror" in line or "not ok" in line]
    return (telling or said or ["it said nothing"])[-1][:160]


Show = Callable[[int, Job, Result, float | None], None]
Todo = list[tuple[int, Job]]


def share(todo: Todo, lanes: int) -> list[Todo]:
    """Cut into so many parts, or fewer, that take about as long; what one device does stays together."""
    blocks: dict[tuple[object, ...], Todo] = {}
    for index, job in todo:
        blocks.setdefault((job.mtu, job.row.storage, job.variant, job.round), []).append((index, job))
    parts: list[Todo] = [[] for _ in range(lanes)]
    for block in sorted(blocks.values(), key=len, reverse=True):
        min(parts, key=len).extend(block)
    return [sorted(part, key=lambda each: each[0]) for part in parts if part]


class Runner:
    """Does jobs in as many boots as it takes, and keeps their results with those there are already."""

    def __init__(self, bench: CostBench, out: Path, extra: dict[str, Build], prologue: str = "",
                 lanes: int = 1, known: Iterable[Result] = ()) -> None:
        self.bench, self.out, self.extra, self.prologue = bench, out, extra, prologue
        self.lanes = lanes
        self.results = {(r.row, r.mtu, r.variant): r for r in known}
        self.complaints: list[str] = []
        self.done = 0
        self.lock = threading.Lock()
        self.show: Show = lambda *_: None

    def run(self, jobs: list[Job], show: Show) -> list[Result]:
        builds = self.bench.builds(dict.fromkeys(job.variant for job in jobs), self.extra)
        self.show = show
        for job in (each for run in jobs for each in run.each):
            self.results.setdefault((job.row.name, job.mtu, job.variant),
                                    Result(self.bench.name, job.row.name, job.mtu, job.variant)).missing = ""
        # What fits a small machine is to be shown in one.
        for memory in sorted({job.row.memory for job in jobs}):
            todo = [(i, job) for i, job in enumerate(jobs) if job.row.memory == memory]
            self._side_by_side(memory, share(todo, self.lanes), builds)
        return list(self.results.values())

    def _side_by_side(self, memory: int, parts: list[Todo], builds: dict[str, Build]) -> None:
        names = [self.out, *(self.out.with_name(f"{self.out.name}-{n}") for n in range(2, self.lanes + 1))]
        lanes = [Lane(self, out) for out, _ in zip(names, parts)]
        with ThreadPoolExecutor(len(lanes)) as pool:
            running = [pool.submit(lane.run, memory, part, builds) for lane, part in zip(lanes, parts)]
            try:
                for each in running:
                    each.result()
            except BaseException:
                for lane in lanes:
                    lane.stop()
                raise

    def complain(self, text: str) -> None:
        with self.lock:
            self.complaints.append(text)

    def missing(self, run: Job, reason: str) -> None:
        """None of a run's figures."""
        with self.lock:
            for job in run.each:
                self._keep(job, None, reason)

    def take(self, run: Job, code: int, text: str) -> None:
        """The figures in what a run printed."""
        with self.lock:
            for job in run.each:
                value = job.tool.value(text) if code == 0 else None
                self._keep(job, value, f"exit code {code}: {why(text)}")

    def _keep(self, job: Job, value: float | None, reason: str) -> None:
        result = self.results[job.row.name, job.mtu, job.variant]
        if value is None:
            result.missing = reason
        else:
            result.samples.append(value)
        self.done += 1
        self.show(self.done, job, result, value)


class Lane:
    """One machine after the other, until a runner's jobs, or its part of them, are done."""

    def __init__(self, runner: Runner, out: Path) -> None:
        self.runner, self.out = runner, out
        self.process: subprocess.Popen[bytes] | None = None
        self.stopped = False
        self.gave_up = False  # the guest ended, and wants another boot for the rest
        self.idle_boots = 0

    def stop(self) -> None:
        self.stopped = True
        if self.process and self.process.poll() is None:
            self.process.terminate()

    def run(self, memory: int, todo: Todo, builds: dict[str, Build]) -> None:
        while todo and not self.stopped:
            left = self._boot(memory, todo, builds)
            if left and not self.gave_up and not self.stopped:
                # What was being done when the machine died is to blame; the rest gets another.
                self.runner.missing(left.pop(0)[1], "the machine died or timed out")
            todo = left

    def _boot(self, memory: int, todo: Todo, builds: dict[str, Build]) -> Todo:
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)
        (self.out / "plan").write_text(self.runner.prologue + script(todo, builds))
        waiting = dict(todo)
        with (self.out / "machine.log").open("wb") as log:
            process = subprocess.Popen(self.runner.bench.command(self.out, memory, wants_cards(todo)),
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            self.process = process
            try:
                finished = self._listen(process, waiting)
            finally:
                if process.poll() is None:
                    process.terminate()
                    process.wait()
        if process.returncode == 126:
            self.runner.complain((self.out / "machine.log").read_text(errors="replace"))
        if finished or not waiting:
            for job in waiting.values():
                self.runner.missing(job, "the guest left it out")
            return []
        self.idle_boots = self.idle_boots + 1 if len(waiting) == len(todo) else 0
        if self.idle_boots == 2 and not self.stopped:
            raise Failed(f"two machines measured nothing: see {self.out}")
        return list(waiting.items())

    def _listen(self, process: subprocess.Popen[bytes], waiting: dict[int, Job]) -> bool:
        finished = self.gave_up = False
        for line in follow(process, self.out / "script.log"):
            words = line.split(maxsplit=3)
            if line == "finished":
                finished = True
            elif line == "gave up":
                self.gave_up = True
            if len(words) < 3 or words[0] not in ("done", "missing"):
                continue
            job = waiting.pop(int(words[1]), None)
            if job is None:
                continue
            if words[0] == "missing":
                self.runner.missing(job, " ".join(words[2:]))
            else:
                self._take(int(words[1]), job, int(words[2]))
        return finished

    def _take(self, index: int, job: Job, code: int) -> None:
        self.runner.take(job, code, (self.out / "run" / f"{index}.out").read_text(errors="replace"))
