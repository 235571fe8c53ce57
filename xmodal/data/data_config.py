"""The section `config.data`."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from data_prep.captioned_images.hub_datasets import PREFIX
from xmodal.core.config import read, setting
from xmodal.core.errors import UserError
from xmodal.data.pixels.images import ImageConfig
from xmodal.data.text.text_config import TextConfig


@dataclasses.dataclass(frozen=True)
class LengthBucketing:
    """`config.data.length_bucketing`: a second length within a batch.

    The shortest texts of every device, and of every part of an accumulated batch, are padded to a
    length of their own, and their modality of the model embeds them apart from the others. A batch
    with fewer texts of at most that length is padded to `text.max_length` as a whole. Losses do not
    change; random numbers of the text tower, such as dropout's, depend on the number of devices.

    Attributes:
      length: number of ids of the short texts.
      share: their share, rounded down to whole rows of a batch; none of a single row.
    """

    length: int = setting(at_least=1)
    share: float = setting(above=0, below=1)

    def count(self, rows: int) -> int:
        """Returns the number of short texts at every caption position of `rows` rows."""
        return int(self.share * rows)

    def rank(self, lengths: np.ndarray, devices: int, parts: int) -> np.ndarray | None:
        """Returns the place of every text by length, or None if too few texts are short.

        Args:
          lengths: numbers of real ids of the texts of a global batch, int [B, C].
          devices: number of devices that share the batch, B / devices successive rows each.
          parts: number of parts that a device splits its rows into, see `train.step.accumulation`.

        Returns:
          int32 [B, C], from 0 for the shortest of the texts at the same position of the rows of one
          device and part.
        """
        groups = lengths.reshape(devices, -1, parts, lengths.shape[1])
        ranks = np.argsort(np.argsort(groups, axis=1, kind="stable"), axis=1)
        is_short = ranks < self.count(groups.shape[1])
        if np.any(groups[is_short] > self.length):
            return None
        return ranks.astype(np.int32).reshape(lengths.shape)


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """A dataset and how its records become batches.

    Attributes:
      dataset: name in `data_prep.BUILDERS`; or `hf:FOLDER_OR_NAME`, captioned images of the library
        `datasets`, see `data_prep.captioned_images.hub_datasets.export_dataset`.
      config: TFDS builder config (`images`, `features`, ...).
      data_dir: where TFDS keeps prepared datasets; "" for its default (TFDS_DATA_DIR).
      manual_dir: folder of the published files of a dataset that cannot be downloaded, or
        `hf://OWNER/NAME`, a repository of the Hub with such files.
      ratings_dir: folder of the released CxC rating files, for COCO; "" for no ratings.
      examples: "images" draws `captions_per_image` captions of each image without replacement,
        "pairs" makes every (image, caption) pair a separate example.
      captions_per_image: captions of each image in a training batch; 1 with "pairs".
      image: None for no images (text-only models).
      text: None for no captions.
      text_lengths: numbers of ids to which a training batch is padded if all of its
        texts are that short; others are padded to `text.max_length`. The training step is compiled
        for every length. Not used with `text.attend_to_padding`.
      length_bucketing: texts of a training batch that are padded even less, see `LengthBucketing`;
        None for none. The step is compiled once more. Not used with `text.attend_to_padding`.
      label_captions: number of captions of an image, the first ones, whose words together label
        each of its training texts with concepts (CVSE); 0 for the text's own words.
      mined_negatives: folder of `xmodal mine`, from which every pair draws two more images and
        captions, for the loss `quintuplet`; "" for none. Needs "pairs".
      labels: columns of the dataset that batches carry, such as "relations".
      prefetch: batches prepared ahead of the consumer by threads.
      workers: processes that prepare batches of the training instead, see
        `read_ahead.read_in_processes`, for hosts with many cores; 0 for none.
    """

    dataset: str
    config: str = "images"
    data_dir: str = ""
    manual_dir: str = ""
    ratings_dir: str = ""
    examples: str = setting("images", one_of=("images", "pairs"))
    captions_per_image: int = setting(1, at_least=1)
    image: ImageConfig | None = None
    text: TextConfig | None = dataclasses.field(default_factory=TextConfig)
    text_lengths: tuple[int, ...] = setting((), at_least=1)
    length_bucketing: LengthBucketing | None = None
    label_captions: int = setting(0, at_least=0)
    mined_negatives: str = ""
    labels: tuple[str, ...] = ()
    prefetch: int = setting(2, at_least=0)
    workers: int = setting(0, at_least=0)

    def __post_init__(self) -> None:
        if self.dataset.startswith(PREFIX):
            object.__setattr__(self, "manual_dir", self.dataset)
            object.__setattr__(self, "dataset", "captioned_images")
        is_pairs, tags = self.examples == "pairs", self.image is not None and self.image.tags
        mined = bool(self.mined_negatives)
        pieces = self.text is not None and self.text.tokenizer == "wordpiece"
        wrong = {
            "examples='pairs' has one caption per example: set captions_per_image to 1, and text": (
                is_pairs and (self.captions_per_image != 1 or self.text is None)
            ),
            "mined_negatives are negatives of pairs of an image and a caption: set "
            "examples='pairs' and image": mined and (not is_pairs or self.image is None),
            "label_captions labels captions of the batch's own images only: set it to 0, or "
            "mined_negatives to ''": mined and self.label_captions > 0,
            "image.tags needs ids of word pieces: set text.tokenizer='wordpiece', or "
            "image.tags=False": tags and not pieces,
        }
        if found := [message for message, is_wrong in wrong.items() if is_wrong]:
            raise UserError(f"config.data.{found[0]}.")

    @property
    def texts_per_image(self) -> int:
        """C, captions of each example in a training batch, those of mined negatives included."""
        return self.captions_per_image + (2 if self.mined_negatives else 0)

    @property
    def text_layouts(self) -> tuple[tuple[int, bool], ...]:
        """Lengths T to which training batches are padded, and whether they have `length_bucketing`.

        They ascend; the last one is for any batch. There are none without texts.
        """
        if self.text is None:
            return ()
        most, short = self.text.max_length, self.length_bucketing
        if self.text.attend_to_padding:
            return ((most, False),)
        lengths = [*sorted(length for length in self.text_lengths if length < most), most]
        layouts = [(length, short is not None and length > short.length) for length in lengths]
        return tuple(dict.fromkeys([*layouts, (most, False)]))

    def lay_out(
        self, lengths: np.ndarray, devices: int, parts: int
    ) -> tuple[int, np.ndarray | None]:
        """Returns the length T to which a batch is padded, and ranks if its short texts are apart.

        Args:
          lengths: see `LengthBucketing.rank`, which gives the ranks.
          devices: see `LengthBucketing.rank`.
          parts: see `LengthBucketing.rank`.
        """
        *others, last = self.text_layouts
        longest = lengths.max()
        length, has_short = next((each for each in others if each[0] >= longest), last)
        if self.length_bucketing is None or not has_short:
            return length, None
        ranks = self.length_bucketing.rank(lengths, devices, parts)
        return last[0] if ranks is None else length, ranks

    def require_text(self) -> TextConfig:
        """Returns `text`."""
        if self.text is None:
            raise UserError("config.data.text is None: this config has no vocabulary")
        return self.text


def parse(config: Mapping[str, Any] | DataConfig, where: str = "config.data") -> DataConfig:
    """Returns `config.data` as its dataclass.

    Args:
      config: the section, or a `DataConfig`, which is returned unchanged.
      where: the section as a user writes it.
    """
    return read(DataConfig, where, config)


def with_changes(section: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `config.data` as the section `data` of an evaluator changes it.

    Single keys of `image` and `text` may change. With an `image` of None, no pictures are read; all
    evaluators have the run's tokenizer, so that a `text` of None changes nothing.
    """
    changed = {**section, **changes}
    for part in ("image", "text"):
        if section.get(part) and changes.get(part):
            changed[part] = {**section[part], **changes[part]}
    # Image-only benchmarks also use the captions' ids.
    changed["text"] = changed.get("text") or section.get("text") or {}
    return changed
