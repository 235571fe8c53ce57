"""Embedding the items of a split, and benchmarks small enough to compute by hand."""

import types

import jax
import numpy as np
import pytest

from tests.evals.tiny_split import CAPTIONS, IMAGES, PARAMS, TinySplit, look_up
from xmodal.core.mesh import make_mesh
from xmodal.evals import Embedder, make_evaluator, read_options
from xmodal.evals.reports.summary import summarize
from xmodal.evals.scores import files
from xmodal.evals.scores.embed import Predictor, own_rows
from xmodal.similarity import make_similarity

DOT = make_similarity({"name": "dot"})


def embed(split=None, modalities=("image", "text"), batch_size=3, **options):
    embedder = Embedder(look_up, modalities, similarity=DOT, **options)
    return embedder(PARAMS, {}, split or TinySplit(), batch_size)


def run(split=None, modalities=("image", "text"), mesh=None):
    split = split or TinySplit()
    (options,) = read_options({"shapes": {"type": "benchmarks"}}).values()
    evaluator = make_evaluator("shapes", options, split, modalities, mesh)
    return summarize(evaluator.run(embed(split, modalities, mesh=mesh)), intervals=False)


def test_benchmarks_by_hand():
    metrics = run()
    # The stray caption ranks image 30 first; its own image 20 is one of three with score zero, the
    # last of them by index. With its rating of 3.5, image 30 is a positive on the merged benchmark.
    assert metrics["shapes_own/t2i/recall@1"] == pytest.approx(100 * 7 / 8)
    assert metrics["shapes_own/t2i/recall@5"] == 100
    assert metrics["shapes_own/t2i/tied_queries"] == 1
    assert metrics["shapes/t2i/recall@1"] == 100
    assert metrics["shapes/t2i/tied_queries"] == 0
    # Image 20 scores zero with all but its own caption, which is also last among equals.
    assert metrics["shapes_own/i2t/recall@1"] == pytest.approx(100 * 3 / 4)
    assert metrics["shapes_own/i2t/recall@5"] == pytest.approx(100 * 3 / 4)
    assert metrics["shapes_own/i2t/median_rank"] == 1
    # The only caption of image 20 has no co-caption; on the merged benchmark, its positive is
    # caption 3.
    assert metrics["shapes_own/t2t/queries"] == 7
    assert metrics["shapes_own/t2t/skipped_queries"] == 1
    assert metrics["shapes/t2t/queries"] == 8
    assert metrics["shapes/t2t/gallery"] == 7
    # One of the two rows of images 20 and 30 reaches 2.5, which counts in both directions.
    assert metrics["shapes/i2i/queries"] == 2
    assert metrics["shapes/i2i/skipped_queries"] == 2
    assert metrics["shapes/sts/pairs"] == 4
    assert metrics["shapes/sts/pairs_per_sample"] == 4  # half of the eight rated captions
    assert metrics["shapes/sits/pairs_per_sample"] == 2  # queries are the four images


@pytest.mark.parametrize(("devices", "fsdp"), [(1, 1), (8, 1), (8, 4)])
def test_mesh_changes_nothing(devices, fsdp):
    mesh = make_mesh(jax.devices()[:devices], fsdp)
    assert run(mesh=mesh) == pytest.approx(run(), nan_ok=True)


def test_predictors_read_vectors_whatever_field_is_ranked():
    def embed_both(*inputs):
        vector = look_up(*inputs).vector
        return types.SimpleNamespace(vector=vector, log_sigma=None, extras={"mean": -vector})

    predict = {"topics": Predictor(frozenset({"image"}), lambda params, images, _: images)}
    embedder = Embedder(embed_both, ["image"], similarity=DOT, predict=predict)
    found = embedder(PARAMS, {}, TinySplit(), 3)
    np.testing.assert_array_equal(found.predictions["topics"].images, IMAGES)
    means = embedder(PARAMS, {}, TinySplit(), 3, field="mean")
    np.testing.assert_array_equal(means.images, -IMAGES)
    np.testing.assert_array_equal(means.predictions["topics"].images, IMAGES)


def test_learned_parameters_and_several_vectors_travel_with_the_file(tmp_path):
    """A file saved from a model gives the same metrics as the model."""
    similarity = make_similarity({"name": "match_probability", "learned_temperature": True})
    params = {
        "image": np.stack([IMAGES, 2 * IMAGES], axis=1),
        "text": np.stack([CAPTIONS, CAPTIONS[::-1]], axis=1),
        "similarity": {"match_scale": np.float32(0.3), "match_shift": np.float32(1.25)},
    }
    params["similarity"]["log_scale"] = np.float32(3.0)
    params = jax.tree.map(jax.numpy.asarray, params)

    def embed_with_sigma(modality, params, *inputs):
        found = look_up(modality, params, *inputs)
        found.log_sigma = -found.vector[:, 0]
        return found

    embedder = Embedder(embed_with_sigma, ("image", "text"), similarity=similarity)
    found = embedder(params, {}, TinySplit(), 4)
    assert found.images.shape == (4, 2, 4)
    files.save_embeddings(tmp_path / "model.npz", found)
    assert [path.name for path in tmp_path.iterdir()] == ["model.npz"]
    loaded = files.load_embeddings(tmp_path / "model.npz")
    assert loaded.similarity == "match_probability"
    assert loaded.parameters == found.parameters
    assert set(loaded.parameters) == {"match_scale", "match_shift"}
    for name in ("image_ids", "images", "caption_ids", "captions"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(found, name))
    np.testing.assert_array_equal(found.log_sigma["image"], -IMAGES)
    np.testing.assert_array_equal(found.log_sigma["text"], -CAPTIONS)
    for modality, log_sigma in found.log_sigma.items():
        np.testing.assert_array_equal(loaded.log_sigma[modality], log_sigma)


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("items", [1, 6, 13])
def test_items_of_all_processes_come_back_in_their_order(items, processes):
    """Each process embeds whole batches; padding repeats a real item."""
    rows = np.random.default_rng(0).permutation(items) + 10
    batches = -(-items // (2 * processes))
    gathered = []
    for index in range(processes):
        own = own_rows(rows, 2, processes, index)
        assert 2 * batches - 2 < len(own) <= 2 * batches
        gathered.append(np.pad(own, (0, 2 * batches - len(own)), mode="edge"))
    np.testing.assert_array_equal(np.concatenate(gathered)[:items], rows)
