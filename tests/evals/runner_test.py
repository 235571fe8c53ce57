"""Embedding and all boards together, on a split small enough to judge by hand."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal import evals
from xmodal.evals import embed


class TableModel:
    """Towers that look vectors up: item content is its position in a table of parameters."""

    similarity = "dot"

    def __init__(self, towers=("image", "text")):
        self.towers = dict.fromkeys(towers)
        self.traces = []

    def embed(self, name, params, model_state, inputs):
        self.traces.append(name)
        at = inputs["text_ids"][:, 0] if name == "text" else inputs[:, 0, 0, 0]
        return SimpleNamespace(vector=params[name][at].astype(jnp.bfloat16)), model_state[name]


@dataclasses.dataclass
class TableSet:
    """Four images with three, two, two and one captions; ids are neither dense nor sorted."""

    name: str = "crisscrossed_shapes"
    split: str = "test"
    image_ids: np.ndarray = dataclasses.field(
        default_factory=lambda: np.array([40, 10, 30, 20], np.int32)
    )
    caption_ids: np.ndarray = dataclasses.field(
        default_factory=lambda: np.array([9, 8, 7, 6, 5, 4, 3, 2], np.int32)
    )
    caption_image_ids: np.ndarray = dataclasses.field(
        default_factory=lambda: np.array([40, 40, 40, 10, 10, 30, 30, 20], np.int32)
    )
    ratings: dict = dataclasses.field(
        default_factory=lambda: {
            "sts": rated([(2, 3, 3.0), (9, 8, 1.0), (7, 6, 2.9), (5, 4, 0.5)]),
            "sis": rated([(20, 30, 2.5), (30, 20, 2.4), (10, 40, 2.0)]),
            "sits": rated([(9, 40, 2.0), (2, 30, 3.5), (6, 40, 1.0), (3, 20, 2.0), (4, 10, 0.0)]),
        }
    )
    lists: dict = dataclasses.field(default_factory=dict)
    categories: None = None
    caption_categories: None = None
    folds: None = None
    partial: str = ""

    def images(self, batch_size):
        content = np.arange(4, dtype=np.uint8)[:, None, None, None]
        for start in range(0, 4, batch_size):
            rows = slice(start, start + batch_size)
            yield {"image": content[rows], "image_id": self.image_ids[rows]}

    def captions(self, batch_size):
        content = np.arange(8, dtype=np.int32)[:, None]
        for start in range(0, 8, batch_size):
            rows = slice(start, start + batch_size)
            yield {
                "text_ids": content[rows],
                "text_mask": np.ones_like(content[rows]),
                "caption_id": self.caption_ids[rows],
                "image_id": self.caption_image_ids[rows],
            }


def rated(rows):
    left, right, scores = zip(*rows, strict=True)
    return {
        "left_ids": np.array(left, np.int32),
        "right_ids": np.array(right, np.int32),
        "scores": np.array(scores, np.float32),
        "methods": np.array(["any"] * len(rows)),
    }


# One axis per image; the last caption (of image 20) points at image 30 instead.
IMAGES = np.diag([4.0, 3.0, 2.0, 1.0]).astype(np.float32)
CAPTIONS = np.eye(4, dtype=np.float32)[[0, 0, 0, 1, 1, 2, 2, 2]]


def run(model=None, eval_set=None, **keywords):
    params = {"image": jnp.asarray(IMAGES), "text": jnp.asarray(CAPTIONS)}
    evaluator = evals.Evaluator(model or TableModel(), batch_size=3, **keywords)
    return evaluator.run(params, {"image": {}, "text": {}}, eval_set or TableSet())


def test_boards_by_hand():
    metrics = run()
    # The strayed caption finds image 30 first; its own image 20 is one of three at score zero, the
    # last of them by index. With its rating of 3.5, image 30 is right on the merged board.
    assert metrics["shapes_own/t2i/recall@1"] == pytest.approx(100 * 7 / 8)
    assert metrics["shapes_own/t2i/recall@5"] == 100
    assert metrics["shapes_own/t2i/tied_queries"] == 1
    assert metrics["shapes/t2i/recall@1"] == 100
    assert metrics["shapes/t2i/tied_queries"] == 0
    # Image 20 scores zero with all but its own caption, which is last among equals as well.
    assert metrics["shapes_own/i2t/recall@1"] == pytest.approx(100 * 3 / 4)
    assert metrics["shapes_own/i2t/recall@5"] == pytest.approx(100 * 3 / 4)
    assert metrics["shapes_own/i2t/median_rank"] == 1
    # The only caption of image 20 has no co-caption; on the merged board it has caption 3.
    assert metrics["shapes_own/t2t/queries"] == 7
    assert metrics["shapes_own/t2t/skipped_queries"] == 1
    assert metrics["shapes/t2t/queries"] == 8
    assert metrics["shapes/t2t/gallery"] == 7
    # One of the two rows of images 20 and 30 reaches 2.5, and it counts in both directions.
    assert metrics["shapes/i2i/queries"] == 2
    assert metrics["shapes/i2i/skipped_queries"] == 2
    assert metrics["shapes/i2i/gallery"] == 3
    assert "shapes_own/i2i/queries" not in metrics
    assert metrics["shapes/mean_recall@10"] == 100
    assert metrics["shapes/sts/pairs"] == 4
    assert metrics["shapes/sts/pairs_per_sample"] == 4  # half of the eight rated captions
    assert metrics["shapes/sits/pairs_per_sample"] == 2  # queries are the four images
    assert all(isinstance(value, float) for value in metrics.values())


@pytest.mark.parametrize("devices", [1, 8])
def test_mesh_changes_nothing(devices):
    auto = (jax.sharding.AxisType.Auto,)
    mesh = jax.make_mesh((devices,), ("data",), devices=jax.devices()[:devices], axis_types=auto)
    assert run(mesh=mesh) == pytest.approx(run(), nan_ok=True)


def test_missing_tower_skips_its_tasks():
    metrics = run(TableModel(["text"]))
    assert {name.split("/")[1] for name in metrics} == {"t2t", "sts", "mean_recall@10"}
    assert metrics["shapes/mean_recall@10"] == metrics["shapes/t2t/recall@10"]


def test_no_ratings_no_merged_board():
    metrics = run(eval_set=TableSet(ratings={}))
    assert {name.split("/")[0] for name in metrics} == {"shapes_own"}


def test_unknown_dataset_gets_its_own_pairs():
    metrics = run(eval_set=TableSet(name="holiday_photos", ratings={}))
    assert {name.split("/")[0] for name in metrics} == {"holiday_photos"}


def test_rating_of_another_split():
    with pytest.raises(ValueError, match="image id 77"):
        run(eval_set=TableSet(ratings={"sis": rated([(40, 77, 1.0)])}))


def test_embedder_compiles_each_tower_once_and_returns_float32():
    model = TableModel()
    embedder = embed.Embedder(model, batch_size=3)
    params = {"image": jnp.asarray(IMAGES), "text": jnp.asarray(CAPTIONS)}
    for _ in range(2):
        embedded = embedder.embed_items("text", params, {"text": {}}, TableSet().captions(3))
    assert model.traces == ["text"]
    assert embedded.vectors.dtype == np.float32
    np.testing.assert_array_equal(embedded.ids, TableSet().caption_ids)
    np.testing.assert_array_equal(embedded.vectors, CAPTIONS)
