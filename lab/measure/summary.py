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
    present = list(values)
    if not present:
        return None
    return Spread(statistics.median(present), min(present), max(present))


@dataclasses.dataclass(frozen=True)
class Summary:
    program: object
    nruns: int                    # that succeeded
    failure: str                  # of the first run that did not
    cpu_ms: Spread = None
    rss_kb: Spread = None         # the kernel's figure; the program's own is of("peak_rss")
    figures: dict = dataclasses.field(default_factory=dict)  # of the result line: key to Spread
    words: dict = dataclasses.field(default_factory=dict)    # keys that hold no number: key to the words seen

    def of(self, key):
        return self.figures.get(key)


def by_key(runs):
    """The values of every key of the result lines, over all runs."""
    values = {}
    for run in runs:
        for key, value in run.values.items():
            values.setdefault(key, []).append(value)
    return values


def summarize(program, runs):
    mine = [run for run in runs if run.program == program]
    good = [run for run in mine if not run.failure]
    figures, words = {}, {}
    for key, values in by_key(good).items():
        if all(isinstance(value, (int, float)) for value in values):
            figures[key] = spread_of(values)
        else:
            words[key] = "/".join(dict.fromkeys(map(str, values)))
    if "gc_cycles" in figures and figures["gc_cycles"].median == 0:
        figures.pop("ms_per_gc", None)    # what is not collected takes no time a collection
    return Summary(program=program, nruns=len(good), failure=next((run.failure for run in mine if run.failure), ""),
                   cpu_ms=spread_of(run.cpu_ms for run in good), rss_kb=spread_of(run.max_rss_kb for run in good),
                   figures=figures, words=words)


def void_reason(summary, other, other_name="Go"):
    """Why a row cannot be compared with another program's, Go's twin as a rule; empty if it can. `other` is that
    program's summary or None."""
    if other is None or other.of("alloc_bytes") is None:
        return f"no {other_name} twin to compare alloc_bytes with"
    if summary.of("alloc_bytes") is None:
        return "reports no alloc_bytes"
    ours, theirs = summary.of("alloc_bytes").median, other.of("alloc_bytes").median
    if abs(ours - theirs) <= ALLOC_BYTES_TOLERANCE * theirs:
        return ""
    return f"alloc_bytes {ours:,.0f} is not within {ALLOC_BYTES_TOLERANCE:.0%} of {other_name}'s {theirs:,.0f}"


def rss_disagreement(summary):
    """What to say when the program and the kernel do not agree on the peak; empty if they do."""
    if summary.of("peak_rss") is None:
        return ""
    own, kernel = summary.of("peak_rss").median, summary.rss_kb.median
    if abs(kernel - own) <= max(RSS_TOLERANCE * kernel, RSS_TOLERANCE_KB):
        return ""
    return f"peak RSS is {own:,.0f} KB by its own line, {kernel:,.0f} KB by the kernel"
