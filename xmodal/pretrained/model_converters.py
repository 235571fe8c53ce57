"""Converters for released models that convert both sides together."""

import dataclasses
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from xmodal.base.config import UserError, lookup
from xmodal.pretrained import cmcm, cvse, pcme, pvse, vse_infinity, vsepp, vsrn
from xmodal.pretrained.conversion_report import Mapper, Report, Taken
from xmodal.pretrained.converters import check_variant
from xmodal.pretrained.model_folder import ModelDescription
from xmodal.pretrained.renaming import COUNTERS
from xmodal.pretrained.torch_files import read_options
from xmodal.pretrained.torch_models import Arrays, Published
from xmodal.pretrained.vocabularies import has_words, read_words
from xmodal.pretrained.weight_files import WeightSource, load_source


@dataclasses.dataclass(frozen=True)
class ModelConverter:
    """The function that reads one kind of model.

    Attributes:
      describe: (arrays, variant) -> the source's model; raises a `UserError` if it is of another
        kind.
      variants: names that `describe` accepts, the default one first; empty if there is no choice.
      trained_variant: the options of a checkpoint -> the variant they name, or None; None if
        no options name one.
      add_concepts: (arrays, words, concept file) -> arrays and words with those of the file; None
        for a model without concepts.
      added: names of the arrays that it adds.
      expected_unexpected: regular expressions of the source's names that the model has no use for.
    """

    describe: Callable[[Arrays, str], Published]
    variants: tuple[str, ...] = ()
    trained_variant: Callable[[Mapping[str, Any]], str | None] | None = None
    add_concepts: Callable[[Arrays, Sequence[str], str], tuple[Arrays, list[str]]] | None = None
    added: tuple[str, ...] = ()
    expected_unexpected: tuple[str, ...] = ()


MODELS: Mapping[str, ModelConverter] = {
    "cmcm": ModelConverter(
        cmcm.describe_cmcm,
        variants=tuple(cmcm.VARIANTS),
        expected_unexpected=cmcm.EXPECTED_UNEXPECTED,
    ),
    "cvse": ModelConverter(
        cvse.describe_cvse,
        variants=tuple(cvse.VARIANTS),
        trained_variant=cvse.trained_variant,
        add_concepts=cvse.add_concepts,
        added=cvse.ADDED,
        expected_unexpected=cvse.EXPECTED_UNEXPECTED,
    ),
    "pcme": ModelConverter(
        lambda arrays, variant: pcme.describe_pcme(arrays),
        expected_unexpected=pcme.EXPECTED_UNEXPECTED,
    ),
    "pvse": ModelConverter(pvse.describe_pvse, variants=tuple(pvse.VARIANTS)),
    "vse_infinity": ModelConverter(
        vse_infinity.describe_vse_infinity,
        variants=vse_infinity.VARIANTS,
        trained_variant=vse_infinity.trained_variant,
        expected_unexpected=vse_infinity.EXPECTED_UNEXPECTED,
    ),
    "vsepp": ModelConverter(
        vsepp.describe_vsepp,
        variants=tuple(vsepp.VARIANTS),
        trained_variant=vsepp.trained_variant,
    ),
    "vsrn": ModelConverter(
        lambda arrays, variant: vsrn.describe_vsrn(arrays),
        expected_unexpected=vsrn.EXPECTED_UNEXPECTED,
    ),
}
"""Converters by the name of the paper's model."""


def convert_model(
    model: str,
    path: str | os.PathLike,
    variant: str = "",
    vocabulary: str = "",
    *,
    concepts: str = "",
    allow_missing: Collection[str] = (),
    allow_unexpected: Collection[str] = (),
    show: Callable[[str], None] = lambda text: None,
) -> tuple[dict[str, np.ndarray], ModelDescription, Report]:
    """Converts a released model to one of ours.

    Args:
      model: key of `MODELS`.
      path: see `weight_files.load_source`.
      variant: one of the converter's variants; "" for that of the source's options, or the first.
      vocabulary: vocabulary file, see `vocabularies.read_words`; "" if the source includes it.
      concepts: concept file, see `preprocessing.concepts`, for a model that needs one.
      allow_missing: see `Report.check`.
      allow_unexpected: see `Report.check`.
      show: gets the report's text before it is checked.

    Returns:
      The arrays by the names `SIDE/params/...` and `tasks/NAME/module/...`, their model, and the
      report.

    Raises:
      UserError: the source or the vocabulary is unreadable or not of this model, or an array is
        missing, unexpected or not finite.
    """
    converter = lookup("--model", model, MODELS)
    if variant:
        check_variant(model, variant, converter.variants)
    if concepts and converter.add_concepts is None:
        raise UserError(f"--concepts={concepts!r} has no use: {model} has no concepts.")
    source = load_source(path)
    try:
        published = _describe(model, source, variant)
        words = _find_words(vocabulary, path, published)
        if converter.add_concepts is not None:
            given, words = converter.add_concepts(source.arrays, words or (), concepts)
            source = dataclasses.replace(source, arrays=given)
            published = _describe(model, source, variant)
        mapper = Mapper(source.arrays)
        for name, shape in published.shapes().items():
            mapper.take(name, published.find(name), shape)
        for name, scalar in published.parameters.items():
            mapper.take(f"similarity/{name}", Taken(scalar, np.squeeze), ())
        arrays, report = mapper.result([name for name in source.arrays if COUNTERS.match(name)])
        show(report.text())
        report.check(allow_missing, (*converter.expected_unexpected, *allow_unexpected))
    except UserError as error:
        likely = max(MODELS, key=lambda name: _count_used(name, source.arrays))
        is_likely = likely != model and _count_used(likely, source.arrays)
        hint = f" It looks like {likely}: use --model={likely}." if is_likely else ""
        raise UserError(f"{source.path}: {error}{hint}") from error
    parameters = {name: float(arrays.pop(f"similarity/{name}")) for name in published.parameters}
    sides = dict(published.sides)
    if words is not None:
        files = {"vocab.txt": "".join(f"{word}\n" for word in words).encode()}
        sides["text"] = dataclasses.replace(sides["text"], files=files)
    tasks = {name: task.section for name, task in published.tasks.items()}
    return arrays, ModelDescription(sides, published.similarity, parameters, tasks), report


def _describe(model: str, source: WeightSource, variant: str) -> Published:
    """Returns the model of a source, in the requested variant or the one that its options name."""
    converter = MODELS[model]
    trained = None
    if converter.trained_variant is not None:
        trained = converter.trained_variant(read_options(epath.Path(source.path)))
    if variant and trained and variant != trained:
        raise UserError(
            f"its options say that it is the variant {trained!r}, not {variant!r}; leave "
            "--variant out."
        )
    variant = variant or trained or next(iter(converter.variants), "")
    return converter.describe(source.arrays, variant)


def _count_used(model: str, arrays: Arrays) -> int:
    """Returns how many arrays of a source a model uses; 0 if one is missing."""
    converter = MODELS[model]
    try:
        published = converter.describe(arrays, next(iter(converter.variants), ""))
        taken = [published.find(name).name for name in published.shapes()]
    except (UserError, KeyError, ValueError):
        return 0
    names = {name for each in taken for name in ((each,) if isinstance(each, str) else each)}
    names -= set(converter.added)
    return len(names) if names <= arrays.keys() else 0


def _find_words(vocabulary: str, path: str | os.PathLike, published: Published) -> list[str] | None:
    """Returns the words of a model's table; None if it has its own tokenizer."""
    encoder = published.sides["text"].encoder
    if "vocab_size" not in encoder:
        return None
    rows = encoder["vocab_size"] - len(published.first_words)
    if not vocabulary and not has_words(path):
        raise UserError(
            f"it has no words for its {rows:,} word vectors: use --vocabulary to name the "
            "vocabulary that was published with it (.pkl, .json, or one word per line)."
        )
    words = read_words(vocabulary or path)
    if len(words) != rows:
        raise UserError(
            f"{vocabulary or path} has {len(words):,} words, but the model has {rows:,} "
            "word vectors: use the vocabulary that was published with it."
        )
    return [*published.first_words, *words]
