"""A split for evaluation: every unique image and caption, labels, and rated pairs."""

import copy
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from data_prep.same_text import content_hash
from xmodal.core.errors import UserError
from xmodal.data import evaluated_records as records
from xmodal.data.batch_shapes import batch_spec, image_columns, tag_columns
from xmodal.data.columns import STRING, RaggedColumn, decode_texts
from xmodal.data.data_config import DataConfig, parse
from xmodal.data.datasets import title_of
from xmodal.data.feature_records import IMAGE_FEATURES, TEXT_FEATURES, FeatureReader
from xmodal.data.learned_vocabulary import load_tokenizer
from xmodal.data.read_ahead import read_ahead
from xmodal.data.text.tokenizers import Tokenizer

_LENGTH_STEP = 8  # Padded lengths of captions are multiples of this.
_TOKENIZED_AT_A_TIME = 1024
_ITEM_COLUMNS = ("image", "image_id", "captions", "caption_ids")


class EvalSplit:
    """One split for evaluation.

    A dataset of sentence pairs is read as records of two captions without an image.

    Attributes:
      config: config of the dataset.
      name: name of the dataset.
      title: its display name, see `title_of`.
      split: name of the split.
      folder: folder of the prepared dataset.
      modalities: the modalities with items to embed, of "image" and "text".
      has_pictures: whether the dataset stores encoded pictures, which `pictures` returns.
      has_pairs: whether the records are sentence pairs.
      image_ids: int32 [N], ids of the records.
      caption_ids: int32 [M], grouped by image; empty for a config without text.
      caption_image_ids: int32 [M], the image that each caption describes.
      caption_rows: int64 [M], its row in `image_ids` and `labels`.
      caption_texts: M strings.
      labels: every other column of the dataset by name, [N, ...]: numbers (`relations`,
        `categories`) or strings. A column whose length varies between records is left out. Columns
        of sentence pairs are `score`, `set` and `average`, see `evaluated_records.as_captions`.
      categories: objects in every image, uint8 of 0 and 1 [N, K]; None if the dataset has none.
      caption_categories: objects in the image of every caption, uint8 of 0 and 1 [M, K], or None.
      label_names: names of the values of label columns, if the dataset has them.
      ratings: rated pairs by rating: `left_ids`, `right_ids` int32 [P], `scores` float32 [P],
        `methods` strings [P]; empty for a dataset without ratings. Pairs of absent items are left
        out.
      partial: part of the published split that is present, such as "181 of 5,000 images"; "" for
        all of it.
      hashes: hashes of the records and of the rated pairs, see `datasets.split_hashes`.
    """

    def __init__(
        self, config: DataConfig, split: str, tokenizer: Tokenizer | None, train_split: str
    ) -> None:
        """Reads ids, texts and labels; see `eval_split`."""
        self._source = source = records.open_captions(config, split)
        self.config, self._tokenizer, self._train_split = config, tokenizer, train_split
        self._features: dict[str, FeatureReader] = {}
        self._beside: dict[str, EvalSplit] = {}
        self.name, self.title, self.split = config.dataset, title_of(config), split
        self.folder, self.hashes = source.folder, source.hashes
        pictures = {name for name, each in source.columns.items() if each.is_picture}
        columns = source.get([name for name in source.columns if name not in {"image", *pictures}])
        self.has_pictures, self.has_pairs = "image" in pictures, records.has_pairs(source.columns)
        if self.has_pairs:
            columns = records.as_captions(columns)
        has_images = config.image is not None and not self.has_pairs
        has_texts = config.text is not None and "captions" in columns
        self.modalities = ("image",) * has_images + ("text",) * has_texts
        if "image_id" not in columns:  # A dataset of TFDS, whose records have no ids.
            columns["image_id"] = np.arange(len(source), dtype=np.int32)
        self.image_ids: np.ndarray = columns["image_id"]
        captions = ids = RaggedColumn(np.zeros(0, np.int32), np.zeros_like(self.image_ids))
        if has_texts:
            captions, ids = columns["captions"], columns["caption_ids"]
        self.caption_rows = np.repeat(np.arange(len(captions.lengths)), captions.lengths)
        self.caption_ids = ids.values
        self.caption_image_ids = self.image_ids[self.caption_rows]
        self.caption_texts = decode_texts(captions.values)
        self.labels = _label_columns(columns, config.labels)
        self.label_names = source.label_names
        self.categories = shown = self.labels.get("categories")
        self.caption_categories = None if shown is None else shown[self.caption_rows]
        self.ratings: dict[str, dict[str, np.ndarray]] = {}
        dropped = 0
        if not self.has_pairs:
            self.ratings, hashes = records.load_ratings(config, split)
            self.hashes |= hashes
        if source.left_out or not source.is_complete:
            self.ratings, dropped = _keep_known(self.ratings, self.image_ids, self.caption_ids)
        images = len(self.image_ids)
        self.partial = ""
        if source.left_out:
            self.partial = f"{images:,} of {images + source.left_out:,} images"
        elif dropped:
            self.partial = f"{images:,} images, {len(self.caption_ids):,} captions"

    def beside(self, split: str) -> "EvalSplit":
        """Returns another split of the same dataset, with the same columns and tokenizer."""
        # Kept, so that evaluators share it, and with it its embeddings.
        if split not in self._beside:
            found = EvalSplit(self.config, split, self._tokenizer, self._train_split)
            self._beside[split] = found
        return self._beside[split]

    def with_features(self, readers: Iterable[FeatureReader]) -> "EvalSplit":
        """Returns the same items, whose pooled features are read instead of raw columns."""
        found = copy.copy(self)
        found._features = {reader.name: reader for reader in readers}
        if reader := found._features.get(TEXT_FEATURES):
            found.caption_lengths = np.full(len(self.caption_ids), reader.rows, np.int32)
        return found

    def _load_tokenizer(self) -> Tokenizer:
        return self._tokenizer or load_tokenizer(self.config, self._train_split)

    @functools.cached_property
    def image_hashes(self) -> np.ndarray:
        """See `evals.labels.split.Split`; reads all records."""
        count = len(self.image_ids) if self.has_pictures else 0
        blocks = np.array_split(np.arange(count), count // 256 + 1)
        hashes = (content_hash(each) for block in blocks for each in self.pictures(block))
        return np.fromiter(hashes, np.uint64)

    @functools.cached_property
    def lists(self) -> dict[str, dict[str, tuple[np.ndarray, np.ndarray]]]:
        """Lists of positives by name, "matches", and direction, see `load_matches`."""
        found = {} if self.has_pairs else records.load_matches(self.config, self.split)
        return {records.MATCHES: found} if found else {}

    @functools.cached_property
    def caption_lengths(self) -> np.ndarray:
        """Length T that holds all tokens of a caption, int32 [M]; at most three distinct values."""
        longest = self.config.require_text().max_length
        steps = [-(-longest // (_LENGTH_STEP * share)) * _LENGTH_STEP for share in (4, 2, 1)]
        lengths = np.unique(np.minimum(steps, longest)).astype(np.int32)
        tokens = [batch["text_mask"].sum(axis=1) for batch in self.captions(_TOKENIZED_AT_A_TIME)]
        return lengths[np.searchsorted(lengths, np.concatenate(tokens))]

    def images(
        self, batch_size: int, rows: np.ndarray | None = None
    ) -> Iterator[dict[str, np.ndarray]]:
        """Returns batches of images, by default of all images in the order of `image_ids`.

        Args:
          batch_size: rows b of a batch; the last batch may have fewer.
          rows: int [R], positions in `image_ids` of the images to read.

        Returns:
          Iterator over dicts of `image` (and `image_mask`, `image_tags`) as in `batch_spec`, with
          the evaluation crop, or the features of `with_features`, and `image_id` int32 [b].
        """
        image = self.config.image
        if image is None or self.has_pairs:
            raise UserError(
                f"{self.name} {self.split} has no images, or config.data.image is None."
            )
        # Rejects a size that does not fit the images.
        batch_spec(self.config, batch_size, trains=False)
        tokenizer = self._load_tokenizer() if image.tags else None

        def read(rows: np.ndarray) -> dict[str, np.ndarray]:
            columns = self._source.get(["image"] + ["tags"] * image.tags, rows)
            tags = tag_columns(columns["tags"], tokenizer) if tokenizer else {}
            return image_columns(columns["image"], image) | tags

        reader = self._features.get(IMAGE_FEATURES)
        found = reader.read_all if reader else read
        return self._batches(found, rows, batch_size, image_id=self.image_ids)

    def pictures(self, rows: np.ndarray) -> np.ndarray:
        """Returns the images at `rows` as stored: encoded pictures, bytes [R]."""
        return self._source.get(["image"], rows)["image"]

    def captions(
        self, batch_size: int, rows: np.ndarray | None = None, length: int | None = None
    ) -> Iterator[dict[str, np.ndarray]]:
        """Returns batches of captions, by default of all captions in the order of `caption_ids`.

        Args:
          batch_size: rows b of a batch; the last batch may have fewer.
          rows: int [R], positions in `caption_ids` of the captions to read.
          length: T, at least the `caption_lengths` of these rows; None for
            `config.data.text.max_length`.

        Returns:
          Iterator over dicts of `text_ids` and `text_mask` int32 [b, T], or the features of
          `with_features`, `caption_id` and `image_id` int32 [b].
        """
        ids = {"caption_id": self.caption_ids, "image_id": self.caption_image_ids}
        if reader := self._features.get(TEXT_FEATURES):
            return self._batches(reader.read_all, rows, batch_size, **ids)
        prompt = self.config.require_text().prompt or "{}"
        tokenizer = self._load_tokenizer()

        def read(rows: np.ndarray) -> dict[str, np.ndarray]:
            texts = [prompt.replace("{}", self.caption_texts[row]) for row in rows]
            ids, mask = tokenizer.encode(texts)
            return {"text_ids": ids[:, :length], "text_mask": mask[:, :length]}

        return self._batches(read, rows, batch_size, **ids)

    def _batches(
        self,
        read: Callable[[np.ndarray], dict[str, np.ndarray]],
        rows: np.ndarray | None,
        batch_size: int,
        **ids: np.ndarray,
    ) -> Iterator[dict[str, np.ndarray]]:
        """Batches of what `read` returns for some rows, by default all, and of their ids."""
        wanted = np.arange(len(next(iter(ids.values())))) if rows is None else rows

        def make_batch(start: int) -> dict[str, np.ndarray]:
            at = wanted[start : start + batch_size]
            return read(at) | {name: each[at] for name, each in ids.items()}

        return read_ahead(make_batch, range(0, len(wanted), batch_size), self.config.prefetch)


def eval_split(
    config: Mapping[str, Any] | DataConfig,
    *,
    split: str,
    tokenizer: Tokenizer | None = None,
    train_split: str = "train",
) -> EvalSplit:
    """Opens a split for evaluation.

    Args:
      config: see `DataConfig`.
      split: name of the split.
      tokenizer: tokenizer of a model trained on another dataset; None for that of the config.
      train_split: split of the dataset that the model trained on, from which the config's tokenizer
        may have learned its vocabulary.
    """
    return EvalSplit(parse(config), split, tokenizer, train_split)


def _label_columns(
    columns: Mapping[str, np.ndarray | RaggedColumn], wanted: Sequence[str]
) -> dict[str, np.ndarray]:
    """Returns the columns besides images and captions whose records have equal length."""
    labels = {}
    for name, column in columns.items():
        if name in _ITEM_COLUMNS:
            continue
        if isinstance(column, RaggedColumn):
            shortest, longest = column.lengths.min(), column.lengths.max()
            if shortest != longest or not longest:
                if name in wanted:
                    raise UserError(
                        f"config.data.labels names {name!r}, but the records of this split have "
                        f"{shortest} to {longest} values of it; remove it"
                    )
                continue
            column = column.values.reshape(-1, longest, *column.values.shape[1:])
        if column.dtype == STRING:
            column = np.vectorize(bytes.decode, otypes=[object])(column)
        labels[name] = column
    return labels


def _keep_known(
    ratings: Mapping[str, Mapping[str, np.ndarray]], image_ids: np.ndarray, caption_ids: np.ndarray
) -> tuple[dict[str, dict[str, np.ndarray]], int]:
    """Returns the rated pairs with both modalities present, and the number of other pairs."""
    kept, dropped = {}, 0
    for rating, pairs in ratings.items():
        left = image_ids if rating == "sis" else caption_ids
        right = caption_ids if rating == "sts" else image_ids
        known = np.isin(pairs["left_ids"], left) & np.isin(pairs["right_ids"], right)
        kept[rating] = {name: column[known] for name, column in pairs.items()}
        dropped += int((~known).sum())
    return kept, dropped
