"""Evaluation splits contain each unique item once, and the rated pairs."""

import numpy as np
import pytest
import tiny_captions_dataset_builder as tiny

from xmodal import data
from xmodal.data import datasets
from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.tokenizers import make_tokenizer


def _concatenate(batches):
    batches = list(batches)
    return {key: np.concatenate([batch[key] for batch in batches]) for key in batches[0]}


@pytest.mark.parametrize("batch_size", [3, 100])
def test_every_image_once_in_the_order_of_the_ids(tiny_config, batch_size):
    evaluated = data.eval_split(tiny_config, split="validation")
    batches = list(evaluated.images(batch_size))
    assert [len(batch["image"]) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
    images = _concatenate(batches)
    np.testing.assert_array_equal(images["image_id"], evaluated.image_ids)
    assert images["image"].shape == (11, 24, 24, 3)
    assert sorted(evaluated.image_ids.tolist()) == list(range(100, 111))
    assert evaluated.image_ids.dtype == images["image_id"].dtype == np.int32


def test_every_caption_once(tiny_config):
    """Images have two to seven captions; a builder cuts them where a protocol knows only five."""
    evaluated = data.eval_split(tiny_config, split="validation")
    expected = {}
    for image_id in evaluated.image_ids.tolist():
        expected |= {c: image_id for c in tiny.captions(image_id)}
    assert evaluated.caption_ids.tolist() == list(expected)
    assert evaluated.caption_image_ids.tolist() == list(expected.values())
    texts = [t for i in evaluated.image_ids.tolist() for t in tiny.captions(i).values()]
    assert evaluated.caption_texts == texts
    captions = _concatenate(evaluated.captions(7))
    np.testing.assert_array_equal(captions["caption_id"], evaluated.caption_ids)
    np.testing.assert_array_equal(captions["image_id"], evaluated.caption_image_ids)
    assert captions["text_ids"].shape == captions["text_mask"].shape == (len(expected), 12)
    assert {array.dtype for array in captions.values()} == {np.dtype(np.int32)}


def test_captions_in_a_prompt(tiny_config):
    """Evaluation alone has it; the texts in reports stay as they are."""
    bare = data.eval_split(tiny_config, split="validation")
    prompt = {"text": tiny_config["text"] | {"prompt": "a photo of {} !", "max_length": 20}}
    evaluated = data.eval_split(tiny_config | prompt, split="validation")
    assert evaluated.caption_texts == bare.caption_texts
    tokenizer = data.load_tokenizer(tiny_config | prompt)
    expected = tokenizer.encode([f"a photo of {text} !" for text in bare.caption_texts])
    captions = _concatenate(evaluated.captions(7))
    np.testing.assert_array_equal(captions["text_ids"], expected[0])
    assert (evaluated.caption_lengths >= expected[1].sum(axis=1)).all()


def test_captions_by_length(tiny_config):
    evaluated = data.eval_split(tiny_config, split="validation")
    captions = _concatenate(evaluated.captions(100))
    tokens, lengths = captions["text_mask"].sum(axis=1), evaluated.caption_lengths
    np.testing.assert_array_equal(lengths, np.where(tokens <= 8, 8, 12))
    assert len(set(lengths.tolist())) == 2
    rows = np.flatnonzero(lengths == 8)[::-2]
    short = _concatenate(evaluated.captions(3, rows, 8))
    for name, column in captions.items():
        np.testing.assert_array_equal(
            short[name], column[rows][:, :8] if column.ndim == 2 else column[rows]
        )


def test_regions_are_padded_and_labels_are_columns(tiny_config):
    config = tiny_config | {"config": "regions", "image": {"max_regions": 4}}
    evaluated = data.eval_split(config, split="test")
    images, ids = _concatenate(evaluated.images(3)), evaluated.image_ids.tolist()
    assert images["image"].shape == (7, 4, 4)
    for image_id, regions, mask in zip(ids, images["image"], images["image_mask"], strict=True):
        expected = tiny.regions(image_id)[:4]
        np.testing.assert_array_equal(regions[mask], expected)
        assert mask.tolist() == [k < len(expected) for k in range(4)]
        assert not regions[~mask].any()
    assert evaluated.labels["relations"].tolist() == [tiny.relations(i) for i in ids]
    assert evaluated.label_names == {"relations": ["Visible", "Story"]}
    assert evaluated.categories.tolist() == [tiny.categories(i) for i in ids]
    owners = evaluated.caption_image_ids.tolist()
    assert evaluated.caption_categories.tolist() == [tiny.categories(i) for i in owners]
    # In the other split, the objects of some images are unknown.
    assert data.eval_split(config, split="validation").categories is None
    with pytest.raises(ValueError, match="names 'categories'.*0 to 3 values"):
        data.eval_split(config | {"labels": ("categories",)}, split="validation")


def test_sentence_pairs_are_records_of_two_captions(tiny_config):
    config = tiny_config | {"config": "pairs", "text": {"tokenizer": "words", "vocabulary": "-"}}
    tokenizer = make_tokenizer(TextConfig(tokenizer="words", max_length=5), ["red", "table"])
    pairs = data.eval_split(config, split="test", tokenizer=tokenizer)
    assert pairs.modalities == ("text",)
    order = np.argsort(pairs.image_ids)
    assert pairs.image_ids[order].tolist() == [50, 51, 52, 53]
    assert pairs.labels["score"][order].tolist() == [0, 1.5, 3, 4.5]
    assert pairs.labels["set"][order].tolist() == ["set02012", "set12012"] * 2
    assert pairs.labels["average"].tolist() == [2012] * 4
    for row, text in zip(pairs.caption_rows, pairs.caption_texts, strict=True):
        assert text in (f"a red ball {pairs.image_ids[row] - 50}", "the table")
    assert pairs.caption_ids.tolist() == [
        2 * i + modality for i in pairs.image_ids.tolist() for modality in (0, 1)
    ]
    ids = _concatenate(pairs.captions(3))["text_ids"][:, 0]
    assert ids.tolist() == [0, 1] * 4
    with pytest.raises(ValueError, match="has no images"):
        pairs.images(4)
    data.prepare(config, splits=["test"])
    for read in (data.num_train_examples, lambda config, split: data.batch_spec(config, 2)):
        with pytest.raises(
            ValueError, match="has no image_id.*evaluators of type 'embedding_similarity'"
        ):
            read(config | {"image": None}, "test")


def test_ratings_come_from_the_datasets_own_config(tiny_config):
    ratings = data.eval_split(tiny_config, split="test").ratings
    assert sorted(ratings) == ["sis", "sits", "sts"]
    order = np.argsort(ratings["sts"]["left_ids"])
    rows = {key: column[order].tolist() for key, column in ratings["sts"].items()}
    assert rows == {
        "left_ids": [2000, 2001],
        "right_ids": [200, 201],
        "scores": [0.0, 1.5],
        "methods": ["method0", "method1"],
    }
    dtypes = [ratings["sits"][key].dtype for key in ("left_ids", "right_ids", "scores")]
    assert dtypes == [np.int32, np.int32, np.float32]
    assert data.eval_split(tiny_config, split="validation").ratings == {}


def test_lists_of_positives_come_from_the_datasets_own_config(tiny_config):
    (found,) = data.eval_split(tiny_config, split="test").lists.values()
    pairs = {task: sorted(zip(*map(list, ids), strict=True)) for task, ids in found.items()}
    assert pairs == {
        "i2t": [(200, 2001), (200, 2010)],
        "t2i": [(2001, 200), (2010, 200), (2010, 201), (2010, 202)],
    }
    assert data.eval_split(tiny_config, split="validation").lists == {}


def test_a_split_that_lacks_records_says_so(tiny_config, monkeypatch, caplog):
    config = data.parse(tiny_config)
    builder = datasets.open_builder(config)
    builder.info.metadata["left_out"] = {"test": {"no image": 2, "truncated image": 1}}
    open_builder = datasets.open_builder

    def open_changed(config):
        return builder if config.config == "images" else open_builder(config)

    whole = data.eval_split(tiny_config, split="test")
    monkeypatch.setattr(datasets, "open_builder", open_changed)
    part = data.eval_split(tiny_config, split="test")
    assert part.partial == "7 of 10 images"
    assert not data.eval_split(tiny_config, split="validation").partial
    # Rated pairs of the tiny dataset refer to captions that it does not contain.
    assert sum(len(pairs["scores"]) for pairs in part.ratings.values()) < sum(
        len(pairs["scores"]) for pairs in whole.ratings.values()
    )
    data.prepare(tiny_config, splits=["train", "test"])
    assert "3 records of the split test were left out" in caplog.text
    assert "split train" not in caplog.text
