# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""The table: what is measured, how, on whom, and what is to be reached."""

from __future__ import annotations

from dataclasses import dataclass

from .tools import Client, Disk, Iperf3, Perftest, Tool


@dataclass(frozen=True)
class Variant:
    name: str
    title: str
    type: str  # of the RDMA device; "" for none
    settings: tuple[str, ...] = ()
    siw: str | None = None  # the options of scripts/siw
    nvme: tuple[str, ...] = ()  # more options of nvme connect
    iscsi: tuple[str, ...] = ()  # the digests of an iSCSI session
    wire: str = ""  # what the wire is inside of, its delay, or CARDS: arguments of guest.sh's use_net

    def use_disk(self, storage: str) -> list[str]:
        """guest.sh's call for it."""
        options = {"nvme": self.nvme, "iscsi": self.iscsi}.get(storage, ())
        return ["use_disk", storage, "rdma" if self.type else "tcp", *options]


# Two emulated adapters that cut what TCP sends (TSO), instead of a veth pair.
CARDS = "cards"

# One way; there and back it is twice as much.
DELAYS = ("100us", "1ms", "10ms", "50ms")

VARIANTS = {
    v.name: v
    for v in (
        Variant("tcp", "plain TCP", ""),
        Variant("tcp-digest", "TCP, digests", "", nvme=("--hdr-digest", "--data-digest"),
                iscsi=("HeaderDigest", "DataDigest")),
        Variant("kiwarp", "Kiwarp", "kiwarp"),
        Variant("kiwarp-nocrc", "Kiwarp, CRC off", "kiwarp", settings=("crc=0",)),
        Variant("siw-gso", "siw, GSO, CRC off", "siw", siw="--gso"),
        Variant("siw", "siw as shipped", "siw", siw=""),
        Variant("siw-crc", "siw, CRC on", "siw", siw="--crc"),
        Variant("rxe", "rxe", "rxe"),
        Variant("again", "Kiwarp again", "kiwarp"),
        Variant("tcp-wireguard", "TCP, WireGuard", "", wire="wireguard"),
        Variant("kiwarp-wireguard", "Kiwarp, WireGuard", "kiwarp", wire="wireguard"),
        Variant("tcp-ipsec", "TCP, IPsec", "", wire="ipsec"),
        Variant("kiwarp-ipsec", "Kiwarp, IPsec", "kiwarp", wire="ipsec"),
        Variant("tcp-relays", "TCP, TLS by relays", "", wire="relays"),
        Variant("kiwarp-relays", "Kiwarp, TLS by relays", "kiwarp", wire="relays"),
        Variant("tcp-tls", "TCP, kernel TLS", "", wire="tls"),
        Variant("tcp-cards", "TCP, e1000e", "", wire=CARDS),
        Variant("kiwarp-cards", "Kiwarp, e1000e", "kiwarp", wire=CARDS),
        Variant("siw-gso-cards", "siw, GSO, CRC off, e1000e", "siw", siw="--gso", wire=CARDS),
        *(Variant(f"{name}-delay-{delay}", f"{title}, {delay} away", device, wire=f"delay {delay}")
          for delay in DELAYS
          for name, title, device in (("tcp", "TCP", ""), ("kiwarp", "Kiwarp", "kiwarp"))),
    )
}
KIWARP = ("kiwarp", "kiwarp-nocrc")
SIW = ("siw-gso", "siw", "siw-crc")
VERBS = ("tcp", *KIWARP, *SIW)
NVME = ("tcp", "tcp-digest", *KIWARP, *SIW)
# siw has no port map: LIO's target cannot listen on it beside its TCP portal.
ISCSI = ("tcp", "tcp-digest", *KIWARP)
NFS = ("tcp", *KIWARP, *SIW)
BEST = ("tcp", *KIWARP, "siw-gso")
# What the disks are reached by, in the order in which they are measured; "" for rows without one.
STORAGES = ("", "nvme", "iscsi", "nfs")
ENCRYPTED = tuple(v.name for v in VARIANTS.values() if v.wire in ("wireguard", "ipsec", "relays"))
ON_CARDS = tuple(v.name for v in VARIANTS.values() if v.wire == CARDS)
AWAY = tuple(v.name for v in VARIANTS.values() if v.wire.startswith("delay"))


@dataclass(frozen=True)
class Target:
    """variant's figure against factor x (the figure of "of" in "row") + plus."""

    variant: str
    factor: float
    of: str = "tcp"  # a variant; "same": the variant itself; "": 1
    row: str = ""  # the row itself
    plus: float = 0
    mtus: tuple[int, ...] = ()  # all


@dataclass(frozen=True)
class NativeTarget:
    """The CPU time that "of" needs is at least factor times the variant's."""

    factor: float
    of: str = "tcp"
    variant: str = "kiwarp"
    mtus: tuple[int, ...] = ()  # all


# For the columns that a row's own targets do not name: to cost no more than they do.
AHEAD = tuple(NativeTarget(1.0, of) for of in ("siw-gso", "siw", "rxe"))


@dataclass(frozen=True)
class Row:
    name: str
    title: str
    unit: str
    tool: Tool
    plain: Tool | None = None  # the same over plain TCP
    plain_row: str = ""  # or the row whose TCP figure is this one's measure, too
    higher: bool = True  # is better
    group: str = "main"
    variants: tuple[str, ...] = VERBS
    asked: tuple[str, ...] = ()  # more of them, which have to be asked for
    mtus: tuple[int, ...] = (1500, 9000, 65536)
    quick: bool = False
    smoke: bool = False
    native: bool = False  # at MTU 1500 and 9000
    types: tuple[str, ...] = ("", "kiwarp", "siw", "rxe")  # natively: on devices of these
    targets: tuple[Target, ...] = ()  # of the cost bench
    native_targets: tuple[NativeTarget, ...] = ()
    curve: tuple[str, float] | None = None  # the plot that it is a point of, and where
    memory: int = 2048  # MiB that the guest needs

    @property
    def storage(self) -> str:
        return self.tool.storage if isinstance(self.tool, Disk) else ""

    def targets_at(self, mtu: int) -> tuple[NativeTarget, ...]:
        """Natively: its own, and those for the columns that they do not name."""
        named = {t.of for t in self.native_targets}
        return (*(t for t in self.native_targets if not t.mtus or mtu in t.mtus),
                *(t for t in AHEAD if t.of not in named))


def near_tcp(*pairs: tuple[int, float]) -> tuple[Target, ...]:
    """So near to plain TCP at these MTUs; with CRC off 0.8."""
    return (*(Target("kiwarp", factor, mtus=(mtu,)) for mtu, factor in pairs),
            Target("kiwarp-nocrc", 0.8))


AHEAD_OF_TCP = (NativeTarget(1.1, mtus=(1500,)), NativeTarget(1.2, mtus=(9000,)),
                NativeTarget(1.3, variant="kiwarp-nocrc"))
SHORT_MESSAGES = tuple(NativeTarget(1.5, of) for of in ("tcp", "siw-gso", "siw", "rxe"))
BESIDE_RDMA = tuple(t for t in SHORT_MESSAGES if t.of != "tcp")
DISK_4K = NativeTarget(1.2), NativeTarget(1.5, "tcp-digest")

# What ib_write_bw and ib_read_bw have under way, and about as many for a completion. The first of
# them cannot sleep on events, and the second's figures differ by 7 % from run to run.
LIKE_PERFTEST = "--depth 128 --signal 64"


def _send(options: str = "", **more) -> Client:
    return Client("send", 64, 4000, "messages_per_s", options, **more)


# One after the other: a target sleeps, as of Reads, and 16 are under way on the wire.
ATOMICS = Client("fetch-add", 8, 4000, "messages_per_s", "--depth 32", setting="atomics")
EX = "--post-wr --poll-ex"

MAIN = (
    Row("send-64k", "send 64 KiB", "MiB/s", Perftest("ib_send_bw", 65536, 3201, 3), Iperf3(200),
        asked=(*ENCRYPTED, *AWAY, *ON_CARDS), quick=True, smoke=True, native=True,
        targets=near_tcp((1500, 0.6), (9000, 0.7)), native_targets=AHEAD_OF_TCP),
    Row("write-64k", "write 64 KiB", "MiB/s", Client("write", 65536, 3840, options=LIKE_PERFTEST),
        plain_row="send-64k", asked=(*AWAY, *ON_CARDS), quick=True, smoke=True, native=True,
        targets=near_tcp((1500, 0.6), (9000, 0.7)), native_targets=AHEAD_OF_TCP),
    Row("read-64k", "read 64 KiB", "MiB/s",
        Client("read", 65536, 3840, options=LIKE_PERFTEST), plain_row="send-64k", asked=(*AWAY, *ON_CARDS), quick=True,
        smoke=True, native=True,
        targets=tuple(Target(v, 0.95, "same", "write-64k") for v in KIWARP)),
    Row("send-4k", "send 4 KiB", "MiB/s", Perftest("ib_send_bw", 4096, 4001, 3),
        Client("send", 4096, 8000), asked=ON_CARDS, quick=True, native=True, targets=(Target("kiwarp", 0.8),),
        native_targets=SHORT_MESSAGES),
    Row("send-64-list", "send 64 B, lists of 16", "messages/s",
        Client("send", 64, 8000, "messages_per_s", list=16), quick=True, smoke=True, native=True,
        mtus=(1500, 9000), targets=(Target("kiwarp", 150e3, ""),), native_targets=SHORT_MESSAGES),
    Row("send-64", "send 64 B, one by one", "messages/s",
        _send(), quick=True, native=True, mtus=(1500, 9000),
        targets=(Target("kiwarp", 80e3, ""),), native_targets=SHORT_MESSAGES),
    Row("latency-64", "latency, send 64 B", "us", Perftest("ib_send_lat", 64, 500, 5),
        Client("latency", 64, 1000, "latency_us"), asked=(*ENCRYPTED, *ON_CARDS), higher=False, quick=True, smoke=True,
        native=True, targets=(Target("kiwarp", 1.0), Target("kiwarp", 18, ""))),
    Row("latency-4k", "latency, send 4 KiB", "us", Perftest("ib_send_lat", 4096, 300, 5),
        Client("latency", 4096, 1000, "latency_us"), higher=False, quick=True, native=True,
        targets=(Target("kiwarp", 1.3),)),
)

# Each beside the row of MAIN that does the same without it, whose figure over plain TCP is its measure, too.
FEATURES = (
    Row("send-64-srq", "send 64 B, shared receive queue", "messages/s", _send("--srq"),
        plain_row="send-64", group="features", mtus=(1500, 9000), quick=True, smoke=True, native=True,
        types=("kiwarp", "siw", "rxe"), native_targets=BESIDE_RDMA),
    Row("send-64-list-ex", "send 64 B, lists of 16, extended interface", "messages/s",
        Client("send", 64, 8000, "messages_per_s", EX, list=16), plain_row="send-64-list",
        group="features", variants=("tcp", *KIWARP), mtus=(1500, 9000), quick=True, smoke=True,
        native=True, types=("kiwarp", "rxe"),
        targets=(Target("kiwarp", 1.0, "same", "send-64-list"),)),
    Row("write-64-imm", "write 64 B with immediate", "messages/s",
        Client("write-imm", 64, 4000, "messages_per_s", setting="immediate"), plain_row="send-64",
        group="features", variants=("tcp", *KIWARP), mtus=(1500, 9000), quick=True, smoke=True,
        native=True, types=("kiwarp", "rxe")),
    Row("atomic-64", "fetch and add of 64 bits", "operations/s", ATOMICS, group="features",
        variants=KIWARP, mtus=(1500, 9000), quick=True, smoke=True, native=True,
        types=("kiwarp", "rxe")),
    Row("latency-64-poll", "latency, send 64 B, both ends poll", "us",
        Client("latency", 64, 1000, "latency_us", "--poll"),
        Client("latency", 64, 1000, "latency_us", "--poll"), higher=False, group="features",
        mtus=(1500, 9000), native=True, native_targets=(NativeTarget(1.0),)),
)


# What an application of sockets gets without a change.
SOCKETS = (
    Row("send-64k-rsocket", "send 64 KiB, rsockets", "MiB/s",
        Client("send", 65536, 3840, options="--rsocket"), Client("send", 65536, 3840),
        group="rsockets", smoke=True, native=True),
    Row("latency-64-rsocket", "latency, send 64 B, rsockets", "us",
        Client("latency", 64, 1000, "latency_us", "--rsocket"),
        Client("latency", 64, 1000, "latency_us"), higher=False, group="rsockets", smoke=True,
        native=True),
)


# What encryption of records above TCP costs, beside that of packets below it.
TLS = tuple(
    Row(name, f"{title}, kernel TLS", unit, Client(op, size, count, field, "--tls"),
        Client(op, size, count, field, "--tls"), higher=op == "send", group="tls", variants=(), asked=("tcp-tls",),
        mtus=(1500, 9000))
    for name, title, unit, op, size, count, field in (
        ("send-64k-tls", "send 64 KiB", "MiB/s", "send", 65536, 3840, "mib_per_s"),
        ("latency-64-tls", "latency, send 64 B", "us", "latency", 64, 1000, "latency_us")))


def _disk(name: str, title: str, unit: str, disk: Disk, **more) -> Row:
    return Row(name, title, unit, disk, disk, group="nvme", variants=NVME, mtus=(1500, 9000),
               native=True, targets=(Target("kiwarp", 1.2), Target("kiwarp", 1.5, "tcp-digest")),
               **more)


DISKS = (
    _disk("nvme-read-4k-1", "random read 4 KiB, depth 1", "IOPS",
          Disk("randread", "4k", 1, 12000, "iops"), quick=True, smoke=True,
          native_targets=DISK_4K),
    _disk("nvme-read-4k-8", "random read 4 KiB, depth 8", "IOPS",
          Disk("randread", "4k", 8, 12000, "iops"), quick=True, native_targets=DISK_4K),
    _disk("nvme-read-128k", "read 128 KiB, depth 4", "MB/s",
          Disk("read", "128k", 4, 1000, "bw_bytes"), quick=True, native_targets=(NativeTarget(1.2),)),
    _disk("nvme-write-128k", "write 128 KiB, depth 4", "MB/s",
          Disk("write", "128k", 4, 1000, "bw_bytes"), quick=True, native_targets=(NativeTarget(1.0),)),
    _disk("nvme-read-128k-pages", "read 128 KiB, depth 4, scattered pages", "MB/s",
          Disk("read", "128k", 4, 1000, "bw_bytes", "pages"), native_targets=(NativeTarget(1.2),)),
    _disk("nvme-write-128k-pages", "write 128 KiB, depth 4, scattered pages", "MB/s",
          Disk("write", "128k", 4, 1000, "bw_bytes", "pages"), quick=True,
          native_targets=(NativeTarget(1.2),)),
    _disk("nvme-read-4k-32", "random read 4 KiB, depth 32", "IOPS",
          Disk("randread", "4k", 32, 6000, "iops"), native_targets=DISK_4K),
    *(_disk(f"nvme-write-4k-{depth}", f"random write 4 KiB, depth {depth}", "IOPS",
            Disk("randwrite", "4k", depth, 6000, "iops"), native_targets=DISK_4K)
      for depth in (1, 8, 32)),
)


def _other(name: str, title: str, unit: str, disk: Disk, **more) -> Row:
    kinds = {"iscsi": (ISCSI, ("", "kiwarp")), "nfs": (NFS, ("", "kiwarp", "siw"))}
    variants, types = kinds[disk.storage]
    return Row(name, title, unit, disk, disk, group=disk.storage, variants=variants, types=types,
               mtus=(1500, 9000), native=True, **more)


def _long(name: str, title: str, storage: str) -> tuple[Row, ...]:
    """Reads and writes of 128 KiB."""
    return tuple(_other(f"{name}-{op}-128k", f"{title} {op} 128 KiB, depth 4", "MB/s",
                        Disk(op, "128k", 4, 1000, "bw_bytes", storage=storage), smoke=op == "read",
                        targets=(Target("kiwarp", 1.3),), native_targets=(NativeTarget(1.3),))
                 for op in ("read", "write"))


# Over RDMA iSCSI is iSER, over TCP it is iSCSI alone.
OTHER_DISKS = (
    *_long("iser", "iSER", "iscsi"),
    _other("iser-read-4k-8", "iSER random read 4 KiB, depth 8", "IOPS",
           Disk("randread", "4k", 8, 6000, "iops", storage="iscsi")),
    *_long("nfs", "NFS", "nfs"),
)

# Of rdma-core 44's siw provider a process gets no more: the next fails, though the kernel gave it.
SIW_QPS = 63

SIZES = (64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 8388608)
# Natively only those that the rows for every day have not.
LONG = 2**20


def size_name(size: int) -> str:
    return f"{size} B" if size < 1024 else f"{size >> 10} KiB" if size < 2**20 else f"{size >> 20} MiB"


def _by_size(op: str, variants: tuple[str, ...]) -> tuple[Row, ...]:
    rows = []
    for size in SIZES:
        count = min(2000, max(32 if size <= LONG else 16, (24 << 20) // size))
        options = "--depth 16 --signal 4" if op == "read" else "--depth 64"
        tool = Client(op, size, count, options=options)
        rows.append(Row(f"{op}-by-size-{size}", f"{op} {size_name(size)}", "MiB/s", tool,
                        tool if "tcp" in variants else None, group=f"{op} by size",
                        variants=variants, native=size >= LONG, curve=(f"{op} by size", size)))
    return tuple(rows)


def _by_connections() -> tuple[Row, ...]:
    rows = []
    for n in (1, 2, 4, 8, 16, 64):
        tool = Client("send", 65536, 960 // n, options=f"--connections {n} --depth 32 --receives 64")
        # What one connection moves, all together are to move, but for the measure's grain.
        targets = tuple(Target(v, 0.97, "same", "send-by-connections-1") for v in KIWARP)
        variants = (*KIWARP, "siw-gso") if n <= SIW_QPS else KIWARP
        rows.append(Row(f"send-by-connections-{n}", f"send 64 KiB, {n} connections", "MiB/s", tool,
                        group="connections", variants=variants,
                        targets=targets if n > 1 else (), mtus=(1500, 9000),
                        native=n <= 16, types=("kiwarp", "siw", "rxe"),
                        curve=("connections", n)))
    return tuple(rows)


# A process at each end for each connection: on several CPUs each has its own.
PROCESSES = (1, 2, 4, 8)


def _by_processes() -> tuple[Row, ...]:
    tools = {n: Client("send", 65536, 960 // n, options=f"--processes {n} --depth 32 --receives 64") for n in PROCESSES}
    # Of interest natively, where there may be several CPUs: the cost bench has one, and only its smoke test runs one.
    return tuple(Row(f"send-by-processes-{n}", f"send 64 KiB, {n} process{'es' * (n > 1)} at each end", "MiB/s",
                     tool, tool, group="processes", variants=(), mtus=(1500, 9000), native=True, smoke=n == 2)
                 for n, tool in tools.items())


# What connecting leaves behind: delayed acknowledgements, memory that RCU frees, the queues' work.
PAUSE = "--pause 2000"


def _beside(name: str, what: str, option: str, counts: tuple[int, ...],
            memory: dict[int, int]) -> tuple[Row, ...]:
    """Latency beside so many objects that have nothing to do with it: no look-up may grow."""
    first = f"{name}-{counts[0]}-latency"
    return tuple(
        Row(f"{name}-{n}-latency", f"latency 64 B beside {n:,} {what}", "us",
            Client("latency", 64, 1000, "latency_us", f"{option} {n} {PAUSE}"), higher=False,
            group="idle", variants=("kiwarp",), mtus=(1500,),
            targets=(Target("kiwarp", 1.03, "same", first),) if n > counts[0] else (),
            curve=(what, n), memory=memory.get(n, 2048))
        for n in counts)


def _by_idle() -> tuple[Row, ...]:
    rows = []
    for n in (1000, 10000):
        tool = Client("idle", 64, 1, "memory", f"--idle {n - 1} {PAUSE}")
        rows.append(Row(f"idle-{n}-memory", f"memory of one of {n} idle connections, one end",
                        "bytes", tool, tool, higher=False, group="idle",
                        variants=("tcp", "kiwarp"), mtus=(1500,),
                        targets=(Target("kiwarp", 1.0, plus=16384),)))
    tool = Client("idle", 64, 1, "connect_us", f"--idle {SIW_QPS - 1} {PAUSE}")
    rows.append(Row("connect", "one connection made and ready", "us", tool, tool, higher=False,
                    group="idle", variants=("tcp", "kiwarp", "siw"), mtus=(1500,), native=True))
    rows += _beside("idle", "idle connections", "--idle", (10, 1000, 10000), {})
    rows += _beside("regions", "memory regions", "--regions", (10, 1000, 100000), {})
    rows += _beside("qps", "unconnected queue pairs", "--qps", (10, 1000, 100000), {100000: 8192})
    return tuple(rows)


def _bystander(name: str, title: str) -> Row:
    # Of some thousand samples the percentile is not their maximum. One run has both rows' figures.
    tool = Client("send", 65536, 24000, f"{name}_99_9", "--bystander")
    return Row(f"bystander-{name}", f"{title}, beside send 64 KiB, 99.9th percentile", "us", tool, tool, higher=False,
               group="bystander", variants=BEST, mtus=(1500, 9000), smoke=True,
               targets=tuple(Target(v, 1.0) for v in KIWARP))


def _churn() -> Row:
    tool = Client("churn", 64, 400, "connections_per_s")
    return Row("churn-64", "connect, send 64 B there and back, disconnect", "connections/s", tool, tool,
               group="churn", variants=("tcp", *KIWARP, *SIW), mtus=(1500,), smoke=True, native=True)


# What a stream of long messages does to others that share its CPU: no more than TCP's does.
BYSTANDERS = (_bystander("timer", "delay of a 1 ms timer"), _bystander("ping", "short message there and back over TCP"))

ROWS: tuple[Row, ...] = (*MAIN, *FEATURES, *SOCKETS, *TLS, *DISKS, *OTHER_DISKS, *_by_size("send", BEST),
                         *_by_size("write", (*KIWARP, "siw-gso")),
                         *_by_size("read", (*KIWARP, "siw-gso")), *_by_connections(), *_by_processes(),
                         *_by_idle(), _churn(),
                         *BYSTANDERS)
BY_NAME = {row.name: row for row in ROWS}
# Left out of the subset for every day: who is not the best of his kind takes the most time.
QUICK_LEFT_OUT = ("siw-crc",)
