"""Turns texts into ids and encoded images into pixels, as arrays, without TensorFlow."""

from xmodal.preprocessing.augment import AugmentConfig
from xmodal.preprocessing.images import ImageConfig, decode_image, prepare_images
from xmodal.preprocessing.short_texts import ShortTexts
from xmodal.preprocessing.text_config import TextConfig, TokenAugmentConfig
from xmodal.preprocessing.tokenizer_files import read_vocabulary
from xmodal.preprocessing.tokenizers import TOKENIZERS, Tokenizer, make_tokenizer

__all__ = [
    "TOKENIZERS",
    "AugmentConfig",
    "ImageConfig",
    "ShortTexts",
    "TextConfig",
    "TokenAugmentConfig",
    "Tokenizer",
    "decode_image",
    "make_tokenizer",
    "prepare_images",
    "read_vocabulary",
]
