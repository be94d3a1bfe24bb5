# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Which locks connections on several CPUs wait for, and for how long.

A guest with two and with four CPUs, connections as pairs of processes over veth. What waits is
seen by perf in the guest: kprobes on the slow paths of spin locks and of the socket lock, the lock
tracepoints for all others, each with its call chain. The kernel is Debian's: a lock_stat kernel
has lockdep in it, whose own lock would be the most contended.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Iterable, Iterator

from .machine import TOP, Failed, build_here, build_revision, say
from .plan import Build

CPUS = (2, 4)
CONNECTIONS = (1, 4, 16)
SIZES = (65536, 64)
SITES = 15

# What a lock is, by the first function of the chain that is not the lock's own.
OWN = re.compile(r"^(native_queued_|queued_|_raw_|__raw_|__pv_|pv_|rwsem_|__?down|down_|mutex_|__mutex_|"
                 r"lock_sock|__lock_sock|do_raw|percpu_|__percpu_|rt_|trace_|perf_trace_|perf_|kprobe_|"
                 r"kretprobe_|ftrace_|arch_rethook|bpf_|ww_|rtnl_lock)")
SOCKET = re.compile(r"^(lock_sock|__lock_sock)")
KINDS = (
    ("Kiwarp", re.compile(r"\[kiwarp\]")),
    ("uverbs", re.compile(r"\[(ib_\w+|rdma_\w+|iw_cm)\]")),
    ("IP, devices", re.compile(r"^(enqueue_to_backlog|process_backlog|netif_|__netif|__dev_|dev_|veth_|"
                               r"ip6?_|__ip|inet_|dst_|neigh_|__?napi|net_rx|net_tx|fib_|sch_|qdisc|"
                               r"__qdisc|skb_defer|skb_attempt_defer)|\[veth\]")),
    ("socket", re.compile(r"^(tcp_|__tcp|sk_|__sk_|sock_|__sock|release_sock|inet_csk|__inet|mptcp)")),
    ("memory", re.compile(r"^(___?slab|__slab|get_partial|get_any_partial|put_cpu_partial|free_|__free|"
                          r"rmqueue|__rmqueue|alloc_|__alloc|get_page|folio_|lru_|__mod_|kmem|kfree|kmalloc|"
                          r"do_user_addr|handle_mm|mmap|vm_|__vm|unmap_|zap_|__put_|page_|clear_|"
                          r"do_anonymous|copy_pag|dup_mm|exit_mm|unlink_|free_pgt|lock_mm_and|lock_vma)")),
    ("scheduler, timers, RCU", re.compile(
        r"^(try_to_wake|ttwu_|raw_spin_rq|task_rq|__task_rq|__schedule|sched|resched|update_|load_balance|"
        r"hrtimer|__hrtimer|tick_|timer_|__mod_timer|mod_timer|lock_timer|run_timer|__run_timer|rcu_|__rcu|"
        r"note_gp|force_qs|srcu_|__srcu|__call_srcu|futex|__queue_work|process_one|worker_|kick_|"
        r"__wake_up|prepare_to_wait|finish_wait|ep_|eventpoll|add_timer|detach_|del_timer|try_to_del|"
        r"sync_|complete|swake|wake_|poll_|clockevents|queue_)")),
)
OTHER = "other"

HEAD = re.compile(r"^\s*(?P<tid>\d+)\s+\[(?P<cpu>\d+)\]\s+(?P<time>[\d.]+):\s+(?P<event>[\w:]+):\s*(?P<rest>.*)$")
FRAME = re.compile(r"^\s+[0-9a-f]+\s+(?P<sym>\S+?)(\+0x[0-9a-f]+)?(\s+\((?P<dso>.*)\))?\s*$")
BEGINS = {"kw:spin": "spin", "kw:sock": "sock", "lock:contention_begin": "lock"}
ENDS = {"kw:spin_end": "spin", "kw:sock_end": "sock", "lock:contention_end": "lock"}


@dataclass(frozen=True)
class Wait:
    """One wait: where it was, of what kind the lock is, and for how long, in seconds."""

    site: str
    kind: str
    seconds: float


@dataclass
class Run:
    """Connections at work, and what they waited for meanwhile."""

    cpus: int
    connections: int
    size: int
    pinned: bool
    seconds: float = 0.0
    buf: int = 0
    fpdus: int = 0
    waits: list[Wait] = field(default_factory=list)

    def figure(self) -> str:
        if self.size < 1024:
            return f"{self.fpdus / self.seconds:,.0f} messages/s"
        return f"{self.buf / self.seconds / (1 << 20):.1f} MiB/s"

    def share(self, waits: Iterable[Wait]) -> float:
        """Of the time of all CPUs, in percent."""
        return 100 * sum(w.seconds for w in waits) / (self.seconds * self.cpus)


def place(chain: list[str]) -> tuple[str, str]:
    """Site and kind of the lock that a call chain, innermost first, waits for."""
    own = [s for s in chain if OWN.match(s)]
    rest = [s for s in chain if not OWN.match(s)]
    site = rest[0] if rest else "?"
    if any(SOCKET.match(s) for s in own):
        return f"socket lock: {site}", "socket"
    kind = next((name for name, pattern in KINDS if pattern.search(site)), OTHER)
    caller = next((s for s in rest[1:] if not s.startswith("__")), "")
    return f"{site} < {caller}" if caller else site, kind


def samples(text: Iterable[str]) -> Iterator[tuple[int, float, str, list[str]]]:
    """perf script's events: thread, time, name, call chain."""
    head = None
    chain: list[str] = []
    for line in text:
        if not line.strip():
            continue
        if found := HEAD.match(line):
            if head:
                yield *head, chain
            head = (int(found["tid"]), float(found["time"]), found["event"])
            chain = []
        elif head and (frame := FRAME.match(line)):
            dso = frame["dso"] or ""
            chain.append(frame["sym"] + (f" {dso}" if dso.startswith("[") and dso != "[kernel.kallsyms]" else ""))
    if head:
        yield *head, chain


def waits(text: Iterable[str]) -> Iterator[Wait]:
    """Pairs begins with ends. A wait may be interrupted by another of the same thread's: the last
    that began ends first."""
    begun: dict[tuple[int, str], list[tuple[float, list[str]]]] = defaultdict(list)
    for tid, time, event, chain in samples(text):
        if kind := BEGINS.get(event):
            begun[tid, kind].append((time, chain))
        elif (kind := ENDS.get(event)) and begun[tid, kind]:
            since, chain = begun[tid, kind].pop()
            site, of = place(chain)
            yield Wait(site, of, time - since)


def read(out: Path, index: int) -> list[Wait]:
    script = subprocess.Popen(
        ["perf", "script", f"--kallsyms={out}/run/kallsyms", "-f", "-i", f"{out}/run/{index}.perf",
         "-F", "tid,cpu,time,event,trace,ip,sym,dso", "--ns"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace")
    assert script.stdout
    with script:
        found = list(waits(script.stdout))
    if script.returncode:
        raise Failed(f"perf script cannot read {out}/run/{index}.perf")
    return found


def boot(out: Path, runs: list[Run], module: Build) -> None:
    """Fills in all runs of a guest with so many CPUs."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "plan").write_text("".join(
        f"{i} {r.connections} {r.size} {int(r.pinned)}\n" for i, r in enumerate(runs)))
    guest = subprocess.Popen(
        [TOP / "scripts/guest", "--quiet", "--smp", str(runs[0].cpus), "--timeout", "1800", "--mem", "3072",
         "--env", f"KIWARP_KO={module.module}", "--out", out, TOP / "tests/bench/contention.sh"],
        stdout=subprocess.PIPE, text=True)
    assert guest.stdout
    finished = False
    with guest:
        for line in guest.stdout:
            words = line.split()
            if words[:1] == ["run"]:
                index, took, buf, fpdus = map(int, words[1:])
                run = runs[index]
                run.seconds, run.buf, run.fpdus = took / 1e9, buf, fpdus
                run.waits = read(out, index)
                say(f"{run.cpus} CPUs, {run.connections:2} connections, {run.size:5} bytes, "
                    f"{'pinned' if run.pinned else 'free':6} {run.figure():>20}, "
                    f"{len(run.waits) / run.seconds:6.0f} waits/s, {run.share(run.waits):5.2f} %")
            elif words == ["finished"]:
                finished = True
            else:
                say(line.rstrip())
    if guest.returncode or not finished:
        raise Failed(f"the guest failed: {out}")


def kinds_table(runs: list[Run]) -> list[str]:
    names = [name for name, _ in KINDS] + [OTHER]
    lines = ["| CPUs | connections | message | CPU | moved | waits/s | wait, % of CPU time | " +
             " | ".join(names) + " |", "|---:|---:|---:|---|---:|---:|---:|" + "---:|" * len(names)]
    for r in runs:
        shares = [r.share(w for w in r.waits if w.kind == name) for name in names]
        lines.append(f"| {r.cpus} | {r.connections} | {r.size} | {'one each' if r.pinned else 'any'} | {r.figure()} "
                     f"| {len(r.waits) / r.seconds:.0f} | {r.share(r.waits):.2f} | "
                     + " | ".join(f"{s:.2f}" if s else "-" for s in shares) + " |")
    return lines


def sites_table(runs: list[Run], limit: int = SITES) -> list[str]:
    """Where most was waited, all runs together."""
    count: Counter[tuple[str, str]] = Counter()
    seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
    for w in (w for r in runs for w in r.waits):
        count[w.kind, w.site] += 1
        seconds[w.kind, w.site] += w.seconds
    time = sum(r.seconds * r.cpus for r in runs) or 1.0
    return ["| lock of | taken in < by | waits | total, ms | mean, us | % of CPU time |",
            "|---|---|---:|---:|---:|---:|"] + [
        f"| {key[0]} | `{key[1]}` | {count[key]} | {1e3 * total:.1f} | {1e6 * total / count[key]:.0f} "
        f"| {100 * total / time:.3f} |" for key, total in sorted(seconds.items(), key=lambda item: -item[1])[:limit]]


def kiwarps(runs: list[Run]) -> list[str]:
    """Kiwarp's own locks, however little they cost."""
    own = [Run(r.cpus, r.connections, r.size, r.pinned, r.seconds,
               waits=[w for w in r.waits if w.kind == "Kiwarp"]) for r in runs]
    return sites_table(own) if any(r.waits for r in own) else ["No wait for a lock of Kiwarp's."]


def report(runs: list[Run]) -> str:
    parts = ["## By run", "", *kinds_table(runs)]
    for pinned, title in ((True, "each connection on one CPU"), (False, "processes on any CPU")):
        some = [r for r in runs if r.pinned == pinned and r.connections > 1]
        if some:
            parts += ["", f"## Most waited for, several connections, {title}", "", *sites_table(some),
                      "", "Kiwarp's own:", "", *kiwarps(some)]
    return "\n".join(parts) + "\n"


def run(cpus: list[int], base: str, build: Path) -> int:
    """This tree, and before it another revision of its module if one is named."""
    modules = {"this tree": build_here(build)}
    if base:
        earlier, commit = build_revision(base)
        modules = {commit[:12]: earlier, **modules}
    texts = []
    for name, module in modules.items():
        say(name)
        done: list[Run] = []
        for n in cpus:
            runs = [Run(n, c, size, pinned)
                    for size, c, pinned in product(SIZES, CONNECTIONS, (True, False))]
            boot(build / "bench" / "contention" / f"{name.replace(' ', '-')}-{n}", runs, module)
            done += runs
        texts.append(f"# {name}\n\n{report(done)}")
        (build / "bench" / "contention.md").write_text("\n".join(texts))
    print("\n".join(texts))
    return 0
