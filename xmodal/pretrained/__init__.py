"""Public weights, read from their published files."""

from xmodal.preprocessing.words import split_words
from xmodal.pretrained.bag_of_words import Coverage, embed_texts, make_vocabulary
from xmodal.pretrained.word_vectors import WordVectors, load_word_vectors

__all__ = [
    "Coverage",
    "WordVectors",
    "embed_texts",
    "load_word_vectors",
    "make_vocabulary",
    "split_words",
]
