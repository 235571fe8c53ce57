"""Numbers that papers print, to stand beside ours."""

from xmodal.evals.published.cxc import CXC_PAPER, VSE_INFINITY, Row
from xmodal.evals.published.eccv import (
    ECCV_BY_DIRECTION,
    ECCV_PRINTED_1K,
    ECCV_TABLE_4,
    ECCV_TABLE_5,
    ECCV_TABLE_5_METRICS,
    ECCV_TRUE_1K,
    recalls_of_board,
)

__all__ = [
    "ECCV_BY_DIRECTION",
    "ECCV_PRINTED_1K",
    "ECCV_TABLE_4",
    "ECCV_TABLE_5",
    "ECCV_TABLE_5_METRICS",
    "ECCV_TRUE_1K",
    "PUBLISHED",
    "Row",
]

# Board -> model -> task -> numbers: retrieval by direction and correlations.
PUBLISHED: dict[str, dict[str, Row]] = {
    "coco5k": CXC_PAPER["coco5k"] | recalls_of_board("coco5k"),
    "coco1k": recalls_of_board("coco1k"),
    "cxc": CXC_PAPER["cxc"] | VSE_INFINITY["cxc"],
    "cxc_sits_only": recalls_of_board("cxc_sits_only"),
}
