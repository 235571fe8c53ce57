"""Turns columns of a dataset into inputs of an image encoder."""

import numpy as np

from xmodal.data.columns import STRING, RaggedColumn, decode_texts
from xmodal.data.pixels.images import ImageConfig, prepare_images
from xmodal.data.pixels.regions import pad_rows
from xmodal.data.text.tokenizers import Tokenizer


def image_columns(
    images: np.ndarray | RaggedColumn, config: ImageConfig, seeds: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Returns `image` and, if the number of regions varies, `image_mask`; see `batch_spec`.

    Args:
      images: encoded pictures, bytes [N], or stored features.
      config: config of the images.
      seeds: seeds int64 [N, 2] of the training augmentation; None for the evaluation crop.
    """
    if isinstance(images, RaggedColumn):
        rows = np.split(images.values, images.starts[1:])
        image, mask = pad_rows(rows, config.max_regions)
        return {"image": image, "image_mask": mask}
    if images.dtype == STRING:
        images = prepare_images(images.tolist(), config, seeds)
    return {"image": images}


def tag_columns(tags: np.ndarray, tokenizer: Tokenizer) -> dict[str, np.ndarray]:
    """Returns `image_tags`, the word pieces of tags and `[SEP]`; see `batch_spec`.

    Args:
      tags: bytes [N]; an image with an empty text has no words, nor `[SEP]`.
      tokenizer: of word pieces, which puts `[CLS]` before a text.
    """
    ids, mask = tokenizer.encode(decode_texts(tags))
    is_real = (mask > 0) & (mask.sum(axis=1, keepdims=True) > 2)
    return {"image_tags": np.where(is_real, ids, -1).astype(np.int32)[:, 1:]}
