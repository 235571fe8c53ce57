"""What `config.data` may hold: the known keys, their defaults and their checks."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any

from xmodal.config import UserError, check_keys


def _check_name(key: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise UserError(f"config.data.{key} is {name!r}; known: {', '.join(known)}")


@dataclasses.dataclass(frozen=True)
class AugmentConfig:
    """Training augmentation; the defaults are the released recipe of the CxC dual encoder.

    Attributes:
      area: range of the area of the random crop, as a fraction of the image.
      aspect: range of the aspect ratio (width over height) of the crop.
      flip: mirror half of the images.
      colour: shift luma and chroma at random.
    """

    area: tuple[float, float] = (0.67, 1.0)
    aspect: tuple[float, float] = (0.75, 1.33)
    flip: bool = True
    colour: bool = True


@dataclasses.dataclass(frozen=True)
class ImageConfig:
    """What happens to the image of an example.

    Attributes:
      size: side of the square model input in pixels; 0 passes precomputed features through.
      augment: training augmentation, None to train on the evaluation crop.
      eval_crop: fraction of a side that the evaluation crop keeps.
      eval_recipe: "cxc" squeezes the centre to a square, that fraction of each side, by
        antialiased bilinear interpolation, as the authors of CxC do; "simclr" takes a central
        square, that fraction of the shorter side, and resizes it as SimCLR does, bicubic.
    """

    size: int = 0
    augment: AugmentConfig | None = None
    eval_crop: float = 0.875
    eval_recipe: str = "cxc"

    def __post_init__(self) -> None:
        _check_name("image.eval_recipe", self.eval_recipe, ("cxc", "simclr"))


@dataclasses.dataclass(frozen=True)
class TextConfig:
    """How captions become ids.

    Attributes:
      tokenizer: "wordpiece" for BERT, "words" for tables of word vectors.
      vocabulary: path of the `vocab.txt` of a model, one token per line; "" learns word pieces
        from the training captions (words cannot be learnt).
      vocabulary_size: what a learnt vocabulary aims at; a few per cent more may come out.
      max_length: tokens of a padded caption, [CLS] and [SEP] of word pieces included.
      lower_case: word pieces: the model is uncased, lower-case and strip accents; words: look up
        in lower case what is not in the vocabulary as it is written.
    """

    tokenizer: str = "wordpiece"
    vocabulary: str = ""
    vocabulary_size: int = 1024
    max_length: int = 48
    lower_case: bool = True

    def __post_init__(self) -> None:
        _check_name("text.tokenizer", self.tokenizer, ("wordpiece", "words"))


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """Everything the data room reads from a config.

    Attributes:
      dataset: name in `data_prep.BUILDERS`.
      config: TFDS builder config (`images`, `features`, ...).
      data_dir: where TFDS keeps prepared datasets; "" is its default (TFDS_DATA_DIR).
      manual_dir: folder of the published files of a dataset that cannot be downloaded.
      ratings_dir: folder of the released CxC rating files, for COCO; "" has no ratings.
      examples: "images" draws `captions_per_image` captions of each image without replacement,
        "pairs" makes every (image, caption) pair an example of its own.
      captions_per_image: C of a training batch; 1 with "pairs".
      image: None leaves the image out (text-only models).
      text: tokens of the captions.
      prefetch: batches prepared ahead of the consumer.
    """

    dataset: str
    config: str = "images"
    data_dir: str = ""
    manual_dir: str = ""
    ratings_dir: str = ""
    examples: str = "images"
    captions_per_image: int = 1
    image: ImageConfig | None = None
    text: TextConfig = TextConfig()
    prefetch: int = 2

    def __post_init__(self) -> None:
        _check_name("examples", self.examples, ("images", "pairs"))
        if self.captions_per_image < 1:
            raise UserError(
                f"config.data.captions_per_image is {self.captions_per_image}; at least 1"
            )
        if self.examples == "pairs" and self.captions_per_image != 1:
            raise UserError(
                "config.data.examples='pairs' has one caption per example, but "
                f"config.data.captions_per_image is {self.captions_per_image}; set it to 1"
            )


def parse(config: Mapping[str, Any] | DataConfig) -> DataConfig:
    """Reads `config.data`.

    Args:
      config: mapping (an `ml_collections.ConfigDict` is one) with keys of `DataConfig`, or a
        `DataConfig` that was read before.

    Raises:
      UserError: a key is unknown (the known ones are listed) or a value is out of range.
    """
    return config if isinstance(config, DataConfig) else _parse(DataConfig, config, "config.data")


def _parse(cls: type, config: Mapping[str, Any], where: str) -> Any:
    hints = typing.get_type_hints(cls)
    check_keys(where, config, hints)
    values = {}
    for key, value in config.items():
        nested = [t for t in _alternatives(hints[key]) if dataclasses.is_dataclass(t)]
        if nested and value is not None:
            value = _parse(nested[0], value, f"{where}.{key}")
        values[key] = value
    required = [f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING]
    if missing := [name for name in required if name not in values]:
        raise UserError(f"{where} lacks the key {', '.join(missing)}")
    return cls(**values)


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
