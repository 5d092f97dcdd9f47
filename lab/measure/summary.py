# lab/measure/summary.py -- medians and spreads of a program's runs, and the comparisons that do not count.
import dataclasses
import statistics

# A program that allocates much more or less than Go's does other work, and is not compared.
ALLOC_BYTES_TOLERANCE = 0.10
# The line is printed just before the end: the kernel's later figure may be a little higher.
RSS_TOLERANCE = 0.05
RSS_TOLERANCE_KB = 1024


@dataclasses.dataclass(frozen=True)
class Spread:
    median: float
    low: float
    high: float


def spread_of(values):
    """Median, least and greatest; None without values."""
    present = [value for value in values if isinstance(value, (int, float))]
    if not present:
        return None
    return Spread(statistics.median(present), min(present), max(present))


@dataclasses.dataclass(frozen=True)
class Summary:
    program: object
    nruns: int                    # that succeeded
    failure: str                  # of the first run that did not
    ms: Spread = None
    cpu_ms: Spread = None
    rss_kb: Spread = None         # the kernel's figure
    line_rss_kb: Spread = None    # the program's own
    gc_cycles: Spread = None
    ms_per_gc: Spread = None
    alloc_bytes: Spread = None


def summarize(program, runs):
    mine = [run for run in runs if run.program == program]
    good = [run for run in mine if not run.failure]

    def field(key, among=good):
        return spread_of(run.values.get(key) for run in among)

    return Summary(
        program=program, nruns=len(good), failure=next((run.failure for run in mine if run.failure), ""),
        ms=field("ms"), cpu_ms=spread_of(run.cpu_ms for run in good), rss_kb=spread_of(run.max_rss_kb for run in good),
        line_rss_kb=field("peak_rss"), gc_cycles=field("gc_cycles"), ms_per_gc=field("ms_per_gc", [run for run in good if run.values.get("gc_cycles")]),
        alloc_bytes=field("alloc_bytes"))


def void_reason(summary, go):
    """Why this row cannot be compared with Go's; empty if it can. `go` is the summary of the Go twin or None."""
    if go is None or go.alloc_bytes is None:
        return "no Go twin to compare alloc_bytes with"
    if summary.alloc_bytes is None:
        return "reports no alloc_bytes"
    ours, theirs = summary.alloc_bytes.median, go.alloc_bytes.median
    if abs(ours - theirs) <= ALLOC_BYTES_TOLERANCE * theirs:
        return ""
    return f"alloc_bytes {ours:,.0f} is not within {ALLOC_BYTES_TOLERANCE:.0%} of Go's {theirs:,.0f}"


def rss_disagreement(summary):
    """What to say when the program and the kernel do not agree on the peak; empty if they do."""
    if summary.line_rss_kb is None or summary.rss_kb is None:
        return ""
    own, kernel = summary.line_rss_kb.median, summary.rss_kb.median
    if abs(kernel - own) <= max(RSS_TOLERANCE * kernel, RSS_TOLERANCE_KB):
        return ""
    return f"peak RSS is {own:,.0f} KB by its own line, {kernel:,.0f} KB by the kernel"
