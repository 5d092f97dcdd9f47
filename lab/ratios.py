#!/usr/bin/env python3
# lab/ratios.py -- the comparisons that must come out a certain way, each with its bound and whether it is kept.
"""Run what the project claims about its speed and memory, interleaved, and say for each claim whether it holds here.

"1 core" is pinned there and marks with one thread, as Go does with GOMAXPROCS=1 and Boehm GC with GC_MARKERS=1. "2
markers" run against Go with GOMAXPROCS=2. How to read the figures: docs/performance.md.
"""
import os
import pathlib

from measure import environment, options, records, rounds, show
from measure import program as programs
from measure.checks import PASS, PeakForAllocated, Ratio, Says, Within
from measure.program import Program

ROOT = pathlib.Path(__file__).resolve().parent.parent
USAGE = "[--rounds N] [--gcs N] [--only WORD] [--results DIR] [--bin DIR] [--timeout S]"
ROUNDS = 5
GCS = 10
TIMEOUT_S = 120

ONE_CORE = "0"
GO_ONE, GO_TWO = ("GOMAXPROCS=1",), ("GOMAXPROCS=2",)
TEASPAN_ONE, TEASPAN_TWO = ("TEASPAN=markers=1",), ("TEASPAN=markers=2",)
BOEHM_ONE = ("GC_MARKERS=1",)

# Peak memory of a heap that is never collected, for the bytes it allocated.
ALLOWED_FACTOR, ALLOWED_EXTRA_BYTES = 1.1, 3_000_000


def readorder_checks(variant, gcs, over_go, over_boehm, two_over_go):
    def readorder(heap, settings, cpus=""):
        return Program(case=f"readorder {variant}", heap=heap, binary=f"readorder-{heap}",
                       arguments=("--gcs", str(gcs), variant), settings=settings, cpus=cpus)

    ours = readorder("gc", TEASPAN_ONE, ONE_CORE)
    return [
        Ratio(f"readorder {variant}, 1 core: ms/gc / Go", ours, readorder("go", GO_ONE, ONE_CORE),
              "ms_per_gc", over_go),
        Ratio(f"readorder {variant}, 1 core: ms/gc / Boehm", ours, readorder("boehm", BOEHM_ONE, ONE_CORE),
              "ms_per_gc", over_boehm),
        Ratio(f"readorder {variant}, 2 markers: ms/gc / Go", readorder("gc", TEASPAN_TWO),
              readorder("go", GO_TWO), "ms_per_gc", two_over_go),
    ]


def binarytrees_checks():
    ours, gos, boehms = (Program(case="binarytrees", heap=heap, binary=f"binarytrees-{heap}", arguments=("18", "1"))
                         for heap in ("gc", "go", "boehm"))
    return [
        Ratio("binarytrees 18 1: ms / Go", ours, gos, "ms", 0.40),
        Ratio("binarytrees 18 1: ms / Boehm", ours, boehms, "ms", 0.60),
        Ratio("binarytrees 18 1: peak MiB / Go", ours, gos, "max_rss_kb", 1.00),
    ]


def allocbench_checks():
    def allocbench(heap, *settings):
        return Program(case="allocbench", heap=heap, binary=f"allocbench-{heap}", settings=settings)

    limit_8, limit_64 = ("GOGC=off", "GOMEMLIMIT=8MiB"), ("GOGC=off", "GOMEMLIMIT=64MiB")
    return [
        Within("allocbench, GOGC=100: collections", allocbench("gc"), "gc_cycles", 9, 12),
        Within("allocbench, GOGC=25: collections", allocbench("gc", "GOGC=25"), "gc_cycles", 30, 42),
        Within("allocbench, 64MiB: collections", allocbench("gc", *limit_64), "gc_cycles", 0, 0),
        Within("allocbench, 8MiB: collections", allocbench("gc", *limit_8), "gc_cycles", 1, 18),
        Within("allocbench, 8MiB: peak MiB", allocbench("gc", *limit_8), "max_rss_kb", 0, 9 * 1024),
        Ratio("allocbench, GOGC=100: peak MiB / Go", allocbench("gc"), allocbench("go"), "max_rss_kb", 1.00),
        Ratio("allocbench, GOGC=25: peak MiB / Go", allocbench("gc", "GOGC=25"), allocbench("go", "GOGC=25"),
              "max_rss_kb", 1.00),
        PeakForAllocated("allocbench, 64MiB: peak MiB / allowed", allocbench("gc", *limit_64), ALLOWED_FACTOR,
                         ALLOWED_EXTRA_BYTES),
    ]


def coll_checks():
    def coll(heap, variant):
        return Program(case=f"coll {variant}", heap=heap, binary=f"coll-{heap}", arguments=(variant,))

    return [Ratio(f"coll {variant}: peak MiB / Go", coll("gc", variant), coll("go", variant), "max_rss_kb", bound)
            for variant, bound in (("push", 0.50), ("putget", 1.00))]


def all_checks(gcs):
    return [
        *readorder_checks("packed", gcs, over_go=0.35, over_boehm=0.35, two_over_go=0.50),
        *readorder_checks("scattered", gcs, over_go=0.30, over_boehm=0.15, two_over_go=0.40),
        *binarytrees_checks(), *allocbench_checks(), *coll_checks(),
        Says("heapwalk: map after a collection", Program("heapwalk", "gc", "heapwalk-gc"), "maps", "identical"),
    ]


def parse_options(arguments):
    parser = options.Options("ratios", USAGE, __doc__.partition("\n\n")[0])
    parser.add_argument("--rounds", type=options.whole_number(1, 1000), default=ROUNDS, metavar="N",
                        help=f"run every program N times (default {ROUNDS})")
    parser.add_argument("--gcs", type=options.whole_number(1, 10000), default=GCS, metavar="N",
                        help=f"collections of one readorder run (default {GCS})")
    parser.add_argument("--only", default="", metavar="WORD", help="only the checks whose name has WORD in it")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "build" / "results", metavar="DIR",
                        help="where to write ratios.json and ratios.csv (default build/results)")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "bin", metavar="DIR",
                        help="where the programs are (default build/bin)")
    parser.add_argument("--timeout", type=options.whole_number(1, 86400), default=TIMEOUT_S, metavar="S",
                        help=f"a program that runs longer has failed (default {TIMEOUT_S})")
    chosen = parser.parse(arguments)
    chosen.checks = [check for check in all_checks(chosen.gcs) if chosen.only in check.name]
    if not chosen.checks:
        parser.error(f"no check has this in its name: {chosen.only}")
    return chosen


def cpu_seconds(verdict):
    times = [verdict.our_cpu_ms, verdict.their_cpu_ms]
    return " / ".join(show.number(ms / 1e3, 2) for ms in times if ms is not None) or show.NOTHING


def verdict_table(verdicts):
    table = show.make_table("Claims: median of ours / theirs (range of single rounds)", ["claim"],
                            ["ours", "theirs", "CPU s", "figure", "bound", ""])
    for verdict in verdicts:
        table.add_row(verdict.name, verdict.ours, verdict.theirs, cpu_seconds(verdict), verdict.figure, verdict.bound,
                      verdict.outcome)
    return table


def notes_beneath(verdicts, chosen):
    notes = [f"{verdict.outcome}: {verdict.name}: {verdict.reason}" for verdict in verdicts if verdict.reason]
    notes.append(f"allowed: {ALLOWED_FACTOR} x alloc_bytes + {ALLOWED_EXTRA_BYTES / 1e6:g} MB")
    if chosen.rounds < ROUNDS:
        notes.append(f"only {chosen.rounds} rounds: no claim is shown by fewer than {ROUNDS}")
    hidden = programs.hidden_settings(os.environ)
    if hidden:
        notes.append(f"set by the caller, not passed on to the programs: {', '.join(hidden)}")
    return notes


def main(arguments):
    chosen = parse_options(arguments)
    wanted = list(dict.fromkeys(program for check in chosen.checks for program in check.programs))
    built = [program for program in wanted if rounds.is_built(program, chosen.bin)]
    console = show.make_console()
    described = environment.describe()
    with show.progress_bar(console, len(built) * chosen.rounds) as advance:
        runs = rounds.run_rounds(built, chosen.rounds, chosen.bin, chosen.timeout, advance)

    verdicts = [check.judge(runs) for check in chosen.checks]
    notes = notes_beneath(verdicts, chosen) + [environment.sentence(described, chosen.rounds)]
    records.write_json(chosen.results / "ratios.json", {
        "what": "claims and their bounds", "rounds": chosen.rounds, "environment": described, "notes": notes,
        "verdicts": verdicts, "runs": [records.run_record(run) for run in runs],
    })
    records.write_csv(chosen.results / "ratios.csv", runs)
    console.print(verdict_table(verdicts))
    show.print_notes(console, notes)
    return 0 if all(verdict.outcome == PASS for verdict in verdicts) else options.EXIT_FAILED


if __name__ == "__main__":
    options.exit_with(main)
