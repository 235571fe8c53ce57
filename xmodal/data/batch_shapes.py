"""Columns of a batch: their names, shapes and dtypes, and those of images."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from xmodal.core.errors import UserError
from xmodal.data import columns as columns_lib
from xmodal.data.columns import STRING, Column, RaggedColumn, decode_texts
from xmodal.data.data_config import DataConfig, parse
from xmodal.data.datasets import check_columns, describe_builder, needed_columns
from xmodal.data.evaluated_records import evaluated_columns
from xmodal.data.feature_records import TEXT_FEATURES
from xmodal.data.mined_negatives import mined_name
from xmodal.data.pixels.images import ImageConfig, prepare_images
from xmodal.data.pixels.regions import pad_rows
from xmodal.data.text.tokenizers import Tokenizer

# Columns of ids [B, C, T], or of their features.
_TEXTS = ("text_ids", "text_mask", TEXT_FEATURES)

BatchSpec = dict[str, jax.ShapeDtypeStruct]
_struct = jax.ShapeDtypeStruct


def batch_spec(
    config: Mapping[str, Any] | DataConfig, batch_size: int, *, trains: bool = True
) -> BatchSpec:
    """Returns the columns of a global batch; nothing is read or prepared.

    Args:
      config: see `DataConfig`.
      batch_size: B.
      trains: whether the batches are for training; sentence pairs can only be evaluated.

    Returns:
      `image` uint8 [B, S, S, 3], or patches, see `ImageConfig.shape`, or float16 [B, ...] of
      stored features, padded to [B, R, ...] with `image_mask` bool [B, R] if the number of regions
      varies; with `tags`, `image_tags` int32 [B, T - 1], their ids and -1 after them; `text_ids`
      and `text_mask` int32 [B, C, T]; `image_id` int32 [B]; `caption_id` int32 [B, C]; with
      `label_captions` L, `text_label_ids` int32 [B, C, L T], the ids of that many captions; with
      `mined_negatives`, two more captions of each row, and their images as `mined_image`
      [B, 2, ...]; each column of `config.labels` as [B, ...]. For frozen features, see
      `FeatureReader.replace_spec`.
    """
    config = parse(config)
    columns = columns_lib.describe(describe_builder(config).info.features)
    needs = needed_columns(config)
    if not trains:
        pictures = [name for name in needs if name in ("image", "tags")]
        needs = [*pictures, *evaluated_columns(config, columns)]
    check_columns(config, columns, needs)
    spec: BatchSpec = {"image_id": _struct((batch_size,), np.int32)}
    if config.image is not None:
        images = _image_spec(config, config.image, columns["image"], batch_size)
        if config.image.tags:
            length = config.require_text().max_length - 1
            images["image_tags"] = _struct((batch_size, length), np.int32)
        spec |= images
        if config.mined_negatives and trains:
            spec |= {
                mined_name(name): _struct((batch_size, 2, *column.shape[1:]), column.dtype)
                for name, column in images.items()
            }
    if config.text is not None:
        captions = (batch_size, config.texts_per_image if trains else config.captions_per_image)
        tokens = _struct((*captions, config.text.max_length), np.int32)
        spec |= {"text_ids": tokens, "text_mask": tokens, "caption_id": _struct(captions, np.int32)}
        if config.label_captions and trains:
            length = config.label_captions * config.text.max_length
            spec["text_label_ids"] = _struct((*captions, length), np.int32)
    for name in config.labels:
        column = columns[name]
        spec[name] = _struct((batch_size, *column.fixed_shape), column.dtype)
    return spec


def cut_texts(batch: Mapping[str, Any], length: int) -> dict[str, Any]:
    """Returns a training batch, or its spec, with the first `length` ids of every text.

    Frozen features of texts are cut like their ids.
    """

    def cut(column: Any) -> Any:
        if isinstance(column, jax.ShapeDtypeStruct):
            shape = (*column.shape[:2], length, *column.shape[3:])
            return column.update(shape=shape)
        return column[:, :, :length]

    return {name: cut(column) if name in _TEXTS else column for name, column in batch.items()}


def _image_spec(
    config: DataConfig, image: ImageConfig, column: Column, batch_size: int
) -> BatchSpec:
    if column.is_picture != (image.size > 0):
        raise UserError(
            f"config.data.image.size={image.size}: set the side of the model's input in pixels for "
            "a dataset with pictures, and 0 for one with stored features."
        )
    if column.is_picture:
        return {"image": _struct((batch_size, *image.shape), np.uint8)}
    if not column.is_ragged:
        return {"image": _struct((batch_size, *column.fixed_shape), column.dtype)}
    if not (regions := image.max_regions):
        raise UserError(
            f"the number of regions of dataset {config.dataset} (config {config.config}) varies; "
            "set config.data.image.max_regions to the number of rows of a padded image"
        )
    return {
        "image": _struct((batch_size, regions, *column.fixed_shape), column.dtype),
        "image_mask": _struct((batch_size, regions), np.bool_),
    }


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
