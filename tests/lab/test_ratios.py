# tests/lab/test_ratios.py -- claims and their bounds, judged on runs made up here and on tiny programs.
"""python3 -m unittest discover -s tests/lab"""
import io
import json
import sys
import unittest
from contextlib import redirect_stderr

from fake_programs import FakePrograms  # first: it says where the lab is

import ratios
from measure import checks
from measure.program import Program, Run

OURS = Program(case="coll push", heap="gc", binary="coll-gc", settings=("TEASPAN=markers=1",))
THEIRS = Program(case="coll push", heap="go", binary="coll-go")


def runs_of(program, key, *values, alloc_bytes=1000):
    return [Run(program=program, round=i + 1, values={key: value, "alloc_bytes": alloc_bytes}, wall_ms=0, user_ms=1000,
                system_ms=500, max_rss_kb=2048) for i, value in enumerate(values)]


class RatioOfMedians(unittest.TestCase):
    check = checks.Ratio("push / Go", OURS, THEIRS, "ms", 0.50)

    def test_a_ratio_at_its_bound_passes(self):
        verdict = self.check.judge(runs_of(OURS, "ms", 50, 50, 50) + runs_of(THEIRS, "ms", 100, 100, 100))
        self.assertEqual((verdict.outcome, verdict.bound), (checks.PASS, "<= 0.50"))

    def test_a_ratio_above_its_bound_fails(self):
        verdict = self.check.judge(runs_of(OURS, "ms", 51) + runs_of(THEIRS, "ms", 100))
        self.assertEqual(verdict.outcome, checks.FAIL)

    def test_medians_decide_and_single_rounds_give_the_range(self):
        verdict = self.check.judge(runs_of(OURS, "ms", 10, 40, 900) + runs_of(THEIRS, "ms", 100, 100, 100))
        self.assertEqual((verdict.outcome, verdict.figure), (checks.PASS, "0.40 (0.10-9.00)"))
        self.assertEqual((verdict.our_cpu_ms, verdict.their_cpu_ms), (1500, 1500))

    def test_programs_that_allocate_differently_are_not_compared(self):
        verdict = self.check.judge(runs_of(OURS, "ms", 10, alloc_bytes=1101) + runs_of(THEIRS, "ms", 100))
        self.assertEqual(verdict.outcome, checks.VOID)
        self.assertIn("alloc_bytes 1,101 is not within 10%", verdict.reason)

    def test_a_failed_program_decides_nothing(self):
        failed = [Run(THEIRS, 1, {}, 0, 0, 0, 0, failure="exit status 1: no memory")]
        verdict = self.check.judge(runs_of(OURS, "ms", 10) + failed)
        self.assertEqual((verdict.outcome, verdict.reason), (checks.FAILED, "./coll-go: exit status 1: no memory"))

    def test_a_program_that_is_not_built_decides_nothing(self):
        verdict = self.check.judge(runs_of(OURS, "ms", 10))
        self.assertEqual((verdict.outcome, verdict.reason), (checks.NOT_BUILT, "coll-go is not built"))

    def test_a_line_without_the_figure_decides_nothing(self):
        verdict = self.check.judge(runs_of(OURS, "other", 10) + runs_of(THEIRS, "ms", 100))
        self.assertEqual((verdict.outcome, verdict.reason), (checks.FAILED, "no ms= in the result line"))

    def test_peak_memory_is_the_kernels_figure(self):
        check = checks.Ratio("peak", OURS, THEIRS, "max_rss_kb", 1.00)
        verdict = check.judge(runs_of(OURS, "peak_rss", 1) + runs_of(THEIRS, "peak_rss", 1))
        self.assertEqual((verdict.outcome, verdict.ours), (checks.PASS, "2.0"))


class OtherChecks(unittest.TestCase):
    def test_a_figure_passes_on_either_bound_and_not_beyond(self):
        check = checks.Within("collections", OURS, "gc_cycles", 9, 12)
        outcomes = [check.judge(runs_of(OURS, "gc_cycles", count)).outcome for count in (8, 9, 12, 13)]
        self.assertEqual(outcomes, [checks.FAIL, checks.PASS, checks.PASS, checks.FAIL])

    def test_none_at_all_can_be_asked_for(self):
        check = checks.Within("collections", OURS, "gc_cycles", 0, 0)
        self.assertEqual(check.bound, "0")
        self.assertEqual(check.judge(runs_of(OURS, "gc_cycles", 0)).outcome, checks.PASS)
        self.assertEqual(check.judge(runs_of(OURS, "gc_cycles", 1)).outcome, checks.FAIL)

    def test_peak_memory_may_exceed_the_bytes_allocated_by_so_much(self):
        check = checks.PeakForAllocated("peak", OURS, factor=1.5, extra_bytes=1 << 20)
        enough_bytes = (1 << 20) / 1.5    # for the peak of 2 MiB
        self.assertEqual(check.judge(runs_of(OURS, "ms", 1, alloc_bytes=enough_bytes + 1)).outcome, checks.PASS)
        self.assertEqual(check.judge(runs_of(OURS, "ms", 1, alloc_bytes=enough_bytes - 9)).outcome, checks.FAIL)

    def test_every_run_has_to_say_the_word(self):
        check = checks.Says("map", OURS, "maps", "identical")
        self.assertEqual(check.judge(runs_of(OURS, "maps", "identical", "identical")).outcome, checks.PASS)
        verdict = check.judge(runs_of(OURS, "maps", "identical", "different"))
        self.assertEqual((verdict.outcome, verdict.figure), (checks.FAIL, "identical/different"))
        self.assertEqual(check.judge(runs_of(OURS, "ms", 1)).outcome, checks.FAIL)


class WholeScript(FakePrograms):
    def add_coll(self, our_peak_kb, their_peak_kb):
        for heap, peak_kb in (("gc", our_peak_kb), ("go", their_peak_kb)):
            self.add(f"coll-{heap}", f"""exec {sys.executable} -S -c '
ballast = bytearray(b"x" * ({peak_kb} << 10))
print("coll: peak_rss=1KB ms=5 gc_cycles=1 alloc_bytes=1000 alloc_objects=1")'""")

    def test_claims_are_shown_recorded_and_give_the_status(self):
        self.add_coll(20 << 10, 90 << 10)
        done = self.run_script("ratios.py", "--only", "coll push", "--rounds", "2")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"coll push: peak MiB / Go .* <= 0\.50 +pass")
        self.assertIn("only 2 rounds", done.stdout)
        document = json.loads((self.results / "ratios.json").read_text())
        self.assertEqual([verdict["outcome"] for verdict in document["verdicts"]], ["pass"])
        self.assertEqual([run["heap"] for run in document["runs"]], ["gc", "go"] * 2)

    def test_a_claim_that_does_not_hold_gives_status_1(self):
        self.add_coll(60 << 10, 60 << 10)
        done = self.run_script("ratios.py", "--only", "coll push", "--rounds", "1")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"<= 0\.50 +FAIL")

    def test_a_missing_program_is_named_and_gives_status_1(self):
        done = self.run_script("ratios.py", "--only", "heapwalk", "--rounds", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("not built: heapwalk: map after a collection: heapwalk-gc is not built", done.stdout)


class Claims(unittest.TestCase):
    def test_one_core_is_pinned_and_marks_with_one_thread(self):
        check = next(check for check in ratios.all_checks(10) if "packed, 1 core: ms/gc / Boehm" in check.name)
        self.assertEqual([program.shell_text() for program in check.programs],
                         ["TEASPAN=markers=1 taskset -c 0 ./readorder-gc --gcs 10 packed",
                          "GC_MARKERS=1 taskset -c 0 ./readorder-boehm --gcs 10 packed"])

    def test_a_program_that_two_claims_need_runs_once(self):
        programs = [program for check in ratios.all_checks(10) for program in check.programs]
        self.assertLess(len(set(programs)), len(programs))

    def test_bad_options_are_refused_with_two_lines_and_status_2(self):
        for arguments, message in ((["--fast"], "unknown option: --fast"),
                                   (["--only", "marble"], "no check has this in its name: marble")):
            errors = io.StringIO()
            with redirect_stderr(errors), self.assertRaises(SystemExit) as stop:
                ratios.parse_options(arguments)
            self.assertEqual(stop.exception.code, 2)
            first, second = errors.getvalue().splitlines()
            self.assertEqual(first, f"ratios: {message}")
            self.assertTrue(second.startswith("usage: ratios ["))


if __name__ == "__main__":
    unittest.main()
