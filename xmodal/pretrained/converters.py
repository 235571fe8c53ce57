"""Converters for published weights: towers, and models of both sides."""

import dataclasses
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.pretrained import clip
from xmodal.pretrained.bert_weights import describe_bert
from xmodal.pretrained.blip import describe_blip
from xmodal.pretrained.cmcm import describe_cmcm
from xmodal.pretrained.cnn_names import COUNTERS
from xmodal.pretrained.conversion_report import Mapper, Report, Taken
from xmodal.pretrained.cvse import describe_cvse
from xmodal.pretrained.efficientnet_weights import describe_efficientnet
from xmodal.pretrained.folder import Description
from xmodal.pretrained.inception_v3_weights import describe_inception_v3
from xmodal.pretrained.layer_rules import Arrays
from xmodal.pretrained.mobilenet_v2_weights import describe_mobilenet_v2
from xmodal.pretrained.model_folder import ModelDescription
from xmodal.pretrained.pcme import describe_pcme
from xmodal.pretrained.published_weights import Published
from xmodal.pretrained.pvse import describe_pvse
from xmodal.pretrained.resnet_weights import describe_resnet
from xmodal.pretrained.scan_weights import describe_scan
from xmodal.pretrained.sgraf_weights import describe_sgraf
from xmodal.pretrained.variants import MODELS, TOWERS
from xmodal.pretrained.vilt import describe_vilt
from xmodal.pretrained.vinvl import describe_vinvl
from xmodal.pretrained.vse_infinity import describe_vse_infinity
from xmodal.pretrained.vsepp import describe_vsepp
from xmodal.pretrained.vsrn import describe_vsrn
from xmodal.pretrained.weight_files import WeightSource, load_source
from xmodal.pretrained.word_vectors import describe_words, load_word_table

CONVERTERS: Mapping[str, Callable[[WeightSource], Published]] = {
    "bert": describe_bert,
    "efficientnet": describe_efficientnet,
    "inception_v3": describe_inception_v3,
    "mobilenet_v2": describe_mobilenet_v2,
    "resnet": describe_resnet,
    "words": describe_words,
    "blip": describe_blip,
    "clip": clip.describe_clip,
    "cmcm": describe_cmcm,
    "cvse": describe_cvse,
    "pcme": describe_pcme,
    "pvse": describe_pvse,
    "scan": describe_scan,
    "sgraf": describe_sgraf,
    "siglip": clip.describe_siglip,
    "vilt": describe_vilt,
    "vinvl": describe_vinvl,
    "vse_infinity": describe_vse_infinity,
    "vsepp": describe_vsepp,
    "vsrn": describe_vsrn,
}
"""Descriptions of a source by the name of the tower's encoder or of the paper's model.

They raise a `UserError` if it has another architecture, or computes something that ours does not.
"""


def convert(
    name: str,
    path: str | os.PathLike,
    variant: str = "",
    vocabulary: str = "",
    *,
    concepts: str = "",
    allow_missing: Collection[str] = (),
    allow_unexpected: Collection[str] = (),
    show: Callable[[str], None] = lambda text: None,
) -> tuple[dict[str, np.ndarray], Any, Report]:
    """Converts published weights to those of a tower or a model.

    Args:
      name: key of `CONVERTERS`.
      path: see `weight_files.load_source`; of word vectors, see `word_vectors.load_word_vectors`.
      variant: one of `TOWERS[name]` or `MODELS[name]`, if there are any; "" for that of the
        source's options, or the first of a model.
      vocabulary: vocabulary or tokenizer's file; "" for the one in the source. Of a table of words,
        the only words to keep.
      concepts: concept file, see `data.text.concept_graph`, for a model that needs one.
      allow_missing: see `Report.check`.
      allow_unexpected: see `Report.check`.
      show: gets the report's text before it is checked.

    Returns:
      The arrays by our flat names; the `Description` of a tower, or the `ModelDescription`; and the
      report.

    Raises:
      UserError: the source or the vocabulary is unreadable or of another architecture, or an array
        is missing or unexpected.
    """
    describe = lookup("xmodal convert", name, CONVERTERS)
    known = {**TOWERS, **MODELS}[name]
    if variant not in known and (variant or (known and name in TOWERS)):
        listed = ", ".join(known) or "none"
        raise UserError(f"--variant={variant!r} is not a variant of {name}; known: {listed}.")
    source = load_word_table(path, vocabulary) if name == "words" else load_source(path)
    try:
        published = describe(
            dataclasses.replace(source, variant=variant, vocabulary=vocabulary, concepts=concepts)
        )
        arrays, report = take_arrays(published, source.arrays)
        show(report.text())
        report.check(allow_missing, (*published.unused, *allow_unexpected))
    except UserError as error:
        raise UserError(f"{source.path}: {error}") from error
    return arrays, _describe(published, arrays), report


def take_arrays(published: Published, arrays: Arrays) -> tuple[dict[str, np.ndarray], Report]:
    """Returns the arrays by our names, learned numbers as `similarity/NAME`, and the report."""
    arrays = arrays if published.arrays is None else published.arrays
    mapper = Mapper(arrays)
    for name, shape in published.shapes().items():
        mapper.take(name, published.find(name), shape)
    for name, scalar in published.parameters.items():
        taken = Taken(scalar, np.squeeze) if isinstance(scalar, str) else scalar
        mapper.take(f"similarity/{name}", taken, ())
    found, report = mapper.result([name for name in arrays if COUNTERS.match(name)])
    return found, dataclasses.replace(report, notes=published.notes)


def _describe(
    published: Published, arrays: dict[str, np.ndarray]
) -> Description | ModelDescription:
    """Returns the description, with the learned numbers that are removed from the arrays."""
    if published.similarity is None:
        return next(iter(published.sides.values()))
    parameters = {name: float(arrays.pop(f"similarity/{name}")) for name in published.parameters}
    tasks = {name: task.section for name, task in published.tasks.items()}
    return ModelDescription(
        published.sides, published.similarity, parameters, tasks, published.cross_encoder
    )
