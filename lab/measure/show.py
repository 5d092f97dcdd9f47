# lab/measure/show.py -- tables, notes and a progress bar; in a pipe the tables alone, without colour.
import contextlib
import sys

import rich.box
import rich.console
import rich.progress
import rich.table

MIN_WIDTH = 116    # what the widest table needs
NOTHING = "-"


def make_console():
    """One that knows whether a person watches, and in a pipe prints the same on every machine."""
    console = rich.console.Console(highlight=False, markup=False, emoji=False)
    console.width = max(console.width, MIN_WIDTH) if console.is_terminal else MIN_WIDTH
    return console


def make_table(title, left, right):
    """A table with its text columns first and its columns of figures after them."""
    table = rich.table.Table(title=f"\n{title}", title_justify="left", title_style="bold", box=rich.box.SIMPLE_HEAD,
                             show_edge=False, padding=(0, 1, 0, 0))
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def number(value, decimals=0):
    return NOTHING if value is None else f"{value:.{decimals}f}"


def decimals_for(value):
    """Three digits or more: 1.6, 29.3, 116."""
    return 0 if value >= 100 else 1


def spread(values, decimals=0):
    """'512 (498-530)': the median and the range, the latter left out where it cannot be told from the median."""
    if values is None:
        return NOTHING
    median, low, high = (number(value, decimals) for value in (values.median, values.low, values.high))
    return median if low == high else f"{median} ({low}-{high})"


def print_notes(console, notes):
    console.print()
    for note in notes:
        console.print(f"  {note}", soft_wrap=not console.is_terminal)


@contextlib.contextmanager
def progress_bar(console, total):
    """Yields advance(program), to be called before each turn; draws nothing in a pipe."""
    columns = [rich.progress.BarColumn(), rich.progress.MofNCompleteColumn(), rich.progress.TimeElapsedColumn(),
               rich.progress.TextColumn("{task.description}")]
    # Drawn once a second: a bar that moves more often takes time from what is measured.
    with rich.progress.Progress(*columns, console=console, transient=True, refresh_per_second=1,
                                disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total)
        turns = iter(range(total))

        def advance(program):
            bar.update(task, completed=next(turns), description=f"{program.case}, {program.heap}")

        yield advance
