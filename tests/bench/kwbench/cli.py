# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""What scripts/bench does: choose, build, measure, show, keep, judge."""

from __future__ import annotations

import argparse
import platform
import subprocess
import threading
import time
from pathlib import Path
from typing import Callable

from . import contention, native, native_report, natively, profile, report
from .machine import (TOP, CostBench, Failed, Runner, build_here,
                      build_revision, output_of, say)
from .plan import SMOKE_FACTOR, Job, jobs, kind_of, select, shared, usual_variants
from .results import TOLERANCE, Result, Results, differences, failures
from .rows import ROWS, Row

BUILD = TOP / "build"
OUT = BUILD / "bench"


def parse(arguments: list[str], about: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=about,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--quick", action="store_true", help="the rows for every day, MTU 1500, cost bench")
    add("--smoke", action="store_true", help="one row of each kind, a few messages: that it works; prints TAP")
    add("--only", default="*", metavar="PATTERN", help="rows that match, of several, with commas")
    add("--mtu", default="", metavar="N[,N]", help="of 1500, 9000, 65536")
    add("--variant", default="", metavar="NAME[,NAME]", help="these columns only; with other settings as "
        "kiwarp:crc=0:zcopy_min=65536")
    add("--bench", default="", choices=["cost", "native"], help="[both; with --quick or --compare: cost]")
    add("--native", action="store_true", help="as --bench native: the rows for every day beside all others, "
        "or with --compare beside other trees")
    add("--newest", action="store_true", help="native speed in the newest kernel of Debian sid, whose system "
        "calls cost less")
    add("--basics", action="store_true", help="what a system call, a context switch and a timer take in the "
        "kernels of the native bench and in this machine's")
    add("--cpus", type=int, default=1, metavar="N", help="of it [1]")
    add("--minutes", type=float, default=natively.MINUTES, metavar="N", help="that the native bench takes at most, "
        "for each MTU [%(default)s]")
    add("--rounds", type=int, default=0, metavar="N", help="of the native bench [as many as its ratios take]")
    add("--compare", default="", metavar="REV", help="this tree beside another revision of it: "
        f"a row of the quick subset that is worse by more than {TOLERANCE * 100:.0f} %% is a failure; with --native "
        "also several, with commas, or the folders of work trees")
    add("--profile", default="", metavar="PATTERN", help="where the instructions of rows go, or of the "
        "quick subset (all); --variant, --mtu; with --document, as the page of profiles; with --native where "
        "the CPU time goes")
    add("--contention", default="", metavar="N[,N]", nargs="?", const="2,4",
        help="which locks connections wait for, with so many CPUs [2,4]")
    add("--resume", action="store_true", help="measure what an earlier run of this revision, which "
        "was ended, left out")
    add("--list", action="store_true", help="the rows")
    add("--report", default="", metavar="JSON", help="the report of an earlier run again")
    add("--document", nargs="?", const="-", default="", metavar="JSON",
        help="its tables into Documentation/performance")
    args = parser.parse_args(arguments)
    if args.native and args.profile and args.document:
        parser.error("the page of profiles is of instructions")
    if args.document == "-" and not args.profile:
        parser.error("--document wants the JSON of a run, or --profile")
    return args


class Progress:
    """A line for each measurement, as it ends; and now and then all of them on the disk."""

    SAVE_EVERY = 20

    def __init__(self, total: int, save: Callable[[], None]) -> None:
        self.total, self.save = total, save
        self.begun = self.saved = time.monotonic()
        self.last: dict[str, float] = {}

    def show(self, done: int, job: Job, result: Result, value: float | None) -> None:
        now = time.monotonic()
        # Of those that run side by side the time since that thread's last.
        lane = threading.current_thread().name
        took = now - self.last.get(lane, max(self.last.values(), default=self.begun))
        result.seconds += round(took, 1)
        self.last[lane] = now
        figure = result.missing if value is None else f"{report.number(value)} {job.row.unit}"
        say(f"[{done:3}/{self.total} {now - self.begun:5.0f} s] {job.bench} {job.mtu:5} "
            f"{job.row.name:24} {job.variant:13} {figure} ({took:.1f} s)")
        if now - self.saved > self.SAVE_EVERY:
            self.saved = now
            self.save()


def measure(bench: CostBench, todo: list[Job], results: Results, extra: dict, out: Path,
            save: Callable[[], None] = lambda: None) -> bool:
    """Adds to results; False if a machine had something to complain of."""
    say(f"{bench.name} bench: {len(todo)} measurements")
    runner = Runner(bench, out / bench.name, extra, lanes=bench.lanes,
                    known=[r for r in results.results if r.bench == bench.name])
    others = [r for r in results.results if r.bench != bench.name]

    def so_far() -> None:
        results.results = [*others, *runner.results.values()]
        save()

    try:
        runner.run(shared(todo), Progress(len(todo), so_far).show)
    finally:
        so_far()
    for complaint in runner.complaints:
        say(complaint)
    return not runner.complaints


def revision() -> str:
    changed = output_of(["git", "status", "--porcelain", "--untracked-files=no"])
    return output_of(["git", "rev-parse", "--short=12", "HEAD"]) + (" and changes" if changed else "")


def meta(kind: str, measured: str, begun: float) -> dict[str, object]:
    cpu = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), platform.machine())
    return {"run": kind, "revision": measured, "date": time.strftime("%Y-%m-%d"),
            "kernel": output_of(["bash", "-c", ". scripts/lib.sh; guest_kernel"]), "host": cpu,
            "duration": f"{time.time() - begun:.0f} s"}


def tap(results: Results, measured: native.Measured) -> str:
    """A fact for each measurement: it gave a figure. What the figure is, is not judged."""
    facts = [(f"{r.row}, {r.variant}", r.value is not None and r.value > 0 and not r.missing, r.missing)
             for r in results.results]
    facts += [(f"native: {s.row}, {s.column}", bool(s.cpu) and not s.missing, s.missing) for s in measured.series]
    lines = [f"{'ok' if good else 'not ok'} {n} - {what}" + (f": {why}" if why else "")
             for n, (what, good, why) in enumerate(facts, 1)]
    return "\n".join(lines + [f"1..{len(lines)}"])


def save(results: Results, name: str) -> None:
    """All at once, or a run that is ended meanwhile takes the one before with it."""
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / f"{name}.json.new").write_text(results.dump())
    (OUT / f"{name}.json.new").replace(OUT / f"{name}.json")


def keep(results: Results, name: str, text: str) -> None:
    save(results, name)
    (OUT / f"{name}.md").write_text(text)
    (OUT / f"{name}.html").write_text(report.html(results, text))
    if name != "smoke":
        print(text)
    say(f"{OUT}/{name}.html, .md and .json")


def compare(args: argparse.Namespace) -> int:
    begun, measured = time.time(), revision()
    head = build_here(BUILD)
    base, commit = build_revision(args.compare)
    rows = select(args.only, True, False)
    results = Results()

    def measured_well(rows: list[Row], rounds: int) -> bool:
        todo = jobs(rows, "cost", [1500], lambda row: ("base", "head"), rounds)
        return measure(CostBench(BUILD), todo, results, {"base": base, "head": head}, OUT / "compare")

    well = measured_well(rows, 1)
    # perftest's figures are of some tens of milliseconds, and the clock ticks every four: what seems
    # worse is measured twice more, and medians are compared. No figure is a failure at once.
    doubtful = [d.row for d in differences(results) if d.regressed and d.times is not None]
    if doubtful:
        say(f"again, twice: {', '.join(row.name for row in doubtful)}")
        well = measured_well(doubtful, 2) and well
    results.meta = {**meta("compare", measured, begun), "base": commit[:12]}
    keep(results, "compare", report.comparison(results))
    worse = [d for d in differences(results) if d.regressed]
    for d in worse:
        say(f"worse by more than {TOLERANCE:.0%}: {d.row.name} "
            f"({report.number(d.base)} -> {report.number(d.head)} {d.row.unit})")
    return 0 if well and not worse else 1


def resumed(kind: str, measured: str) -> Results:
    """What a run of this revision has measured already."""
    path = OUT / f"{kind}.json"
    if not path.exists():
        return Results()
    results = Results.load(path.read_text())
    if results.meta["revision"] != measured or measured.endswith("changes"):
        raise Failed(f"{path} is of {results.meta['revision']}, and this tree {measured}: no --resume")
    return results


def run_natively(args: argparse.Namespace) -> int:
    measured_tree = revision()

    def meta_of(begun: float, kernel: str) -> dict[str, object]:
        return {**meta("native", measured_tree, begun), "kernel": kernel}

    def keep_native(measured: native.Measured, name: str) -> None:
        text = native_report.markdown(measured)
        OUT.mkdir(parents=True, exist_ok=True)
        (OUT / f"{name}.json").write_text(measured.dump())
        (OUT / f"{name}.md").write_text(text)
        if not args.smoke:
            print(text)
        say(f"{OUT}/{name}.md and .json")

    return natively.run(args, BUILD, meta_of, keep_native)


def smoke(args: argparse.Namespace) -> int:
    status = max(run(args), run_natively(args))
    print(tap(Results.load((OUT / "smoke.json").read_text()),
              native.Measured.load((OUT / "smoke-native.json").read_text())))
    return status


def run(args: argparse.Namespace) -> int:
    begun, measured = time.time(), revision()
    kind = "smoke" if args.smoke else "quick" if args.quick else "full"
    small = args.smoke or args.quick
    rows = select(args.only, args.quick, args.smoke)
    wanted = args.variant.split(",") if args.variant else None
    usual = usual_variants(args.quick, args.smoke)

    def variants(row):
        if wanted is None:
            return usual(row)
        return [v for v in wanted if kind_of(v) in (*row.variants, *row.asked)]

    mtus = [int(m) for m in args.mtu.split(",")] if args.mtu else [1500] if small else [1500, 9000, 65536]
    build_here(BUILD)
    results = resumed(kind, measured) if args.resume else Results()
    well = True
    begun -= float(str(results.meta.get("duration", "0")).split()[0])

    def save_so_far() -> None:
        results.meta = meta(kind, measured, begun)
        save(results, kind)

    todo = [job for job in jobs(rows, "cost", mtus, variants, 1, SMOKE_FACTOR if args.smoke else 1.0)
            if job.round >= results.samples("cost", job.row.name, job.mtu, job.variant)]
    if todo:
        well = measure(CostBench(BUILD), todo, results, {}, OUT / kind, save_so_far)
    if not results.results:
        raise Failed("no row matches (--list shows them)")
    results.meta = meta(kind, measured, begun)
    keep(results, kind, report.markdown(results))
    for r in failures(results):
        say(f"not measured: {r.bench} {r.row}, MTU {r.mtu}, {r.variant}: {r.missing}")
    return 0 if well and not failures(results) else 1


def show_rows() -> None:
    for row in ROWS:
        marks = " ".join(m for m in ("quick", "smoke", "native") if getattr(row, m))
        print(f"{row.name:26} {row.title}, {row.unit}" + (f"  [{marks}]" if marks else ""))


def document(path: str) -> int:
    """The tables of a page from a run's JSON."""
    to = TOP / "Documentation" / "performance"
    to.mkdir(exist_ok=True)
    if native.is_native(Path(path).read_text()):
        measured = native.Measured.load(Path(path).read_text())
        (to / "native.md").write_text("# Measured natively\n\nWritten by `scripts/bench --document`; see "
                                      "[performance](../performance.md#native-speed) for what it means.\n\n"
                                      + native_report.markdown(measured))
        return 0
    results = Results.load(Path(path).read_text())
    for old in to.glob("plot-*.svg"):
        old.unlink()
    links = []
    for i, plot in enumerate(report.plots(results), 1):
        (to / f"plot-{i}.svg").write_text(plot)
        links.append(f"![{report.title(plot)}](plot-{i}.svg)\n")
    (to / "tables.md").write_text("# Measured\n\nWritten by `scripts/bench --document`; see "
                                  "[performance](../performance.md) for what it means.\n\n"
                                  + report.markdown(results) + "\n## Plots\n\n" + "\n".join(links))
    return 0


def profiles(args: argparse.Namespace) -> int:
    begun, measured = time.time(), revision()
    rows = select("*", True, False) if args.profile == "all" else select(args.profile, False, False)
    columns, mtu = (args.variant or "kiwarp").split(","), int(args.mtu or 1500)
    rows = natively.at_mtu(rows, mtu)
    if args.native:
        found = natively.profiles([r for r in rows if r.native], columns, mtu, args, BUILD)
    else:
        build_here(BUILD)
        found = profile.measure(rows, columns, mtu, BUILD)
    text = profile.text(found)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "profile.md").write_text(text)
    print(text)
    say(f"{OUT}/profile.md, after {time.time() - begun:.0f} s")
    if args.document:
        head = ("# Profiles\n\nWhere the instructions go, both ends together. Written by "
                "`scripts/bench --profile all --document`; see [performance](../performance.md#profiles) "
                f"for how. Revision {measured}, {time.strftime('%Y-%m-%d')}.\n\n")
        (TOP / "Documentation" / "performance" / "profiles.md").write_text(head + text)
    return 0


def main(arguments: list[str], about: str) -> int:
    args = parse(arguments, about)
    try:
        if args.list:
            show_rows()
            return 0
        if args.document and not args.profile:
            return document(args.document)
        if args.report and native.is_native(Path(args.report).read_text()):
            print(native_report.markdown(native.Measured.load(Path(args.report).read_text())))
            return 0
        if args.report:
            results = Results.load(Path(args.report).read_text())
            keep(results, Path(args.report).stem, report.markdown(results))
            return 0
        subprocess.run([TOP / "scripts" / "setup"], check=True)
        if args.contention:
            return contention.run([int(n) for n in args.contention.split(",")], args.compare, BUILD)
        if args.profile:
            return profiles(args)
        if args.basics:
            print(natively.basics(BUILD))
            return 0
        if args.smoke:
            return smoke(args)
        if args.native or args.bench == "native":
            return run_natively(args)
        if args.compare:
            return compare(args)
        if args.bench or args.quick:
            return run(args)
        return max(run(args), run_natively(args))
    except Failed as failed:
        say(f"bench: {failed}")
        return 2
    except KeyboardInterrupt:
        return 130
