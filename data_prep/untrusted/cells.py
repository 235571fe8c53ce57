"""Cells of tables that people open in a spreadsheet."""

import unicodedata

# What starts a formula; of full width, too, and after blanks.
_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def inert_cell(value: object) -> object:
    """Returns a cell that a spreadsheet shows and does not run; numbers stay numbers.

    The apostrophe before a formula is the spreadsheets' own mark of text.
    """
    if not isinstance(value, str):
        return value
    if not unicodedata.normalize("NFKC", value.lstrip(" ")[:1]).startswith(_STARTS):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
