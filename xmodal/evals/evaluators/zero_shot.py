"""Zero-shot classification: images against the names of classes (Radford et al. 2021, 3.1)."""

import dataclasses
from typing import Any

import numpy as np

from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.evals.evaluators.classification import (
    ClassificationEvaluator,
    ClassificationOptions,
    Classifier,
)
from xmodal.evals.scores.line_files import read_lines
from xmodal.evals.scores.sources import Provider

# Named sets of prompt templates. `seven` are those that CLIP's authors selected for ImageNet.
TEMPLATES: dict[str, tuple[str, ...]] = {
    "name": ("{}",),
    "photo": ("a photo of a {}.",),
    "seven": (
        "itap of a {}.",
        "a bad photo of the {}.",
        "a origami {}.",
        "a photo of the large {}.",
        "a {} in a video game.",
        "art of the {}.",
        "a photo of the small {}.",
    ),
}


@dataclasses.dataclass(frozen=True)
class ZeroShotOptions(ClassificationOptions):
    """Options of zero-shot classification.

    Attributes:
      templates: prompts, in which `{}` stands for the name of a class, with spaces for its
        underscores ("apple_pie"); an entry without `{}` is the name of a set in `TEMPLATES`, and
        one that ends in .txt a file with one such entry per line.
    """

    templates: tuple[str, ...] = ("photo",)

    @property
    def compares_sides(self) -> bool:
        """See `Options`."""
        return True

    def check(self, where: str) -> None:
        """See `Options`."""
        super().check(where)
        if not self.templates:
            raise UserError(f"{where}.templates is empty; name a set of {sorted(TEMPLATES)}.")
        for each in read_lines(self.templates, f"{where}.templates"):
            if "{}" not in each:
                lookup(f"{where}.templates (a prompt contains {{}})", each, TEMPLATES)

    @property
    def prompts(self) -> list[str]:
        """All templates, with those of the named sets."""
        entries = read_lines(self.templates, "templates")
        sets = [(each,) if "{}" in each else TEMPLATES[each] for each in entries]
        return list(dict.fromkeys(prompt for found in sets for prompt in found))


def _describe(options: ZeroShotOptions) -> str:
    first, *others = options.prompts
    if not others:
        return f"cosine of the image and the prompt of a class, {first!r}."
    return (
        "cosine of the image and the normalized mean of the normalized embeddings of "
        f"{1 + len(others)} prompts per class, the first is {first!r}."
    )


def _score(
    evaluator: ClassificationEvaluator, provider: Provider
) -> tuple[np.ndarray, dict[str, float]]:
    options: Any = evaluator.options
    spaced = [name.replace("_", " ") for name in evaluator.names]
    texts = [prompt.replace("{}", name) for name in spaced for prompt in options.prompts]
    # Classes may share a prompt; every text is embedded once.
    unique, rows = np.unique(texts, return_inverse=True)
    vectors = provider.embed("text", unique.tolist(), similarity=options.similarity)
    unit = evaluator.unit(vectors, provider.place)[rows]
    means = unit.reshape(len(spaced), len(options.prompts), -1).mean(axis=1)
    # A product of equal vectors may depend on their places; one of each has equal scores.
    means = evaluator.unit(means, provider.place)
    classes, same = np.unique(means, axis=0, return_inverse=True)
    return (evaluator.features(provider) @ classes.T)[:, same.ravel()], {}


ZERO_SHOT = Classifier(_describe, _score, asks=frozenset({"text"}))
"""Ranks classes by the cosine of the image and the mean of the class's prompts.

The vector of a class is the normalized mean of the normalized embeddings of its prompts. It needs a
model with a text side: a file has no embeddings of prompts.
"""
