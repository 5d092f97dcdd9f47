# lab/measure/comparison.py -- the tables of the comparison, and what is said beneath them.
import os

from . import show, summary
from . import program as programs

KB_PER_MIB = 1024
BYTES_PER_KIB = 1024
# The result line counts whole milliseconds: below this a ratio of two times says nothing.
SHORTEST_COMPARED_MS = 10


class Results:
    """The summaries by program, and how each stands to its Go twin."""

    def __init__(self, wanted, runs):
        self.by_program = {program: summary.summarize(program, runs) for program in wanted}
        self.go_twins = {item.program.case: item for item in self.by_program.values() if item.program.heap == "go"}
        self.ran = {run.program for run in runs}

    def of_cases(self, wanted):
        """Summaries in the order of `wanted`, without the heaps that no program is built for."""
        dropped = self.dropped_heaps()
        return [self.by_program[program] for program in wanted if program.heap not in dropped]

    def dropped_heaps(self):
        heaps = dict.fromkeys(program.heap for program in self.by_program)
        return [heap for heap in heaps if not any(program.heap == heap for program in self.ran)]

    def failures(self):
        return [item for item in self.by_program.values() if item.failure]

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
        key = "ms_per_gc" if go.of("ms_per_gc") else "ms"
        ours, theirs = item.of(key), go.of(key)
        if not ours or not theirs or (key == "ms" and theirs.median < SHORTEST_COMPARED_MS):
            return show.NOTHING
        return show.number(ours.median / theirs.median, 2)


def add_rows(table, results, wanted, figures_of):
    """A row for each program: its case where a new one begins, its heap, then figures_of(summary) or why it has none."""
    last_case = None
    for item in results.of_cases(wanted):
        case = item.program.case
        if last_case not in (None, case):
            table.add_section()
        status = results.status(item)
        table.add_row("" if case == last_case else case, item.program.heap, *([status] if status else figures_of(item)))
        last_case = case
    return table


def peak_mib(item):
    mib = item.rss_kb.median / KB_PER_MIB
    return show.number(mib, show.decimals_for(mib))


def time_per_gc(item):
    per_gc = item.of("ms_per_gc")
    return show.spread(per_gc, show.decimals_for(per_gc.median) if per_gc else 0)


def title_of(what, quick):
    return f"{what}{', QUICK sizes' if quick else ''}: median (range)"


def heap_table(results, wanted, quick):
    table = show.make_table(title_of("Workloads by heap", quick), ["workload", "heap"],
                            ["ms", "CPU ms", "peak MiB", "GCs", "ms/gc", "vs Go"])
    return add_rows(table, results, wanted, lambda item: [
        show.spread(item.of("ms")), show.number(item.cpu_ms.median), peak_mib(item), show.spread(item.of("gc_cycles")),
        time_per_gc(item), results.time_over_gos(item)])


def policy_table(results, wanted, quick):
    table = show.make_table(title_of("allocbench under Go's knobs", quick), ["setting", "heap"],
                            ["GCs", "peak MiB", "ms", "CPU ms", "vs Go"])
    return add_rows(table, results, wanted, lambda item: [
        show.spread(item.of("gc_cycles")), peak_mib(item), show.spread(item.of("ms")), show.number(item.cpu_ms.median),
        results.time_over_gos(item)])


def before_and_after(item, key, scale=1.0):
    before, after = item.of(f"{key}_before"), item.of(f"{key}_after")
    if before is None or after is None:
        return show.NOTHING
    return f"{before.median * scale:,.0f} -> {after.median * scale:,.0f}"


def footprint_table(results, wanted):
    """What a collection does to places and pages: the heapwalk programs. Spans are those that hold a kept object."""
    table = show.make_table("Pages before -> after a collection: median", ["workload", "heap"],
                            ["map", "spans", "in use KiB", "idle KiB", "released KiB"])
    walks = [program for program in wanted if program.workload.startswith("heapwalk")]
    return add_rows(table, results, walks, lambda item: [
        item.words.get("maps", show.NOTHING), before_and_after(item, "spans"),
        *(before_and_after(item, key, 1 / BYTES_PER_KIB) for key in ("inuse", "idle", "released"))])


def tables(results, heaps, policies, quick):
    """All tables that have a row."""
    made = [heap_table(results, heaps, quick), policy_table(results, policies, quick), footprint_table(results, heaps)]
    return [table for table in made if table.row_count]


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


def notes(results, quick):
    said = []
    if quick:
        said.append("QUICK RUN: smaller sizes; the figures are not those of a full run")
    if results.dropped_heaps():
        said.append(f"left out, because no such program is built: {', '.join(results.dropped_heaps())}")
    said += [f"failed: {row_name(item.program)}: {item.failure}" for item in results.failures()]
    said += void_notes(results)
    disagreements = [(item, summary.rss_disagreement(item)) for item in results.by_program.values() if item.nruns]
    said += [f"{row_name(item.program)}: {disagreement}" for item, disagreement in disagreements if disagreement]
    hidden = programs.hidden_settings(os.environ)
    if hidden:
        said.append(f"set by the caller, not passed on to the programs: {', '.join(hidden)}")
    said.append("vs Go: time over that of the same row on Go; ms/gc where it is given, ms elsewhere")
    return said
