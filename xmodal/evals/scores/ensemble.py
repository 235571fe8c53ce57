"""The mean of several models' scores, as embeddings or as a matrix."""

from collections.abc import Sequence

import numpy as np
from jax.sharding import Mesh

from xmodal.core.errors import UserError
from xmodal.evals.scores.sources import Embeddings, ScoreMatrix
from xmodal.evals.scores.vector_scores import open_scores


def average(members: Sequence[Embeddings]) -> Embeddings:
    """Returns embeddings whose scores are the means of the members' scores.

    Inner products are preserved: the members' vectors are concatenated and divided by the square
    root of their number. So anything that accepts embeddings accepts an ensemble.

    Args:
      members: embeddings of the same items, each with its similarity.

    Raises:
      UserError: the items differ, or the score of a member is not an inner product.
    """
    check_same_items(members)
    first, joined = (
        members[0],
        {modality: _join(members, modality) for modality in members[0].by_modality},
    )
    return Embeddings(
        first.place, first.image_ids, joined.get("image"), first.caption_ids, joined.get("text"),
        "dot",
    )  # fmt: skip


def average_scores(members: Sequence[Embeddings], mesh: Mesh | None = None) -> ScoreMatrix:
    """Returns the mean scores of all images with all captions, float64 [N, M].

    A similarity of token sets is averaged on its own scale, see `LateInteraction.rescale`.

    Args:
      members: embeddings of the same items, each with its similarity.
      mesh: devices that compute the scores.

    Raises:
      UserError: the items differ, or a member has one modality only.
    """
    check_same_items(members)
    first = members[0]
    if first.image_ids is None or first.caption_ids is None:
        raise UserError(
            f"The scores of {first.place} are those of images with captions, but it has only one "
            "modality; evaluate it on a split with both."
        )
    total = np.zeros((len(first.image_ids), len(first.caption_ids)), np.float64)
    for member in members:
        similarity = member.make_similarity()
        scores = open_scores(member, mesh=mesh)["image", "text"]
        for at, rows in scores.blocks(np.arange(len(total))):
            total[at] += similarity.rescale(rows) / len(members)
    return ScoreMatrix(first.place, first.image_ids, first.caption_ids, total)


def check_same_items(members: Sequence[Embeddings]) -> None:
    """Raises an error if the members of an ensemble embed different items.

    Raises:
      UserError: names two members.
    """
    first = members[0]
    for other in members[1:]:
        for ids in ("image_ids", "caption_ids"):
            if not np.array_equal(getattr(first, ids), getattr(other, ids)):
                raise UserError(
                    f"The models of an ensemble embed different items: {ids} of {first.place} and "
                    f"of {other.place} differ; evaluate them on the same split of the same dataset."
                )


def _join(members: Sequence[Embeddings], modality: str) -> np.ndarray:
    prepared = []
    for member in members:
        similarity = member.make_similarity()
        if not similarity.inner_product:
            raise UserError(
                f"An ensemble averages inner products, and the similarity {member.similarity!r} of "
                "one of its models is not one; give the evaluator the similarity 'cosine', or "
                "evaluate the models one by one."
            )
        prepared.append(np.asarray(similarity.prepare(member.vectors(modality))))
    return np.concatenate(prepared, axis=1) / np.float32(len(members) ** 0.5)
