"""Public weights, read from their published files."""

from xmodal.pretrained.bag_of_words import Coverage, embed_texts, make_vocabulary
from xmodal.pretrained.word_vectors import WordVectors, load_word_vectors
from xmodal.words import tokenise

__all__ = [
    "Coverage",
    "WordVectors",
    "embed_texts",
    "load_word_vectors",
    "make_vocabulary",
    "tokenise",
]
