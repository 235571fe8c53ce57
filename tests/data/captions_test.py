"""All captions of a split as word pieces, and what tells one set of them from another."""

import numpy as np
import pytest
import tiny_captions_dataset_builder as tiny

from xmodal import data
from xmodal.data import sources


def test_every_caption_once_without_padding(tiny_config):
    config = tiny_config | {"captions_per_image": 1, "examples": "pairs", "image": None}
    captions = data.split_captions(config, split="train")
    expected = sorted(key for image_id in range(37) for key in tiny.captions(image_id))
    assert captions.ids.tolist() == expected
    assert captions.ids.dtype == np.int32
    pieces, lengths = captions.tokens()
    starts = np.cumsum(lengths) - lengths
    examples = data.num_train_examples(config, "train")
    (batch,) = data.train_batches(
        config, split="train", seed=0, batch_size=examples, first_step=0, total_steps=1
    )
    assert len(captions.ids) == examples
    for row in range(examples):
        place = expected.index(batch["caption_id"][row, 0])
        found = pieces[starts[place] : starts[place] + lengths[place]]
        real = batch["text_mask"][row, 0] > 0
        np.testing.assert_array_equal(found, batch["text_ids"][row, 0][real])


def test_digests_tell_what_differs(tiny_config, tmp_path):
    def digests(split="train", **text):
        config = tiny_config | {"text": tiny_config["text"] | text}
        captions = data.split_captions(config, split=split)
        return captions.digest, captions.tokeniser_digest

    first = digests()
    assert digests() == first
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "ball"]))
    for text in ({"max_length": 10}, {"lower_case": False}, {"vocabulary": str(vocabulary)}):
        other = digests(**text)
        assert other[0] == first[0]
        assert other[1] != first[1]
    other = digests("train[:36]")
    assert other[0] != first[0]
    assert other[1] == first[1]


def test_other_texts_under_the_same_ids_have_another_digest(tiny_config, monkeypatch):
    first = data.split_captions(tiny_config, split="test")
    walk = sources.Source.walk

    def changed(self):
        for block in walk(self):
            texts = block["captions"]
            flat = texts.flat_values.numpy()
            flat[3] += b"."
            yield block | {"captions": texts.with_flat_values(flat)}

    monkeypatch.setattr(sources.Source, "walk", changed)
    other = data.split_captions(tiny_config, split="test")
    np.testing.assert_array_equal(other.ids, first.ids)
    assert other.digest != first.digest
    assert other.tokeniser_digest == first.tokeniser_digest


def test_two_captions_of_one_id_are_refused(tiny_config, monkeypatch):
    walk = sources.Source.walk

    def changed(self):
        for block in walk(self):
            ids = block["caption_ids"]
            flat = ids.flat_values.numpy()
            flat[-1] = flat[0]
            yield block | {"caption_ids": ids.with_flat_values(flat)}

    monkeypatch.setattr(sources.Source, "walk", changed)
    with pytest.raises(ValueError, match="caption id .* more than once in its split 'test'"):
        data.split_captions(tiny_config, split="test")
