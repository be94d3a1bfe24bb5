# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""The arithmetic of reports and comparisons."""

import tempfile
import unittest
from argparse import Namespace
from pathlib import Path
from unittest import mock

from kwbench import cli, contention, profile, report, svg
from kwbench.machine import CostBench, Runner, share
from kwbench.plan import Build, Job, jobs, script, select, shared, usual_variants, wants_cards
from kwbench.results import (Result, Results, better, best_siw, differences, failures, judge)
from kwbench.rows import BY_NAME, ROWS, VARIANTS
from kwbench.tools import Client, Disk, Iperf3, Perftest


def results(*figures):
    """(row, variant, value...) at MTU 1500 on the cost bench."""
    return Results({}, [Result("cost", row, 1500, variant, [v for v in values if v is not None],
                               "it hung" if None in values else "")
                        for row, variant, *values in figures])


class Arithmetic(unittest.TestCase):
    def test_better_is_above_one_whatever_is_counted(self):
        self.assertEqual(better(BY_NAME["send-64k"], 200.0, 100.0), 2.0)
        self.assertEqual(better(BY_NAME["latency-64"], 10.0, 20.0), 2.0)

    def test_better_of_nothing_is_nothing(self):
        for value, than in ((None, 1.0), (1.0, None), (1.0, 0.0), (-1.0, 1.0)):
            self.assertIsNone(better(BY_NAME["send-64k"], value, than))

    def test_the_value_is_the_median_and_the_spread_the_furthest(self):
        result = Result("native", "send-64k", 1500, "siw", [10.0, 30.0, 11.0, 9.0, 10.0])
        self.assertEqual(result.value, 10.0)
        self.assertEqual(result.spread, 2.0)
        self.assertEqual(Result("cost", "send-64k", 1500, "siw", [10.0]).spread, 0.0)
        self.assertIsNone(Result("cost", "send-64k", 1500, "siw").value)

    def test_the_best_siw_is_the_highest_or_the_lowest(self):
        some = results(("send-64k", "siw", 40.0), ("send-64k", "siw-gso", 140.0),
                       ("latency-64", "siw", 21.0), ("latency-64", "siw-crc", 24.0))
        self.assertEqual(best_siw(some, "cost", BY_NAME["send-64k"], 1500), 140.0)
        self.assertEqual(best_siw(some, "cost", BY_NAME["latency-64"], 1500), 21.0)
        self.assertIsNone(best_siw(some, "cost", BY_NAME["send-4k"], 1500))

    def test_json_keeps_everything(self):
        some = results(("send-64k", "siw", 40.5, 41.0), ("send-64k", "kiwarp", None))
        again = Results.load(some.dump())
        self.assertEqual(again.results, some.results)

    def test_only_kiwarps_own_missing_rows_are_failures(self):
        some = results(("send-64k", "siw", None), ("send-64k", "kiwarp", None),
                       ("send-64k", "head", None), ("send-64k", "tcp", None),
                       ("send-4k", "kiwarp", 1.0))
        self.assertEqual([r.variant for r in failures(some)], ["kiwarp", "head"])


class Targets(unittest.TestCase):
    def met(self, row, *figures):
        return [j.met for j in judge(results(*figures), "cost", BY_NAME[row], 1500)]

    def test_a_share_of_tcp(self):
        self.assertEqual(self.met("send-64k", ("send-64k", "tcp", 1000.0),
                                  ("send-64k", "kiwarp", 600.0),
                                  ("send-64k", "kiwarp-nocrc", 799.0)), [True, False])

    def test_the_tcp_figure_of_another_row(self):
        self.assertEqual(self.met("write-64k", ("send-64k", "tcp", 1000.0),
                                  ("write-64k", "kiwarp", 590.0)), [False])

    def test_a_share_of_its_own_other_row(self):
        self.assertEqual(self.met("read-64k", ("write-64k", "kiwarp", 100.0),
                                  ("read-64k", "kiwarp", 94.9)), [False])
        self.assertEqual(self.met("read-64k", ("write-64k", "kiwarp", 100.0),
                                  ("read-64k", "kiwarp", 95.0)), [True])

    def test_a_number(self):
        self.assertEqual(self.met("send-64", ("send-64", "kiwarp", 79999.0)), [False])
        self.assertEqual(self.met("send-64", ("send-64", "kiwarp", 80000.0)), [True])

    def test_a_multiple_of_what_the_disk_does_over_tcp(self):
        for row in ("iser-read-128k", "iser-write-128k", "nfs-read-128k", "nfs-write-128k"):
            self.assertEqual(self.met(row, (row, "tcp", 100.0), (row, "kiwarp", 129.0)), [False])
            self.assertEqual(self.met(row, (row, "tcp", 100.0), (row, "kiwarp", 130.0)), [True])

    def test_lower_is_better(self):
        self.assertEqual(self.met("latency-4k", ("latency-4k", "tcp", 20.0),
                                  ("latency-4k", "kiwarp", 26.0)), [True])
        self.assertEqual(self.met("latency-64", ("latency-64", "tcp", 15.0),
                                  ("latency-64", "kiwarp", 15.1)), [False, True])
        self.assertEqual(self.met("latency-64", ("latency-64", "tcp", 19.0),
                                  ("latency-64", "kiwarp", 18.1)), [True, False])

    def test_so_much_more(self):
        self.assertEqual(self.met("idle-1000-memory", ("idle-1000-memory", "tcp", 4000.0),
                                  ("idle-1000-memory", "kiwarp", 20385.0)), [False])

    def test_without_the_reference_nobody_knows(self):
        self.assertEqual(self.met("send-4k", ("send-4k", "kiwarp", 1.0)), [None])
        self.assertEqual(self.met("send-4k", ("send-4k", "tcp", 1.0), ("send-4k", "kiwarp", None)),
                         [None])

    def test_every_target_names_what_there_is(self):
        for row in ROWS:
            for target in row.targets:
                self.assertIn(target.variant, row.variants)
                self.assertIn(target.of, (*VARIANTS, "same", ""))
                self.assertTrue(not target.row or target.row in BY_NAME)


class Comparison(unittest.TestCase):
    def regressed(self, row, base, head):
        difference, = differences(results((row, "base", base), (row, "head", head)))
        return difference.regressed

    def test_three_percent_are_allowed(self):
        self.assertFalse(self.regressed("send-64k", 100.0, 97.1))
        self.assertTrue(self.regressed("send-64k", 100.0, 96.9))
        self.assertFalse(self.regressed("send-64k", 100.0, 150.0))

    def test_of_latencies_too(self):
        self.assertFalse(self.regressed("latency-64", 100.0, 103.0))
        self.assertTrue(self.regressed("latency-64", 100.0, 103.2))
        self.assertFalse(self.regressed("latency-64", 100.0, 50.0))

    def test_no_figure_is_a_regression(self):
        self.assertTrue(self.regressed("send-64k", 100.0, None))
        self.assertTrue(self.regressed("send-64k", None, None))

    def test_what_the_base_has_not_got_is_not_worse(self):
        self.assertFalse(self.regressed("send-64k", None, 100.0))

    def test_the_table_names_it(self):
        some = results(("send-64k", "base", 100.0), ("send-64k", "head", 90.0))
        self.assertIn("| -10.0 % | **regressed** |", report.comparison(some))


class Again(unittest.TestCase):
    """What --compare does about a row that seems worse."""

    def compared(self, head):
        """Its exit status and how often it measured, with these of head, against 100 of base."""
        left = iter(head)
        measured = []

        def measure(_bench, todo, some, *_):
            for job in todo:
                value = 100.0 if job.variant == "base" else next(left)
                found = some.find("cost", job.row.name, 1500, job.variant)
                if not found:
                    found = Result("cost", job.row.name, 1500, job.variant)
                    some.results.append(found)
                if value is None:
                    found.missing = "it hung"
                else:
                    found.samples.append(value)
                measured.append(job.variant)
            return True

        with mock.patch.multiple(cli, measure=measure, build_here=mock.DEFAULT, revision=mock.DEFAULT,
                                 build_revision=lambda _: (None, "0" * 40), keep=mock.DEFAULT,
                                 meta=lambda *_: {}, say=mock.DEFAULT):
            status = cli.compare(Namespace(compare="REV", only="send-4k"))
        return status, measured.count("head")

    def test_what_is_not_worse_is_measured_once(self):
        self.assertEqual(self.compared([98.0]), (0, 1))

    def test_the_median_of_three_counts(self):
        self.assertEqual(self.compared([90.0, 99.0, 98.0]), (0, 3))
        self.assertEqual(self.compared([90.0, 99.0, 96.0]), (1, 3))

    def test_no_figure_is_a_failure_at_once(self):
        self.assertEqual(self.compared([None, 100.0, 100.0]), (1, 1))


class Outputs(unittest.TestCase):
    def test_each_tool_finds_its_figure(self):
        table = " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]\n" \
                " 65536      481              140.10             136.25              0.0021\n"
        self.assertEqual(Perftest("ib_send_bw", 65536, 481, 3).value(table), 136.25)
        self.assertEqual(Client("send", 64, 16, "messages_per_s").value(
            "op=send connect_us=9.1 memory=5 messages_per_s=257034.5 mib_per_s=15.7"), 257034.5)
        self.assertEqual(Iperf3(1).value(
            '{"end": {"sum_received": {"bits_per_second": 8388608}}}'), 1.0)
        self.assertEqual(Disk("write", "128k", 4, 1, "bw_bytes").value(
            'fio: note\n{"jobs": [{"read": {"bw_bytes": 1}, "write": {"bw_bytes": 5000000}}]}'), 5.0)

    def test_without_one_there_is_none(self):
        for tool in (Perftest("ib_send_bw", 65536, 481, 3), Client("send", 64, 16), Iperf3(1),
                     Disk("write", "128k", 4, 1, "iops")):
            self.assertIsNone(tool.value("failed: 65536 of nothing"))


class Profiles(unittest.TestCase):
    def test_a_line_of_perf_script(self):
        text = "  kworker/0:1-events  7.272605:  ffffffff81ce7e6d do_idle.isra.0 " \
               "(/lib/modules/6.12/build/vmlinux)\n" \
               "ib_send_bw     7.5:     7f0012 [unknown] (/usr/bin/ib_send_bw)\n" \
               "ib_send_bw     7.6:     ffff0 kw_copy+0x12 ([kiwarp])\nnothing of the kind\n"
        self.assertEqual([(s.time, s.where, s.what) for s in profile.samples(text)],
                         [(7.272605, "[kernel]", "do_idle"), (7.5, "ib_send_bw", "[unknown]"),
                          (7.6, "[kiwarp]", "kw_copy")])

    def test_each_symbol_has_a_class(self):
        for where, what, kind in (
                ("[kiwarp]", "kw_memcpy_crc32c", profile.COPY), ("[kiwarp]", "kw_rx_run", profile.KIWARP),
                ("[kernel]", "memcpy_orig", profile.COPY), ("[kernel]", "tcp_ack", profile.STACK),
                ("[veth]", "veth_xmit", profile.STACK), ("[kernel]", "__schedule", profile.SCHED),
                ("[kernel]", "do_syscall_64", profile.CALLS), ("[ib_uverbs]", "x", profile.CALLS),
                ("[nvmet_rdma]", "x", profile.DISK), ("[kernel]", "blk_mq_submit_bio", profile.DISK),
                ("[kernel]", "kfree", profile.OTHER), ("libc.so.6", "memcpy", profile.USER),
                ("[vdso]", "[unknown]", profile.USER), ("[kernel]", "cpu_idle_poll", profile.IDLE)):
            self.assertEqual(profile.kind(profile.Sample(0, "", where, what)), kind, what)

    def test_only_the_longest_transfer_counts(self):
        at = [(0.0, "[kiwarp]"), (0.001, "[kiwarp]"), (0.1, "[kernel]"), (1.0, "[kiwarp]"),
              (1.001, "[kernel]"), (1.002, "[kiwarp]"), (1.003, "[kiwarp]"), (1.1, "[kernel]")]
        found = profile.transfer([profile.Sample(t, "", where, "x") for t, where in at], False)
        self.assertEqual([s.time for s in found], [1.0, 1.001, 1.002, 1.003])
        self.assertEqual(profile.transfer([], True), [])

    def test_what_an_operation_costs(self):
        for row, value, cost in (("send-64k", 62.5, 1000.0), ("latency-64", 20.0, 20.0),
                                 ("nvme-read-4k-1", 10000.0, 100.0),
                                 ("nvme-read-128k", 131.072, 1000.0), ("send-64", 1e5, 10.0),
                                 ("churn-64", 2000.0, 500.0), ("atomic-64", 1e5, 10.0)):
            self.assertAlmostEqual(profile.operation(BY_NAME[row], BY_NAME[row].tool, value), cost)

    def test_the_summary_names_columns_and_leaves_the_host_out(self):
        row = BY_NAME["send-64"]

        def of(variant: str, *where: str) -> profile.Profile:
            taken = [profile.Sample(0, "", w, "kfree") for w in where]
            return profile.Profile(row, 1500, variant, 1e5, 10.0, taken, row.unit)

        natively = profile.summary([of("tcp", "[kernel]", "[host]"), of("kiwarp", *["[host]"] * 4, "[kiwarp]")])
        self.assertIn("| column | together | guest only | RNIC, the rest | memory, other | host |", natively)
        self.assertIn(f"| {row.title} | plain TCP | 10.0 | 5.0 | 0.0 | 5.0 | 5.0 |", natively)
        self.assertIn(f"| {row.title} | Kiwarp | 10.0 | 2.0 | 2.0 | 0.0 | 8.0 |", natively)
        self.assertIn("| column | together | memory, other |", profile.summary([of("tcp", "[kernel]")]))

    def test_a_transfer_is_long_enough(self):
        tool = profile.longer(BY_NAME["latency-64"], BY_NAME["latency-64"].tool, 20.0)
        self.assertEqual(tool.count, 10001)


class Plans(unittest.TestCase):
    def test_names_are_unique_and_known(self):
        self.assertEqual(len(BY_NAME), len(ROWS))
        for row in ROWS:
            self.assertLessEqual({*row.variants, *row.asked}, set(VARIANTS))
            self.assertFalse(row.plain_row and row.plain)

    def test_the_subsets_are_not_empty_and_scaled(self):
        for quick, smoke in ((True, False), (False, True)):
            rows = select("*", quick, smoke)
            self.assertTrue({"main", "nvme"} <= {r.group for r in rows})
            self.assertTrue(quick or {"rsockets", "iscsi", "nfs"} <= {r.group for r in rows})
            found = jobs(rows, "cost", [1500], usual_variants(quick, smoke), factor=0.001)
            self.assertTrue(all(j.tool for j in found))

    def test_a_device_comes_and_goes_for_each_variant(self):
        rows = [BY_NAME["send-64k"], BY_NAME["nvme-read-4k-1"]]
        found = jobs(rows, "cost", [1500], lambda row: ("tcp", "kiwarp-nocrc"))
        lines = script(list(enumerate(found)), {"kiwarp-nocrc": Build("/k.ko", "/lib")}).splitlines()
        self.assertEqual([line.split()[0] for line in lines],
                         ["use_net", "measure", "use_device", "measure", "leave_device", "use_wire",
                          "use_disk", "disk", "leave_disk", "use_device", "use_disk", "disk",
                          "leave_disk", "leave_device"])
        self.assertIn("use_device kiwarp /k.ko /lib crc=0", lines)

    def test_each_kind_of_disk_comes_and_goes_on_one_wire(self):
        rows = [BY_NAME[name] for name in ("nvme-read-4k-1", "iser-read-128k", "nfs-read-128k")]
        found = jobs(rows, "cost", [1500], lambda row: ("tcp", "kiwarp"))
        lines = script(list(enumerate(found)), {"kiwarp": Build("/k.ko", "/lib")}).splitlines()
        self.assertEqual([line for line in lines if line.startswith(("use_wire", "use_disk"))],
                         ["use_wire 1500", *(f"use_disk {kind} {by}" for kind in ("nvme", "iscsi", "nfs")
                                             for by in ("tcp", "rdma"))])
        self.assertEqual(lines.count("leave_disk"), 6)

    def test_digests_are_what_each_kind_calls_them(self):
        rows = [BY_NAME[name] for name in ("nvme-read-4k-1", "iser-read-128k", "nfs-read-128k")]
        found = jobs(rows, "cost", [1500], lambda row: set(row.variants) & {"tcp-digest"})
        lines = script(list(enumerate(found)), {}).splitlines()
        self.assertEqual([line for line in lines if line.startswith("use_disk")],
                         ["use_disk nvme tcp --hdr-digest --data-digest",
                          "use_disk iscsi tcp HeaderDigest DataDigest"])

    def test_a_net_for_each_encryption(self):
        found = jobs([BY_NAME["latency-64"]], "cost", [1500],
                     lambda row: ("kiwarp", "tcp-wireguard", "kiwarp-wireguard", "tcp-ipsec"))
        builds = {name: Build("/k.ko", "/lib") for name in ("kiwarp", "kiwarp-wireguard")}
        lines = script(list(enumerate(found)), builds).splitlines()
        self.assertEqual([line for line in lines if line.startswith("use_net")],
                         ["use_net 1500", "use_net 1500 wireguard", "use_net 1500 ipsec"])

    def test_a_net_for_each_delay(self):
        found = jobs([BY_NAME["send-64k"]], "cost", [1500], lambda row: ("tcp", "tcp-delay-1ms", "tcp-delay-50ms"))
        lines = script(list(enumerate(found)), {}).splitlines()
        self.assertEqual([line for line in lines if line.startswith("use_net")],
                         ["use_net 1500", "use_net 1500 delay 1ms", "use_net 1500 delay 50ms"])

    def test_cards_are_there_for_those_who_want_them(self):
        for columns, wanted in ((("tcp", "kiwarp"), False), (("tcp", "tcp-cards"), True)):
            todo = list(enumerate(jobs([BY_NAME["send-64k"]], "cost", [1500], lambda row, some=columns: some)))
            machine = CostBench(Path("build"))
            self.assertEqual("e1000e" in machine.command(Path("out"), 2048, wants_cards(todo)), wanted)
        lines = script(todo, {}).splitlines()
        self.assertEqual([line for line in lines if line.startswith("use_net")], ["use_net 1500", "use_net 1500 cards"])

    def test_columns_that_have_to_be_asked_for_have_a_colour(self):
        text = svg.bars("", [("row", [(name, 1.0) for name in VARIANTS])])
        for name in VARIANTS:
            self.assertIn(f"<title>{name}</title>", text)

    def test_a_column_may_have_other_settings(self):
        column = "kiwarp:large_fpdu=1:fpdu_max=16384"
        found = jobs([BY_NAME["send-64k"]], "cost", [1500], lambda row: (column, "kiwarp"))
        self.assertEqual([j.variant for j in found], ["kiwarp", column])
        builds = {name: Build("/k.ko", "/lib") for name in ("kiwarp", column)}
        self.assertIn("use_device kiwarp /k.ko /lib large_fpdu=1 fpdu_max=16384",
                      script(list(enumerate(found)), builds).splitlines())
        shown = report.section(results(("send-64k", column, 700.0), ("send-64k", "kiwarp", 600.0)), "cost", 1500)
        self.assertIn("| Kiwarp | Kiwarp, large_fpdu=1 fpdu_max=16384 |", shown)
        self.assertIn("| 600 | 700 |", shown)

    def test_only_the_same_work_on_the_same_column_is_one_run(self):
        rows = [BY_NAME[name] for name in ("send-64", "bystander-timer", "bystander-ping")]
        found = shared(jobs(rows, "cost", [1500, 9000], lambda row: ("kiwarp", "kiwarp-nocrc")))
        self.assertEqual([(j.mtu, j.variant, [each.row.name for each in j.each]) for j in found],
                         [(mtu, variant, names) for mtu in (1500, 9000) for variant in ("kiwarp", "kiwarp-nocrc")
                          for names in (["send-64"], ["bystander-timer", "bystander-ping"])])

    def test_rounds_alternate(self):
        found: list[Job] = jobs([BY_NAME["send-64k"]], "cost", [1500],
                                lambda row: ("kiwarp", "siw"), rounds=2)
        self.assertEqual([j.variant for j in found], ["kiwarp", "siw", "kiwarp", "siw"])


class Number:
    """A tool that finds the figure which it is to find."""

    def __init__(self, figure):
        self.figure = figure

    def script(self, index, _plain):
        return f"one {index} {self.figure}"

    def value(self, text):
        return float(text)


class Shell:
    """A machine that does a plan without one: it dies at 13. Each kiwarp-bench prints what BENCH is."""

    name = "cost"
    BENCH = "timer_99_9=150.5 ping_99_9=400.5"

    def builds(self, names, _extra):
        return {name: Build("module") for name in names}

    def command(self, out, _memory, _cards):
        return ["bash", "-c", f"""
            cd {out} && mkdir run && exec >script.log
            use_net() {{ :; }}; use_device() {{ :; }}; leave_device() {{ :; }}
            one() {{ [ "$2" != 13 ] || exit 1; echo "$2" >run/"$1".out; echo "done $1 0"; }}
            measure() {{ echo {self.BENCH} >run/"$1".out; echo "done $1 0"; }}
            . ./plan && echo finished"""]


class Machines(unittest.TestCase):
    FIGURES = {"tcp": 1, "kiwarp": 2, "kiwarp-nocrc": 3, "siw": 4, "siw-crc": 5}

    def todo(self, figures):
        return [Job("cost", BY_NAME[row], 1500, variant, Number(figure))
                for variant, figure in figures.items() for row in ("send-64k", "read-64k")]

    def run_all(self, figures, lanes, known=()):
        with tempfile.TemporaryDirectory() as folder:
            runner = Runner(Shell(), Path(folder) / "cost", {}, lanes=lanes, known=known)
            found = runner.run(self.todo(figures), lambda *_: None)
        return {(r.row, r.variant): r.missing or r.value for r in found}

    def test_what_one_device_does_stays_together_and_nothing_is_lost(self):
        todo = list(enumerate(self.todo(self.FIGURES)))
        parts = share(todo, 2)
        self.assertEqual(sorted(sum(parts, [])), todo)
        self.assertEqual([len(part) for part in parts], [6, 4])
        self.assertFalse({job.variant for _, job in parts[0]} & {job.variant for _, job in parts[1]})

    def test_many_machines_find_what_one_finds(self):
        wanted = {(row, v): float(n) for v, n in self.FIGURES.items() for row in ("send-64k", "read-64k")}
        for lanes in (1, 2, 9):
            self.assertEqual(self.run_all(self.FIGURES, lanes), wanted)

    def test_what_kills_a_machine_is_missing_alone(self):
        found = self.run_all({"kiwarp": 2, "siw": 13}, 1)
        self.assertEqual(found["send-64k", "siw"], "the machine died or timed out")
        self.assertEqual(found["read-64k", "kiwarp"], 2.0)

    def test_figures_that_there_are_stay(self):
        known = [Result("cost", "send-4k", 1500, "kiwarp", [7.0]),
                 Result("cost", "send-64k", 1500, "tcp", [], "it hung")]
        found = self.run_all({"tcp": 1}, 2, known)
        self.assertEqual(found, {("send-4k", "kiwarp"): 7.0, ("send-64k", "tcp"): 1.0,
                                 ("read-64k", "tcp"): 1.0})

    def bystanders(self, output):
        """What the machine was told to do, and what both rows then are."""
        machine = Shell()
        machine.BENCH = output
        rows = [BY_NAME[name] for name in ("bystander-timer", "bystander-ping")]
        todo = shared(jobs(rows, "cost", [1500], lambda row: ("tcp",)))
        shown = []
        with tempfile.TemporaryDirectory() as folder:
            runner = Runner(machine, Path(folder) / "cost", {})
            found = runner.run(todo, lambda done, job, _, value: shown.append((done, job.row.name, value)))
            plan = (Path(folder) / "cost" / "plan").read_text()
        return plan.count("measure "), shown, {r.row: r.missing or r.value for r in found}

    def test_one_run_has_both_figures_of_a_bystander(self):
        runs, shown, found = self.bystanders("timer_99_9=150.5 ping_99_9=400.5")
        self.assertEqual(runs, 1)
        self.assertEqual(shown, [(1, "bystander-timer", 150.5), (2, "bystander-ping", 400.5)])
        self.assertEqual(found, {"bystander-timer": 150.5, "bystander-ping": 400.5})

    def test_a_figure_that_a_run_has_not_got_is_missing_alone(self):
        runs, _, found = self.bystanders("timer_99_9=150.5 failed: no sample of ping")
        self.assertEqual(runs, 1)
        self.assertEqual(found["bystander-timer"], 150.5)
        self.assertIn("no sample of ping", found["bystander-ping"])


class Contention(unittest.TestCase):
    CHAIN = ("\tffffffff81cf49b5 native_queued_spin_lock_slowpath ([kernel.kallsyms])\n"
             "\tffffffff81cf411d _raw_spin_lock_bh ([kernel.kallsyms])\n")

    def found(self, text):
        return list(contention.waits(text.splitlines(True)))

    def test_a_wait_is_named_by_who_takes_the_lock(self):
        wait, = self.found("  7 [001] 2.000000500:   kw:spin: (ffffffff81cf49b4) lock=0xffff888100352db4\n"
                           + self.CHAIN + "\tffffffffc0a0 kw_tx_try ([kiwarp])\n"
                           "\tffffffffc0b0 kw_stream_kick ([kiwarp])\n\n"
                           "  7 [001] 2.000001500:   kw:spin_end: (ffffffff81cf49b4 <- ffffffff81cf411d)\n")
        self.assertEqual((wait.site, wait.kind),
                         ("kw_tx_try [kiwarp] < kw_stream_kick [kiwarp]", "Kiwarp"))
        self.assertAlmostEqual(wait.seconds, 1e-6)

    def test_threads_and_interruptions_are_kept_apart(self):
        begin = "  {} [000] {}: kw:spin: (f) lock=0x1\n" + self.CHAIN + "\tff tcp_v4_rcv ([kernel.kallsyms])\n\n"
        end = "  {} [000] {}: kw:spin_end: (f <- f)\n\n"
        waits = self.found(begin.format(1, 1.0) + begin.format(2, 1.5) + begin.format(1, 2.0)
                           + end.format(1, 2.5) + end.format(1, 4.0) + end.format(2, 5.5) + end.format(3, 6.0))
        self.assertEqual([w.seconds for w in waits], [0.5, 3.0, 4.0])
        self.assertEqual({w.kind for w in waits}, {"socket"})

    def test_sleeping_for_a_socket_is_the_socket_lock(self):
        self.assertEqual(contention.place(["__lock_sock", "lock_sock_nested", "tcp_sendmsg"]),
                         ("socket lock: tcp_sendmsg", "socket"))

    def test_the_share_is_of_all_cpus(self):
        run = contention.Run(4, 1, 64, True, 2.0, waits=[contention.Wait("x", "Kiwarp", 0.4)])
        self.assertAlmostEqual(run.share(run.waits), 5.0)


if __name__ == "__main__":
    unittest.main()
