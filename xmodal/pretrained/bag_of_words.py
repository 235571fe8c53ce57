"""Texts as bags of word vectors: the BoW baseline of the Crisscrossed Captions paper."""

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from xmodal.data.text.words import split_words
from xmodal.pretrained.word_vectors import WordVectors


@dataclasses.dataclass(frozen=True)
class Coverage:
    """The share of some texts that a table covers; report it together with the texts' scores.

    Attributes:
      tokens: number of tokens in all texts, including punctuation and repetitions.
      known_tokens: number of tokens with a vector.
      texts: number of texts.
      empty_texts: texts without any known token, whose vector is zero.
    """

    tokens: int
    known_tokens: int
    texts: int
    empty_texts: int

    @property
    def share(self) -> float:
        """Share of the tokens that have a vector; 0 if there are no tokens."""
        return self.known_tokens / max(self.tokens, 1)


def make_vocabulary(texts: Iterable[str]) -> set[str]:
    """Returns every word that `embed_texts` may look up for these texts."""
    tokens = {token for text in texts for token in split_words(text)}
    return tokens | {token.lower() for token in tokens}


def embed_texts(texts: Sequence[str], words: WordVectors) -> tuple[np.ndarray, Coverage]:
    """Returns each text as the mean of the vectors of its words.

    The paper only says that GloVe vectors are averaged. Tokens are looked up as they are written
    and then in lower case, so that one rule works for cased and uncased tables; unknown tokens are
    skipped. The result does not depend on the order of the words, to the last bit.

    Args:
      texts: N texts.
      words: D-dimensional vectors.

    Returns:
      float32 [N, D], zero for texts without known tokens, and the coverage.
    """
    embeddings = np.zeros((len(texts), words.vectors.shape[1]), np.float32)
    tokens = known = empty = 0
    for embedding, text in zip(embeddings, texts, strict=True):
        found = [words.find(token) for token in split_words(text)]
        rows = sorted(row for row in found if row is not None)
        if rows:
            embedding[:] = words.vectors[rows].mean(axis=0, dtype=np.float64)
        tokens, known, empty = tokens + len(found), known + len(rows), empty + (not rows)
    return embeddings, Coverage(tokens, known, len(texts), empty)
