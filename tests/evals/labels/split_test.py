"""Captions of equal texts: one text on data of one's own, a note beside published protocols."""

import dataclasses

import numpy as np
import pytest

from tests.evals.evaluators.random_vectors import MODALITIES, make_split, options_of
from tests.evals.tiny_split import TinySplit
from xmodal.evals import evaluate_source, make_evaluator
from xmodal.evals.labels.split import number_texts
from xmodal.evals.scores.sources import Embeddings


@dataclasses.dataclass
class WithTexts(TinySplit):
    """A split with other texts, cycled."""

    texts: tuple = ()

    @property
    def caption_texts(self):
        return [self.texts[row % len(self.texts)] for row in range(len(self.caption_ids))]


def evaluate_perfect(name, texts, captions=1, **section):
    """Evaluates the model of 12 images that ranks by equal words alone."""
    plain = make_split(12, captions=captions, name=name)
    fields = {each.name: getattr(plain, each.name) for each in dataclasses.fields(plain)}
    split = WithTexts(**fields, texts=texts)
    evaluator = make_evaluator("x", options_of(bootstrap_samples=20, **section), split, MODALITIES)
    words = np.eye(12 * captions)[number_texts(split.caption_texts)]
    images = words.reshape(12, captions, -1).mean(axis=1)
    source = Embeddings("here", split.image_ids, images, split.caption_ids, words, "cosine")
    return evaluate_source(evaluator, source, name="ours")


SPELLINGS = ("A red mug", "a red  mug.", "a RED mug", "Caf\u00e9", "cafe\u0301", "caf\u00e9!")
SMILES = ("so 😀", "so 😢", "किताब", "कताब", "...", "!!!", "a", "b", "c", "d", "e", "f")


@pytest.mark.parametrize(
    ("texts", "captions", "shared"),
    [
        (SPELLINGS, 1, "12 of 12 captions"),
        (("दो बिल्लियाँ।", "दो बिल्लियाँ", "قطتان، كلب", "قطتان كلب"), 1, "12 of 12 captions"),
        (("a mug", *"abcdefghij", "mug 2", *"klmnopqrstu", "a mug"), 2, "2 of 24 captions"),
        (SMILES, 1, ""),
    ],
)
def test_a_perfect_model_finds_every_own_text(texts, captions, shared):
    found = evaluate_perfect("captioned_images", texts, captions, type="benchmarks")
    for direction in ("i2t", "t2i"):
        assert found.metrics[f"captioned_images/{direction}/recall@1"] == 100
    assert ("captioned_images/t2t/recall@1" in found.metrics) == (captions > 1)
    assert f"{shared} have the text of another image's caption" in found.report() or not shared
    assert ("they are one text" in found.report()) == bool(shared)


def test_published_protocols_count_the_shared_texts_and_keep_their_positives():
    found = evaluate_perfect("flickr30k", SPELLINGS, type="benchmarks")
    assert found.metrics["flickr30k/t2i/recall@1"] == pytest.approx(100 / 6)
    assert "12 of 12 captions have the text of another image's caption" in found.report()
    assert "the published protocol counts its own positives alone" in found.report()
