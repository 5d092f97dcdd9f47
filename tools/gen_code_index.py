#!/usr/bin/env python3
# tools/gen_code_index.py -- make docs/code-index.md from the first line of every source file; --check compares instead.
"""A source file begins with "path -- purpose" in a comment, after a #! line if it has one. A file without such a line,
or with another file's path in it, is an error."""
import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "docs" / "code-index.md"

# In the order a reader wants them.
FOLDERS = ["include", "gc", "pacer", "scavenger", "base", "platform", "rc", "boehm", "workloads", "lab", "examples",
           "tests", "tools", "cmake"]
ROOT_FILES = ["CMakeLists.txt", "run", "test", ".ci/run"]
SUFFIXES = {".c", ".h", ".hpp", ".cpp", ".py", ".sh", ".go", ".cmake", ".in", ".map"}

HEAD = re.compile(r"(?:/\*|//|#)\s*(\S+) -- (.+?)\s*(?:\*/)?$")


def source_files():
    for name in ROOT_FILES:
        yield ROOT / name
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES or path.name == "CMakeLists.txt":
                yield path


def purpose(path):
    """The text after the dash in the file's first line; None if that line is missing or names another file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if lines and lines[0].startswith("#!"):
        lines = lines[1:]
    match = HEAD.match(lines[0]) if lines else None
    return match[2] if match and match[1] == path.relative_to(ROOT).as_posix() else None


def render():
    sections, headless = {}, []
    for path in source_files():
        name = path.relative_to(ROOT)
        text = purpose(path)
        if text is None:
            headless.append(name.as_posix())
        else:
            sections.setdefault(name.parent.as_posix(), []).append(f"- `{name.as_posix()}`: {text}")
    if headless:
        sys.exit("no \"path -- purpose\" with its own path in the first line: " + ", ".join(headless))
    out = ["# Code index", "", "Made by `tools/gen_code_index.py` from the first line of every source file.", ""]
    for folder, entries in sections.items():
        out += [f"## {'The root' if folder == '.' else folder + '/'}", "", *entries, ""]
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(description="Write docs/code-index.md.")
    parser.add_argument("--check", action="store_true", help="compare with the checked-in file and write nothing")
    check = parser.parse_args().check
    text = render()
    if not check:
        OUTPUT.write_text(text, encoding="utf-8")
    elif not OUTPUT.exists() or OUTPUT.read_text(encoding="utf-8") != text:
        sys.exit(f"{OUTPUT.relative_to(ROOT)} is out of date: run tools/gen_code_index.py")


if __name__ == "__main__":
    main()
