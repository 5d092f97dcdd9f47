# lab/measure/rounds.py -- every program once a round: A B A B, never A A B B.
"""What else the machine does changes over minutes. Interleaved, it meets all programs alike; one after the other, it
decides which of them looks slow."""
import os

from . import program as programs


def is_built(program, bin_dir):
    return os.access(os.path.join(bin_dir, program.binary), os.X_OK)


def run_rounds(to_run, nrounds, bin_dir, timeout_s, advance=lambda program: None):
    """All runs, in the order made. A program that failed once is not run again: its row is lost anyway, and one that
    hangs would hold up all others every round. Calls advance(program) before each turn."""
    runs, failed = [], set()
    for round_number in range(1, nrounds + 1):
        for program in to_run:
            advance(program)
            if program in failed:
                continue
            run = programs.run_once(program, round_number, bin_dir, timeout_s)
            runs.append(run)
            if run.failure:
                failed.add(program)
    return runs
