"""Converters for released models that convert both sides together."""

import dataclasses
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.pretrained import (
    blip,
    clip,
    cmcm,
    cvse,
    pcme,
    pvse,
    scan_weights,
    sgraf_weights,
    vilt,
    vinvl,
    vse_infinity,
    vsepp,
    vsrn,
)
from xmodal.pretrained.conversion_report import Mapper, Report, Taken
from xmodal.pretrained.folder import Description
from xmodal.pretrained.model_folder import ModelDescription
from xmodal.pretrained.renaming import COUNTERS
from xmodal.pretrained.torch_files import read_options
from xmodal.pretrained.torch_models import Arrays, Published
from xmodal.pretrained.variants import MODELS as VARIANTS
from xmodal.pretrained.variants import check_variant
from xmodal.pretrained.vocabularies import find_tokenizer, has_words, read_words
from xmodal.pretrained.weight_files import WeightSource, load_source


@dataclasses.dataclass(frozen=True)
class ModelConverter:
    """The function that reads one kind of model.

    Attributes:
      describe: (source, variant) -> the source's model; raises a `UserError` if it is of another
        kind.
      has_default: whether the first of its `VARIANTS` is the default; otherwise `describe` finds
        out which one a source is, given "", or asks.
      trained_variant: the options of a checkpoint -> the variant they name, or None; None if
        no options name one.
      add_concepts: (arrays, words, concept file) -> arrays and words with those of the file; None
        for a model without concepts.
      added: names of the arrays that it adds.
      expected_unexpected: regular expressions of the source's names that the model has no use for.
      warning: where the source's code is known to evaluate differently; "" if nowhere.
    """

    describe: Callable[[WeightSource, str], Published]
    has_default: bool = True
    trained_variant: Callable[[Mapping[str, Any]], str | None] | None = None
    add_concepts: Callable[[Arrays, Sequence[str], str], tuple[Arrays, list[str]]] | None = None
    added: tuple[str, ...] = ()
    expected_unexpected: tuple[str, ...] = ()
    warning: str = ""


def _options(source: WeightSource) -> Mapping[str, Any]:
    return read_options(epath.Path(source.path))


MODELS: Mapping[str, ModelConverter] = {
    "blip": ModelConverter(
        lambda source, variant: blip.describe_blip(source.arrays),
        expected_unexpected=blip.EXPECTED_UNEXPECTED,
        warning=blip.WARNING,
    ),
    "clip": ModelConverter(
        clip.describe_clip,
        has_default=False,
        expected_unexpected=clip.EXPECTED_UNEXPECTED,
    ),
    "cmcm": ModelConverter(
        lambda source, variant: cmcm.describe_cmcm(source.arrays, variant),
        expected_unexpected=cmcm.EXPECTED_UNEXPECTED,
    ),
    "cvse": ModelConverter(
        lambda source, variant: cvse.describe_cvse(source.arrays, variant),
        trained_variant=cvse.trained_variant,
        add_concepts=cvse.add_concepts,
        added=cvse.ADDED,
        expected_unexpected=cvse.EXPECTED_UNEXPECTED,
    ),
    "pcme": ModelConverter(
        lambda source, variant: pcme.describe_pcme(source.arrays),
        expected_unexpected=pcme.EXPECTED_UNEXPECTED,
    ),
    "pvse": ModelConverter(
        lambda source, variant: pvse.describe_pvse(source.arrays, variant),
    ),
    "scan": ModelConverter(
        lambda source, variant: scan_weights.describe_scan(source.arrays, _options(source))
    ),
    "sgraf": ModelConverter(
        lambda source, variant: sgraf_weights.describe_sgraf(source.arrays, _options(source)),
        expected_unexpected=sgraf_weights.EXPECTED_UNEXPECTED,
    ),
    "siglip": ModelConverter(
        clip.describe_siglip,
        has_default=False,
        expected_unexpected=clip.EXPECTED_UNEXPECTED,
    ),
    "vilt": ModelConverter(
        lambda source, variant: vilt.describe_vilt(source.arrays),
        expected_unexpected=vilt.EXPECTED_UNEXPECTED,
        warning=vilt.WARNING,
    ),
    "vinvl": ModelConverter(
        lambda source, variant: vinvl.describe_vinvl(source),
        expected_unexpected=vinvl.EXPECTED_UNEXPECTED,
        warning=vinvl.WARNING,
    ),
    "vse_infinity": ModelConverter(
        lambda source, variant: vse_infinity.describe_vse_infinity(source.arrays, variant),
        trained_variant=vse_infinity.trained_variant,
        expected_unexpected=vse_infinity.EXPECTED_UNEXPECTED,
    ),
    "vsepp": ModelConverter(
        lambda source, variant: vsepp.describe_vsepp(source.arrays, variant),
        trained_variant=vsepp.trained_variant,
    ),
    "vsrn": ModelConverter(
        lambda source, variant: vsrn.describe_vsrn(source.arrays),
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
      variant: one of `VARIANTS[model]`; "" for that of the source's options, or the first.
      vocabulary: vocabulary file, see `vocabularies.read_words`; "" if the source includes it.
      concepts: concept file, see `preprocessing.concept_graph`, for a model that needs one.
      allow_missing: see `Report.check`.
      allow_unexpected: see `Report.check`.
      show: gets the report's text before it is checked.

    Returns:
      The arrays by the names of `model_folder.save_model`, their model, and the report.

    Raises:
      UserError: the source or the vocabulary is unreadable or not of this model, or an array is
        missing, unexpected or not finite.
    """
    converter = lookup("--model", model, MODELS)
    if variant:
        check_variant(model, variant, VARIANTS[model])
    if concepts and converter.add_concepts is None:
        raise UserError(f"--concepts={concepts!r} has no use: {model} has no concepts.")
    source = load_source(path)
    try:
        published = _describe(model, source, variant)
        text = _with_tokenizer(published, vocabulary, source)
        if converter.add_concepts is not None:
            words = _find_words(vocabulary, source.path, published) or []
            given, words = converter.add_concepts(source.arrays, words, concepts)
            source = dataclasses.replace(source, arrays=given)
            published = _describe(model, source, variant)
            text = dataclasses.replace(published.sides["text"], files=_as_file(words))
        arrays, report = _take_arrays(published, source.arrays)
        show(report.text())
        report.check(allow_missing, (*converter.expected_unexpected, *allow_unexpected))
    except UserError as error:
        hint = "" if "--model" in str(error) else _suggest_model(model, source)
        raise UserError(f"{source.path}: {error}{hint}") from error
    parameters = {name: float(arrays.pop(f"similarity/{name}")) for name in published.parameters}
    sides = {**published.sides, "text": text}
    tasks = {name: task.section for name, task in published.tasks.items()}
    described = ModelDescription(
        sides, published.similarity, parameters, tasks, published.pair_scorer
    )
    return arrays, described, report


def _describe(model: str, source: WeightSource, variant: str) -> Published:
    """Returns the model of a source, in the requested variant or the one that its options name."""
    converter = MODELS[model]
    trained = None
    if converter.trained_variant is not None:
        trained = converter.trained_variant(_options(source))
    if variant and trained and variant != trained:
        raise UserError(
            f"its options say that it is the variant {trained!r}, not {variant!r}; leave "
            "--variant out."
        )
    usual = next(iter(VARIANTS[model]), "") if converter.has_default else ""
    return converter.describe(source, variant or trained or usual)


def _take_arrays(published: Published, arrays: Arrays) -> tuple[dict[str, np.ndarray], Report]:
    """Returns the arrays of a model by our names, those of `parameters` as `similarity/NAME`."""
    mapper = Mapper(arrays)
    for name, shape in published.shapes().items():
        mapper.take(name, published.find(name), shape)
    for name, scalar in published.parameters.items():
        taken = Taken(scalar, np.squeeze) if isinstance(scalar, str) else scalar
        mapper.take(f"similarity/{name}", taken, ())
    found, report = mapper.result([name for name in arrays if COUNTERS.match(name)])
    return found, dataclasses.replace(report, notes=published.notes)


def _suggest_model(model: str, source: WeightSource) -> str:
    """Returns a sentence on the model whose arrays a source has, or "" if that is `model`."""
    likely = max(MODELS, key=lambda name: _count_used(name, source))
    is_other = likely != model and _count_used(likely, source)
    return f" It looks like {likely}: use --model={likely}." if is_other else ""


def _count_used(model: str, source: WeightSource) -> int:
    """Returns how many arrays of a source a model uses; 0 if one is missing."""
    converter = MODELS[model]
    try:
        published = converter.describe(source, next(iter(VARIANTS[model]), ""))
        taken = [published.find(name).name for name in published.shapes()]
    except (UserError, KeyError, ValueError):
        return 0
    names = {name for each in taken for name in ((each,) if isinstance(each, str) else each)}
    names -= set(converter.added)
    return len(names) if names <= source.arrays.keys() else 0


def _with_tokenizer(published: Published, vocabulary: str, source: WeightSource) -> Description:
    """Returns the text tower with the file of its tokenizer."""
    text = published.sides["text"]
    if published.tokenizers:
        rows = text.encoder["vocab_size"]
        file = find_tokenizer(vocabulary, source, published.tokenizers, rows)
        inputs = {**text.preprocessing, **published.tokenizers[file.name]}
        return dataclasses.replace(text, preprocessing=inputs, files={file.name: file.content})
    words = _find_words(vocabulary, source.path, published)
    if words is None:
        return text
    return dataclasses.replace(text, files=_as_file(words))


def _as_file(words: Sequence[str]) -> dict[str, bytes]:
    return {"vocab.txt": "".join(f"{word}\n" for word in words).encode()}


def _find_words(vocabulary: str, path: str, published: Published) -> list[str] | None:
    """Returns the words of a model's table; None if it has no table."""
    encoder = published.sides["text"].encoder
    if "vocab_size" not in encoder:
        return None
    rows = encoder["vocab_size"] - len(published.first_words)
    if not vocabulary and not has_words(path):
        beside = epath.Path(path) / "vocab.txt"  # Of a folder.
        if not beside.is_file():
            raise UserError(
                f"it has no words for its {rows:,} word vectors: use --vocabulary to name the "
                "vocabulary that was published with it (.pkl, .json, or one word per line)."
            )
        vocabulary = os.fspath(beside)
    words = read_words(vocabulary or path)
    if len(words) != rows:
        raise UserError(
            f"{vocabulary or path} has {len(words):,} words, but the model has {rows:,} "
            "word vectors: use the vocabulary that was published with it."
        )
    return [*published.first_words, *words]
