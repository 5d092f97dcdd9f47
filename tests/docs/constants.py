# tests/docs/constants.py -- the values of enumerators and macros, read from the C sources that define them.
"""Enough of C for integer constants: `NAME = expression` in an enum, `#define NAME expression`, `NAME = expression;` of a
static const, with casts, integer suffixes, sums, products, shifts, and names that the same file or a header it is given
with defines. Names never defined are an error, so a renamed constant is noticed."""
import ast
import operator
import re

import markdown

OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
             ast.Div: operator.floordiv, ast.LShift: operator.lshift, ast.RShift: operator.rshift, ast.BitOr: operator.or_}


def _definition(name, text):
    """The expression that defines `name`, or None."""
    match = re.search(rf"#define {name}\s+(.+?)\s*(?:/\*.*)?$", text, re.MULTILINE)
    if match is None:
        match = re.search(rf"\b{name}\s*=\s*(.+?)\s*(?:,|;|\}}|/\*|\n\s*\}}|$)", text, re.MULTILINE)
    return match[1] if match else None


def _to_python(expression):
    expression = re.sub(r"\((?:size_t|u?int\d+_t)\)", "", expression)
    expression = re.sub(r"U?INT64_C\((\w+)\)", r"\1", expression)
    return re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", expression)


def _evaluate(node, text):
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_evaluate(node.left, text), _evaluate(node.right, text))
    if isinstance(node, ast.Name):
        return _value(node.id, text)
    raise ValueError(f"not an integer expression: {ast.unparse(node)}")


def _value(name, text):
    expression = _definition(name, text)
    if expression is None:
        raise KeyError(name)
    return _evaluate(ast.parse(_to_python(expression).strip(), mode="eval").body, text)


def value_of(name, *files):
    """The value of `name`, defined in the first of `files`; the others define what its expression refers to."""
    text = "\n".join((markdown.ROOT / file).read_text(encoding="utf-8") for file in files)
    try:
        return _value(name, text)
    except KeyError as error:
        raise SystemExit(f"{files[0]}: {error.args[0]} is not defined there") from error
