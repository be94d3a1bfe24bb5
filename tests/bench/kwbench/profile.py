# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Where the instructions of a row go: perf in the cost bench, whose clock counts them.

Two runs: one without perf, which says what an operation costs, and one with, which says what of it
is whose. Samples outside of the transfer (starting, connecting, ending) are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Iterable, Iterator

from .machine import CostBench, Failed, Runner, output_of, say
from .plan import Job, kind_of, variant_of
from .report import number, table
from .rows import STORAGES, VARIANTS, Row
from .tools import Client, Disk, Iperf3, Perftest, Tool

# One sample in so many instructions. Taking one costs thousands: at 10 000 little else would run.
PERIOD = 40000
# So long a transfer, in seconds of the cost bench: some ten thousand samples.
TRANSFER = 0.4
# When the data path was silent for so long, in seconds, it was another transfer.
SILENCE = 0.005
SYMBOLS = 15

# What a symbol is counted as; the first that fits. Of kernel symbols, by module and name.
COPY = "copy and CRC"
KIWARP = "RNIC, the rest"
STACK = "TCP, IP, veth"
SCHED = "scheduler, wake-ups"
CALLS = "system calls, verbs"
DISK = "storage"
# A sample that was due while interrupts were off is taken where they come on again.
IRQ = "interrupts off: wake-ups, queues"
OTHER = "memory, other"
USER = "user space"
IDLE = "idle"
# What User-Mode Linux asks of the host: mostly to stop and continue its user space.
HOST = "host"
CLASSES = (COPY, KIWARP, STACK, SCHED, IRQ, CALLS, DISK, OTHER, USER, HOST, IDLE)

_IDLE = re.compile(r"cpu_idle_poll|poll_idle|do_idle|default_idle|cpu_startup_entry|tick_nohz_idle")
_COPY = re.compile(r"kw_(memcpy|crc32c)|_*(orig_)?mem(cpy|move|set)|crc32c|crc_(pcl|update)|rep_movs|"
                   r"copy_(user|to_user|from_user|page_(to|from)_iter)|_?copy_(to|from)_iter|"
                   r"csum_partial|skb_copy_(bits|datagram)|clear_page|rep_stos|__crypto_.*crc")
_STACK = re.compile(r"_*(tcp|ip|ip4|ipv4|inet|inet6|skb|sk|sock|kfree_skb|consume_skb|napi|netif|dev|net|"
                    r"neigh|eth|veth|gro|qdisc|pfifo|sch|dst|rt|fib|nf|xfrm|udp|bpf|kernel_sendpage|"
                    r"kernel_sendmsg|release_sock|lock_sock|process_backlog|enqueue_to_backlog|"
                    r"validate_xmit|harmonize|loopback|is_skb|pskb|build_skb|alloc_skb|napi|page_pool|"
                    r"raw_local_deliver|ktime_get_real|bictcp|cubictcp|rps|csum|security_sock|"
                    r"apparmor_sock|aa_sk|__tcp|tso|icsk|reqsk|siphash|"
                    r"__local_bh_enable_ip|do_softirq|handle_softirqs)(_|\.|$)")
_SCHED = re.compile(r"_*(schedule|try_to_wake|ttwu|wake_up|wake|autoremove|default_wake|pick|put_prev|"
                    r"set_next|enqueue|dequeue|update_(curr|load|rq|cfs|se|min)|place_entity|"
                    r"finish_task|prepare_to|finish_wait|switch|native_load|native_write_msr|"
                    r"sched|select_task|select_idle|check_preempt|resched|rcu_note|context_switch|"
                    r"perf_event_task|cpuacct|psi|reweight|avg_vruntime|entity|vruntime|hrtick|"
                    r"available_idle|kthread|queue_work|queue_delayed|insert_work|process_one_work|"
                    r"worker|prepare_task|load_new|mm_cid|raw_spin_rq|rseq|"
                    r"newidle|sugov|cgroup_rstat|irq_work|wq|complete|swake|yield|wakeup|"
                    r"do_wait|add_wait|remove_wait|task)(_|\.|[a-z]*$)")
_CALLS = re.compile(r"_*(entry_SYSCALL|do_syscall|syscall|x64_sys|ksys|vfs|fget|fput|fdget|"
                    r"ib_uverbs|ib_post|ib_poll|ep_|eventpoll|do_epoll|poll_|do_poll|do_sys|"
                    r"copy_from_user|rdma|uverbs|sys|new_sync|file|security_file|rw_verify|"
                    r"apparmor_file|read|write|aio|io_submit|fsnotify|import|"
                    r"get_user|put_user|exit_to_user|irqentry_exit_to_user|fpregs)")

# The first that a module's name begins with.
_MODULES = {"kiwarp": KIWARP, "siw": KIWARP, "veth": STACK, "nf_": STACK, "ib_ise": DISK, "ib_": CALLS,
            "rdma_": CALLS, "iw_cm": CALLS, "nvme": DISK, "null_blk": DISK, "target_core": DISK,
            "iscsi": DISK, "libiscsi": DISK, "scsi": DISK, "sd_mod": DISK, "nfs": DISK, "sunrpc": DISK,
            "rpcrdma": DISK}
# Consumers, too, where they are no modules.
_BLOCK = re.compile(r"_*(nvmet?|null|nfs[dv34]?|svc|svcxdr|rpc|rpcrdma|frwr|xdr|xprt|isert?|iscsit?|target|scsi|sd|"
                    r"blk|bio|blkdev|sbitmap|submit_bio|dma|sg|iomap|disk|block|generic_make|elv|bdev|mempool)(_|\.|$)")


@dataclass(frozen=True)
class Sample:
    time: float
    comm: str
    where: str  # the object's name, without its folder; [kernel] for the kernel itself
    what: str


_LINE = re.compile(r"^\s*(?P<comm>\S.*?)\s+(?P<time>\d+\.\d+):\s+[0-9a-f]+ (?P<what>.*?) "
                   r"\((?P<where>[^()]*(?:\(deleted\))?)\)$")


def samples(script: str) -> Iterator[Sample]:
    """perf script's lines."""
    for line in script.splitlines():
        found = _LINE.match(line)
        if not found:
            continue
        where = found["where"]
        where = "[kernel]" if "vmlinux" in where or "kallsyms" in where else where.split("/")[-1]
        what = re.sub(r"\+0x[0-9a-f]+$|\.(isra|part|constprop|cold)\b.*$", "", found["what"])
        yield Sample(float(found["time"]), found["comm"], where, what)


def kind(sample: Sample) -> str:
    """The class that a sample is counted in."""
    if not sample.where.startswith("["):
        return USER
    module = sample.where.strip("[]")
    if module == "host":
        return HOST
    if module in ("vdso", "unknown", "vsyscall"):
        return USER
    if _IDLE.match(sample.what):
        return IDLE
    if _COPY.match(sample.what):
        return COPY
    for name, of in _MODULES.items():
        if module.startswith(name):
            return of
    if sample.what.startswith("_raw_spin_unlock_irq"):
        return IRQ
    for pattern, of in ((_BLOCK, DISK), (_CALLS, CALLS), (_STACK, STACK), (_SCHED, SCHED)):
        if pattern.match(sample.what):
            return of
    return OTHER


def transfer(all_: list[Sample], plain: bool) -> list[Sample]:
    """Those of the transfer: the stretch in which the data path is busiest, never silent for long."""
    path = ("tcp_sendmsg", "tcp_recvmsg", "tcp_rcv", "tcp_write", "tcp_ack", "tcp_v4", "__tcp")
    marks = [i for i, s in enumerate(all_)
             if (s.what.startswith(path) if plain else s.where in ("[kiwarp]", "[siw]"))]
    best: list[int] = []
    run: list[int] = []
    for i in marks:
        if run and all_[i].time - all_[run[-1]].time > SILENCE:
            run = []
        run.append(i)
        if len(run) > len(best):
            best = run
    return all_[best[0]:best[-1] + 1] if best else []


def operation(row: Row, tool: Tool, value: float) -> float:
    """What one message or I/O costs, in microseconds."""
    size = {"4k": 4096, "128k": 131072}[tool.size] if isinstance(tool, Disk) else 65536
    if isinstance(tool, (Client, Perftest)):
        size = tool.size
    if row.unit == "IOPS" or row.unit.endswith("s/s"):
        return 1e6 / value
    return {"us": value, "MiB/s": size / 2**20 / value * 1e6, "MB/s": size / value}[row.unit]


def longer(row: Row, tool: Tool, value: float) -> Tool:
    """As many messages as a transfer is to have."""
    if isinstance(tool, Iperf3):
        return tool.scaled(TRANSFER * value / (tool.megabytes / 1.048576))
    ways = 2 if row.unit == "us" else 1
    return tool.scaled(TRANSFER * 1e6 / (operation(row, tool, value) * tool.count * ways))


@dataclass(frozen=True)
class Profile:
    row: Row
    mtu: int
    variant: str
    value: float  # without perf
    cost: float  # of an operation, in microseconds
    taken: list[Sample]
    unit: str  # of the value

    def classes(self) -> dict[str, float]:
        """Microseconds of an operation in each class."""
        found = Counter(kind(s) for s in self.taken)
        return {c: self.cost * found[c] / len(self.taken) for c in CLASSES}

    def symbols(self) -> list[tuple[float, float, str, str, str]]:
        """Share in percent, microseconds, object, symbol and class, of the largest."""
        found = Counter((s.where, s.what, kind(s)) for s in self.taken if kind(s) != IDLE)
        return [(100 * n / len(self.taken), self.cost * n / len(self.taken), where, what, of)
                for (where, what, of), n in found.most_common(SYMBOLS)]


def summary(profiles: list[Profile]) -> str:
    """What an operation takes, in microseconds: all of it, natively also less the host's part; by class."""
    found = [(p, p.classes()) for p in profiles]
    shown = [c for c in CLASSES if any(classes[c] > 0.004 * p.cost for p, classes in found)]
    guest = ["guest only"] * (HOST in shown)
    lines = [[p.row.title, variant_of(p.variant).title, number(p.cost),
              *(number(p.cost - classes[HOST]) for _ in guest), *(number(classes[c]) for c in shown)]
             for p, classes in found]
    return table(["us of one message or I/O", "column", "together", *guest, *shown], lines)


def detail(p: Profile) -> str:
    lines = [[f"{share:.1f} %", f"{us:.2f}", where, f"`{what}`", of]
             for share, us, where, what, of in p.symbols()]
    return (f"## {p.row.title}, MTU {p.mtu}, {variant_of(p.variant).title}\n\n"
            f"{number(p.value)} {p.unit}; {len(p.taken):,} samples of the transfer.\n\n"
            + table(["share", "us", "where", "symbol", "counted as"], lines))


def text(profiles: list[Profile]) -> str:
    return "\n".join([summary(profiles), *(detail(p) for p in profiles)])


def _runner(build: Path, name: str, prologue: str = "") -> Runner:
    return Runner(CostBench(build), build / "bench" / "profile" / name, {}, prologue)


def _show(done: int, job: Job, result, value: float | None) -> None:
    figure = result.missing if value is None else f"{number(value)} {job.row.unit}"
    say(f"[{done:3}] {job.mtu:5} {job.row.name:24} {job.variant:13} {figure}")


def _jobs(rows: Iterable[Row], variants: list[str], mtu: int) -> list[Job]:
    found = []
    for storage in STORAGES:
        for variant in variants:
            for row in rows:
                tool = row.plain if variant.startswith("tcp") else row.tool
                if tool and row.storage == storage and kind_of(variant) in row.variants:
                    found.append(Job("cost", row, mtu, variant, tool))
    return found


def measure(rows: list[Row], variants: list[str], mtu: int, build: Path) -> list[Profile]:
    """Of rows, each on each of the variants that it is measured on."""
    unknown = [v for v in variants if kind_of(v) not in VARIANTS]
    if unknown:
        raise Failed(f"no variant {unknown[0]}: there are {', '.join(VARIANTS)}")
    jobs = _jobs(rows, variants, mtu)
    if not jobs:
        raise Failed("no measurement: a row may have none over plain TCP")
    say("without perf")
    costs = {(r.row, r.variant): r for r in _runner(build, "plain").run(jobs, _show)}
    for result in costs.values():
        if result.value is None:
            raise Failed(f"{result.row}, {result.variant}: {result.missing}")
    say("with perf")
    taken = _samples(jobs, costs, build)
    # perf's clock may have stopped at once, if the CPU had to wait for something all the same.
    again = [j for j in jobs if not taken[j]]
    if again:
        say("those that perf saw nothing of again")
        taken.update(_samples(again, costs, build))
    for job in again:
        if not taken[job]:
            say(f"{job.row.name}, {job.variant}: left out: perf saw nothing of the transfer")
    if not any(taken.values()):
        raise Failed("perf saw nothing of any transfer")
    values = {j: costs[j.row.name, j.variant].value or 0.0 for j in jobs}
    return [Profile(j.row, j.mtu, j.variant, values[j], operation(j.row, j.tool, values[j]), taken[j],
                    j.row.unit)
            for j in jobs if taken[j]]


def _samples(jobs: list[Job], costs: dict, build: Path) -> dict[Job, list[Sample]]:
    """Of each transfer; none if perf's clock stood still."""
    long = [replace(j, tool=longer(j.row, j.tool, costs[j.row.name, j.variant].value))
            for j in jobs]
    under = _runner(build, "perf", f"profile={PERIOD}\n")
    for result in under.run(long, _show):
        if result.value is None:
            raise Failed(f"{result.row}, {result.variant}, under perf: {result.missing}")
    found = {}
    for i, job in enumerate(jobs):
        said = output_of(["perf", "script", f"--kallsyms={under.out}/run/{i}.kallsyms", "-f", "-G",
                          "-i", f"{under.out}/run/{i}.perf", "-F", "comm,time,ip,sym,dso"])
        found[job] = transfer(list(samples(said)), job.variant.startswith("tcp"))
    return found
