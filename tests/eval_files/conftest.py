"""The command that evaluates files, with released labels and a model's files for a dozen images."""

import json

import numpy as np
import pytest
from tiny_model import (
    CAPTION_IDS,
    IMAGE_IDS,
    OWN_IMAGE,
    embeddings,
    in_order,
    ranked_lists,
    write_ratings,
)

from tests import saved_run


@pytest.fixture(scope="session")
def annotations(tmp_path_factory):
    """The released files, reduced to twelve test images and one validation image."""
    folder = tmp_path_factory.mktemp("annotations")
    rng = np.random.default_rng(5)
    own = [
        (caption, IMAGE_IDS[image], 4.5, "c2i_original")
        for caption, image in zip(CAPTION_IDS, OWN_IMAGE, strict=True)
    ]
    other = [
        (caption, image, round(float(rng.uniform(0, 5)), 2), "c2i_intrasim")
        for caption, image in zip(CAPTION_IDS, np.roll(np.repeat(IMAGE_IDS, 5), 7), strict=True)
    ]
    write_ratings(folder / "sits_test.csv", ("caption", "image"), own + other)
    for rating, ids in (("sts", CAPTION_IDS), ("sis", IMAGE_IDS)):
        scores = rng.uniform(0, 5, len(ids)).round(2)
        method = {"sts": "c2c_isim", "sis": "i2i_csim"}[rating]
        pairs = zip(ids, np.roll(ids, 7), scores, [method] * len(ids), strict=True)
        kind = "caption" if rating == "sts" else "image"
        write_ratings(folder / f"{rating}_test.csv", (kind, kind), list(pairs))
    write_ratings(folder / "sits_val.csv", ("caption", "image"), [(9001, 901, 4.0, "c2i_original")])
    lists = {
        "original_caption_to_image": {
            c: [IMAGE_IDS[i]] for c, i in zip(CAPTION_IDS, OWN_IMAGE, strict=True)
        },
        "eccv_image_to_caption": {101: [1010, 1011, 1032], 104: [1040, 1111, 1112, 1120]},
        "eccv_caption_to_image": {1010: [101, 103], 1063: [106, 107, 108]},
    }
    for name, content in lists.items():
        plain = {str(query): [int(item) for item in items] for query, items in content.items()}
        (folder / f"{name}.json").write_text(json.dumps(plain))
    np.save(folder / "coco_test_ids.npy", CAPTION_IDS)
    labels = (rng.random((13, 80)) < 0.03).astype(np.uint8)
    labels[:, 0] = 1
    labels[11] = 0  # an image without objects
    table = {"image_ids": [*IMAGE_IDS, 901], "labels": labels, "category_names": np.arange(80)}
    np.savez(folder / "val2014_categories.npz", **table)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Files of one model: embeddings, and their dot products."""
    folder = tmp_path_factory.mktemp("model")
    arrays = embeddings()
    np.savez(folder / "tiny.npz", **arrays)
    np.savez(folder / "ids.npz", image_ids=arrays["image_ids"], caption_ids=arrays["caption_ids"])
    products = arrays["image_embeddings"] @ arrays["caption_embeddings"].T
    np.save(folder / "scores.npy", products)
    images, captions = in_order(arrays)
    for depth in (3, 60):
        lists = ranked_lists(images @ captions.T, depth)
        (folder / f"ranked{depth}.json").write_text(json.dumps(lists))
    return folder


@pytest.fixture
def evaluate(annotations, tmp_path):
    """Runs the command; `output` is a folder in the test's folder."""

    def run(output="out", **values):
        given = {"annotations": str(annotations), "bootstrap_samples": 50} | values
        saved_run.evaluate(output=tmp_path / output, **given)
        return tmp_path / output

    return run
