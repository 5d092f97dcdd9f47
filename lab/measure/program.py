# lab/measure/program.py -- what to run, and what one run of it gave.
import dataclasses
import os
import signal

from . import launch, line

# Settings that change what a heap does. A program gets those its row of the table names and no others.
STEERING_NAMES = {"GOGC", "GOMEMLIMIT", "GODEBUG", "GOMAXPROCS", "TEASPAN", "GLIBC_TUNABLES"}
STEERING_PREFIXES = ("GC_", "MALLOC_")


@dataclasses.dataclass(frozen=True)
class Program:
    case: str                 # the row: "coll putget"
    heap: str                 # whose memory: "gc", "go", ...
    binary: str               # "coll-gc"
    arguments: tuple = ()
    settings: tuple = ()      # ("GOGC=25", ...)
    cpus: str = ""            # pinned there, as taskset writes it: "0"

    @property
    def workload(self):
        return self.binary.rpartition("-")[0]

    def command(self):
        """To be run in the folder of the programs, so that no path of this machine gets into any message."""
        pinning = ["taskset", "-c", self.cpus] if self.cpus else []
        return [*pinning, f"./{self.binary}", *self.arguments]

    def shell_text(self):
        return " ".join([*self.settings, *self.command()])


@dataclasses.dataclass(frozen=True)
class Run:
    program: Program
    round: int
    values: dict              # of the result line; empty after a failure
    wall_ms: float
    user_ms: float
    system_ms: float
    max_rss_kb: int
    failure: str = ""         # why this run counts for nothing

    @property
    def cpu_ms(self):
        return self.user_ms + self.system_ms


def is_steering(name):
    return name in STEERING_NAMES or name.startswith(STEERING_PREFIXES)


def hidden_settings(environ):
    """Names of settings of the caller's that runs do not see."""
    return sorted(name for name in environ if is_steering(name))


def environment_for(program, environ):
    kept = {name: value for name, value in environ.items() if not is_steering(name)}
    return kept | dict(setting.split("=", 1) for setting in program.settings)


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1] if lines else "(nothing on stderr)"


def failure_of(finished, values, timeout_s):
    if finished.timed_out:
        return f"timed out after {timeout_s:g} s"
    if finished.status < 0:
        return f"killed by {signal.Signals(-finished.status).name}: {last_line(finished.stderr)}"
    if finished.status != 0:
        return f"exit status {finished.status}: {last_line(finished.stderr)}"
    if values is None:
        return "printed no result line"
    return ""


def run_once(program, round_number, bin_dir, timeout_s):
    finished = launch.launch(program.command(), bin_dir, environment_for(program, os.environ), timeout_s)
    values = line.parse_result_line(finished.stdout, program.workload)
    failure = failure_of(finished, values, timeout_s)
    return Run(program=program, round=round_number, values={} if failure else values,
               wall_ms=finished.wall_s * 1e3, user_ms=finished.user_s * 1e3, system_ms=finished.system_s * 1e3,
               max_rss_kb=finished.max_rss_kb, failure=failure)
