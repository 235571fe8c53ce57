"""Cells of tables that people open in a spreadsheet."""

import unicodedata

_STARTS = ("=", "+", "-", "@")  # Of a formula.
_UNSEEN = "ZC"  # Categories of blanks, byte-order marks and control characters.


def inert_cell(value: object) -> object:
    """Returns a cell that a spreadsheet shows and does not run; numbers stay numbers.

    The apostrophe before a formula is the spreadsheets' own mark of text.
    """
    if not isinstance(value, str):
        return value
    seen = next((char for char in value if unicodedata.category(char)[0] not in _UNSEEN), "")
    # Characters of full width count, too.
    if not unicodedata.normalize("NFKC", seen).startswith(_STARTS):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
