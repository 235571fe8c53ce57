"""Notes of a report on what a run's tokenizer loses of the evaluated captions."""

import types

from xmodal import data
from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.tokenizers import make_tokenizer
from xmodal.train.evaluation.run_subjects import describe_captions

WORDS = ["<pad>", "<start>", "<end>", "<unk>", "a", "photo", "of", "dog", "that", "runs"]


def test_lost_captions_are_in_the_report(monkeypatch):
    text = TextConfig("nltk", max_length=4, prompt="a photo of {}")
    monkeypatch.setattr(data, "load_tokenizer", lambda *_: make_tokenizer(text, WORDS))
    settings = types.SimpleNamespace(text=text)
    captions = ["a dog that runs a dog", "dog of a", "狗"]
    split = types.SimpleNamespace(modalities=("text",), caption_texts=captions)
    found = describe_captions(settings, "train", split)
    assert found[0] == "Captions are read as 'a photo of {}'."
    assert found[1].startswith("2 of 3 captions are longer")
    split.modalities = ("image",)
    assert describe_captions(settings, "train", split) == []
