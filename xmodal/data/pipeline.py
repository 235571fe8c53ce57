"""Training batches: step -> record numbers -> parsed, augmented and tokenised arrays."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from xmodal.data.config import DataConfig, parse
from xmodal.data.image import PARALLEL_BATCHES, model_images
from xmodal.data.order import Order
from xmodal.data.sources import Source
from xmodal.data.tokenizers import make_tokenizer


def train_batches(
    config: Mapping[str, Any] | DataConfig,
    *,
    split: str,
    seed: int,
    batch_size: int,
    first_step: int,
    total_steps: int,
    process_index: int = 0,
    process_count: int = 1,
) -> Iterator[dict[str, np.ndarray]]:
    """Batches of the steps `first_step` to `total_steps` - 1, this process's rows of each.

    The global batch of a step is a pure function of (seed, step): the rows of all processes put
    together do not depend on their number, and a run that starts at `first_step` reads nothing of
    the steps before.

    Args:
      config: see `DataConfig`.
      split: TFDS split to train on.
      seed: seed of the order, the caption choice and the augmentation.
      batch_size: global batch size B; this process gets b = B / process_count rows.
      first_step: step of the first batch.
      total_steps: step after the last batch.
      process_index: which block of rows this process takes.
      process_count: number of processes.

    Returns:
      Iterator over dicts of `image` uint8 [b, H, W, 3], or float16 [b, ...] for precomputed
      features (absent if the config has no image); `text_ids` and `text_mask` int32 [b, C, T];
      `image_id` int32 [b]; `caption_id` int32 [b, C].

    Raises:
      UserError: there are fewer examples than a batch takes.
      ValueError: the processes cannot share a batch equally.
    """
    config = parse(config)
    if batch_size % process_count:
        raise ValueError(f"batch_size={batch_size} does not divide over {process_count} processes")
    source = Source(config, split)
    order = Order(seed, _num_examples(config, source), batch_size)
    rows = batch_size // process_count
    plan = _make_plan(
        config, source, order, slice(process_index * rows, process_index * rows + rows)
    )
    tokenizer = make_tokenizer(config)

    @tf.autograph.experimental.do_not_convert  # graph operations only; converting takes seconds
    def make_batch(step: tf.Tensor) -> dict[str, tf.Tensor]:
        records, draws, seeds = tf.numpy_function(plan, [step], [tf.string, tf.int64, tf.int64])
        example = source.parse(tf.ensure_shape(records, [rows]), image=config.image is not None)
        draws = tf.ensure_shape(draws, [rows, config.captions_per_image])
        captions, caption_ids = _choose_captions(example, draws)
        text_ids, text_mask = tokenizer(captions)
        batch = {
            "text_ids": text_ids,
            "text_mask": text_mask,
            "image_id": example["image_id"],
            "caption_id": caption_ids,
        }
        if config.image is not None:
            seeds = tf.ensure_shape(seeds, [rows, 2])
            batch["image"] = model_images(example["image"], config.image, seeds)
        return batch

    steps = tf.data.Dataset.range(first_step, total_steps)
    batches = steps.map(make_batch, num_parallel_calls=PARALLEL_BATCHES, deterministic=True)
    return batches.prefetch(config.prefetch).as_numpy_iterator()


def num_train_examples(config: Mapping[str, Any] | DataConfig, split: str) -> int:
    """Examples of an epoch: images, or (image, caption) pairs if `examples` is "pairs"."""
    config = parse(config)
    return _num_examples(config, Source(config, split))


def _num_examples(config: DataConfig, source: Source) -> int:
    return int(source.caption_counts().sum()) if config.examples == "pairs" else len(source)


def _make_plan(
    config: DataConfig, source: Source, order: Order, block: slice
) -> Callable[[int], tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Function of the step: serialised records [b], caption draws [b, C], image seeds [b, 2]."""
    ends = np.cumsum(source.caption_counts()) if config.examples == "pairs" else None

    def plan(step: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        examples = order.examples(step)[block]
        if ends is None:
            records, draws = examples, order.caption_draws(step, config.captions_per_image)[block]
        else:
            # The caption's place in its own image is a draw that the choice below maps to itself.
            records = np.searchsorted(ends, examples, side="right")
            starts = np.concatenate([[0], ends])[records]
            draws = (examples - starts)[:, None]
        return source.read(records), draws, order.augmentation_seeds(step)[block]

    return plan


def _choose_captions(
    example: Mapping[str, tf.Tensor], draws: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Chooses C captions of every image without replacement.

    Args:
      example: `captions` and `caption_ids`, ragged [b, captions].
      draws: non-negative random numbers, int64 [b, C].

    Returns:
      The captions, strings [b, C], and their ids, int32 [b, C].
    """
    captions, wanted = example["captions"], draws.shape[1]
    counts = captions.row_lengths()
    fewest = tf.reduce_min(counts)
    tf.debugging.assert_greater_equal(
        fewest,
        tf.constant(wanted, tf.int64),
        "an image has fewer captions than config.data.captions_per_image",
    )
    chosen: list[tf.Tensor] = []
    for k in range(wanted):
        # The draw's place among the captions still left: step over those taken, smallest first.
        place = draws[:, k] % (counts - k)
        for taken in tf.unstack(tf.sort(tf.stack(chosen), axis=0), k) if chosen else []:
            place += tf.cast(place >= taken, tf.int64)
        chosen.append(place)
    flat = captions.row_starts()[:, None] + tf.stack(chosen, axis=1)
    return tuple(tf.gather(example[k].flat_values, flat) for k in ("captions", "caption_ids"))
