#!/usr/bin/env python3
# tests/docs/check_links.py -- every link between the documents, and from them to files, leads somewhere.
"""Also the paths that stand in running text between backquotes and name a folder of the project first."""
import re
import sys

import markdown

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FOLDERS = ("base", "cmake", "docs", "examples", "gc", "include", "lab", "pacer", "platform", "tests", "tools", "workloads")
PATH = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*\w\.\w+)`")


def check_link(documents, name, target):
    """None, or what is wrong with a link in document `name`."""
    if re.match(r"[a-z]+:", target):
        return None
    path, _, anchor = target.partition("#")
    found = (markdown.ROOT / name).parent / path if path else markdown.ROOT / name
    if not found.exists():
        return f"{target} does not exist"
    if anchor:
        text = documents.get(found.resolve().relative_to(markdown.ROOT).as_posix(), "")
        if anchor not in markdown.anchors(text):
            return f"{target}: no such heading"
    return None


def check_document(documents, name):
    for number, line in enumerate(markdown.prose(documents[name]).splitlines(), start=1):
        for target in LINK.findall(line):
            error = check_link(documents, name, target)
            if error:
                yield f"{name}:{number}: {error}"
        for path in PATH.findall(line):
            if not (markdown.ROOT / path).exists():
                yield f"{name}:{number}: {path} does not exist"


def main():
    documents = markdown.documents()
    errors = [error for name in documents for error in check_document(documents, name)]
    sys.exit("\n".join(errors) or None)


if __name__ == "__main__":
    main()
