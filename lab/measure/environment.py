# lab/measure/environment.py -- the machine and the versions that a figure belongs to. No path, no host name.
import datetime
import os
import pathlib
import platform
import re
import subprocess

# Over the last minute; a machine at rest is well below.
BUSY_LOAD_AVERAGE = 0.5

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def output_of(*command):
    """The first line a command prints; "unknown" if it cannot be run."""
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.partition("\n")[0].strip() or "unknown"


def file_match(path, pattern):
    """The first group of the first match in a file; "unknown" if there is none."""
    try:
        found = re.search(pattern, pathlib.Path(path).read_text(errors="replace"), re.MULTILINE)
    except OSError:
        found = None
    return found.group(1).strip() if found else "unknown"


def compiler():
    """The one that cmake found for the release build."""
    for path in ROOT.glob("build/CMakeFiles/*/CMakeCCompiler.cmake"):
        return " ".join(file_match(path, rf'CMAKE_C_COMPILER_{field} "([^"]+)"') for field in ("ID", "VERSION"))
    return "unknown"


def describe():
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cpu": file_match("/proc/cpuinfo", r"^model name\s*:\s*(.+)$"),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_kb": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1024,
        "kernel": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "load_average": os.getloadavg()[0],
        "teaspan": file_match(ROOT / "include/teaspan/base.h", r'TEA_VERSION_STRING\s+"([^"]+)"'),
        "commit": output_of("git", "describe", "--always", "--dirty"),
        "compiler": compiler(),
        "libc": " ".join(platform.libc_ver()),
        "go": output_of("go", "env", "GOVERSION"),
        "boehm": output_of("pkg-config", "--modversion", "bdw-gc"),
        "python": platform.python_version(),
        "ld_preload": "LD_PRELOAD" in os.environ,
    }


def sentence(described, nrounds):
    """One line beneath a table."""
    versions = f"Go {described['go'].removeprefix('go')}, Boehm GC {described['boehm']}, {described['compiler']}"
    return (f"{nrounds} rounds, interleaved; {described['cpus']} CPUs, {described['cpu']}, {described['kernel']}; "
            f"{versions}; load at the start {described['load_average']:.1f}{load_remark(described['load_average'])}")


def load_remark(load_average):
    busy = load_average >= BUSY_LOAD_AVERAGE
    return ": OTHER WORK WAS RUNNING, times are too long and spread too far" if busy else ""
