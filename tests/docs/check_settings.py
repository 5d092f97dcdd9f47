#!/usr/bin/env python3
# tests/docs/check_settings.py -- documents name the keys of GODEBUG and TEASPAN that gc/settings.c knows, and no others.
"""The README's and tuning.md's tables of TEASPAN keys list every key; each GODEBUG key occurs in the README; and wherever a
document sets a key, the collector knows it. Keys that only a Go program knows are none of ours to name."""
import re
import sys

import markdown

SETTINGS = markdown.ROOT / "gc" / "settings.c"
TABLES = ["README.md", "docs/tuning.md"]
VARIABLES = {"GOGC", "GOMEMLIMIT", "GODEBUG", "TEASPAN"}


def known_keys():
    source = SETTINGS.read_text(encoding="utf-8")
    table = re.search(r"setting_keys\[\] = \{(.*?)\n\};", source, re.DOTALL)[1]
    teaspan = set(re.findall(r'\{\s*"(\w+)"', table))
    godebug = set(re.findall(r'strcmp\(setting\.key, "(\w+)"\)', source))
    variables = set(re.findall(r'get\("(\w+)"\)', source))
    if not teaspan or not godebug:
        sys.exit("gc/settings.c: the keys are not where this test looks for them")
    return {"TEASPAN": teaspan, "GODEBUG": godebug}, variables


def keys_set(text, variable):
    """The keys in VARIABLE=key=value,key=value wherever a document has that, but for the placeholder `key` itself."""
    for match in re.finditer(rf"\b{variable}=((?:\w+=\w+,?)+)", text):
        line = text.count("\n", 0, match.start()) + 1
        for key in re.findall(r"(\w+)=", match[1]):
            if key != "key":
                yield key, line


def check_mentions(documents, known):
    for name, text in documents.items():
        for variable, keys in known.items():
            for key, line in keys_set(text, variable):
                if key not in keys:
                    yield f"{name}:{line}: {variable} has no key {key}"


def check_tables(documents, keys):
    for name in TABLES:
        listed = {row[0].strip("`") for row in markdown.table_rows(documents[name], "TEASPAN key")}
        for key in keys - listed:
            yield f"{name}: the table of TEASPAN keys lacks {key}"
        for key in listed - keys:
            yield f"{name}: the table of TEASPAN keys has {key}, which gc/settings.c does not know"


def check_godebug(documents, keys):
    named = {key for key, _ in keys_set(documents["README.md"], "GODEBUG")}
    for key in keys - named:
        yield f"README.md: GODEBUG={key} is not mentioned"


def main():
    documents = markdown.documents()
    known, variables = known_keys()
    errors = [*check_mentions(documents, known), *check_tables(documents, known["TEASPAN"]),
              *check_godebug(documents, known["GODEBUG"])]
    if variables != VARIABLES:
        errors.append(f"gc/settings.c reads {sorted(variables)}, this test expects {sorted(VARIABLES)}")
    sys.exit("\n".join(errors) or None)


if __name__ == "__main__":
    main()
