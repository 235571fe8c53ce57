"""Evaluating models from any framework, by two functions or by their files."""

import io

import jax
import numpy as np
import PIL.Image
import pytest
from jax.sharding import Mesh

import xmodal
from xmodal import data
from xmodal.api import embedding_functions
from xmodal.data.pixels.images import decode_image
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
    options = read_options({SHAPES: {"type": "boards"}})[SHAPES]
    evaluator = make_evaluator(SHAPES, options, split, ["image", "text"])
    assert found.metrics == evaluate_source(evaluator, source, name="colors").metrics
    assert "| colors " in found.report()
    assert repr(found) == found._repr_markdown_() == found.report()
    assert found.compare(found) == found.compare(found.stored) != {}
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


def test_files_are_evaluated_on_a_dataset_as_functions_are(few_shapes, tmp_path):
    given = {"dataset": SHAPES, "data_dir": few_shapes}
    expected = xmodal.evaluate(embed_texts=embed_texts, similarity="dot", **given)
    split = data.eval_split({**given, "config": "images", "text": {}, "image": None}, split="test")
    vectors = np.float32(embed_texts(split.caption_texts))
    by_id = {"caption_ids": split.caption_ids[::-1], "caption_embeddings": vectors[::-1]}
    by_text = {"sentences": np.array(split.caption_texts), "sentence_embeddings": vectors}
    for number, arrays in enumerate((by_id, by_text)):
        np.savez(tmp_path / f"{number}.npz", similarity="dot", **arrays)
        found = xmodal.evaluate(embeddings=tmp_path / f"{number}.npz", **given)
        assert found.metrics == expected.metrics
        assert f"| {number} " in found.report()


def test_functions_see_the_pixels_of_the_evaluation():
    pixels = np.random.default_rng(0).integers(0, 256, (24, 32, 3)).astype(np.uint8)
    file = io.BytesIO()
    PIL.Image.fromarray(pixels).convert("CMYK").save(file, "JPEG")
    found = embedding_functions._open(file.getvalue())
    np.testing.assert_array_equal(found, decode_image(file.getvalue()))


def test_texts_alone(few_shapes):
    found = xmodal.evaluate(
        embed_texts=embed_texts, dataset=SHAPES, data_dir=few_shapes, similarity="dot"
    )
    directions = {tag.split("/")[1] for tag in found.metrics if tag.startswith("shapes/")}
    assert found.page is not None
    given = {"dataset": SHAPES, "data_dir": few_shapes, "similarity": "dot", "examples": 0}
    few = xmodal.evaluate(embed_texts=embed_texts, **given, bootstrap_samples=20, seed=1)
    assert (few.page, few.samples, few.seed) == (None, 20, 1)
    given |= {"evaluator": {"type": "boards", "seed": 2}, "bootstrap_samples": 20}
    own = xmodal.evaluate(embed_texts=embed_texts, **given, seed=1)
    assert (own.samples, own.seed) == (20, 2)
    assert "t2t" in directions
    assert "i2t" not in directions


def test_sentence_pairs_are_evaluated_by_correlation(few_shapes):
    given = {"dataset": SHAPES, "config": "rated_captions", "data_dir": few_shapes}
    with pytest.raises(xmodal.UserError, match="examples=2 shows queries of boards, but .* pairs"):
        xmodal.evaluate(embed_texts=embed_texts, similarity="cosine", examples=2, **given)
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


def test_all_captions_of_own_pictures_are_evaluated(tmp_path):
    """Also the sixth, which a rating names; only some published protocols know five."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    captions = [["image", "split", *(f"caption_{n}" for n in range(1, 7))]]
    ratings = [["left", "right", "score"]]
    rng = np.random.default_rng(0)
    for number, split in enumerate(("train", "validation", "test") * 4):
        name = f"{number}.png"
        PIL.Image.fromarray(rng.integers(0, 256, (9, 9, 3), np.uint8)).save(folder / name)
        texts = [f"caption {n} of picture {number}" for n in range(6)]
        captions.append([name, split, *texts])
        ratings += [[texts[0], name, 4], [texts[5], name, number % 3]]
    for name, rows in {"captions": captions, "ratings": ratings}.items():
        (folder / f"{name}.csv").write_text("\n".join(",".join(map(str, row)) for row in rows))
    found = xmodal.evaluate(
        embed_texts=embed_texts,
        dataset="captioned_images",
        manual_dir=str(folder),
        data_dir=str(tmp_path / "data"),
        similarity="dot",
    )
    (board,) = found.results
    assert len(board.directions["t2t"].query_ids) == 4 * 6
    section = {"dataset": "captioned_images", "manual_dir": str(folder), "image": None, "text": {}}
    items = data.eval_split(section | {"data_dir": str(tmp_path / "data")}, split="test")
    assert len(items.ratings["sits"]["scores"]) == 4 * 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "annotations is empty: pass the folder .*, or dataset=NAME"),
        ({"config": "images", "data_dir": "D"}, r"\['config', 'data_dir'\] need a dataset"),
        ({"annotations": "A", "ratings_dir": "R"}, r"\['ratings_dir'\] need a dataset"),
        ({"annotations": "A", "manual_dir": "M"}, r"\['manual_dir'\] need a dataset"),
        ({"annotations": "A", "batch_size": 64}, "batch_size=64 is for embedding functions"),
        ({"dataset": SHAPES, "partial": True}, r"\['partial'\] cannot be used with a dataset"),
        ({"annotations": "A", "mesh": 3}, r"evaluate\.mesh is 3; it must be None, .* 'data'"),
        ({"annotations": "A", "seed": -1}, r"evaluate\.seed is -1; it must be at least 0"),
        ({"annotations": 3}, r"evaluate\.annotations is 3; it must be a string"),
    ],
)
def test_arguments_that_files_do_not_take_are_refused(given, message):
    embeddings = {"caption_ids": np.arange(2), "caption_embeddings": np.eye(2, dtype=np.float32)}
    with pytest.raises(xmodal.UserError, match=message):
        xmodal.evaluate(embeddings=embeddings, similarity="cosine", **given)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"embed_texts": None}, "Pass embed_images and embed_texts, or one of embeddings"),
        ({"dataset": ""}, "dataset is empty"),
        ({"similarity": "cosin"}, "similarity is 'cosin'.*Did you mean 'cosine'"),
        ({"scores": "scores.npy"}, r"\['scores'\] cannot be used with embedding"),
        ({"embed_texts": lambda texts: np.ones(3)}, r"embed_texts returned the shape \[3\] for 64"),
        ({"embed_texts": lambda texts: texts}, "embed_texts returned no array of numbers: could"),
        (
            {"embed_texts": lambda texts: {"a": 1}},
            "array of numbers: .*not 'dict' .items from 0 on",
        ),
        ({"embed_texts": lambda texts: np.ones((len(texts), 0))}, r"shape \[64, 0\] for 64 items"),
        ({"embed_texts": lambda texts: np.full((64, 2), 1j)}, "its numbers are complex"),
        ({"embed_texts": lambda texts: np.full((64, 2), 1e39)}, "returned 64 of 64 vectors that a"),
        (
            {"embed_texts": lambda texts: np.where(np.arange(64) == 5, np.nan, 1.0)[:, None]},
            "1 of 64 vectors that are not finite in float32; the first is that of item 5, '",
        ),
        (
            {"embed_texts": lambda texts: np.ma.masked_equal(np.arange(128.0).reshape(64, 2), 7)},
            "no array of numbers: it has masked values",
        ),
        (
            {"embed_texts": lambda texts: [np.ma.masked_equal([1.0, n], 2) for n in range(64)]},
            "no array of numbers: it has masked values",
        ),
        (
            {"embed_texts": lambda texts: np.ones((len(texts), len(texts)))},
            r"vectors of shape \[\d+\] after vectors of shape \[64\]",
        ),
        ({"embed_texts": "model"}, "embed_texts is 'model'; it must be a function"),
        ({"batch_size": 0}, "batch_size=0; it must be an integer of at least 1"),
        ({"mesh": Mesh([jax.devices()[0]], ["x"])}, r"evaluate\.mesh is Mesh\(.*one axis, 'data'"),
        ({"split": 3}, r"evaluate\.split is 3; it must be a string"),
        ({"examples": -1}, r"evaluate\.examples is -1; it must be at least 0"),
        ({"bootstrap_samples": 0}, r"^evaluate\.bootstrap_samples is 0; it must be at least 1"),
        ({"evaluator": {"type": "boards", "seed": -1}}, r"^evaluate\.evaluator\.seed is -1"),
        (
            {"evaluator": {"type": "boards"}, "annotations": "A"},
            "annotations are not read beside an evaluator: .* 'boards', 'annotations': 'A'",
        ),
        (
            {"evaluator": {"type": "boards", "similarity": {"name": "dot"}}},
            r"similarity is 'cosine', and evaluate\.evaluator\.similarity is 'dot'",
        ),
        (
            {"evaluator": {"type": "boards", "data": {"dataset": SHAPES}}},
            r"evaluate\.evaluator\.data is for runs",
        ),
        (
            {"config": "rated_captions", "annotations": "A"},
            "annotations are labels of images and captions, and crisscrossed_shapes has pairs",
        ),
        ({"similarity": "match_probability"}, r"needs \['match_scale', .* pass a file of embedd"),
        (
            {"embed_images": lambda images: np.ones((len(images), 3))},
            r"embed_images returned vectors of shape \[3\] and embed_texts of shape",
        ),
    ],
)
def test_mistakes_are_named(few_shapes, changes, message):
    with pytest.raises(xmodal.UserError, match=r"not 'runs/a'.*inspect\(RUN\)\.evaluation"):
        xmodal.evaluate("runs/a")
    given = {"embed_texts": embed_texts, "dataset": SHAPES, "similarity": "cosine"}
    with pytest.raises(xmodal.UserError, match=message):
        xmodal.evaluate(**given | {"data_dir": few_shapes} | changes)
