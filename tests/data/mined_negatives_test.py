"""Batches with mined negatives."""

import json

import numpy as np
import pytest

from xmodal import data
from xmodal.core.errors import UserError

CAPTIONS, IMAGES = 6, 2


@pytest.fixture
def split(tiny_config):
    return data.eval_split(tiny_config, split="train")


@pytest.fixture
def mined(tiny_config, split, tmp_path):
    """A config with random tables of other images' captions, and the tables."""
    rng = np.random.default_rng(0)
    rows, texts = len(split.image_ids), np.arange(len(split.caption_ids))
    own = split.caption_rows
    captions = [rng.choice(texts[own != row], CAPTIONS, replace=False) for row in range(rows)]
    images = [rng.choice(np.delete(np.arange(rows), row), IMAGES, replace=False) for row in own]
    tables = np.array(captions, np.int32), np.array(images, np.int32)
    np.save(tmp_path / "captions.npy", tables[0])
    np.save(tmp_path / "images.npy", tables[1])
    records = data.split_hashes(tiny_config, "train")
    (tmp_path / "mined.json").write_text(json.dumps({"records": records, "split": "train"}))
    pairs = {"examples": "pairs", "captions_per_image": 1, "mined_negatives": str(tmp_path)}
    return tiny_config | pairs, tables


def make_batches(config, steps=5, **options):
    options = {"seed": 4, "batch_size": 8, "first_step": 0, "total_steps": steps} | options
    return list(data.train_batches(config, split="train", **options))


def test_a_pair_brings_negatives_of_one_rank_and_their_partners(mined, split):
    config, (captions, images) = mined
    row_of_image = {image: row for row, image in enumerate(split.image_ids)}
    number_of_caption = {caption: n for n, caption in enumerate(split.caption_ids)}
    ranks = set()
    plain = config | {"mined_negatives": "", "image": {"size": 24}}
    for batch in make_batches(config | {"image": {"size": 24}}):
        for image_id, ids, pictures in zip(
            batch["image_id"], batch["caption_id"], batch["mined_image"], strict=True
        ):
            row = row_of_image[image_id]
            number, negative, other = (number_of_caption[each] for each in ids)
            assert split.caption_rows[number] == row
            (rank,) = np.flatnonzero(captions[row] == negative)
            ranks.add(rank)
            image = images[number, rank * IMAGES // CAPTIONS]
            assert split.caption_rows[other] == image
            at = np.array([image, split.caption_rows[negative]])
            (expected,) = split.images(2, at)
            np.testing.assert_array_equal(pictures, expected["image"])
    assert ranks == set(range(CAPTIONS))
    # The pairs themselves are the same as without.
    for with_mined, without in zip(
        make_batches(config | {"image": {"size": 24}}), make_batches(plain), strict=True
    ):
        np.testing.assert_array_equal(with_mined["image"], without["image"])
        np.testing.assert_array_equal(with_mined["text_ids"][:, :1], without["text_ids"])


def test_batches_are_as_described_in_one_process_and_in_two(mined):
    config = mined[0] | {"text_lengths": (4, 8)}
    parts = [make_batches(config, process_index=k, process_count=2) for k in (0, 1)]
    spec = data.batch_spec(config, 8)
    for whole, *blocks in zip(make_batches(config), *parts, strict=True):
        expected = data.cut_texts(spec, whole["text_ids"].shape[-1])
        assert {name: (x.shape, x.dtype) for name, x in whole.items()} == {
            name: (x.shape, x.dtype) for name, x in expected.items()
        }
        for name, column in whole.items():
            joined = np.concatenate([block[name] for block in blocks])
            np.testing.assert_array_equal(joined, column, err_msg=name)
    # Draws depend on the step, so that a later start repeats them.
    (late,) = make_batches(config, steps=3, first_step=2)
    np.testing.assert_array_equal(late["mined_image"], make_batches(config)[2]["mined_image"])


def test_tables_of_other_records_are_an_error(mined, tmp_path):
    config, _ = mined
    card = tmp_path / "mined.json"
    records = data.split_hashes(config, "train")
    # A part of the split, which has the same hash.
    card.write_text(json.dumps({"records": records, "split": "train[:50%]"}))
    with pytest.raises(UserError, match=r"mined from the split 'train\[:50%\]', .* is 'train'"):
        make_batches(config)
