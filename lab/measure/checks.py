# lab/measure/checks.py -- a figure, the bound it has to keep, and whether it does.
"""Each check names the programs it needs and judges their runs. All programs of all checks run interleaved; programs that
two checks share run once."""
import dataclasses
import statistics

from . import show, summary

PASS, FAIL, VOID, FAILED, NOT_BUILT = "pass", "FAIL", "void", "failed", "not built"
KB_BYTES = 1024
KB_PER_MIB = 1024


@dataclasses.dataclass(frozen=True)
class Verdict:
    name: str
    outcome: str
    bound: str
    figure: str = show.NOTHING    # the ratio, or the figure itself where nothing is divided
    ours: str = show.NOTHING
    theirs: str = show.NOTHING
    our_cpu_ms: float = None
    their_cpu_ms: float = None
    reason: str = ""              # why it is void or failed


def field_of(run, field):
    return run.max_rss_kb if field == "max_rss_kb" else run.values.get(field)


def median_of(runs, field):
    values = [field_of(run, field) for run in runs]
    return statistics.median(values) if values and None not in values else None


def field_text(value, field):
    if field == "max_rss_kb":
        return show.number(value / KB_PER_MIB, 1)
    return show.number(value, show.decimals_for(value) if field in ("ms", "ms_per_gc") else 0)


def cpu_ms(runs):
    return statistics.median(run.cpu_ms for run in runs)


class Check:
    """What all checks do before they look at a figure: see whether their programs ran."""
    name = bound = ""
    programs = ()

    def judge(self, runs):
        mine = {program: [run for run in runs if run.program == program] for program in self.programs}
        for program, its_runs in mine.items():
            if not its_runs:
                return self.verdict(NOT_BUILT, reason=f"{program.binary} is not built")
            failure = next((run.failure for run in its_runs if run.failure), "")
            if failure:
                return self.verdict(FAILED, reason=f"{program.shell_text()}: {failure}")
        return self.judge_runs(*mine.values())

    def verdict(self, outcome, **more):
        return Verdict(name=self.name, outcome=outcome, bound=self.bound, **more)

    def missing(self, field):
        return self.verdict(FAILED, reason=f"no {field}= in the result line")


class Ratio(Check):
    """A figure of ours over the same of theirs, at most a bound; medians, with the range of single rounds."""

    def __init__(self, name, ours, theirs, field, at_most):
        self.name, self.field, self.at_most = name, field, at_most
        self.programs = (ours, theirs)
        self.bound = f"<= {at_most:.2f}"

    def judge_runs(self, our_runs, their_runs):
        ours, theirs = median_of(our_runs, self.field), median_of(their_runs, self.field)
        if ours is None or not theirs:
            return self.missing(self.field)
        ratio = ours / theirs
        by_round = [field_of(a, self.field) / field_of(b, self.field) for a, b in zip(our_runs, their_runs)]
        reason = self.void_reason(our_runs, their_runs)
        outcome = VOID if reason else PASS if ratio <= self.at_most else FAIL
        return self.verdict(
            outcome, figure=f"{ratio:.2f} ({min(by_round):.2f}-{max(by_round):.2f})", reason=reason,
            ours=field_text(ours, self.field), theirs=field_text(theirs, self.field),
            our_cpu_ms=cpu_ms(our_runs), their_cpu_ms=cpu_ms(their_runs))

    def void_reason(self, our_runs, their_runs):
        ours, theirs = (summary.summarize(runs[0].program, runs) for runs in (our_runs, their_runs))
        return summary.void_reason(ours, theirs, self.programs[1].heap)


class Within(Check):
    """The median of a figure of ours lies between two bounds."""

    def __init__(self, name, ours, field, low, high):
        self.name, self.field, self.low, self.high = name, field, low, high
        self.programs = (ours,)
        low_text, high_text = field_text(low, field), field_text(high, field)
        self.bound = low_text if low == high else f"{low_text}-{high_text}"

    def judge_runs(self, our_runs):
        ours = median_of(our_runs, self.field)
        if ours is None:
            return self.missing(self.field)
        values = [field_of(run, self.field) for run in our_runs]
        low, high = field_text(min(values), self.field), field_text(max(values), self.field)
        return self.verdict(PASS if self.low <= ours <= self.high else FAIL, ours=field_text(ours, self.field),
                            figure=low if low == high else f"({low}-{high})", our_cpu_ms=cpu_ms(our_runs))


class Says(Check):
    """Every run of ours gives one word for a key of its result line."""

    def __init__(self, name, ours, key, word):
        self.name, self.key, self.word = name, key, word
        self.programs = (ours,)
        self.bound = word

    def judge_runs(self, our_runs):
        words = list(dict.fromkeys(str(run.values.get(self.key, show.NOTHING)) for run in our_runs))
        return self.verdict(PASS if words == [self.word] else FAIL, figure="/".join(words), our_cpu_ms=cpu_ms(our_runs))


class PeakForAllocated(Check):
    """Peak memory at most `factor` times the bytes allocated plus `extra_bytes`: a heap that is never collected."""

    def __init__(self, name, ours, factor, extra_bytes):
        self.name, self.factor, self.extra_bytes = name, factor, extra_bytes
        self.programs = (ours,)
        self.bound = "<= 1.00"

    def judge_runs(self, our_runs):
        peak_kb, allocated = median_of(our_runs, "max_rss_kb"), median_of(our_runs, "alloc_bytes")
        if allocated is None:
            return self.missing("alloc_bytes")
        allowed_kb = (self.factor * allocated + self.extra_bytes) / KB_BYTES
        return self.verdict(PASS if peak_kb <= allowed_kb else FAIL, figure=show.number(peak_kb / allowed_kb, 2),
                            ours=field_text(peak_kb, "max_rss_kb"), theirs=field_text(allowed_kb, "max_rss_kb"),
                            our_cpu_ms=cpu_ms(our_runs))
