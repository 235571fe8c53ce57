"""Test sentences among the training captions, against a loop."""

import re

from xmodal import data


def test_sentences_of_every_set_that_training_has_seen(few_shapes):
    shapes = {"dataset": "crisscrossed_shapes", "data_dir": few_shapes, "text": {}}
    train = data.eval_split(shapes | {"config": "images", "image": None}, split="train")
    # Rated captions of the training images, so that many are the same.
    rated = data.eval_split(shapes | {"config": "rated_captions"}, split="validation")
    rated.caption_texts[:2] = [train.caption_texts[0].upper() + " !", "no training caption"]

    def words(text):
        return tuple(re.sub(r"[^a-z0-9]", " ", text.lower()).split())

    known = {words(text) for text in train.caption_texts}
    expected = {}
    for name, text in zip(rated.labels["set"].repeat(2), rated.caption_texts, strict=True):
        expected.setdefault(name, set()).add(words(text))
    found = data.count_seen(shapes | {"image": None}, "train", rated)
    assert found == {name: (len(each & known), len(each)) for name, each in expected.items()}
    assert sum(each.seen for each in found.values()) > 0
