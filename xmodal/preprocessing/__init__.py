"""Turns texts into ids and encoded images into pixels, as arrays, without TensorFlow."""

from xmodal.preprocessing.augment import AugmentConfig
from xmodal.preprocessing.images import ImageConfig, decode_image, prepare_images
from xmodal.preprocessing.tokenizers import (
    TOKENIZERS,
    TextConfig,
    TokenAugmentConfig,
    Tokenizer,
    make_tokenizer,
)
from xmodal.preprocessing.vocabulary import read_vocabulary

__all__ = [
    "TOKENIZERS",
    "AugmentConfig",
    "ImageConfig",
    "TextConfig",
    "TokenAugmentConfig",
    "Tokenizer",
    "decode_image",
    "make_tokenizer",
    "prepare_images",
    "read_vocabulary",
]
