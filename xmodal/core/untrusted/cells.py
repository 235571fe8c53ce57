"""Cells of tables that people open in a spreadsheet."""

import re
import unicodedata

# In every language: #REF! and #BEZUG!, #N/A and #NV; cells that are too narrow; and LibreOffice's.
_ERROR_VALUE = re.compile(
    r"#[¡¿]?[^\W\d_a-z][^\Wa-z]*(/[^\Wa-z]+)?[!?]|#[^\W\d_a-z]/[^\W\d_a-z]|#N[AV]|#GETTING_DATA|#{3,}|Err:\d{3}"
)
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


def is_error_value(text: str) -> bool:
    """Returns whether a spreadsheet shows a text in place of the value of a formula: `#NAME?`."""
    return _ERROR_VALUE.fullmatch(text) is not None
