"""All captions of a split as word pieces, for what is computed once and not batch by batch."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from xmodal.config import UserError
from xmodal.data.config import DataConfig, parse
from xmodal.data.sources import Source
from xmodal.data.tokenizers import make_tokenizer

_BLOCK = 4096


class SplitCaptions:
    """Every caption of a split, in the order of their ids.

    Attributes:
      ids: int32 [M], ascending.
      digest: changes with the ids and the texts of the captions.
      tokeniser_digest: changes with the vocabulary, the case rule and the maximum length.
    """

    def __init__(self, config: DataConfig, split: str) -> None:
        blocks = list(Source(config, split).walk())
        ids = np.concatenate([block["caption_ids"].flat_values for block in blocks])
        texts = np.concatenate([block["captions"].flat_values.numpy() for block in blocks])
        order = np.argsort(ids, kind="stable")
        self.ids, self._texts = ids[order], texts[order]
        if (twice := self.ids[1:][np.diff(self.ids) == 0]).size:
            raise UserError(
                f"dataset {config.dataset} has the caption id {twice[0]} more than once in its "
                f"split {split!r}; prepare it again with unique ids"
            )
        self._tokenizer = make_tokenizer(config)
        self.digest = _digest(self.ids.tobytes(), *self._texts)
        rules = (config.text.tokenizer, config.text.lower_case, config.text.max_length)
        known = json.dumps([*rules, self._tokenizer.vocabulary])
        self.tokeniser_digest = _digest(known.encode())

    def tokens(self) -> tuple[np.ndarray, np.ndarray]:
        """Word pieces without padding: ids int32 [sum of lengths] and lengths int32 [M]."""
        pieces, lengths = [], []
        for start in range(0, len(self.ids), _BLOCK):
            ids, mask = self._tokenizer(tf.constant(self._texts[start : start + _BLOCK]))
            mask = mask.numpy() > 0
            pieces.append(ids.numpy()[mask])
            lengths.append(mask.sum(axis=1, dtype=np.int32))
        return np.concatenate(pieces), np.concatenate(lengths)


def split_captions(config: Mapping[str, Any] | DataConfig, *, split: str) -> SplitCaptions:
    """Reads all captions of a split; see `DataConfig` and `SplitCaptions`.

    Raises:
      UserError: two captions have one id.
    """
    return SplitCaptions(parse(config), split)


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()
