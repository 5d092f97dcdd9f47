# lab/measure/launch.py -- run one program and measure it from outside.
"""Problem. The peak memory that the kernel reports for a process (ru_maxrss) starts at the peak of the process that
called exec: a program started by a Python of 30 MB seems to need 30 MB, whatever it does. (Linux, fs/exec.c:
exec_mmap keeps the larger figure in signal->maxrss; a fork starts anew, from the copy of the parent's memory.)

So a small shell starts the program in the background and ends. This process has declared itself the reaper of orphans,
inherits the program, and waits for it with wait4(): CPU time and peak memory are then the program's alone.
"""
import ctypes
import dataclasses
import os
import select
import signal
import subprocess
import tempfile
import time

PR_SET_CHILD_SUBREAPER = 36
START_IN_BACKGROUND = 'out=$1 err=$2; shift 2; "$@" >"$out" 2>"$err" </dev/null & echo $!'


@dataclasses.dataclass(frozen=True)
class Finished:
    status: int  # exit status; negative: the signal that ended it
    timed_out: bool
    stdout: str
    stderr: str
    wall_s: float
    user_s: float
    system_s: float
    max_rss_kb: int


def become_reaper():
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def start_orphan(command, folder, environment, stdout_path, stderr_path):
    """Start `command` as a child of a shell that ends at once; returns its process id."""
    shell = ["/bin/sh", "-c", START_IN_BACKGROUND, "sh", stdout_path, stderr_path, *command]
    started = subprocess.run(shell, cwd=folder, env=environment, stdout=subprocess.PIPE, check=True)
    return int(started.stdout)


def ends_in_time(pid, timeout_s):
    pidfd = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))
    finally:
        os.close(pidfd)


def reap(pid, timeout_s):
    """Wait for the program; end it when its time is up, and when this process is interrupted."""
    timed_out = True
    try:
        timed_out = not ends_in_time(pid, timeout_s)
    finally:
        if timed_out:
            os.kill(pid, signal.SIGKILL)
        _, status, usage = os.wait4(pid, 0)
    return timed_out, os.waitstatus_to_exitcode(status), usage


def launch(command, folder, environment, timeout_s):
    """Run `command` in `folder` with exactly this environment and no input, for at most timeout_s seconds."""
    become_reaper()
    with tempfile.NamedTemporaryFile("r", errors="replace") as stdout, \
            tempfile.NamedTemporaryFile("r", errors="replace") as stderr:
        begin = time.monotonic()
        pid = start_orphan(command, folder, environment, stdout.name, stderr.name)
        timed_out, status, usage = reap(pid, timeout_s)
        wall_s = time.monotonic() - begin
        return Finished(status=status, timed_out=timed_out, stdout=stdout.read(), stderr=stderr.read(), wall_s=wall_s,
                        user_s=usage.ru_utime, system_s=usage.ru_stime, max_rss_kb=usage.ru_maxrss)
