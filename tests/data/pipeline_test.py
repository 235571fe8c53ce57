"""Training batches of a small real dataset."""

import collections
import multiprocessing

import numpy as np
import pytest
import tiny_captions_dataset_builder as tiny

from xmodal import data
from xmodal.core.errors import UserError
from xmodal.data.datasets import Source
from xmodal.data.pipeline import choose_captions

_TRAIN_IDS = set(range(*tiny.SPLITS["train"]))


def _batches(config, first_step=0, total_steps=6, batch_size=8, **kwargs):
    kwargs = {"split": "train", "seed": 4, **kwargs}
    batches = data.train_batches(
        config, batch_size=batch_size, first_step=first_step, total_steps=total_steps, **kwargs
    )
    return list(batches)


def _assert_equal(left, right):
    assert left.keys() == right.keys()
    for key in left:
        assert left[key].dtype == right[key].dtype
        np.testing.assert_array_equal(left[key], right[key], err_msg=key)


@pytest.fixture
def feature_config(tiny_config):
    return tiny_config | {"config": "features", "image": {"size": 0}}


@pytest.mark.parametrize("examples", ["images", "pairs"])
def test_texts_are_labeled_by_all_captions_of_their_image(tiny_config, examples):
    config = tiny_config | {"examples": examples, "captions_per_image": 1, "label_captions": 9}
    batch = _batches(config, total_steps=1)[0]
    spec = data.batch_spec(config, 8)["text_label_ids"]
    found = batch["text_label_ids"]
    assert (found.shape, found.dtype) == (spec.shape, spec.dtype) == ((8, 1, 9 * 12), np.int32)
    items = data.eval_split(config, split="train")
    (whole,) = items.captions(1000)
    for image, row, own in zip(
        batch["image_id"], found[:, 0], batch["text_ids"][:, 0], strict=True
    ):
        of_image = whole["text_ids"][whole["image_id"] == image]
        assert set(row) - {0} == set(of_image.ravel()) - {0}
        assert set(own) <= set(row)


@pytest.mark.parametrize(("process_count", "examples"), [(4, "images"), (2, "pairs")])
def test_the_global_batch_does_not_depend_on_the_number_of_processes(
    tiny_config, process_count, examples
):
    config = tiny_config | {"examples": examples, "captions_per_image": 1}
    parts = [
        _batches(config, process_index=index, process_count=process_count)
        for index in range(process_count)
    ]
    for whole, *blocks in zip(_batches(config), *parts, strict=True):
        joined = {key: np.concatenate([block[key] for block in blocks]) for key in whole}
        _assert_equal(joined, whole)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"image": None},
        {"text": None},
        {"config": "features", "image": {"size": 0}},
        {"config": "regions", "image": {"max_regions": 3}, "labels": ("relations",)},
        {
            "text": {
                "tokenizer": "nltk",
                "max_length": 9,
                "special_tokens": "sentence",
                "min_count": 2,
            }
        },
    ],
)
def test_batches_are_as_described(tiny_config, changes):
    config = tiny_config | changes
    (batch,) = _batches(config, total_steps=1)
    spec = data.batch_spec(config, 8)
    assert {name: (column.shape, column.dtype) for name, column in spec.items()} == {
        name: (column.shape, column.dtype) for name, column in batch.items()
    }


@pytest.mark.parametrize("changes", [{}, {"examples": "pairs", "captions_per_image": 1}])
def test_texts_are_padded_to_the_shortest_length_that_holds_the_global_batch(tiny_config, changes):
    config = tiny_config | {"image": None} | changes
    text = {"tokenizer": "nltk", "max_length": 12, "augment": {"delete": 0.5}}
    config |= {"text": text, "text_lengths": (2, 4, 6, 20)}
    options = {"batch_size": 4, "total_steps": 12}
    padded = _batches(config | {"text_lengths": ()}, **options)
    parts = [_batches(config, process_index=k, process_count=2, **options) for k in (0, 1)]
    found = set()
    for whole, cut, *blocks in zip(padded, _batches(config, **options), *parts, strict=True):
        longest = whole["text_mask"].sum(axis=-1).max()
        length = next(length for length in (2, 4, 6, 12) if length >= longest)
        found.add(length)
        _assert_equal(cut, data.cut_texts(whole, length))
        _assert_equal({key: np.concatenate([block[key] for block in blocks]) for key in cut}, cut)
        spec = data.cut_texts(data.batch_spec(config, 4), length)
        assert {key: column.shape for key, column in spec.items()} == {
            key: column.shape for key, column in cut.items()
        }
    assert len(found) > 1


def test_texts_are_ranked_by_length_if_every_device_has_enough_short_ones(tiny_config):
    config = tiny_config | {"image": None}
    config["text"] = {"tokenizer": "nltk", "max_length": 12, "augment": {"delete": 0.45}}
    options = {"batch_size": 12, "total_steps": 30}
    whole = _batches(config, **options)
    config |= {"text_lengths": (5,), "length_bucketing": {"length": 4, "share": 0.6}}
    options |= {"devices": 2, "parts": 2}
    processes = [_batches(config, process_index=k, process_count=2, **options) for k in (0, 1)]
    found = collections.Counter()
    for padded, batch, *blocks in zip(whole, _batches(config, **options), *processes, strict=True):
        _assert_equal({key: np.concatenate([b[key] for b in blocks]) for key in batch}, batch)
        lengths = padded["text_mask"].sum(axis=-1)
        ranks, fits = np.full_like(lengths, -1, np.int32), True
        for device, part, caption in np.ndindex(2, 2, 2):
            rows = [6 * device + part + 2 * number for number in range(3)]
            rows.sort(key=lambda row, c=caption, n=lengths: n[row, c])
            ranks[rows, caption] = range(3)
            fits &= lengths[rows[0], caption] <= 4  # A share of 0.6 is one of three rows.
        length = 5 if fits and lengths.max() <= 5 else 12
        expected = data.cut_texts(padded, length) | ({"text_rank": ranks} if fits else {})
        _assert_equal(batch, expected)
        found[length, bool(fits)] += 1
    assert found.keys() == set(data.parse(config).text_layouts), found


def test_regions_and_labels_belong_to_the_ids(tiny_config):
    config = tiny_config | {"config": "regions", "labels": ("relations",)}
    for batch in _batches(config | {"image": {"max_regions": 4}}, total_steps=3):
        for row, image_id in enumerate(batch["image_id"].tolist()):
            expected = tiny.regions(image_id)[:4]
            np.testing.assert_array_equal(batch["image"][row, : len(expected)], expected)
            assert not batch["image"][row, len(expected) :].any()
            assert batch["image_mask"][row].tolist() == [k < len(expected) for k in range(4)]
            assert batch["relations"][row].tolist() == tiny.relations(image_id)
    with pytest.raises(ValueError, match=r"varies; set config\.data\.image\.max_regions"):
        data.batch_spec(config | {"image": {"size": 0}}, 8)


def test_without_images_no_record_is_read(tiny_config, monkeypatch):
    config = tiny_config | {"image": None}
    expected = _batches(config, total_steps=2)
    monkeypatch.setattr(Source, "read", None)
    for left, right in zip(expected, _batches(config, total_steps=2), strict=True):
        _assert_equal(left, right)
    with pytest.raises(TypeError):
        _batches(tiny_config, total_steps=2)


@pytest.mark.parametrize("wanted", [1, 2, 3])
def test_choices_equal_those_from_a_shrinking_list(wanted):
    rng = np.random.default_rng(wanted)
    counts, draws = rng.integers(3, 8, 50), rng.integers(0, 2**62, (50, wanted))
    for count, row, places in zip(counts, draws, choose_captions(counts, draws), strict=True):
        left = list(range(count))
        assert places.tolist() == [left.pop(draw % len(left)) for draw in row.tolist()]


def test_a_resumed_run_reads_only_what_follows(tiny_config, monkeypatch):
    whole = _batches(tiny_config, total_steps=11)
    read = []
    original = Source.read
    monkeypatch.setattr(
        Source, "read", lambda self, indices: read.append(len(indices)) or original(self, indices)
    )
    resumed = _batches(tiny_config, first_step=7, total_steps=11)
    assert sum(read) == 4 * 8
    for left, right in zip(whole[7:], resumed, strict=True):
        _assert_equal(left, right)


def test_an_epoch_of_pairs_shows_every_caption_once_with_its_image(feature_config):
    config = feature_config | {"examples": "pairs", "captions_per_image": 1}
    expected = {c: image_id for image_id in _TRAIN_IDS for c in tiny.captions(image_id)}
    assert data.num_train_examples(config, "train") == len(expected)
    (batch,) = _batches(config, batch_size=len(expected), total_steps=1)
    pairs = dict(zip(batch["caption_id"][:, 0].tolist(), batch["image_id"].tolist(), strict=True))
    assert pairs == expected


@pytest.mark.slow
def test_processes_make_the_batches_of_threads(few_shapes):
    config = {
        "dataset": "crisscrossed_shapes",
        "data_dir": few_shapes,
        "image": {"size": 33, "augment": {}},
        "text": {"vocabulary_size": 200, "max_length": 12},
    }
    expected = _batches(config, first_step=2, total_steps=7)
    for left, right in zip(
        expected, _batches(config | {"workers": 2}, first_step=2, total_steps=7), strict=True
    ):
        _assert_equal(left, right)
    assert not multiprocessing.active_children()
    with pytest.raises(UserError, match="has no split"):
        _batches(config | {"workers": 1, "text": None}, split="tset")
    assert not multiprocessing.active_children()


def test_text_and_image_belong_to_the_ids(feature_config):
    tokenizer = data.load_tokenizer(feature_config)
    for batch in _batches(feature_config, total_steps=3):
        for row, image_id in enumerate(batch["image_id"].tolist()):
            np.testing.assert_array_equal(batch["image"][row], tiny.features(image_id))
            texts = [tiny.captions(image_id)[c] for c in batch["caption_id"][row].tolist()]
            np.testing.assert_array_equal(batch["text_ids"][row], tokenizer.encode(texts)[0])
