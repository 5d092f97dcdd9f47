#!/usr/bin/env python3
# tests/docs/check_snippets.py -- every piece of C in the documents compiles against the public headers.
"""A piece is a whole program, or declarations and functions that compile behind the usual headers. Argument: COMPILER."""
import argparse
import subprocess
import sys

import markdown

PRELUDE = """
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <teaspan/teaspan.h>
"""
FLAGS = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-Wno-unused-variable"]


def compile_errors(compiler, block, name):
    source = f"{PRELUDE}#line {block.line} \"{name}\"\n{block.text}"
    command = [compiler, *FLAGS, "-I", str(markdown.ROOT / "include"), "-x", "c", "-fsyntax-only", "-"]
    return subprocess.run(command, input=source, text=True, capture_output=True, check=False).stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("compiler")
    compiler = parser.parse_args().compiler
    errors, npieces = "", 0
    for name, text in markdown.documents().items():
        for block in markdown.blocks(text, "c"):
            npieces += 1
            errors += compile_errors(compiler, block, name)
    if npieces == 0:
        sys.exit("no document has a block of C")
    sys.exit(errors or None)


if __name__ == "__main__":
    main()
