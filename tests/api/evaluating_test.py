"""Evaluating models from any framework, by two functions or by their files."""

import numpy as np
import pytest

import xmodal
from xmodal import data
from xmodal.evals import Embeddings, evaluate_source, make_evaluator, read_options

SHAPES = "crisscrossed_shapes"


def embed_images(images):
    """Mean colors of the four quarters."""
    pixels = np.stack([np.asarray(image, np.float64) for image in images])
    half = pixels.shape[1] // 2
    quarters = [pixels[:, i : i + half, j : j + half] for i in (0, half) for j in (0, half)]
    return np.concatenate([quarter.mean(axis=(1, 2)) for quarter in quarters], axis=1)


def embed_texts(texts):
    """Counts of some letters."""
    return [[text.count(letter) for letter in "abcdefghijkl"] for text in texts]


@pytest.mark.slow
def test_two_functions_are_evaluated_as_their_embeddings(few_shapes):
    sizes = []

    def counting(images):
        sizes.append(len(images))
        return embed_images(images)

    found = xmodal.evaluate(
        embed_images=counting,
        embed_texts=embed_texts,
        dataset=SHAPES,
        data_dir=few_shapes,
        similarity="cosine",
        batch_size=10,
        name="colors",
    )
    assert sizes == [10, 10, 5]
    section = {
        "dataset": SHAPES,
        "config": "images",
        "data_dir": few_shapes,
        "image": {"size": 64, "eval_crop": 1.0},
    }
    split = data.eval_split(section | {"text": {}}, split="test")
    pictures = np.concatenate([batch["image"] for batch in split.images(7)])
    source = Embeddings(
        "reference",
        np.asarray(split.image_ids, np.int64),
        np.float32(embed_images(pictures)),
        np.asarray(split.caption_ids, np.int64),
        np.float32(embed_texts(split.caption_texts)),
        similarity="cosine",
    )
    options = read_options({SHAPES: {"type": "benchmarks"}})[SHAPES]
    evaluator = make_evaluator(SHAPES, options, split, ["image", "text"])
    assert found.metrics == evaluate_source(evaluator, source, name="colors").metrics
    assert "| colors " in found.report()
    assert repr(found) == found._repr_markdown_() == found.report()
    assert found.compare(found) != {}
    assert found.page is not None
    assert found.page.to_html().count("data:image/") > 10  # Queries with their pictures.


def test_tensors_of_torch_with_gradients_and_other_types(few_shapes):
    torch = pytest.importorskip("torch")
    weights = torch.eye(12, requires_grad=True)
    metrics = [
        xmodal.evaluate(
            embed_texts=function, dataset=SHAPES, data_dir=few_shapes, similarity="dot"
        ).metrics
        for function in (
            embed_texts,
            lambda texts: torch.tensor(embed_texts(texts)).float() @ weights,
            lambda texts: torch.tensor(embed_texts(texts), dtype=torch.bfloat16),
            lambda texts: list(torch.tensor(embed_texts(texts)).float() @ weights),
        )
    ]
    assert all(each == metrics[0] for each in metrics)


def test_sentence_pairs_are_evaluated_by_correlation(few_shapes):
    given = {"dataset": SHAPES, "config": "rated_captions", "data_dir": few_shapes}
    found = xmodal.evaluate(embed_texts=embed_texts, similarity="cosine", **given)
    split = data.eval_split({**given, "text": {}, "image": None}, split="test")
    assert split.has_pairs
    vectors = np.array(embed_texts(split.caption_texts), float).reshape(-1, 2, 12)
    norms = np.linalg.norm(vectors, axis=2)
    cosines = (vectors[:, 0] * vectors[:, 1]).sum(1) / np.maximum(norms.prod(1), 1e-30)
    for name in set(split.labels["set"]):
        own = split.labels["set"] == name
        expected = np.corrcoef(cosines[own], split.labels["score"][own])[0, 1]
        assert found.metrics[f"{name}/pearson"] == pytest.approx(expected, abs=1e-5)
    assert not any("recall" in tag for tag in found.metrics)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"embed_texts": None}, "Pass embed_images and embed_texts, or just one of embeddings"),
        (
            {"embed_texts": lambda texts: np.ones(3)},
            r"embed_texts in .* \[3\] for 64 items",
        ),
        ({"batch_size": 0}, "batch_size is 0; it must be at least 1"),
    ],
)
def test_mistakes_are_named(few_shapes, changes, message):
    given = {"embed_texts": embed_texts, "dataset": SHAPES, "similarity": "cosine"}
    with pytest.raises(xmodal.UserError, match=message):
        xmodal.evaluate(**given | {"data_dir": few_shapes} | changes)
