"""The part of a file of embeddings that a similarity over token sets needs."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from xmodal.core.errors import UserError
from xmodal.core.tree_paths import leaves_by_path, unflatten
from xmodal.core.untrusted.json_text import parse_json_text
from xmodal.evals.labels.definitions import KINDS
from xmodal.evals.scores.ragged_tokens import RaggedTokens
from xmodal.evals.scores.sources import Embeddings

OPTIONS, PARAMETERS = "similarity_options", "similarity/"


def is_read(name: str) -> bool:
    """Returns whether an array of a file is one of these."""
    names = {f"{kind}_{each}" for kind in KINDS.values() for each in ("tokens", "token_counts")}
    return name in names | {OPTIONS} or name.startswith(PARAMETERS)


def write_tokens(embeddings: Embeddings) -> dict[str, np.ndarray]:
    """Returns the arrays of embeddings whose similarity has a module, by name.

    They are, for `image` and `caption`, `image_tokens` float32 [P, W], the tokens of one item after
    those of the other, and `image_token_counts` int64 [N]; `similarity_options`, JSON of the
    similarity's keywords; and its parameters, `similarity/local/kernel`.
    """
    found: dict[str, np.ndarray] = {OPTIONS: np.array(json.dumps(dict(embeddings.options)))}
    for side, tokens in embeddings.tokens.items():
        found[f"{KINDS[side]}_tokens"] = tokens.values
        found[f"{KINDS[side]}_token_counts"] = tokens.lengths
    for path, leaf in leaves_by_path(embeddings.parameters).items():
        found[f"{PARAMETERS}{path}"] = np.asarray(leaf, np.float32)
    return found


def read_tokens(
    arrays: Mapping[str, np.ndarray], place: str, counts: Mapping[str, int]
) -> tuple[dict[str, RaggedTokens], dict[str, Any], dict[str, Any]]:
    """Returns the tokens by side, and keywords and parameters of the similarity.

    Args:
      arrays: arrays of a file by name.
      place: names the file in messages.
      counts: side -> number of its items, for the sides that there are.

    Raises:
      UserError: the arrays do not fit together.
    """
    tokens = {}
    for side, count in counts.items():
        kind = KINDS[side]
        if f"{kind}_tokens" not in arrays:
            continue
        values, lengths = (
            np.asarray(arrays.get(f"{kind}_{each}", ())) for each in ("tokens", "token_counts")
        )
        are_numbers = values.dtype.kind == "f" and lengths.dtype.kind in "iu"
        if not are_numbers or values.ndim != 2 or lengths.shape != (count,):
            raise UserError(
                f"{kind}_tokens in {place} are {values.dtype} {list(values.shape)} and "
                f"{kind}_token_counts {lengths.dtype} {list(lengths.shape)}, for {count} items; "
                "save floats [P, W] and integers [N]."
            )
        if lengths.min(initial=0) < 0 or lengths.sum() != len(values):
            raise UserError(
                f"{kind}_token_counts in {place} are from {lengths.min()} to {lengths.max()}, with "
                f"sum {lengths.sum()}, for {len(values)} {kind}_tokens; save the number of every "
                "item's tokens."
            )
        values, lengths = values.astype(np.float32), lengths.astype(np.int64)
        if not np.isfinite(values).all():
            raise UserError(f"{kind}_tokens in {place} hold NaN or infinity; fix the model.")
        tokens[side] = RaggedTokens(values, lengths)
    if not tokens:
        return {}, {}, {}
    learned = {name: array for name, array in arrays.items() if name.startswith(PARAMETERS)}
    parameters = unflatten({name.removeprefix(PARAMETERS): x for name, x in learned.items()})
    try:
        options = parse_json_text(str(arrays[OPTIONS]))
    except (KeyError, ValueError) as error:
        raise UserError(
            f"{place} has tokens, but its {OPTIONS} cannot be read: {error!r}."
        ) from error
    return tokens, options, parameters
