"""Notes of a report on what a run's tokenizer loses of the evaluated captions."""

import re
import types

import pytest

from xmodal import data
from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.tokenizers import make_tokenizer
from xmodal.train.evaluation import sentence_notes

WORDS = ["<pad>", "<start>", "<end>", "<unk>", "a", "photo", "of", "dog", "that", "runs"]


@pytest.mark.parametrize(
    ("prompt", "notes"),
    [
        (
            "",
            ["1 of 3 captions are longer than .*length=4 and are cut. 1 of 3 .* no known word"],
        ),
        (
            "a photo of {}",
            ["Captions are read as 'a photo of {}'", "2 of 3 captions are longer"],
        ),
    ],
)
def test_lost_captions_are_in_the_report(monkeypatch, prompt, notes):
    text = TextConfig("nltk", max_length=4, prompt=prompt)
    monkeypatch.setattr(data, "load_tokenizer", lambda *_: make_tokenizer(text, WORDS))
    settings = types.SimpleNamespace(text=text)
    captions = ["a dog that runs a dog", "dog of a", "狗"]
    split = types.SimpleNamespace(sides=("text",), caption_texts=captions)
    found = sentence_notes.describe_captions(settings, "train", split)
    assert len(found) == len(notes)
    for note, expected in zip(found, notes, strict=True):
        assert re.search(expected, note)
    split.sides = ("image",)
    assert sentence_notes.describe_captions(settings, "train", split) == []
