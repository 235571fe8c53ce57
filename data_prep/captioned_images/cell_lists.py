"""Lists in cells of text tables, as JSON, Python and NumPy write them.

["a", null]     ['a', nan]     ('a', 'b')     ['a' 'b'     array(['a', 'b'], dtype=object)
                                               'c']
"""

import ast
import re
from typing import Any

from data_prep.untrusted.json_text import parse_json_text

NOTHING = frozenset(("nan", "NaN", "None", "null", "NULL", "NaT", "<NA>", "NA", "#N/A"))
"""How writers of tables spell a missing value; the last two are R's and spreadsheets'."""

_TEXT = r"""[ub]?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_ITEM = re.compile(rf"({_TEXT}|{'|'.join(NOTHING)})(\s*,\s*|\s+|$)", re.DOTALL)
_ARRAY = re.compile(r"array\((\[.*\])(?:,\s*dtype=[^\[\]]*)?\)", re.DOTALL)
# What else starts like this is no caption: lists of lists, of objects, of numbers and texts, R's
# `c("a", "b")`, lists in quotes, and Python's bytes.
_OPENERS = ("[", "{", "array(", 'c("', '"[', "'[", "b'", 'b"')
# Spark and str.join write lists without quotes; so may be a caption in brackets.
_WITHOUT_QUOTES = re.compile(r"\[[^\[\]]*,[^\[\]]*\]", re.DOTALL)
_WRITE = "write lists as JSON, captions without brackets"
_START = re.compile(
    r"""(\[|\{|array\(\[|c\(|["']\[)[\s\[({]*(?:[-+.\d]+[\s,:]+)*\\?[ub]?['"]"""
    r"""|b(?:'[^']*'|"[^"]*")$"""
)


def list_items(value: Any) -> list[Any] | None:
    """Returns the items of a list; None in it are missing values. Returns None for no list.

    Args:
      value: value of a cell, text or not.

    Raises:
      ValueError: it starts like a list, but cannot be read as one, or in two ways.
    """
    if isinstance(value, list):
        return value
    if not isinstance(value, str):
        return None
    text = value.strip()
    if (array := _ARRAY.fullmatch(text)) is not None:
        text = array[1]
    if not text.startswith(("(", *_OPENERS)):
        return None
    if text.startswith("["):
        try:
            return list(parse_json_text(text))
        except ValueError:
            pass
    items = _python_items(text)
    # A caption may be in parentheses.
    if items is None and _START.match(text):
        raise ValueError(f"{text!r:.80} starts like a list")
    if items is None and _WITHOUT_QUOTES.fullmatch(text):
        raise ValueError(f"{text!r:.80} may be a list without quotes, or one caption; {_WRITE}")
    return items


def _python_items(text: str) -> list[Any] | None:
    """The items of a list with or without commas, or of a tuple; None if it is neither."""
    if text[0] + text[-1] not in ("[]", "()"):
        return None
    inner, items, separators, place = text[1:-1].strip(), list[Any](), set[bool](), 0
    while place < len(inner):
        found = _ITEM.match(inner, place)
        if found is None:
            return None
        place = found.end()
        try:
            items.append(None if found[1] in NOTHING else _text(found[1]))
        except (SyntaxError, ValueError):  # such as "C:\\users", or bytes that are no UTF-8
            return None
        if place < len(inner):
            separators.add("," in found[2])
    is_tuple_of_one = text[0] == "(" and len(items) == 1 and inner.endswith(",")
    if len(separators) > 1 or (text[0] == "(" and separators != {True} and not is_tuple_of_one):
        return None
    return items


def _text(literal: str) -> str:
    text = ast.literal_eval(literal.replace("\r\n", "\\n").replace("\n", "\\n"))
    return text.decode("utf-8") if isinstance(text, bytes) else str(text)
