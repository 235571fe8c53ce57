"""Training batches: step -> record numbers -> decoded, augmented and tokenized arrays."""

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np

from xmodal.core.errors import UserError
from xmodal.core.read_ahead import Batch, read_ahead
from xmodal.data.batch_shapes import image_columns, tag_columns
from xmodal.data.columns import RaggedColumn, decode_texts, dense, ragged
from xmodal.data.data_config import DataConfig, parse
from xmodal.data.datasets import Source, needed_columns
from xmodal.data.feature_records import IMAGE_FEATURES, TEXT_FEATURES, FeatureReader
from xmodal.data.learned_vocabulary import load_tokenizer
from xmodal.data.mined_negatives import Draw, MinedNegatives, mined_name, open_mined
from xmodal.data.order import Order
from xmodal.data.pixels.images import ImageConfig
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
      threads. Texts are padded as `config.lay_out` says; the ranks, if any, are the column
      `text_rank`.

    Raises:
      UserError: the dataset has fewer examples than a batch needs, or lacks a column.
      ValueError: the processes cannot share a batch equally.
    """
    config = parse(config)
    rows = batch_size // process_count
    block = slice(process_index * rows, process_index * rows + rows)
    make_batch = _BatchMaker(
        config, split, seed, batch_size, block, (devices, parts), features or ()
    )
    return read_ahead(make_batch, range(first_step, total_steps), config.prefetch)


def num_train_examples(config: Mapping[str, Any] | DataConfig, split: str) -> int:
    """Returns the examples of an epoch: images, or pairs if `examples` is "pairs"."""
    config = parse(config)
    return _num_examples(config, _open(config, split))


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
        self._is_whole = block.stop - block.start == batch_size
        self._source = _open(config, split)
        self._order = Order(seed, _num_examples(config, self._source), batch_size)
        self._features = {reader.name: reader for reader in features}
        replaced = {reader.replaces for reader in features}
        if config.text is not None and not config.label_captions:
            replaced |= {"captions", "caption_ids"}  # Read by number, see `_read_captions`.
        self._columns = [name for name in needed_columns(config) if name not in replaced]
        self._tokenizer = None
        if config.text is not None:
            self._tokenizer = load_tokenizer(config, split)
            caption_ids = _caption_ids(self._source)
            self._starts, self._counts = caption_ids.starts, caption_ids.lengths
        self._mined: MinedNegatives | None = None
        if config.mined_negatives:
            places = self._starts, self._counts
            self._mined = open_mined(config.mined_negatives, split, *places, self._source.hashes)

    def __call__(self, step: int) -> Batch:
        records = self._records(step)[self._block]
        columns = self._source.get(self._columns, records)
        batch = {"image_id": dense(columns["image_id"])}
        batch |= {name: dense(columns[name]) for name in self._config.labels}
        if (image := self._config.image) is not None:
            seeds = self._order.augmentation_seeds(step)[self._block]
            batch |= self._image_columns(image, records, seeds, columns.get("image"))
            if self._mined is not None:
                drawn = self._draw_mined(self._mined, step, self._block).images
                seeds = self._order.mined_augmentation_seeds(step)[self._block]
                mined = self._image_columns(image, drawn.ravel(), seeds.reshape(-1, 2))
                batch |= {
                    mined_name(name): column.reshape(*drawn.shape, *column.shape[1:])
                    for name, column in mined.items()
                }
        if self._tokenizer is not None:
            batch |= self._text_columns(self._tokenizer, step, columns)
        return batch

    def _records(self, step: int) -> np.ndarray:
        """Numbers of the records of the global batch, int64 [B]."""
        examples = self._order.examples(step)
        return self._records_of(examples) if self._config.examples == "pairs" else examples

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
            tags = dense(self._source.get(["tags"], records)["tags"])
            found |= tag_columns(tags, self._tokenizer)
        return found

    def _text_columns(
        self,
        tokenizer: Tokenizer,
        step: int,
        columns: Mapping[str, np.ndarray | RaggedColumn],
    ) -> Batch:
        numbers = self._numbers(step, self._block)
        texts, caption_ids = self._read_captions(numbers)
        ids, mask = self._encode(tokenizer, step, texts, self._block)
        lengths = self._lengths(tokenizer, step, mask)
        length, ranks = self._config.lay_out(lengths, *self._groups)
        ids, mask = ids[..., :length], mask[..., :length]
        batch = {"text_mask": mask, "caption_id": caption_ids}
        if ranks is not None:
            batch["text_rank"] = ranks[self._block]
        if reader := self._features.get(TEXT_FEATURES):
            batch[reader.name], _ = reader.read(numbers, length)
        else:
            batch["text_ids"] = ids
        if self._config.label_captions:
            labels = self._label_ids(tokenizer, ragged(columns["captions"]))
            batch["text_label_ids"] = np.repeat(labels[:, None], numbers.shape[1], axis=1)
        return batch

    def _label_ids(self, tokenizer: Tokenizer, captions: RaggedColumn) -> np.ndarray:
        """Ids [b, L T] of the first L captions of every image; the last one is repeated."""
        wanted = np.arange(self._config.label_captions)
        places = np.minimum(wanted, captions.lengths[:, None] - 1)
        texts = captions.values[captions.starts[:, None] + places]
        return tokenizer.encode(decode_texts(texts))[0].reshape(len(texts), -1)

    def _numbers(self, step: int, rows: slice) -> np.ndarray:
        """Numbers of the captions [b, C] of some rows, among all captions of the split."""
        if self._config.examples == "pairs":
            numbers = self._order.examples(step)[rows, None]
        else:
            records = self._records(step)[rows]
            draws = self._order.caption_draws(step, self._config.captions_per_image)[rows]
            places = choose_captions(self._counts[records], draws)
            numbers = self._starts[records][:, None] + places
        if self._mined is None:
            return numbers
        return np.concatenate([numbers, self._draw_mined(self._mined, step, rows).captions], axis=1)

    def _draw_mined(self, mined: MinedNegatives, step: int, rows: slice) -> Draw:
        bits = self._order.mined_draws(step)[rows]
        return mined.draw(self._records(step)[rows], self._order.examples(step)[rows], bits)

    def _read_captions(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Texts, bytes, and ids of captions [b, C]."""
        records = self._records_of(numbers.ravel())
        columns = self._source.get(["captions", "caption_ids"], records)
        captions, ids = ragged(columns["captions"]), ragged(columns["caption_ids"])
        at = (captions.starts + numbers.ravel() - self._starts[records]).reshape(numbers.shape)
        return captions.values[at], ids.values[at]

    def _encode(
        self, tokenizer: Tokenizer, step: int, texts: np.ndarray, rows: slice
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ids and mask [b, C, T] of the encoded texts [b, C] of some rows of the batch."""
        seeds = None
        if self._config.require_text().augment is not None:
            seeds = self._order.text_seeds(step, texts.shape[1])[rows].reshape(-1, 2)
        encoded = tokenizer.encode(decode_texts(texts), seeds)
        ids, mask = (each.reshape(*texts.shape, -1) for each in encoded)
        return ids, mask

    def _lengths(self, tokenizer: Tokenizer, step: int, mask: np.ndarray) -> np.ndarray:
        """Lengths [B, C] of the texts of the global batch; `mask` is that of own rows.

        With a single layout, which depends on no length, they are those of own rows.
        """
        if not self._is_whole and len(self._config.text_layouts) > 1:
            # Every process encodes the texts of all processes, so they agree without a message.
            everything = slice(None)
            texts, _ = self._read_captions(self._numbers(step, everything))
            mask = self._encode(tokenizer, step, texts, everything)[1]
        return mask.sum(axis=-1)


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


def _open(config: DataConfig, split: str) -> Source:
    source, wanted = Source(config, split, needed_columns(config)), config.captions_per_image
    if config.text is None or config.examples == "pairs":
        return source
    if (fewest := _caption_ids(source).lengths.min()) < wanted:
        raise UserError(
            f"An image has {fewest} caption(s), fewer than "
            f"config.data.captions_per_image={wanted}; set it to the fewest of any image."
        )
    return source


def _num_examples(config: DataConfig, source: Source) -> int:
    return len(_caption_ids(source).values) if config.examples == "pairs" else len(source)


def _caption_ids(source: Source) -> RaggedColumn:
    return ragged(source.get(["caption_ids"])["caption_ids"])
