"""A split for evaluation: every unique image and caption once, labels, and rated pairs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from xmodal.config import UserError
from xmodal.data.batch_spec import batch_spec
from xmodal.data.columns import Column, Ragged
from xmodal.data.config import DataConfig, parse
from xmodal.data.item_inputs import image_columns
from xmodal.data.learned_vocabulary import load_tokenizer
from xmodal.data.ratings import load_ratings, rating_hashes
from xmodal.data.read_ahead import read_ahead
from xmodal.data.sources import Source, needed_columns

# Retrieval is defined on five captions per image; some COCO images have six or seven.
_MAX_CAPTIONS = 5
_ITEM_COLUMNS = ("image", "image_id", "captions", "caption_ids")


class EvalSplit:
    """One split for evaluation.

    Attributes:
      name: name of the dataset.
      split: name of the split.
      image_ids: int32 [N].
      caption_ids: int32 [M], grouped by image; empty for a config without text.
      caption_image_ids: int32 [M], the image that each caption describes.
      caption_rows: int64 [M], its row in `image_ids` and `labels`.
      caption_texts: M texts.
      labels: every other column of the dataset by name, [N, ...]: arrays of numbers (`relations`,
        `categories`), or of texts. A column whose length varies between records is left out.
      label_names: names of the values of labels by column, as far as the dataset knows them.
      ratings: rated pairs by task: `left_ids`, `right_ids` int32 [P], `scores` float32 [P],
        `methods` strings [P]; empty for a dataset without ratings. Pairs of absent items are left
        out.
      partial: part of the published split that is present, such as "181 of 5,000 images"; "" for
        all of it.
      hashes: of the records and of the rated pairs, see `sources.split_hashes`.
    """

    def __init__(
        self, config: DataConfig, split: str, max_captions: int | None = _MAX_CAPTIONS
    ) -> None:
        """Reads ids, texts and labels; see `eval_split`."""
        self._config = config
        self._source = source = Source(config, split, needed_columns(config))
        small = [name for name in source.columns if name != "image"]
        columns = source.get(small)
        self.name, self.split = config.dataset, split
        self.image_ids = columns["image_id"]
        self._read_captions(columns, max_captions)
        self.labels = _labels(columns, source.columns, config.labels)
        self.label_names = source.label_names
        self.hashes = source.hashes | rating_hashes(config, split)
        self.ratings, dropped = load_ratings(config, split), 0
        if source.left_out or not source.is_complete:
            self.ratings, dropped = _keep_known(self.ratings, self.image_ids, self.caption_ids)
        images, captions = len(self.image_ids), len(self.caption_ids)
        self.partial = ""
        if source.left_out:
            self.partial = f"{images:,} of {images + source.left_out:,} images"
        elif dropped:
            self.partial = f"{images:,} images, {captions:,} captions"

    def _read_captions(self, columns: Mapping[str, np.ndarray | Ragged], most: int | None) -> None:
        captions, ids = columns.get("captions"), columns.get("caption_ids")
        if self._config.text is None or captions is None:
            captions = ids = Ragged(np.zeros(0, np.int32), np.zeros_like(self.image_ids))
        counts = captions.lengths if most is None else np.minimum(captions.lengths, most)
        self.caption_rows = np.repeat(np.arange(len(counts)), counts)
        places = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        places += captions.starts[self.caption_rows]
        self.caption_ids = ids.values[places]
        self.caption_image_ids = self.image_ids[self.caption_rows]
        self.caption_texts = [text.decode("utf-8", "ignore") for text in captions.values[places]]

    @property
    def folder(self) -> epath.Path:
        """Folder of the prepared dataset."""
        return self._source.folder

    @property
    def categories(self) -> np.ndarray | None:
        """Objects in every image, uint8 of 0 and 1 [N, K]; None where the dataset has none."""
        return self.labels.get("categories")

    @property
    def caption_categories(self) -> np.ndarray | None:
        """Objects in the image of every caption, uint8 of 0 and 1 [M, K], or None."""
        return None if self.categories is None else self.categories[self.caption_rows]

    def images(self, batch_size: int) -> Iterator[dict[str, np.ndarray]]:
        """Returns batches of every image once, in the order of `image_ids`.

        Args:
          batch_size: rows b of a batch; the last one may have fewer.

        Returns:
          Iterator over dicts of `image` (and `image_mask`) as `batch_spec` has them, with the
          evaluation crop, and `image_id` int32 [b].

        Raises:
          UserError: the config leaves the image out.
        """
        config, source = self._config, self._source
        if config.image is None:
            raise UserError("config.data.image is None: this config evaluates captions only")
        batch_spec(config, batch_size)  # Refuses a size that does not fit the images.

        def make_batch(start: int) -> dict[str, np.ndarray]:
            rows = np.arange(start, min(start + batch_size, len(source)))
            columns = source.get(["image", "image_id"], rows)
            return image_columns(columns["image"], config.image) | {"image_id": columns["image_id"]}

        return read_ahead(make_batch, range(0, len(source), batch_size), config.prefetch)

    def captions(self, batch_size: int) -> Iterator[dict[str, np.ndarray]]:
        """Returns batches of every caption once, in the order of `caption_ids`.

        Args:
          batch_size: rows b of a batch; the last one may have fewer.

        Returns:
          Iterator over dicts of `text_ids` and `text_mask` int32 [b, T], `caption_id` and
          `image_id` int32 [b].

        Raises:
          UserError: the config leaves the text out.
        """
        batches = text_batches(self._config, self.caption_texts, batch_size)

        def with_ids() -> Iterator[dict[str, np.ndarray]]:
            for number, batch in enumerate(batches):
                rows = slice(number * batch_size, (number + 1) * batch_size)
                ids = {"caption_id": self.caption_ids[rows]}
                yield batch | ids | {"image_id": self.caption_image_ids[rows]}

        return with_ids()


def eval_split(
    config: Mapping[str, Any] | DataConfig, *, split: str, max_captions: int | None = _MAX_CAPTIONS
) -> EvalSplit:
    """Opens a split for evaluation.

    Args:
      config: see `DataConfig`.
      split: name of the split.
      max_captions: captions of an image that count; None for all.

    Raises:
      UserError: the dataset has no such split, or lacks a column that the config asks for.
    """
    return EvalSplit(parse(config), split, max_captions)


def text_batches(
    config: Mapping[str, Any] | DataConfig, texts: Sequence[str], batch_size: int
) -> Iterator[dict[str, np.ndarray]]:
    """Returns batches of any texts, tokenized as `config.text` says.

    Args:
      config: see `DataConfig`; a learned vocabulary comes from its dataset.
      texts: in the order of the batches.
      batch_size: rows b of a batch; the last one may have fewer.

    Returns:
      Iterator over dicts of `text_ids` and `text_mask` int32 [b, T].

    Raises:
      UserError: the config leaves the text out.
    """
    config = parse(config)
    tokenizer = load_tokenizer(config)

    def make_batch(start: int) -> dict[str, np.ndarray]:
        ids, mask = tokenizer.encode(texts[start : start + batch_size])
        return {"text_ids": ids, "text_mask": mask}

    return read_ahead(make_batch, range(0, len(texts), batch_size), config.prefetch)


def _labels(
    columns: Mapping[str, np.ndarray | Ragged],
    described: Mapping[str, Column],
    wanted: Sequence[str],
) -> dict[str, np.ndarray]:
    """Returns the label columns of a split whose records have one length."""
    labels = {}
    for name, column in columns.items():
        if name in _ITEM_COLUMNS:
            continue
        if isinstance(column, Ragged):
            lengths = np.unique(column.lengths)
            if len(lengths) != 1 or not lengths[0]:
                if name in wanted:
                    raise UserError(
                        f"config.data.labels names {name!r}, but the records of this split have "
                        f"{lengths.min()} to {lengths.max()} values of it; leave it out"
                    )
                continue
            column = column.values.reshape(len(column.lengths), lengths[0])
        if described[name].dtype == object:
            decode = np.vectorize(bytes.decode, otypes=[object])
            column = decode(column)
        labels[name] = column
    return labels


def _keep_known(
    ratings: Mapping[str, Mapping[str, np.ndarray]], image_ids: np.ndarray, caption_ids: np.ndarray
) -> tuple[dict[str, dict[str, np.ndarray]], int]:
    """Returns the rated pairs whose two sides are present, and the number of the others."""
    kept, dropped = {}, 0
    for task, pairs in ratings.items():
        left = image_ids if task == "sis" else caption_ids
        right = caption_ids if task == "sts" else image_ids
        known = np.isin(pairs["left_ids"], left) & np.isin(pairs["right_ids"], right)
        kept[task] = {name: column[known] for name, column in pairs.items()}
        dropped += int((~known).sum())
    return kept, dropped
