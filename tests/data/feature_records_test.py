"""Frozen features are written atomically, and read instead of raw columns."""

import os

import ml_dtypes
import numpy as np
import pytest
import tiny_captions_dataset_builder as tiny

from xmodal import data

BF16 = ml_dtypes.bfloat16


def _arrays(count, width=3):
    rng = np.random.default_rng(count)
    return [rng.normal(size=(rng.integers(1, 6), width)).astype(BF16) for _ in range(count)]


@pytest.mark.parametrize("length", [2, 5, 8])
def test_items_are_read_by_number_padded_or_cut(tmp_path, length):
    arrays = _arrays(11)
    data.write_features(str(tmp_path / "text"), "text_features", {"weights": "a"}, arrays)
    reader = data.open_features(str(tmp_path / "text"))
    assert (reader.count, reader.rows, reader.width) == (11, max(map(len, arrays)), 3)
    assert reader.key == {"weights": "a"}
    assert os.listdir(tmp_path) == ["text"]
    items = np.array([[10, 0], [3, 3]])
    features, mask = reader.read(items, length)
    assert features.shape == (2, 2, length, 3)
    assert features.dtype == BF16
    for place, item in np.ndenumerate(items):
        expected = arrays[item][:length]
        np.testing.assert_array_equal(features[place][: len(expected)], expected)
        assert not features[place][len(expected) :].any()
        assert mask[place].tolist() == [k < len(expected) for k in range(length)]


@pytest.fixture
def config(tiny_config):
    return tiny_config | {"config": "regions", "image": {"max_regions": 4}}


def _write(config, folder, name):
    """Features that identify their item: its id everywhere, one row per token or region."""
    split = data.eval_split(config, split="train")
    if name == "text_features":
        lengths = np.concatenate([b["text_mask"].sum(axis=1) for b in split.captions(50)])
        ids = split.caption_ids
    else:
        lengths = [len(tiny.regions(image_id)) for image_id in split.image_ids.tolist()]
        ids = split.image_ids
    arrays = [np.full((n, 5), i, BF16) for n, i in zip(lengths, ids, strict=True)]
    data.write_features(str(folder), name, {}, arrays)
    return data.open_features(str(folder))


def _batches(config, features=None, **kwargs):
    settings = {"split": "train", "seed": 1, "batch_size": 8, "first_step": 0, "total_steps": 3}
    return list(data.train_batches(config, features=features, **settings | kwargs))


@pytest.mark.parametrize("examples", ["images", "pairs"])
def test_features_take_the_place_of_the_raw_columns(config, tmp_path, examples):
    config |= {"examples": examples, "captions_per_image": 1 if examples == "pairs" else 2}
    readers = [
        _write(config, tmp_path / name, name) for name in ("text_features", "image_features")
    ]
    for raw, batch in zip(_batches(config), _batches(config, readers), strict=True):
        spec = data.batch_spec(config, 8)
        for reader in readers:
            spec = reader.replace_spec(spec)
        assert {name: (column.shape, column.dtype) for name, column in spec.items()} == {
            name: (column.shape, column.dtype) for name, column in batch.items()
        }
        assert set(raw) - set(batch) == {"image", "text_ids"}
        for name in set(raw) & set(batch):
            np.testing.assert_array_equal(raw[name], batch[name], err_msg=name)
        text = batch["caption_id"].astype(BF16)[..., None] * batch["text_mask"]
        np.testing.assert_array_equal(batch["text_features"], np.repeat(text[..., None], 5, -1))
        image = batch["image_id"].astype(BF16)[:, None] * batch["image_mask"]
        np.testing.assert_array_equal(batch["image_features"], np.repeat(image[..., None], 5, -1))
