# tests/lab/test_compare.py -- the comparison of heaps, driven by tiny programs that pretend to be workloads.
"""python3 -m unittest discover -s tests/lab"""
import csv
import io
import json
import os
import signal
import sys
import time
import unittest
from contextlib import redirect_stderr
from unittest import mock

from fake_programs import LINE, ROOT, FakePrograms  # first: it says where the lab is

import compare
from measure import environment, launch, line, program, rounds, summary


class ResultLine(unittest.TestCase):
    def test_every_field_becomes_a_number_where_it_is_one(self):
        values = line.parse_result_line("coll: variant=putget peak_rss=9612KB ms=512 ms_per_gc=48.125\n", "coll")
        self.assertEqual(values, {"variant": "putget", "peak_rss": 9612, "ms": 512, "ms_per_gc": 48.125})

    def test_the_last_line_of_the_workload_counts_among_other_output(self):
        output = "a map: x=1\nheapwalk: ms=1\nheapwalk_free: ms=2\nheapwalk: ms=3\nend\n"
        self.assertEqual(line.parse_result_line(output, "heapwalk"), {"ms": 3})

    def test_output_without_the_line_gives_nothing(self):
        self.assertIsNone(line.parse_result_line("collector: ms=1\ncoll ms=1\n", "coll"))

    def test_keys_with_a_point_are_kept_whole(self):
        self.assertEqual(line.parse_result_line("allocpage: p99.9_us=14 max_us=20", "allocpage"),
                         {"p99.9_us": 14, "max_us": 20})


class Launch(FakePrograms):
    def launch(self, *command, timeout_s=20):
        return launch.launch(command, "/", dict(os.environ), timeout_s)

    def test_output_and_status_are_those_of_the_program(self):
        finished = self.launch("/bin/sh", "-c", "echo out; echo err >&2; exit 7")
        self.assertEqual((finished.stdout, finished.stderr, finished.status), ("out\n", "err\n", 7))

    def test_arguments_reach_the_program_unchanged(self):
        finished = self.launch("/bin/echo", "$HOME", "a  b", "'", ">x")
        self.assertEqual(finished.stdout, "$HOME a  b ' >x\n")

    def test_cpu_time_is_that_of_the_program(self):
        finished = self.launch(sys.executable, "-S", "-c", "import time\nwhile time.process_time() < 0.3: pass")
        self.assertGreater(finished.user_s + finished.system_s, 0.29)

    def test_peak_memory_is_not_that_of_this_process(self):
        ballast = bytearray(b"x" * (100 << 20))
        finished = self.launch("/bin/sh", "-c", "exit 0")
        self.assertLess(finished.max_rss_kb, len(ballast) // 1024 // 4)

    def test_peak_memory_is_that_of_the_program(self):
        finished = self.launch(sys.executable, "-S", "-c", "x = bytearray(b'x' * (50 << 20))")
        self.assertGreater(finished.max_rss_kb, 50 << 10)

    def test_a_program_that_hangs_is_ended_when_its_time_is_up(self):
        begin = time.monotonic()
        finished = self.launch("/bin/sleep", "30", timeout_s=0.2)
        self.assertTrue(finished.timed_out)
        self.assertEqual(finished.status, -signal.SIGKILL)
        self.assertLess(time.monotonic() - begin, 10)

    def test_an_interrupted_measurement_leaves_no_program_behind(self):
        pids = []
        with mock.patch.object(launch, "ends_in_time", side_effect=lambda pid, _: pids.append(pid) or self.fail()):
            with self.assertRaises(AssertionError):
                self.launch("/bin/sleep", "30")
        with self.assertRaises(ProcessLookupError):
            os.kill(pids[0], 0)


class OneRun(FakePrograms):
    def run_once(self, script, timeout_s=20, settings=()):
        self.add("coll-gc", script)
        item = program.Program(case="coll push", heap="gc", binary="coll-gc", settings=settings)
        return program.run_once(item, 1, self.bin, timeout_s)

    def test_a_good_run_has_values_and_no_failure(self):
        run = self.run_once(f"echo 'coll: {LINE}'")
        self.assertEqual((run.failure, run.values["gc_cycles"]), ("", 24))

    def test_a_failing_program_is_shown_with_its_last_line_on_stderr(self):
        run = self.run_once(f"echo 'coll: {LINE}'; echo first >&2; echo 'coll: sum is wrong' >&2; exit 1")
        self.assertEqual(run.failure, "exit status 1: coll: sum is wrong")
        self.assertEqual(run.values, {})

    def test_a_program_killed_by_a_signal_is_shown_with_its_name(self):
        self.assertEqual(self.run_once("kill -SEGV $$").failure, "killed by SIGSEGV: (nothing on stderr)")

    def test_a_program_that_hangs_has_timed_out(self):
        self.assertEqual(self.run_once("exec sleep 30", timeout_s=0.5).failure, "timed out after 0.5 s")

    def test_a_program_without_a_result_line_has_failed(self):
        self.assertEqual(self.run_once("echo hello").failure, "printed no result line")

    def test_settings_of_the_caller_do_not_reach_the_program(self):
        names = ["GOGC", "GOMEMLIMIT", "GODEBUG", "TEASPAN", "GC_MARKERS", "MALLOC_ARENA_MAX"]
        with mock.patch.dict(os.environ, {name: "7" for name in names}):
            run = self.run_once("echo coll: " + " ".join(f"{name}=$" + name for name in names))
            self.assertEqual(program.hidden_settings(os.environ), sorted(names))
        self.assertEqual(set(run.values.values()), {""})

    def test_settings_of_the_row_reach_the_program(self):
        with mock.patch.dict(os.environ, {"GOGC": "7"}):
            run = self.run_once("echo coll: gogc=$GOGC limit=$GOMEMLIMIT", settings=("GOGC=off", "GOMEMLIMIT=8MiB"))
        self.assertEqual(run.values, {"gogc": "off", "limit": "8MiB"})


class Rounds(FakePrograms):
    def programs(self, *heaps):
        return [program.Program(case="coll push", heap=heap, binary=f"coll-{heap}") for heap in heaps]

    def test_programs_alternate_round_by_round(self):
        for heap in ("gc", "go"):
            self.add(f"coll-{heap}", f"echo {heap} >>{self.log}; echo 'coll: {LINE}'")
        runs = rounds.run_rounds(self.programs("gc", "go"), 3, self.bin, 20)
        self.assertEqual(self.log.read_text().split(), ["gc", "go"] * 3)
        self.assertEqual([run.round for run in runs], [1, 1, 2, 2, 3, 3])

    def test_a_program_that_failed_is_not_run_again_and_the_others_are(self):
        self.add("coll-gc", "exit 1")
        self.add_line("coll-go", LINE)
        runs = rounds.run_rounds(self.programs("gc", "go"), 3, self.bin, 20)
        self.assertEqual([run.program.heap for run in runs], ["gc", "go", "go", "go"])


def run_with(item, **values):
    return program.Run(program=item, round=1, values=values, wall_ms=9, user_ms=5, system_ms=2, max_rss_kb=100)


class Summaries(unittest.TestCase):
    ours = program.Program(case="coll push", heap="gc", binary="coll-gc")
    gos = program.Program(case="coll push", heap="go", binary="coll-go")

    def void_reason(self, our_bytes, go_bytes):
        return summary.void_reason(summary.summarize(self.ours, [run_with(self.ours, alloc_bytes=our_bytes)]),
                                   summary.summarize(self.gos, [run_with(self.gos, alloc_bytes=go_bytes)]))

    def test_the_median_of_an_even_number_of_runs_lies_between_the_middle_two(self):
        self.assertEqual(summary.spread_of([4, 1, 100, 2]), summary.Spread(3, 1, 100))

    def test_no_values_have_no_spread(self):
        self.assertIsNone(summary.spread_of([]))

    def test_only_runs_of_the_program_that_succeeded_count(self):
        runs = [run_with(self.ours, ms=10), run_with(self.gos, ms=1), run_with(self.ours, ms=30),
                program.Run(self.ours, 3, {}, 1, 1, 1, 1, failure="exit status 1: no")]
        item = summary.summarize(self.ours, runs)
        self.assertEqual((item.of("ms"), item.nruns, item.failure), (summary.Spread(20, 10, 30), 2, "exit status 1: no"))

    def test_cpu_time_is_user_and_system_time(self):
        self.assertEqual(summary.summarize(self.ours, [run_with(self.ours)]).cpu_ms.median, 7)

    def test_a_time_per_collection_counts_only_where_there_were_collections(self):
        self.assertIsNone(summary.summarize(self.ours, [run_with(self.ours, gc_cycles=0, ms_per_gc=0.0)]).of("ms_per_gc"))

    def test_a_row_within_ten_per_cent_of_gos_bytes_counts(self):
        for our_bytes in (900, 1000, 1100):
            self.assertEqual(self.void_reason(our_bytes, 1000), "")

    def test_a_row_further_off_is_void_either_way(self):
        for our_bytes in (899, 1101, 0, 5000):
            self.assertIn("not within 10% of Go's 1,000", self.void_reason(our_bytes, 1000))

    def test_a_row_without_a_go_twin_is_void(self):
        item = summary.summarize(self.ours, [run_with(self.ours, alloc_bytes=1000)])
        self.assertEqual(summary.void_reason(item, None), "no Go twin to compare alloc_bytes with")

    def test_a_row_that_does_not_report_its_bytes_is_void(self):
        silent = summary.summarize(self.ours, [run_with(self.ours, ms=5)])
        go = summary.summarize(self.gos, [run_with(self.gos, alloc_bytes=1000)])
        self.assertEqual(summary.void_reason(silent, go), "reports no alloc_bytes")

    def test_a_program_that_hides_its_peak_memory_is_found_out(self):
        honest = run_with(self.ours, peak_rss=100)
        self.assertEqual(summary.rss_disagreement(summary.summarize(self.ours, [honest])), "")
        hiding = program.Run(self.ours, 1, {"peak_rss": 5000}, 1, 1, 1, max_rss_kb=9000)
        self.assertIn("5,000 KB by its own line, 9,000 KB", summary.rss_disagreement(
            summary.summarize(self.ours, [hiding])))


class WholeComparison(FakePrograms):
    def run_compare(self, *arguments):
        return self.run_script("compare.py", *arguments)

    def test_tables_and_records_of_a_small_comparison(self):
        self.add_line("coll-gc", "variant=push peak_rss=1000KB ms=30 gc_cycles=9 alloc_bytes=1050 alloc_objects=5")
        self.add_line("coll-go", "variant=push peak_rss=2000KB ms=60 gc_cycles=9 alloc_bytes=1000 alloc_objects=5")
        self.add_line("coll-malloc", "variant=push peak_rss=2000KB ms=60 gc_cycles=0 alloc_bytes=1500 alloc_objects=5")
        done = self.run_compare("--workload", "coll push", "--rounds", "3")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"coll push +gc +30 .* 0\.50")
        self.assertRegex(done.stdout, r"malloc +60 .* void")
        self.assertIn("alloc_bytes 1,500 is not within 10% of Go's 1,000: coll push (malloc)", done.stdout)
        self.assertIn("left out, because no such program is built: boehm", done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.splitlines()[:12])), 120)
        with open(self.results / "compare.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["heap"] for row in rows], ["gc", "malloc", "go"] * 3)
        self.assertEqual({row["alloc_bytes"] for row in rows if row["heap"] == "gc"}, {"1050"})
        document = json.loads((self.results / "compare.json").read_text())
        self.assertEqual((len(document["runs"]), document["rounds"], document["quick"]), (9, 3, False))
        self.assertIn("cpu", document["environment"])

    def test_a_ratio_of_times_too_short_to_tell_apart_is_not_shown(self):
        for heap in ("gc", "go"):
            self.add_line(f"coll-{heap}", LINE.replace("ms=512", "ms=3"))
        done = self.run_compare("--workload", "coll push", "--rounds", "1")
        self.assertRegex(done.stdout, r"coll push +gc +3 .* - *\n")

    def test_what_a_collection_leaves_has_a_table_of_its_own(self):
        self.add_line("heapwalk-gc", LINE + " maps=identical spans_before=6 spans_after=6")
        self.add_line("heapwalk_free-gc", LINE + " spans_before=464 spans_after=48 inuse_before=4096 inuse_after=2048")
        done = self.run_compare("--workload", "heapwalk", "--workload", "heapwalk_free", "--rounds", "1")
        self.assertRegex(done.stdout, r"heapwalk +gc +identical +6 -> 6 ")
        self.assertRegex(done.stdout, r"heapwalk_free +gc +- +464 -> 48 +4 -> 2 ")

    def test_records_name_no_folder_of_this_machine(self):
        self.add("coll-gc", "exit 1")
        self.add_line("coll-go", LINE)
        self.run_compare("--workload", "coll", "--rounds", "1")
        written = "".join(path.read_text() for path in self.results.iterdir())
        self.assertNotIn(str(self.bin.parent), written)
        self.assertNotIn(str(ROOT), written)

    def test_a_failure_is_told_the_rest_is_done_and_the_status_is_1(self):
        self.add("coll-gc", "echo 'coll: out of memory' >&2; exit 1")
        self.add_line("coll-go", LINE)
        done = self.run_compare("--workload", "coll push", "--rounds", "2")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"coll push +gc +failed")
        self.assertRegex(done.stdout, r" go +512 ")
        self.assertIn("failed: coll push, gc: exit status 1: coll: out of memory", done.stdout)

    def test_a_program_that_is_not_built_says_so_in_its_cell(self):
        self.add_line("coll-go", LINE)
        self.add_line("allocbench-gc", LINE)
        self.add_line("allocbench-go", LINE)
        done = self.run_compare("--workload", "coll push", "--workload", "allocbench", "--rounds", "1")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"coll push +gc +not built")

    def test_the_policies_are_run_with_their_settings(self):
        for heap in ("gc", "go"):
            self.add(f"allocbench-{heap}", f'echo "{heap} $GOGC $GOMEMLIMIT" >>{self.log}; echo "allocbench: {LINE}"')
        done = self.run_compare("--workload", "allocbench", "--rounds", "1")
        for setting in ("GOGC unset", "GOGC=25", "GOGC=off 8MiB", "GOGC=off 64MiB"):
            self.assertRegex(done.stdout, rf"{setting} +gc +24 ")
        logged = self.log.read_text().splitlines()
        for heap in ("gc", "go"):
            self.assertEqual([entry for entry in logged if entry.startswith(heap)][-4:],
                             [f"{heap}  ", f"{heap} 25 ", f"{heap} off 8MiB", f"{heap} off 64MiB"])

    def test_a_quick_run_is_labelled_and_recorded_apart(self):
        self.add_line("coll-gc", LINE)
        done = self.run_compare("--quick", "--workload", "coll push")
        self.assertIn("Workloads by heap, QUICK sizes", done.stdout)
        self.assertTrue((self.results / "compare-quick.json").exists())
        self.assertFalse((self.results / "compare.json").exists())

    def test_without_any_program_the_status_is_1(self):
        done = self.run_compare()
        self.assertEqual(done.returncode, 1)
        self.assertIn("none of the chosen programs is built", done.stderr)


class CommandLine(unittest.TestCase):
    def assert_refused(self, arguments, message):
        errors = io.StringIO()
        with redirect_stderr(errors), self.assertRaises(SystemExit) as stop:
            compare.parse_options(arguments)
        self.assertEqual(stop.exception.code, 2)
        first, second = errors.getvalue().splitlines()
        self.assertEqual(first, f"compare: {message}")
        self.assertTrue(second.startswith("usage: compare ["))

    def test_bad_options_are_refused_with_two_lines_and_status_2(self):
        self.assert_refused(["--fast"], "unknown option: --fast")
        self.assert_refused(["extra"], "unknown option: extra")
        self.assert_refused(["--qui"], "unknown option: --qui")
        self.assert_refused(["--workload", "marble"], "unknown workload: marble")
        self.assert_refused(["--heap", "zgc"], "unknown heap: zgc")

    def test_bad_numbers_are_refused(self):
        for text in ("0", "-1", "x", "", "1.5", "1001"):
            self.assert_refused([f"--rounds={text}"], f"argument --rounds: not a number from 1 to 1000: {text}")

    def test_a_workload_may_be_chosen_whole_or_by_its_row(self):
        def cases_of(name):
            heaps, _ = compare.chosen_programs(compare.parse_options(["--workload", name, "--heap", "gc"]))
            return [item.case for item in heaps]
        self.assertEqual(cases_of("coll"), ["coll putget", "coll push"])
        self.assertEqual(cases_of("coll push"), ["coll push"])
        self.assertEqual(cases_of("heapwalk"), ["heapwalk"])

    def test_rounds_are_five_or_three_when_quick_or_as_asked(self):
        self.assertEqual(compare.parse_options([]).rounds, 5)
        self.assertEqual(compare.parse_options(["--quick"]).rounds, 3)
        self.assertEqual(compare.parse_options(["--quick", "--rounds", "7"]).rounds, 7)


class Environment(unittest.TestCase):
    def test_a_version_that_cannot_be_read_is_unknown(self):
        self.assertEqual(environment.output_of("no-such-command-anywhere"), "unknown")
        self.assertEqual(environment.file_match("/no/such/file", "(x)"), "unknown")


if __name__ == "__main__":
    unittest.main()
