# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""The native bench's arithmetic, and when it has measured enough."""

import os
import random
import signal
import subprocess
import time
import unittest

from kwbench import meter, native, native_profile, native_report, natively, profile, stats
from kwbench.machine import Failed
from kwbench.native import Campaign, Measured, Pair, Series, messages_of, tool_of
from kwbench.plan import Build, variant_of
from kwbench.rows import BY_NAME, ROWS


class Statistics(unittest.TestCase):
    def test_a_quantile_is_between_two_values_by_their_distance(self):
        self.assertEqual(stats.quantile([5.0, 1.0, 3.0, 2.0, 4.0]), 2.0)
        self.assertEqual(stats.quantile([1.0, 2.0], 0.25), 1.25)
        self.assertEqual(stats.quantile([7.0]), 7.0)
        self.assertEqual(stats.quantile([3.0, 1.0, 2.0], 1.0), 3.0)

    def test_what_disturbs_a_few_rounds_is_not_in_the_figure(self):
        self.assertEqual(stats.quantile([1.0] * 7 + [50.0] * 3), 1.0)

    def test_the_spread_is_between_the_quartiles(self):
        self.assertEqual(stats.spread([1.0, 2.0, 3.0, 4.0, 5.0]), 1.0)
        self.assertEqual(stats.spread([2.0, 2.0]), 0.0)

    def rounds(self, level, noise, count=40, seed=3):
        chance = random.Random(seed)
        return {n: level * (1 + noise * chance.random()) for n in range(count)}

    def test_the_ratio_of_equals_is_one(self):
        found = stats.ratio(self.rounds(1.0, 0.1, seed=1), self.rounds(1.0, 0.1, seed=2))
        self.assertLess(found.low, 1.0)
        self.assertGreater(found.high, 1.0)

    def test_the_interval_has_the_ratio_and_shrinks_with_rounds(self):
        few = stats.ratio(self.rounds(2.0, 0.2, 10, 1), self.rounds(1.0, 0.2, 10, 2))
        many = stats.ratio(self.rounds(2.0, 0.2, 400, 1), self.rounds(1.0, 0.2, 400, 2))
        for found in (few, many):
            self.assertLessEqual(found.low, found.value)
            self.assertGreaterEqual(found.high, found.value)
            self.assertTrue(found.low < 2.0 < found.high)
        self.assertLess(many.width, few.width)

    def test_rounds_are_drawn_in_pairs(self):
        # Whatever disturbs a round disturbs both: their ratio is known exactly.
        disturbed = self.rounds(1.0, 3.0)
        found = stats.ratio({n: 2 * v for n, v in disturbed.items()}, disturbed)
        self.assertAlmostEqual(found.low, 2.0)
        self.assertAlmostEqual(found.high, 2.0)

    def test_a_target_is_met_by_the_whole_interval(self):
        for low, high, want in ((1.0, 1.2, "met"), (0.8, 0.99, "missed"), (0.9, 1.1, "open")):
            with self.subTest(low=low):
                found = stats.Ratio((low + high) / 2, low, high, 20)
                self.assertTrue(native_report.verdict(found, 1.0).startswith(want))

    def test_targets_are_reported(self):
        some = measured({"kiwarp": {n: 3.0 for n in STEADY}, "tcp": {n: 2.0 for n in STEADY}}, [("tcp", "kiwarp")])
        self.assertIn("| 1.10 | 0.667 (0.667 to 0.667) | missed |", native_report.targets(some, 1500))
        self.assertIn("missed", native_report.markdown(some))

    def test_system_calls_can_be_left_out(self):
        some = measured({"kiwarp": {n: 3.0 for n in STEADY}, "tcp": {n: 4.0 for n in STEADY}}, [("tcp", "kiwarp")])
        some.call_excess = 1.0
        for column, calls in (("kiwarp", 1.0), ("tcp", 3.0)):
            some.find("send-64k", 1500, column).counters["calls"] = [calls]
        self.assertEqual(some.ratio("send-64k", 1500, Pair("tcp", "kiwarp"), "less calls").value, 0.5)
        some.call_excess = 2.0
        self.assertIsNone(some.ratio("send-64k", 1500, Pair("tcp", "kiwarp"), "less calls"))

    def test_a_round_that_one_lacks_does_not_count(self):
        self.assertEqual(stats.ratio({1: 2.0, 2: 2.0, 3: 9.0}, {1: 1.0, 2: 1.0}).rounds, 2)
        self.assertIsNone(stats.ratio({1: 2.0}, {2: 1.0}))

    def test_a_ratio_is_known_by_enough_rounds_that_agree(self):
        self.assertFalse(stats.Ratio(1.0, 0.99, 1.01, stats.MIN_ROUNDS - 1).known)
        self.assertTrue(stats.Ratio(1.0, 0.99, 1.01, stats.MIN_ROUNDS).known)
        self.assertFalse(stats.Ratio(1.0, 0.98, 1.02, 100).known)
        self.assertTrue(stats.Ratio(4.0, 3.95, 4.05, 100).known)


def measured(costs, pairs):
    """Of send-64k at MTU 1500: each column's costs by round."""
    found = Measured({}, [Pair(*p) for p in pairs])
    for column, rounds in costs.items():
        found.series.append(Series("send-64k", 1500, column, dict(rounds), dict(rounds)))
    return found


STEADY = {n: 1.0 for n in range(1, 20)}
WILD = {n: 1.0 + n % 5 for n in range(1, 20)}


class Stopping(unittest.TestCase):
    def wanted(self, number, **costs):
        some = measured(costs, [(c, "kiwarp") for c in costs if c != "kiwarp"])
        return Campaign(some, {}, 1500).wanted(BY_NAME["send-64k"], number)

    def test_all_are_wanted_at_first(self):
        self.assertEqual(set(self.wanted(stats.MIN_ROUNDS, kiwarp=STEADY, tcp=STEADY)), {"kiwarp", "tcp"})

    def test_what_is_known_is_not_measured_again(self):
        self.assertEqual(self.wanted(20, kiwarp=STEADY, tcp=STEADY), [])
        self.assertEqual(set(self.wanted(20, kiwarp=STEADY, tcp=STEADY, siw=WILD)), {"kiwarp", "siw"})

    def test_who_cannot_do_a_row_is_left_out_of_it(self):
        some = measured({}, [(c, "kiwarp") for c in ("tcp", "siw", "rxe")])
        campaign = Campaign(some, {}, 1500)
        self.assertEqual(set(campaign.wanted(BY_NAME["atomic-64"], 2)), {"kiwarp", "rxe"})
        self.assertEqual(set(campaign.wanted(BY_NAME["send-64-srq"], 2)), {"kiwarp", "rxe", "siw"})
        self.assertFalse(any(s.column == "tcp" for s in some.series))

    def test_who_fails_again_and_again_is_left_out(self):
        some = measured({"kiwarp": STEADY, "siw": {}}, [("siw", "kiwarp")])
        some.find("send-64k", 1500, "siw").failures = 2
        campaign = Campaign(some, {}, 1500)
        self.assertEqual(campaign.wanted(BY_NAME["send-64k"], 2), ["kiwarp"])
        self.assertEqual(campaign.wanted(BY_NAME["send-64k"], 20), [])


class Samples(unittest.TestCase):
    LINE = "cpu_s=0.2 wall_s=0.4 calls=200 switches=50 wakeups=10\nop=send mib_per_s=1.0\n"

    def test_a_round_is_by_the_message(self):
        series = Series("send-64k", 1500, "kiwarp")
        self.assertTrue(series.add(1, 100, self.LINE))
        self.assertEqual((series.cpu, series.wall), ({1: 0.002}, {1: 0.004}))
        self.assertEqual(series.counter("calls"), 2.0)

    def test_the_first_round_only_counts(self):
        series = Series("send-64k", 1500, "kiwarp")
        self.assertTrue(series.add(0, 100, self.LINE))
        self.assertTrue(series.add(1, 100, self.LINE.replace("wakeups=10", "wakeups=0")))
        self.assertEqual(list(series.cpu), [1])
        self.assertEqual(series.counter("wakeups"), 0.1)

    def test_without_figures_it_is_none(self):
        self.assertFalse(Series("send-64k", 1500, "kiwarp").add(1, 100, "failed: no meter"))

    def test_json_keeps_everything(self):
        some = measured({"kiwarp": STEADY, "tcp": WILD}, [("tcp", "kiwarp")])
        again = Measured.load(some.dump())
        self.assertEqual((again.series, again.pairs), (some.series, some.pairs))
        self.assertTrue(native.is_native(some.dump()))

    def test_a_kernel_that_complains_is_noticed(self):
        self.assertEqual(len(native.splats("BUG: sleeping function\nall is well\nWARNING: CPU: 0\n")), 2)


class Meters(unittest.TestCase):
    def test_children_count_and_so_do_those_that_have_ended(self):
        work = subprocess.Popen(["bash", "-c", "while :; do :; done & wait; read -r"], stdin=subprocess.PIPE)
        try:
            usage = meter.Usage(work.pid)
            while usage.read()[0] < 50_000_000:
                time.sleep(0.01)
            child, = meter.children(work.pid)
            before = usage.read()[0]
            os.kill(child, signal.SIGKILL)
            while meter.children(work.pid):
                time.sleep(0.01)
            self.assertGreaterEqual(usage.read()[0], before)
        finally:
            work.communicate(b"\n")

    def test_a_question_over_the_line_is_answered(self):
        line = meter.Line()
        times: list[float] = []
        before = time.monotonic()
        thread = meter.serve(line, meter.Usage(os.getpid()), times)
        asks, answers = line.guests[1], line.guests[0]
        os.write(asks, b"?\n")
        cpu, _ = map(int, os.read(answers, 100).split())
        self.assertGreater(cpu, 0)
        self.assertEqual(len(times), 1)
        self.assertTrue(before <= times[0] <= time.monotonic())
        line.started()
        thread.join()
        line.close()


KALLSYMS = """\
0000000060000000 T _text
0000000060001000 t tcp_sendmsg_locked
0000000060002000 D a_variable
0000000070000000 t kw_tx_run\t[kiwarp]
0000000070000100 t kw_fpdu_build.isra.0\t[kiwarp]
"""
PERF_SCRIPT = """\
    10   1.000000:         60001010 tcp_sendmsg_locked+0x10 (/cache/linux)
    10   1.100000:         70000120 [unknown] (/dev/shm/vm_file (deleted))
    10   1.200000: ffffffff81000000 ptrace_stop+0x20 ([kernel.kallsyms])
    11   1.300000:     7f0000001000 poll+0x5 (/usr/lib/libkiwarp-rdmav34.so)
    10   1.400000:     7f0000002000 ptrace+0x5 (/usr/lib/libc.so.6)
    11   1.500000:     7f0000002000 memcpy+0x5 (/usr/lib/libc.so.6)
"""


class NativeProfiles(unittest.TestCase):
    def test_a_sample_is_of_the_guests_kernel_its_module_the_host_or_user_space(self):
        symbols = native_profile.Symbols(KALLSYMS)
        found = [(s.where, s.what, profile.kind(s)) for s in native_profile.samples(PERF_SCRIPT, 10, symbols)]
        self.assertEqual(found, [
            ("[kernel]", "tcp_sendmsg_locked", profile.STACK),
            ("[kiwarp]", "kw_fpdu_build", profile.KIWARP),
            ("[host]", "ptrace_stop", profile.HOST),
            ("libkiwarp-rdmav34.so", "poll", profile.USER),
            ("[host]", "ptrace", profile.HOST),
            ("libc.so.6", "memcpy", profile.USER)])

    def test_a_kernel_without_symbols_is_refused(self):
        with self.assertRaises(Failed):
            native_profile.Symbols("0000000060002000 D a_variable\n")


class Rows(unittest.TestCase):
    def test_a_disk_is_not_measured_at_an_mtu_that_its_wire_has_not(self):
        rows = [BY_NAME["nvme-read-4k-1"], BY_NAME["send-64k"]]
        self.assertEqual(natively.at_mtu(rows, 9000), rows)
        self.assertEqual(natively.at_mtu(rows, 65536), rows[1:])
        with self.assertRaisesRegex(Failed, "^at MTU 65536 there is no nvme-read-4k-1, which is at 1500, 9000$"):
            natively.at_mtu(rows[:1], 65536)


class Columns(unittest.TestCase):
    def test_every_column_moves_as_many_messages_with_one_program(self):
        for row in (r for r in ROWS if r.native and r.quick and not r.storage):
            tools = {column: tool_of(row, column, messages_of(row)) for column in ("tcp", "siw", "kiwarp", "rxe")
                     if variant_of(column).type in row.types}
            self.assertEqual(len({t.count for t in tools.values()}), 1, row.name)
            self.assertGreaterEqual(tools["kiwarp"].count * stats.MIN_ROUNDS, 60000, row.name)
            self.assertTrue("tcp" not in tools or "--tcp" in tools["tcp"].script(0, True), row.name)

    def test_rsockets_are_beside_sockets(self):
        for name in ("send-64k-rsocket", "latency-64-rsocket"):
            row = BY_NAME[name]
            own, plain = (tool_of(row, column, 100).script(7, column == "tcp") for column in ("kiwarp", "tcp"))
            self.assertEqual(("--rsocket" in own, "--tcp" in own), (True, False))
            self.assertEqual(sorted(plain.replace("--tcp", "--rsocket").split()), sorted(own.split()))

    def test_many_connections_move_as_many_messages_as_one(self):
        for n in (1, 2, 4, 16):
            row = BY_NAME[f"send-by-connections-{n}"]
            self.assertEqual(tool_of(row, "kiwarp", messages_of(row)).count * n, 6000)

    def test_processes_share_the_messages_of_one_over_tcp_too(self):
        for n in (1, 2, 8):
            row = BY_NAME[f"send-by-processes-{n}"]
            for column in ("kiwarp", "tcp"):
                tool = tool_of(row, column, messages_of(row))
                self.assertEqual(tool.count * n, messages_of(row))
                self.assertIn(f"--processes {n} ", tool.script(7, column == "tcp"))

    def test_every_kind_of_disk_is_left_as_it_was_found(self):
        builds = {"kiwarp": Build("/k.ko", "/lib")}
        for storage in ("nvme", "iscsi", "nfs"):
            before, after = native.around("kiwarp", storage, 1500, builds)
            self.assertEqual([line.split()[0] for line in before + after],
                             ["use_device", "use_disk", "leave_disk", "leave_device"])
            self.assertEqual(before[1], f"use_disk {storage} rdma")
            self.assertEqual(native.around("tcp", storage, 1500, builds)[0], [f"use_disk {storage} tcp"])

    def test_a_long_message_is_sent_less_often(self):
        self.assertEqual([messages_of(BY_NAME[name]) for name in ("send-64k", "send-by-size-1048576",
                                                                  "write-by-size-8388608")], [6002, 375, 50])

    def test_what_is_measured_of_idle_connections_is_connecting(self):
        for column in ("tcp", "kiwarp"):
            line = tool_of(BY_NAME["connect"], column, 63).script(7, column == "tcp")
            self.assertTrue(line.startswith("transfer 7 "), line)
            self.assertIn("--op idle", line)
            self.assertIn("--idle 62 ", line)
        self.assertEqual(native_report.figure(BY_NAME["connect"], 40e-6), 40.0)

    def test_a_setting_that_a_row_wants_is_on_for_it_alone(self):
        lines = [tool_of(BY_NAME[name], "kiwarp", 32).script(7, False) for name in ("write-64-imm", "send-64")]
        self.assertTrue(lines[0].startswith("with immediate transfer 7 "), lines[0])
        self.assertTrue(lines[1].startswith("transfer 7 "), lines[1])

    def test_a_column_may_have_other_settings(self):
        variant = variant_of("kiwarp-nocrc:ack_segments=0")
        self.assertEqual((variant.type, variant.settings), ("kiwarp", ("crc=0", "ack_segments=0")))
        self.assertEqual(variant_of("head").type, "kiwarp")

    def test_figures_are_in_the_rows_unit(self):
        self.assertEqual(native_report.figure(BY_NAME["send-64k"], 1 / 16), 1.0)
        self.assertEqual(native_report.figure(BY_NAME["send-64"], 0.001), 1000.0)
        self.assertEqual(native_report.figure(BY_NAME["latency-64"], 40e-6), 20.0)
        self.assertEqual(native_report.processor(BY_NAME["send-64k"], 1 / 16384), 1.0)
        self.assertEqual(native_report.processor(BY_NAME["send-64"], 1e-6), 1.0)


class Judgement(unittest.TestCase):
    def judged(self, head):
        some = measured({"base": STEADY, "head": {n: head for n in STEADY}, "again": STEADY},
                        [("base", "head"), ("again", "base")])
        return natively.judge(some)

    def test_worse_is_what_is_worse_by_more_than_noise(self):
        self.assertEqual(self.judged(1.0), 0)
        self.assertEqual(self.judged(1.01), 0)
        self.assertEqual(self.judged(1.05), 1)
        self.assertEqual(self.judged(0.5), 0)

    def test_the_report_says_how_far_a_is_from_a(self):
        some = measured({"kiwarp": STEADY, "again": {n: 1.01 for n in STEADY}}, [("again", "kiwarp")])
        self.assertIn("differs by 1.0% at most", native_report.markdown(some))

    def test_a_target_is_of_its_mtu_and_every_other_rnic_has_one(self):
        targets = {mtu: BY_NAME["send-64k"].targets_at(mtu) for mtu in (1500, 9000)}
        self.assertEqual([[t.factor for t in some if t.of == "tcp"] for some in targets.values()],
                         [[1.1, 1.3], [1.2, 1.3]])
        for row in BY_NAME.values():
            for mtu in (1500, 9000):
                of = [t.of for t in row.targets_at(mtu)]
                self.assertEqual([of.count(name) for name in ("siw", "siw-gso", "rxe")], [1, 1, 1], row.name)


if __name__ == "__main__":
    unittest.main()
