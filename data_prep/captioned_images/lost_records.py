"""How much of a user's folder is not used, and why."""

from data_prep.captioned_images.layouts import Layout
from data_prep.captioned_images.survey import Survey
from data_prep.reading.text_lines import SAVE_AS


def count_lost(layout: Layout, found: Survey) -> dict[str, tuple[int, int]]:
    """Counts unused records: "pictures" and, in tables, "rows" -> number lost, number in all."""
    unusable = [name for name, usable in zip(found.names, found.usable, strict=True) if not usable]
    if (rows := layout.rows_lost(unusable)) is not None:
        return {"pictures": (len(unusable), len(found.names)), "rows": rows}
    return {"pictures": (len(unusable) + found.entries, len(found.names) + found.entries)}


def why_lost(layout: Layout, found: Survey) -> str:
    """Describes the reasons, and the first picture or row in detail."""
    listed = found.reasons or "nothing"
    read = "; ".join(layout.describe().values())
    # The first of the most frequent reason; an image without a caption is due to its rows.
    first = min(
        found.faults,
        key=lambda fault: (fault.reason == "no caption", -found.left_out[fault.reason]),
        default=None,
    )
    detail = f"; {layout.explain(first)}" if first is not None else ""
    if "not UTF-8" in found.left_out and SAVE_AS not in detail:
        listed += f" ({SAVE_AS})"
    return f"Not used: {listed}{detail} (read: {read}). "
