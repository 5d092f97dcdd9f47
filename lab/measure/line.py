# lab/measure/line.py -- read the result line of a workload.
"""WORKLOAD: variant=... allocs=... peak_rss=NKB ms=N gc_cycles=N alloc_bytes=N alloc_objects=N ..."""
import re

KB_SUFFIX = "KB"
FIELD = re.compile(r"(\w+(?:\.\d+_\w+)?)=(\S*)")


def number_or_text(text):
    """'12' -> 12, '4.5' -> 4.5, '9612KB' -> 9612, all else as it is."""
    digits = text.removesuffix(KB_SUFFIX)
    for kind in (int, float):
        try:
            return kind(digits)
        except ValueError:
            pass
    return text


def parse_result_line(output, workload):
    """The fields of the last line of `output` that begins with 'WORKLOAD:', by key; None if there is no such line."""
    for line in reversed(output.splitlines()):
        name, colon, fields = line.partition(":")
        if colon and name == workload:
            return {key: number_or_text(value) for key, value in FIELD.findall(fields)}
    return None
