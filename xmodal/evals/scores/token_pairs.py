"""Scores of chosen pairs by a similarity of token sets, computed as those of a cross-encoder."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from xmodal.core.errors import UserError
from xmodal.evals.scores.pair_scores import PairFunctions, PairProgram, PairScores, Tokens
from xmodal.evals.scores.second_stage import Pairs
from xmodal.evals.scores.sources import Embeddings
from xmodal.evals.scores.vector_scores import open_scores
from xmodal.similarity import Embedding, Similarity

_VECTOR = "vector"


def open_token_pairs(embeddings: Embeddings, mesh: Mesh | None, top: int | None) -> Pairs:
    """Returns the scores of pairs by the similarity of embeddings, whose name is the definition.

    If a direction needs all pairs, they are scored in blocks, as without a reranker, and a killed
    evaluation resumes. Chosen pairs are scored on request.

    Args:
      embeddings: N images and M captions with tokens.
      mesh: devices that share the work.
      top: K, items per query of both directions; None for all.

    Raises:
      UserError: it compares no token sets, or a modality has no tokens.
    """
    similarity = embeddings.make_similarity()
    if similarity.module is None or not embeddings.tokens.keys() >= {"image", "text"}:
        raise UserError(
            f"The reranker 'similarity' compares the tokens of images and captions, and "
            f"{embeddings.place} ranks vectors by {embeddings.similarity!r}: evaluate a run whose "
            "config.model.similarity compares token sets, or remove the reranker."
        )
    images, captions = (_pad(embeddings, modality) for modality in ("image", "text"))
    if top is None or top >= min(len(images.mask), len(captions.mask)):
        return open_scores(embeddings, mesh=mesh)["image", "text"]
    params = embeddings.parameters
    functions = _make_functions(similarity, images, captions, params)
    return PairScores(PairProgram(functions, mesh), params, images, captions)


def _pad(embeddings: Embeddings, modality: str) -> Tokens:
    """The tokens of a modality with its vectors."""
    ragged = embeddings.tokens[modality]
    tokens, mask = ragged.pad(int(ragged.lengths.max()))
    return Tokens(tokens, mask, {_VECTOR: np.asarray(embeddings.vectors(modality), np.float32)})


def _make_functions(
    similarity: Similarity, images: Tokens, captions: Tokens, params: Any
) -> PairFunctions:
    """The similarity as a cross-encoder; of the items, only shapes matter."""

    def prepare(modality: str, params: Any, items: Tokens) -> Any:
        del modality
        extras = {"tokens": items.tokens, "mask": items.mask}
        return similarity.prepare(Embedding(items.extras[_VECTOR], extras=extras), params)

    def score(params: Any, images: Any, texts: Any) -> jax.Array:
        def score_one(image: Any, own: Any) -> jax.Array:
            return similarity.score(jax.tree.map(lambda x: x[None], image), own, params)[0]

        return jnp.asarray(jax.vmap(score_one)(images, texts), jnp.float32)

    sides = [jax.eval_shape(functools.partial(prepare, ""), params, x) for x in (images, captions)]
    size = int(similarity.cost(*sides).bytes)  # Blocks are sized by the longest items.
    return PairFunctions(similarity.name, prepare, score, lambda *_: size)
