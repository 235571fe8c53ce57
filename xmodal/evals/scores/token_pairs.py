"""Scores of chosen pairs by a similarity of token sets, computed as those of a cross-encoder."""

import functools
from collections.abc import Mapping
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
from xmodal.similarity import Embedding, Similarity, make_similarity

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
      UserError: it compares no token sets, or a side has no tokens.
    """
    named = {"name": embeddings.similarity, **embeddings.options}
    similarity = make_similarity(named, "similarity")
    sides = {"image": embeddings.images, "text": embeddings.captions}
    tokens = {
        side: _pad(embeddings, side, vectors)
        for side, vectors in sides.items()
        if vectors is not None and side in embeddings.tokens
    }
    if similarity.module is None or len(tokens) < len(sides):
        raise UserError(
            f"The reranker 'similarity' compares the tokens of images and captions, and "
            f"{embeddings.place} ranks vectors by {embeddings.similarity!r}: evaluate a run whose "
            "config.model.similarity compares token sets, or remove the reranker."
        )
    if top is None or top >= min(len(each.mask) for each in tokens.values()):
        return open_scores(embeddings, mesh=mesh)["image", "text"]
    functions = _make_functions(similarity, _describe_shapes(tokens), embeddings.parameters)
    program = PairProgram(functions, mesh)
    return PairScores(program, embeddings.parameters, tokens["image"], tokens["text"])


def _pad(embeddings: Embeddings, side: str, vectors: np.ndarray) -> Tokens:
    """The tokens of a side with its vectors."""
    ragged = embeddings.tokens[side]
    tokens, mask = ragged.pad(int(ragged.lengths.max()))
    return Tokens(tokens, mask, {_VECTOR: np.asarray(vectors, np.float32)})


def _describe_shapes(tokens: Mapping[str, Tokens]) -> dict[str, Tokens]:
    """One item of every side, as shapes."""
    return {
        side: jax.tree.map(lambda x: jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype), each)
        for side, each in tokens.items()
    }


def _make_functions(
    similarity: Similarity, shapes: Mapping[str, Tokens], params: Any
) -> PairFunctions:
    """The similarity as a cross-encoder; `shapes` are those of one item of every side."""

    def prepare(side: str, params: Any, items: Tokens) -> Any:
        del side
        extras = {"tokens": items.tokens, "mask": items.mask}
        return similarity.prepare(Embedding(items.extras[_VECTOR], extras=extras), params)

    def score(params: Any, images: Any, texts: Any) -> jax.Array:
        def score_one(image: Any, own: Any) -> jax.Array:
            return similarity.score(jax.tree.map(lambda x: x[None], image), own, params)[0]

        return jnp.asarray(jax.vmap(score_one)(images, texts), jnp.float32)

    def pair_bytes(image_tokens: int, text_tokens: int) -> int:
        del image_tokens, text_tokens  # Blocks are sized by the longest items.
        sides = (
            jax.eval_shape(functools.partial(prepare, side), params, shapes[side])
            for side in ("image", "text")
        )
        return int(similarity.cost(*sides).bytes)

    return PairFunctions(similarity.name, prepare, score, pair_bytes)
