"""Which published weights can become which towers."""

import dataclasses
import os
from collections.abc import Callable, Collection, Mapping

import numpy as np

from xmodal.options import UserError, lookup
from xmodal.pretrained import bert
from xmodal.pretrained.folder import Description
from xmodal.pretrained.report import Report
from xmodal.pretrained.sources import Source, load_source


@dataclasses.dataclass(frozen=True)
class Converter:
    """How the weights of one architecture are read.

    Attributes:
      describe: (source, variant) -> the tower the source is for; a `UserError` where it is of
        another architecture or computes what our tower does not.
      convert: (arrays, **keywords of the tower) -> our flat names and arrays, and the report.
      variants: what `describe` knows; empty where there is no choice.
      expected_missing: regular expressions of our names that no published file holds.
      expected_unexpected: regular expressions of the source's names that the tower has no use for.
    """

    describe: Callable[[Source, str], Description]
    convert: Callable[..., tuple[dict[str, np.ndarray], Report]]
    variants: tuple[str, ...] = ()
    expected_missing: tuple[str, ...] = ()
    expected_unexpected: tuple[str, ...] = ()


CONVERTERS: Mapping[str, Converter] = {
    "bert": Converter(
        lambda source, variant: bert.describe_bert(source),
        bert.convert_bert,
        expected_unexpected=bert.EXPECTED_UNEXPECTED,
    ),
}
"""By the name of the tower."""


def convert(
    tower: str,
    path: str | os.PathLike,
    variant: str = "",
    *,
    allow_missing: Collection[str] = (),
    allow_unexpected: Collection[str] = (),
    show: Callable[[str], None] = lambda text: None,
) -> tuple[dict[str, np.ndarray], Description, Report]:
    """Reads published weights as those of a tower.

    Args:
      tower: key of `CONVERTERS`.
      path: see `sources.load_source`.
      variant: one of the converter's variants, where it has any.
      allow_missing: see `Report.check`.
      allow_unexpected: see `Report.check`.
      show: gets the report's text before it is checked.

    Returns:
      The arrays by our flat names, the tower they are of, and the report.

    Raises:
      UserError: the source is unreadable or not of this architecture, or an array of it is not
        accounted for.
    """
    converter = lookup("--tower", tower, CONVERTERS)
    if variant not in (converter.variants or ("",)):
        known = ", ".join(converter.variants) or "none"
        raise UserError(f"Unknown --variant={variant!r} of {tower}; known: {known}.")
    source = load_source(path)
    description = converter.describe(source, variant)
    arrays, report = converter.convert(source.arrays, **description.keywords)
    show(report.text())
    report.check(
        (*converter.expected_missing, *allow_missing),
        (*converter.expected_unexpected, *allow_unexpected),
    )
    return arrays, description, report
