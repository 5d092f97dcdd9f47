# tests/docs/markdown.py -- the documents of the project, and the parts of them that the tests look at.
"""Only what the documents use of Markdown: fenced blocks with a language, inline links, headings, tables with pipes."""
import pathlib
import re
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language ("" if none is given), its text, the number of its first line."""
    language: str
    text: str
    line: int


def documents():
    """Every document of the project, by its path from the root."""
    paths = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(paths)}


def blocks(text, language=None):
    found = [Block(match[1], match[2], text.count("\n", 0, match.start()) + 2) for match in FENCE.finditer(text)]
    return [block for block in found if language is None or block.language == language]


def prose(text):
    """The text with its fenced and indented blocks blanked out; line numbers stay."""
    text = FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
    return re.sub(r"^(?: {4}|\t).*$", "", text, flags=re.MULTILINE)


def table_rows(text, first_heading):
    """The rows, as lists of cells, of every table whose first column is called `first_heading`."""
    inside = False
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if inside and not set(cells[0]) <= set("-: "):
            yield cells
        inside = inside or cells[0] == first_heading


def anchors(text):
    """What `#name` may lead to: the headings, named as the usual web front ends name them."""
    headings = re.findall(r"^#+ (.+)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
