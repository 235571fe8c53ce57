"""Converters for published weights, by encoder."""

import dataclasses
import os
from collections.abc import Callable, Collection, Mapping

import numpy as np

from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.pretrained import (
    bert_weights,
    efficientnet_weights,
    image_towers,
    inception_v3_weights,
    mobilenet_v2_weights,
    resnet_weights,
    word_table,
)
from xmodal.pretrained.conversion_report import Report
from xmodal.pretrained.folder import Description
from xmodal.pretrained.variants import TOWERS, check_variant
from xmodal.pretrained.weight_files import WeightSource, load_source


@dataclasses.dataclass(frozen=True)
class Converter:
    """The functions that read the weights of one architecture.

    Attributes:
      describe: (source, variant) -> the tower the source is for; raises a `UserError` if it has
        another architecture or computes something that our encoder does not.
      convert: (arrays, **keywords of the encoder) -> our flat names and arrays, and the report.
      load: reads the files at a path and, for converters that take a vocabulary, its file.
      expected_unexpected: regular expressions of the source's names that the encoder does not use.
      takes_vocabulary: whether `--vocabulary` can choose among its words.
    """

    describe: Callable[[WeightSource, str], Description]
    convert: Callable[..., tuple[dict[str, np.ndarray], Report]]
    load: Callable[..., WeightSource] = load_source
    expected_unexpected: tuple[str, ...] = ()
    takes_vocabulary: bool = False


CONVERTERS: Mapping[str, Converter] = {
    "bert": Converter(
        lambda source, variant: bert_weights.describe_bert(source),
        bert_weights.convert_bert,
        expected_unexpected=bert_weights.EXPECTED_UNEXPECTED,
    ),
    "efficientnet": Converter(
        image_towers.describe_efficientnet,
        efficientnet_weights.convert_efficientnet,
        expected_unexpected=efficientnet_weights.EXPECTED_UNEXPECTED,
    ),
    "inception_v3": Converter(
        image_towers.describe_inception_v3,
        inception_v3_weights.convert_inception_v3,
        expected_unexpected=inception_v3_weights.EXPECTED_UNEXPECTED,
    ),
    "mobilenet_v2": Converter(
        image_towers.describe_mobilenet_v2,
        mobilenet_v2_weights.convert_mobilenet_v2,
        expected_unexpected=mobilenet_v2_weights.EXPECTED_UNEXPECTED,
    ),
    "resnet": Converter(
        image_towers.describe_resnet,
        resnet_weights.convert_resnet,
        expected_unexpected=resnet_weights.EXPECTED_UNEXPECTED,
    ),
    "words": Converter(
        lambda source, variant: word_table.describe_words(source),
        word_table.convert_words,
        load=word_table.load_word_table,
        takes_vocabulary=True,
    ),
}
"""Converters by the name of the encoder."""


def convert(
    tower: str,
    path: str | os.PathLike,
    variant: str = "",
    vocabulary: str = "",
    *,
    allow_missing: Collection[str] = (),
    allow_unexpected: Collection[str] = (),
    show: Callable[[str], None] = lambda text: None,
) -> tuple[dict[str, np.ndarray], Description, Report]:
    """Converts published weights to those of a tower.

    Args:
      tower: key of `CONVERTERS`.
      path: see `weight_files.load_source`.
      variant: one of `TOWERS[tower]`, if there are any.
      vocabulary: file of the only words to keep of a table of words; "" for all.
      allow_missing: see `Report.check`.
      allow_unexpected: see `Report.check`.
      show: gets the report's text before it is checked.

    Returns:
      The arrays by our flat names, their tower, and the report.

    Raises:
      UserError: the source is unreadable or has another architecture, or one of its arrays is
        missing, unexpected or not finite.
    """
    converter = lookup("--tower", tower, CONVERTERS)
    check_variant(tower, variant, TOWERS[tower])
    if vocabulary and not converter.takes_vocabulary:
        raise UserError(f"--vocabulary={vocabulary} chooses words of a table, not of {tower}.")
    source = converter.load(path, vocabulary) if vocabulary else converter.load(path)
    description = converter.describe(source, variant)
    keywords = {key: value for key, value in description.encoder.items() if key != "name"}
    try:
        arrays, report = converter.convert(source.arrays, **keywords)
        if not arrays:
            names = ", ".join(sorted(source.arrays)[:4]) or "nothing at all"
            raise UserError(f"it has no array of the tower {tower!r}: it holds {names}, ...")
        show(report.text())
        report.check(allow_missing, (*converter.expected_unexpected, *allow_unexpected))
    except UserError as error:
        raise UserError(f"{source.path}: {error}") from error
    return arrays, description, report
