#!/usr/bin/env python3
# tests/docs/check_readme.py -- the README's first program, built and run by the README's commands, prints what it shows.
"""The build folder is installed to a scratch prefix, which takes the place of the README's own building and installing.
Every further block of shell commands then runs as it stands, in a folder with first.c and CMakeLists.txt from the README;
what it prints must end with the output shown, once for each time that it starts the program."""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import markdown


def first_block(text, language):
    found = markdown.blocks(text, language)
    if not found:
        sys.exit(f"README.md: no block of {language}")
    return found[0].text


def install(cmake, build_dir, prefix):
    subprocess.run([cmake, "--install", build_dir, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)


def run_commands(block, folder, prefix, libdir):
    """What the commands print. `lib` is the README's word for what this system calls `libdir`."""
    environment = {name: value for name, value in os.environ.items() if name not in ("GOGC", "GODEBUG", "TEASPAN")}
    commands = f"prefix={prefix}\n" + block.text.replace("$prefix/lib", f"$prefix/{libdir}")
    result = subprocess.run(["sh", "-eu", "-c", commands], cwd=folder, env=environment, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if result.returncode != 0:
        sys.exit(f"README.md:{block.line}: commands failed with status {result.returncode}:\n{result.stdout}")
    return result.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cmake")
    parser.add_argument("build_dir")
    parser.add_argument("libdir")
    arguments = parser.parse_args()

    readme = markdown.documents()["README.md"]
    expected = first_block(readme, "text")
    using = [block for block in markdown.blocks(readme, "sh") if "/first" in block.text]
    if len(using) < 3:
        sys.exit("README.md: want blocks of commands for the shared library, the archive, and CMake")

    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) / "program"
        folder.mkdir()
        prefix = pathlib.Path(scratch) / "teaspan"
        install(arguments.cmake, arguments.build_dir, prefix)
        (folder / "first.c").write_text(first_block(readme, "c"), encoding="utf-8")
        (folder / "CMakeLists.txt").write_text(first_block(readme, "cmake"), encoding="utf-8")
        for block in using:
            printed = run_commands(block, folder, prefix, arguments.libdir)
            starts = sum(line.endswith("/first") for line in block.text.splitlines())
            if printed.count(expected) != starts or not printed.endswith(expected):
                sys.exit(f"README.md:{block.line}: expected {expected!r} {starts} times, got:\n{printed}")


if __name__ == "__main__":
    main()
