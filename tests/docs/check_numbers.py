#!/usr/bin/env python3
# tests/docs/check_numbers.py -- the constants that the documents quote are those of the code.
"""A row of QUOTED is a constant and the phrases that quote it, `#` standing for its number. Each phrase must occur somewhere,
with the right number wherever it does. In the documents of CLOSED every size with a unit in running text must belong to
such a phrase, so that a number that nobody compares cannot slip in."""
import re
import sys

import constants
import markdown

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40

HEAP, MARK, GOAL, PAGES, SPAN = "gc/heap.c", "gc/mark.h", "pacer/goal.c", "gc/page_heap.h", "gc/span.h"
SIZECLASS, PACER, ARENA, HANDSHAKE = "gc/sizeclass.h", "pacer/pacer.h", "gc/arena.c", "gc/handshake.c"

# constant, the files that define it and what it refers to, its value's divisor, phrases
QUOTED = [
    ("TEAI_PAGE_BYTES", [PAGES], KIB, ["pages of # KiB"]),
    ("TEAI_CHUNK_PAGES", [PAGES], 1, ["chunks of # pages"]),
    ("TEAI_NSIZE_CLASSES", [SIZECLASS], 1, ["# size classes"]),
    ("TEAI_MAX_SMALL_BYTES", [SIZECLASS], KIB, ["objects of up to # KiB", "object above # KiB", "more than # KiB"]),
    ("TEAI_SLOTS_A_PAGE", [SPAN], 1, ["`slot_state` | # bytes", "first page's # state bytes"]),
    ("TEAI_SPAN_SCAN_MAX_BYTES", [SPAN], 1, ["Slots of up to # bytes"]),
    ("TEAI_TINY_BYTES", ["gc/cache.h"], 1, ["less than # bytes", "share #-byte blocks"]),
    ("TEAI_OBLET_BYTES", [MARK], KIB, ["oblets of # KiB", "above # KiB in pieces"]),
    ("TEAI_MAX_MARKERS", [MARK], 1, ["collecting one included: 1 to #", "`markers` | 1 to #"]),
    ("CYCLE_PARALLEL_LEAST_BYTES", ["gc/cycle.c"], MIB, ["heap below # MiB"]),
    ("SWEEP_BACKGROUND_MIN_PAGES", ["gc/sweep.c"], 1, ["at least # pages"]),
    ("STOP_RESEND_NS", [HANDSHAKE], 1000 * 1000, ["sent again every # ms"]),
    ("HEAP_RAM_FACTOR", [HEAP], 1, ["# times the RAM"]),
    ("HEAP_DEFAULT_LEAST_BYTES", [HEAP], GIB, ["at least # GiB"]),
    ("HEAP_LARGEST_BYTES", [HEAP], TIB, ["at most # TiB"]),
    ("HEAP_SMALLEST_BYTES", [HEAP], MIB, ["down to # MiB"]),
    ("HEAP_GROW_STEP_BYTES", [HEAP], MIB, ["in steps of # MiB"]),
    ("ALIGNMENT_MAX_BYTES", ["gc/alloc.c"], MIB, ["up to # MiB"]),
    ("ARENA_DEFAULT_CHUNK_BYTES", [ARENA], KIB, ["chunks of # KiB by default"]),
    ("TEAI_PACER_HEAP_MINIMUM_BYTES", [PACER], MIB, ["at least # MiB * GOGC", "at least # MiB at", "goal is # MiB at"]),
    ("TEAI_PACER_HEAP_MINIMUM_BYTES", [PACER], 2 * MIB, ["# MiB at 50"]),
    ("TEAI_PACER_HEAP_MINIMUM_BYTES", [PACER], MIB // 4, ["# MiB at 400"]),
    ("LATEST_TRIGGER_PARTS", [GOAL], 1, ["#/64 of the way"]),
    ("RUNWAY_PARTS", [GOAL], 1, ["61/# of the way"]),
    ("latest_trigger_distance_bytes", [GOAL, PACER], MIB, ["or # MiB below the goal"]),
    ("LIMIT_HEADROOM_PERCENT", [GOAL], 1, ["less # %"]),
    ("limit_headroom_min_bytes", [GOAL], MIB, ["or # MiB, whichever"]),
    ("TEAI_POISON_BYTE", ["base/config.h"], 1, ["the byte #"]),
]

CLOSED = ["README.md", "docs/how-it-works.md", "docs/tuning.md", "docs/from-malloc.md", "docs/from-boehm.md",
          "docs/embedding.md"]


SIZE = re.compile(r"\d[\d,]*\s[KMGT]iB\b")


def phrase_pattern(phrase):
    """Words may be separated by a line break instead of a space."""
    words = [re.escape(word).replace(r"\#", r"(0x[0-9a-f]+|\d[\d,]*)") for word in phrase.split(" ")]
    return re.compile(r"(?<!\w)" + r"\s+".join(words), re.IGNORECASE)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def check_phrase(documents, phrase, expected, name):
    """Errors, and where in which document the phrase occurs: (document, first position, last position)."""
    errors, places = [], []
    for document, text in documents.items():
        for match in phrase_pattern(phrase).finditer(text):
            places.append((document, match.start(), match.end()))
            if int(match[1].replace(",", ""), 0) != expected:
                errors.append(f"{document}:{line_of(text, match.start())}: \"{match[0]}\", but {name} makes it {expected}")
    if not places:
        errors.append(f"no document says \"{phrase}\" ({name})")
    return errors, places


def check_sizes(documents, places):
    """Sizes of closed documents that are no part of any phrase."""
    for document in CLOSED:
        text = documents[document]
        for match in SIZE.finditer(text):
            if not any(where == document and first <= match.start() and match.end() <= last
                       for where, first, last in places):
                yield (f"{document}:{line_of(text, match.start())}: nothing compares \"{match[0]}\" with the code: "
                       "add its phrase to QUOTED")


def main():
    documents = markdown.documents()
    errors, places = [], []
    for name, files, divisor, phrases in QUOTED:
        expected = constants.value_of(name, *files) // divisor
        for phrase in phrases:
            found, where = check_phrase(documents, phrase, expected, name)
            errors += found
            places += where
    errors += check_sizes(documents, places)
    sys.exit("\n".join(errors) or None)


if __name__ == "__main__":
    main()
