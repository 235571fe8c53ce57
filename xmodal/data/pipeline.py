"""Training batches: step -> record numbers -> decoded, augmented and tokenized arrays."""

import functools
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np

from xmodal.core.errors import UserError
from xmodal.data.batch_shapes import image_columns, tag_columns
from xmodal.data.columns import RaggedColumn, decode_texts
from xmodal.data.data_config import DataConfig, parse
from xmodal.data.datasets import Source, needed_columns
from xmodal.data.feature_records import IMAGE_FEATURES, TEXT_FEATURES, FeatureReader
from xmodal.data.learned_vocabulary import load_tokenizer
from xmodal.data.mined_negatives import MinedNegatives, mined_name, open_mined
from xmodal.data.order import Order
from xmodal.data.pixels.images import ImageConfig
from xmodal.data.read_ahead import Batch, read_ahead, read_in_processes
from xmodal.data.text.tokenizers import Tokenizer


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
    devices: int = 1,
    parts: int = 1,
    features: Sequence[FeatureReader] | None = None,
) -> Generator[Batch, None, None]:
    """Returns this process's rows of the batches of steps `first_step` to `total_steps` - 1.

    The global batch of a step is a pure function of (seed, step): the combined rows of all
    processes do not depend on the number of processes, and a run that starts at `first_step` reads
    nothing from earlier steps.

    Args:
      config: see `DataConfig`.
      split: TFDS split to train on.
      seed: seed of the order, the caption choice and the augmentation.
      batch_size: global batch size B; this process gets b = B / process_count rows.
      first_step: step of the first batch.
      total_steps: step after the last batch.
      process_index: which block of rows this process gets.
      process_count: number of processes.
      devices: see `LengthBucketing.rank`.
      parts: see `LengthBucketing.rank`.
      features: frozen features of the split, read instead of raw columns.

    Returns:
      Generator of dicts with the columns of `batch_spec`, b rows each, whose `close` ends its
      threads or processes. Texts are padded as `config.lay_out` says; the ranks, if any, are the
      column `text_rank`.

    Raises:
      UserError: the dataset has fewer examples than a batch needs, or lacks a column.
      ValueError: the processes cannot share a batch equally.
    """
    config = parse(config)
    rows = batch_size // process_count
    block = slice(process_index * rows, process_index * rows + rows)
    make = functools.partial(
        _BatchMaker, config, split, seed, batch_size, block, (devices, parts), features or ()
    )
    steps = range(first_step, total_steps)
    if config.workers:
        return read_in_processes(make, steps, config.workers)
    return read_ahead(make(), steps, config.prefetch)


def num_train_examples(config: Mapping[str, Any] | DataConfig, split: str) -> int:
    """Returns the examples of an epoch: images, or pairs if `examples` is "pairs"."""
    _, _, count = _open(parse(config), split)
    return count


class _BatchMaker:
    """Function of the step that returns this process's rows of its batch."""

    def __init__(
        self,
        config: DataConfig,
        split: str,
        seed: int,
        batch_size: int,
        block: slice,
        groups: tuple[int, int],
        features: Sequence[FeatureReader],
    ) -> None:
        self._config, self._block, self._groups = config, block, groups
        self._source, captions, count = _open(config, split)
        self._order = Order(seed, count, batch_size)
        self._features = {reader.name: reader for reader in features}
        has_pixels = config.image is not None and IMAGE_FEATURES not in self._features
        self._columns = ["image_id", *config.labels]
        self._columns += ["image"] * has_pixels + ["captions"] * bool(config.label_captions)
        self._tokenizer = None if config.text is None else load_tokenizer(config, split)
        self._starts, self._counts = captions.starts, captions.lengths
        self._mined: MinedNegatives | None = None
        if folder := config.mined_negatives:
            self._mined = open_mined(folder, split, captions, self._source.hashes)

    def __call__(self, step: int) -> Batch:
        records, numbers, mined = self._draw(step)
        own = records[self._block]
        columns = self._source.get(self._columns, own)
        batch = {"image_id": columns["image_id"]}
        batch |= {name: columns[name] for name in self._config.labels}
        if (image := self._config.image) is not None:
            seeds = self._order.augmentation_seeds(step)[self._block]
            batch |= self._image_columns(image, own, seeds, columns.get("image"))
            if mined is not None:
                seeds = self._order.mined_augmentation_seeds(step)[self._block].reshape(-1, 2)
                found = self._image_columns(image, mined[self._block].ravel(), seeds)
                batch |= {
                    mined_name(name): column.reshape(len(own), 2, *column.shape[1:])
                    for name, column in found.items()
                }
        if self._tokenizer is not None:
            batch |= self._text_columns(self._tokenizer, step, numbers)
            if self._config.label_captions:
                labels = self._label_ids(self._tokenizer, columns["captions"])
                batch["text_label_ids"] = np.repeat(labels[:, None], numbers.shape[1], axis=1)
        return batch

    def _draw(self, step: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Chooses the items of the global batch.

        Returns:
          Its records int64 [B]; its captions int64 [B, C], numbers among all captions of the split,
          those of mined negatives last; and the records of the mined images int64 [B, 2], if any.
        """
        examples = records = self._order.examples(step)
        if self._tokenizer is None:
            return records, records[:, None], None
        if self._config.examples == "pairs":
            records, numbers = self._records_of(examples), examples[:, None]
        else:
            draws = self._order.caption_draws(step, self._config.captions_per_image)
            places = choose_captions(self._counts[records], draws)
            numbers = self._starts[records][:, None] + places
        if self._mined is None:
            return records, numbers, None
        images, captions = self._mined.draw(records, examples, self._order.mined_draws(step))
        return records, np.concatenate([numbers, captions], axis=1), images

    def _records_of(self, numbers: np.ndarray) -> np.ndarray:
        """The records of captions."""
        return np.searchsorted(self._starts, numbers, side="right") - 1

    def _image_columns(
        self,
        config: ImageConfig,
        records: np.ndarray,
        seeds: np.ndarray,
        images: np.ndarray | RaggedColumn | None = None,
    ) -> Batch:
        """Columns of the images of some records; `images` are theirs if they have been read."""
        if reader := self._features.get(IMAGE_FEATURES):
            varies = self._source.columns["image"].is_ragged
            length = config.max_regions if varies else reader.rows
            features, mask = reader.read(records, length)
            found = {reader.name: features} | ({"image_mask": mask} if varies else {})
        else:
            if images is None:
                images = self._source.get(["image"], records)["image"]
            found = image_columns(images, config, seeds)
        if config.tags and self._tokenizer is not None:
            tags = self._source.get(["tags"], records)["tags"]
            found |= tag_columns(tags, self._tokenizer)
        return found

    def _text_columns(self, tokenizer: Tokenizer, step: int, numbers: np.ndarray) -> Batch:
        """Columns of the captions [B, C] of the global batch, own rows alone."""
        rows, own = self._block, slice(None)
        if len(self._config.text_layouts) > 1:
            # Every process encodes the texts of all processes, so they agree without a message.
            rows, own = own, rows
        texts, caption_ids = self._read_captions(numbers[rows])
        seeds = None
        if self._config.require_text().augment is not None:
            seeds = self._order.text_seeds(step, texts.shape[1])[rows].reshape(-1, 2)
        encoded = tokenizer.encode(decode_texts(texts), seeds)
        ids, mask = (each.reshape(*texts.shape, -1) for each in encoded)
        length, ranks = self._config.lay_out(mask.sum(axis=-1), *self._groups)
        batch = {"text_mask": mask[own, :, :length], "caption_id": caption_ids[own]}
        if ranks is not None:
            batch["text_rank"] = ranks[own]
        if reader := self._features.get(TEXT_FEATURES):
            batch[reader.name], _ = reader.read(numbers[self._block], length)
        else:
            batch["text_ids"] = ids[own, :, :length]
        return batch

    def _label_ids(self, tokenizer: Tokenizer, captions: RaggedColumn) -> np.ndarray:
        """Ids [b, L T] of the first L captions of every image; the last one is repeated."""
        wanted = np.arange(self._config.label_captions)
        places = np.minimum(wanted, captions.lengths[:, None] - 1)
        texts = captions.values[captions.starts[:, None] + places]
        return tokenizer.encode(decode_texts(texts))[0].reshape(len(texts), -1)

    def _read_captions(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Texts, bytes, and ids of captions [b, C]."""
        records = self._records_of(numbers.ravel())
        columns = self._source.get(["captions", "caption_ids"], records)
        captions, ids = columns["captions"], columns["caption_ids"]
        at = (captions.starts + numbers.ravel() - self._starts[records]).reshape(numbers.shape)
        return captions.values[at], ids.values[at]


def choose_captions(counts: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Chooses C captions of every image without replacement.

    Args:
      counts: captions of each image, int64 [b], at least C.
      draws: non-negative random numbers, int64 [b, C].

    Returns:
      Positions of the chosen captions among those of their image, int64 [b, C].
    """
    places = np.empty_like(draws)
    for k in range(draws.shape[1]):
        # Position of the draw among the remaining captions: step over taken ones, smallest first.
        place = draws[:, k] % (counts - k)
        for taken in np.sort(places[:, :k], axis=1).T:
            place += place >= taken
        places[:, k] = place
    return places


def _open(config: DataConfig, split: str) -> tuple[Source, RaggedColumn, int]:
    """Returns a training split, the ids of its captions, and the number of its examples."""
    source = Source(config, split, needed_columns(config))
    if config.text is None:
        none = np.zeros(0, np.int64)
        return source, RaggedColumn(none, none), len(source)
    captions = source.get(["caption_ids"])["caption_ids"]
    if config.examples == "pairs":
        return source, captions, len(captions.values)
    if (fewest := captions.lengths.min()) < config.captions_per_image:
        raise UserError(
            f"An image has {fewest} caption(s), fewer than config.data.captions_per_image="
            f"{config.captions_per_image}; set it to the fewest of any image."
        )
    return source, captions, len(source)
