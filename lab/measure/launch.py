# lab/measure/launch.py -- run one program and measure it from outside.
"""Problem. The peak memory that the kernel reports for a process (ru_maxrss) starts at the peak of the process that
called exec: a program started by a Python of 30 MB seems to need 30 MB, whatever it does. (Linux, fs/exec.c:
exec_mmap keeps the larger figure in signal->maxrss; a fork starts anew, from the copy of the parent's memory.)

So a small shell forks the program, tells its process id and ends. This process has declared itself the reaper of
orphans, inherits the program, and waits for it with wait4(): CPU time and peak memory are then the program's alone. The
program starts only when the shell is gone, which could otherwise reap it itself.
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
FORK_AND_WAIT_FOR_A_LINE = """
out=$1 err=$2; shift 2
exec 3<&0
(read -r go <&3 && exec "$@" >"$out" 2>"$err" 3<&-) &
echo $!
"""


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


def fork_orphan(command, folder, environment, stdout_path, stderr_path):
    """Returns the process id of a child of this process, and the pipe on which it awaits the line to start."""
    shell = ["/bin/sh", "-c", FORK_AND_WAIT_FOR_A_LINE, "sh", stdout_path, stderr_path, *command]
    with subprocess.Popen(shell, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        pid = int(parent.stdout.readline())
        parent.wait()
        start_pipe = os.dup(parent.stdin.fileno())
    return pid, start_pipe


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
        pid, start_pipe = fork_orphan(command, folder, environment, stdout.name, stderr.name)
        begin = time.monotonic()
        os.write(start_pipe, b"\n")
        os.close(start_pipe)
        timed_out, status, usage = reap(pid, timeout_s)
        wall_s = time.monotonic() - begin
        return Finished(status=status, timed_out=timed_out, stdout=stdout.read(), stderr=stderr.read(), wall_s=wall_s,
                        user_s=usage.ru_utime, system_s=usage.ru_stime, max_rss_kb=usage.ru_maxrss)
