"""The mean of several models' scores of pairs."""

from collections.abc import Sequence

import numpy as np
from jax.sharding import Mesh

from xmodal.core.errors import UserError
from xmodal.evals.scores.ensemble import check_same_items
from xmodal.evals.scores.products import open_scores
from xmodal.evals.scores.score_tiles import complete_rows
from xmodal.evals.scores.sources import Embeddings, ScoreMatrix
from xmodal.similarity import make_similarity


def average_scores(members: Sequence[Embeddings], mesh: Mesh | None = None) -> ScoreMatrix:
    """Returns the mean scores of all images with all captions, float64 [N, M].

    A similarity of token sets is averaged on its own scale, see `PairModule.rescale`.

    Args:
      members: embeddings of the same items, each with its similarity.
      mesh: devices that compute the scores.

    Raises:
      UserError: the items differ, or a member has one side only.
    """
    check_same_items(members)
    first = members[0]
    if first.image_ids is None or first.caption_ids is None:
        raise UserError(
            f"The scores of {first.place} are those of images with captions, but it has only one "
            "side; evaluate it on a split with both."
        )
    total = np.zeros((len(first.image_ids), len(first.caption_ids)), np.float64)
    for member in members:
        similarity = make_similarity({"name": member.similarity, **member.options})
        scores = open_scores(member, mesh=mesh)["image", "text"]
        height = scores.tile_shape[0]
        for start in range(0, len(total), height):
            rows = complete_rows(scores, start // height)
            total[start : start + height] += similarity.rescale(rows) / len(members)
    return ScoreMatrix(first.place, first.image_ids, first.caption_ids, total)
