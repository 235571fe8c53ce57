"""What an evaluation reads: every unique image and caption once, and the rated pairs."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from xmodal.config import UserError
from xmodal.data.config import DataConfig, parse
from xmodal.data.image import PARALLEL_BATCHES, model_images
from xmodal.data.ratings import load_ratings, rating_hashes
from xmodal.data.sources import Source
from xmodal.data.tokenizers import make_tokenizer

# Retrieval is defined on five captions per image; some COCO images have six or seven.
_MAX_CAPTIONS = 5


class EvalSet:
    """One split for evaluation.

    Attributes:
      name: name of the dataset.
      split: name of the split.
      image_ids: int32 [N].
      caption_ids: int32 [M], at most five per image, grouped by image.
      caption_image_ids: int32 [M], the image that each caption describes.
      caption_texts: UTF-8 bytes [M].
      ratings: rated pairs by task: `left_ids`, `right_ids` int32 [P], `scores` float32 [P],
        `methods` strings [P]; empty for a dataset without ratings.
      lists: none; released lists of positives are read beside saved embeddings only.
      categories: None, like `caption_categories` and `folds`.
      partial: how much there is of a split that lacks records or rated items, or "". The pairs of
        those are left out.
      hashes: of the records and of the rated pairs, see `sources.split_hashes`.
    """

    def __init__(self, config: DataConfig, split: str) -> None:
        self._config = config
        self._source = Source(config, split)
        blocks = [
            {
                "image_ids": block["image_id"],
                "captions": block["captions"][:, :_MAX_CAPTIONS].flat_values,
                "caption_ids": block["caption_ids"][:, :_MAX_CAPTIONS].flat_values,
                "counts": tf.minimum(block["captions"].row_lengths(), _MAX_CAPTIONS),
            }
            for block in self._source.walk()
        ]
        columns = {key: np.concatenate([block[key] for block in blocks]) for key in blocks[0]}
        self.name = config.dataset
        self.split = split
        self.image_ids = columns["image_ids"]
        self.caption_ids = columns["caption_ids"]
        self.caption_image_ids = np.repeat(columns["image_ids"], columns["counts"])
        self.caption_texts = columns["captions"]
        self.ratings = load_ratings(config, split)
        self.hashes = self._source.hashes | rating_hashes(config, split)
        self.lists: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {}
        self.categories = self.caption_categories = self.folds = None
        self.partial = ""
        images, left_out = len(self.image_ids), self._source.left_out
        if left_out or not self._source.is_complete:
            self.ratings, dropped = _keep_known(self.ratings, self.image_ids, self.caption_ids)
            if left_out:
                self.partial = f"{images:,} of {images + left_out:,} images"
            elif dropped:
                self.partial = f"{images:,} images, {len(self.caption_ids):,} captions"

    def images(self, batch_size: int) -> Iterator[dict[str, np.ndarray]]:
        """Every image once, in the order of `image_ids`; the last batch may be short.

        Returns:
          Iterator over dicts of `image` uint8 [b, H, W, 3] (the evaluation crop), or stored
          features float16 [b, ...], and `image_id` int32 [b].

        Raises:
          UserError: the config leaves the image out.
        """
        image = self._config.image
        if image is None:
            raise UserError("config.data.image is None: this config evaluates captions only")

        @tf.autograph.experimental.do_not_convert
        def make_batch(start: tf.Tensor) -> dict[str, tf.Tensor]:
            indices = tf.range(start, tf.minimum(start + batch_size, len(self._source)))
            records = tf.numpy_function(self._source.read, [indices], tf.string)
            example = self._source.parse(tf.ensure_shape(records, [None]), image=True)
            return {
                "image": model_images(example["image"], image),
                "image_id": example["image_id"],
            }

        starts = tf.data.Dataset.range(0, len(self._source), batch_size)
        batches = starts.map(make_batch, num_parallel_calls=PARALLEL_BATCHES)
        return batches.prefetch(self._config.prefetch).as_numpy_iterator()

    def captions(self, batch_size: int) -> Iterator[dict[str, np.ndarray]]:
        """Every caption once, in the order of `caption_ids`; the last batch may be short.

        Returns:
          Iterator over dicts of `text_ids` and `text_mask` int32 [b, T], `caption_id` and
          `image_id` int32 [b].
        """
        tokenizer = make_tokenizer(self._config)  # not before: images are evaluated without one
        columns = (self.caption_texts, self.caption_ids, self.caption_image_ids)
        batches = tf.data.Dataset.from_tensor_slices(columns).batch(batch_size)

        @tf.autograph.experimental.do_not_convert
        def make_batch(
            captions: tf.Tensor, caption_ids: tf.Tensor, image_ids: tf.Tensor
        ) -> dict[str, tf.Tensor]:
            text_ids, text_mask = tokenizer(captions)
            return {
                "text_ids": text_ids,
                "text_mask": text_mask,
                "caption_id": caption_ids,
                "image_id": image_ids,
            }

        batches = batches.map(make_batch, num_parallel_calls=tf.data.AUTOTUNE)
        return batches.prefetch(self._config.prefetch).as_numpy_iterator()


def _keep_known(
    ratings: Mapping[str, Mapping[str, np.ndarray]], image_ids: np.ndarray, caption_ids: np.ndarray
) -> tuple[dict[str, dict[str, np.ndarray]], int]:
    """The rated pairs whose two sides are there, and how many others there are."""
    kept, dropped = {}, 0
    for task, pairs in ratings.items():
        left = image_ids if task == "sis" else caption_ids
        right = caption_ids if task == "sts" else image_ids
        known = np.isin(pairs["left_ids"], left) & np.isin(pairs["right_ids"], right)
        kept[task] = {name: column[known] for name, column in pairs.items()}
        dropped += int((~known).sum())
    return kept, dropped


def eval_set(config: Mapping[str, Any] | DataConfig, *, split: str) -> EvalSet:
    """Opens a split for evaluation; see `DataConfig` and `EvalSet`."""
    return EvalSet(parse(config), split)
