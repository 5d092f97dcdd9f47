#!/usr/bin/env python3
# lab/compare.py -- run every workload on every heap, side by side, and print what it cost.
"""The main table: time, CPU time, peak memory and collections for each workload and heap. A second one: the same
program under the settings that Go's knobs offer, ours against Go. Every run is kept as JSON and CSV beside them.

A row counts as a comparison only if the program allocated as much as its Go twin, to 10 %.
"""
import os
import pathlib
import sys

from measure import cases, environment, options, records, rounds, show, summary
from measure import program as programs

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


class Results:
    """Summaries by program, and what is said beneath the tables."""

    def __init__(self, all_programs, runs):
        self.by_program = {program: summary.summarize(program, runs) for program in all_programs}
        self.go_twins = {item.program.case: item for item in self.by_program.values() if item.program.heap == "go"}
        self.ran = {run.program for run in runs}

    def void_reason(self, item):
        return summary.void_reason(item, self.go_twins.get(item.program.case))

    def status(self, item):
        """What stands in a row without figures; empty for one with them."""
        if item.program not in self.ran:
            return "not built"
        return "failed" if item.failure else ""

    def time_over_gos(self, item):
        if item.program.heap == "go":
            return show.NOTHING
        if self.void_reason(item):
            return "void"
        go = self.go_twins[item.program.case]
        ours, theirs = (item.ms_per_gc, go.ms_per_gc) if go.ms_per_gc else (item.ms, go.ms)
        return show.number(ours.median / theirs.median, 2) if ours and theirs and theirs.median else show.NOTHING

    def failures(self):
        return [item for item in self.by_program.values() if item.failure]

    def dropped_heaps(self):
        """Columns of the comparison without a single program."""
        heaps = dict.fromkeys(program.heap for program in self.by_program)
        return [heap for heap in heaps if not any(program.heap == heap for program in self.ran)]


KB_PER_MIB = 1024


def heap_table(results, wanted):
    table = show.make_table("Workloads by heap: median (range)", ["workload", "heap"],
                            ["ms", "CPU ms", "peak RSS MiB", "collections", "ms/gc", "vs Go"])
    dropped, last_case = results.dropped_heaps(), None
    for program in wanted:
        if program.heap in dropped:
            continue
        item = results.by_program[program]
        name = "" if program.case == last_case else program.case
        last_case = program.case
        cells = [results.status(item)] if results.status(item) else [
            show.spread(item.ms), show.number(item.cpu_ms.median), show.spread(item.rss_kb, 1, 1 / KB_PER_MIB),
            show.spread(item.gc_cycles), show.spread(item.ms_per_gc, 1), results.time_over_gos(item)]
        table.add_row(name, program.heap, *cells, end_section=is_last_of_case(program, wanted))
    return table


def is_last_of_case(program, wanted):
    return program == [other for other in wanted if other.case == program.case][-1]


def policy_table(results, wanted):
    table = show.make_table("allocbench under Go's knobs: median (range)", ["setting", "heap"],
                            ["collections", "peak RSS MiB", "ms", "CPU ms", "vs Go"])
    for program in wanted:
        if program.heap in results.dropped_heaps():
            continue
        item = results.by_program[program]
        cells = [results.status(item)] if results.status(item) else [
            show.spread(item.gc_cycles), show.spread(item.rss_kb, 1, 1 / KB_PER_MIB), show.spread(item.ms),
            show.number(item.cpu_ms.median), results.time_over_gos(item)]
        table.add_row(program.case, program.heap, *cells)
    return table


def row_name(program):
    return f"{program.case}, {program.heap}"


def void_notes(results):
    """One note for each reason, with all rows it holds for."""
    rows_by_reason = {}
    for item in results.by_program.values():
        reason = results.void_reason(item)
        if item.nruns and reason and item.program.heap != "go":
            heaps_by_case = rows_by_reason.setdefault(reason, {})
            heaps_by_case.setdefault(item.program.case, []).append(item.program.heap)
    return [f"void: {reason}: " + "; ".join(f"{case} ({', '.join(heaps)})" for case, heaps in heaps_by_case.items())
            for reason, heaps_by_case in rows_by_reason.items()]


def notes_beneath(results, chosen):
    notes = []
    if chosen.quick:
        notes.append("QUICK RUN: smaller sizes; the figures are not those of a full run")
    if results.dropped_heaps():
        notes.append(f"left out, because no such program is built: {', '.join(results.dropped_heaps())}")
    notes += [f"failed: {row_name(item.program)}: {item.failure}" for item in results.failures()]
    notes += void_notes(results)
    for item in results.by_program.values():
        disagreement = summary.rss_disagreement(item)
        if disagreement:
            notes.append(f"{row_name(item.program)}: {disagreement}")
    hidden = programs.hidden_settings(os.environ)
    if hidden:
        notes.append(f"set by the caller, not passed on to the programs: {', '.join(hidden)}")
    notes.append("vs Go: time over that of the same row on Go; ms/gc where it is given, ms elsewhere")
    return notes


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
        return 1
    console = show.make_console()
    described = environment.describe()
    with show.progress_bar(console, len(built) * chosen.rounds) as advance:
        runs = rounds.run_rounds(built, chosen.rounds, chosen.bin, chosen.timeout, advance)

    results = Results(heaps + policies, runs)
    notes = notes_beneath(results, chosen)
    console.print(heap_table(results, heaps))
    if any(program in built for program in policies):
        console.print(policy_table(results, policies))
    show.print_notes(console, notes)
    show.print_notes(console, [environment.sentence(described, chosen.rounds)])
    write_results(chosen, runs, results, notes, described)
    return 1 if results.failures() else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
