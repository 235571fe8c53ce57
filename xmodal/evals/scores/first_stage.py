"""The first stage from elsewhere: another model's embeddings of the same items choose pairs."""

import hashlib

import numpy as np
from jax.sharding import Mesh

from xmodal.core.errors import UserError
from xmodal.evals.labels.ids import Positions
from xmodal.evals.scores.files import name_of, open_source
from xmodal.evals.scores.galleries import Ids, ids_of, order_embeddings
from xmodal.evals.scores.products import open_scores
from xmodal.evals.scores.score_tiles import Scores
from xmodal.evals.scores.sources import Embeddings

_DIGITS = 12  # Of the hash that tells files of one name apart.


def open_first_stage(
    path: str, items: Ids, *, block_size: int, mesh: Mesh | None
) -> tuple[Scores, str]:
    """Returns the scores of images and captions of a file of embeddings, and their name.

    The name has the similarity, the file's name and its hash: "cosine of vse (sha256 0123...)".

    Args:
      path: file of embeddings with their similarity, see `arrays.load_embeddings`.
      items: images and captions, whose order the scores have.
      block_size: items per tile of scores.
      mesh: devices that share the work.

    Raises:
      UserError: the file cannot be read, lacks a side or an item, or a score is not finite.
    """
    found = open_source("embeddings", path)
    assert isinstance(found, Embeddings)
    given = ids_of(found)
    for kind, wanted in (("image", items.image_ids), ("caption", items.caption_ids)):
        ids = given.get(kind, np.zeros(0, np.int64))
        lacking = np.ones(len(wanted), bool)
        if len(ids):
            lacking = Positions(kind, ids).find(wanted) < 0
        if lacking.any():
            raise UserError(
                f"The first stage {path} lacks {lacking.sum():,} of the {len(wanted):,} {kind}s "
                f"that are ranked, the first is {kind} id {np.asarray(wanted)[lacking.argmax()]}: "
                "save its embeddings of the same split, with --save_embeddings, or set the "
                "evaluator's `split` to that of the file."
            )
    ordered = order_embeddings(found, items)
    scores = open_scores(ordered, block_size=block_size, mesh=mesh)["image", "text"]
    scores.check_finite(f"the first stage {path}")
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:_DIGITS]
    return scores, f"{found.similarity} of {name_of(path)} (sha256 {digest})"
