#!/usr/bin/env python3
# lab/compare.py -- run every workload on every heap, side by side, and print what it cost.
"""The main table: time, CPU time, peak memory and collections for each workload and heap. A second one: one program
under the settings that Go's knobs offer, ours against Go. A third: what a collection leaves of the pages in use. Every
run is kept as JSON and CSV beside them.

A row counts as a comparison only if the program allocated as much as its Go twin, to 10 %.
"""
import pathlib
import sys

from measure import cases, comparison, environment, options, records, rounds, show

ROOT = pathlib.Path(__file__).resolve().parent.parent
USAGE = ("[--quick] [--rounds N] [--workload NAME]... [--heap NAME]... [--results DIR] [--bin DIR] [--timeout S]")
ROUNDS, QUICK_ROUNDS = 5, 3
TIMEOUT_S = 120


def parse_options(arguments):
    parser = options.Options("compare", USAGE, __doc__.partition("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes and 3 rounds, for a first look")
    parser.add_argument("--rounds", type=options.whole_number(1, 1000), metavar="N",
                        help=f"run every program N times (default {ROUNDS}; quick {QUICK_ROUNDS})")
    parser.add_argument("--workload", action="append", default=[], metavar="NAME",
                        help="only this workload, or this row of it (\"coll push\"); may be repeated")
    parser.add_argument("--heap", action="append", default=[], metavar="NAME",
                        help="only this heap; may be repeated")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "build" / "results", metavar="DIR",
                        help="where to write compare.json and compare.csv (default build/results)")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "bin", metavar="DIR",
                        help="where the programs are (default build/bin)")
    parser.add_argument("--timeout", type=options.whole_number(1, 86400), default=TIMEOUT_S, metavar="S",
                        help=f"a program that runs longer has failed (default {TIMEOUT_S})")
    chosen = parser.parse(arguments)
    for name in chosen.workload:
        if not any(is_named(case.name, [name]) for case in cases.CASES):
            parser.error(f"unknown workload: {name}")
    for name in chosen.heap:
        if name not in cases.HEAPS:
            parser.error(f"unknown heap: {name}")
    chosen.rounds = chosen.rounds or (QUICK_ROUNDS if chosen.quick else ROUNDS)
    return chosen


def is_named(label, names):
    """A name selects a label that it equals or is the first word of; no names select everything."""
    return not names or label in names or label.partition(" ")[0] in names


def chosen_programs(chosen):
    heaps = [program for program in cases.heap_programs(chosen.quick)
             if is_named(program.case, chosen.workload) and is_named(program.heap, chosen.heap)]
    policies = [program for program in cases.policy_programs(chosen.quick)
                if is_named("allocbench", chosen.workload) and is_named(program.heap, chosen.heap)]
    return heaps, policies


def write_results(chosen, runs, results, notes, described):
    stem = "compare-quick" if chosen.quick else "compare"
    records.write_json(chosen.results / f"{stem}.json", {
        "what": "workloads by heap", "quick": chosen.quick, "rounds": chosen.rounds, "environment": described,
        "notes": notes, "summaries": list(results.by_program.values()),
        "runs": [records.run_record(run) for run in runs],
    })
    records.write_csv(chosen.results / f"{stem}.csv", runs)


def main(arguments):
    chosen = parse_options(arguments)
    heaps, policies = chosen_programs(chosen)
    built = [program for program in heaps + policies if rounds.is_built(program, chosen.bin)]
    if not built:
        print("compare: none of the chosen programs is built\ncompare: build them first, for example with ./run",
              file=sys.stderr)
        return options.EXIT_FAILED
    console = show.make_console()
    described = environment.describe()
    with show.progress_bar(console, len(built) * chosen.rounds) as advance:
        runs = rounds.run_rounds(built, chosen.rounds, chosen.bin, chosen.timeout, advance)

    results = comparison.Results(heaps + policies, runs)
    notes = comparison.notes(results, chosen.quick) + [environment.sentence(described, chosen.rounds)]
    write_results(chosen, runs, results, notes, described)
    for table in comparison.tables(results, heaps, policies, chosen.quick):
        console.print(table)
    show.print_notes(console, notes)
    return options.EXIT_FAILED if results.failures() else 0


if __name__ == "__main__":
    options.exit_with(main)
