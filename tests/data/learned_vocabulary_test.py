"""Vocabularies of a config: read or learned once, and the resulting ids."""

import pytest
import tiny_captions_dataset_builder as tiny

from xmodal import data
from xmodal.core.errors import UserError
from xmodal.data import learned_vocabulary
from xmodal.data.text.words import split_nltk, split_words


def _texts(split):
    first, count = tiny.SPLITS[split]
    return [text for i in range(first, first + count) for text in tiny.captions(i).values()]


@pytest.mark.parametrize("min_count", [1, 60])
@pytest.mark.parametrize(("name", "split"), [("nltk", split_nltk), ("words", split_words)])
def test_words_of_the_training_captions_are_learned(tiny_config, name, split, min_count):
    text = {"tokenizer": name, "min_count": min_count, "unknown": "token", "max_length": 9}
    config = tiny_config | {"text": text}
    vocabulary = data.load_vocabulary(config)
    words = [word.lower() for each in _texts("train") for word in split(each)]
    kept = {word for word in words if words.count(word) >= min_count}
    assert set(vocabulary) == kept | {"<pad>", "<start>", "<end>", "<unk>"}
    assert data.vocabulary_size(config) == len(vocabulary)
    (captions,) = data.eval_split(config, split="test").captions(1000)
    test = data.eval_split(config, split="test")
    for caption, ids, mask in zip(
        test.caption_texts, captions["text_ids"], captions["text_mask"], strict=True
    ):
        expected = [word if word in kept else "<unk>" for word in split(caption.lower())]
        assert [vocabulary[k] for k in ids[mask == 1]] == expected[:9]


def test_a_part_of_the_split_gives_its_own_words_alone(tiny_config):
    """The rest may be the model's test data."""
    config = tiny_config | {"text": {"tokenizer": "words", "min_count": 1, "max_length": 9}}
    whole = data.load_vocabulary(config)
    part = data.load_vocabulary(config, "train[:2]")
    captions = data.read_captions(config, "train[:2]")
    words = {word.lower() for text in captions for word in split_words(text)}
    assert set(part) == words | {"<pad>", "<start>", "<end>", "<unk>"}
    assert len(part) < len(whole)
    assert data.load_vocabulary(config) == whole  # Each has its own file.
    assert data.vocabulary_size(config, "train[:2]") == len(part)


def test_words_are_learned_as_the_tokenizer_reads_them(tiny_config):
    """With a file for every way to read, as another run on the dataset may read otherwise."""
    text = {"tokenizer": "nltk", "min_count": 1, "max_length": 9}
    changes = [{}, {"separators": "ae"}, {"max_words": 2}, {"reading": "bytes"}]
    for change in [*changes, *changes]:
        config = tiny_config | {"text": text | change}
        tokenizer = data.load_tokenizer(config)
        ids, mask = tokenizer.encode(data.read_captions(config, "train"))
        assert set(tokenizer.vocabulary[4:]) <= {tokenizer.vocabulary[k] for k in ids[mask > 0]}


def _start(tiny_config, monkeypatch, captions, **text):
    """Counts captions as at the start of a run."""
    monkeypatch.setattr(learned_vocabulary, "read_captions", lambda *_: captions)
    return data.vocabulary_size(tiny_config | {"text": {"tokenizer": "nltk"} | text})


_ENDS = ("red", "ball", "rolls", "under", "table")
LONG = [f"{'the red ball ' * 4}{left} {right}" for left in _ENDS for right in (*_ENDS, "the")]


def test_lost_captions_are_counted_at_every_start(tiny_config, monkeypatch, caplog):
    """Whether the vocabulary is learned or cached."""
    text = {"max_length": 8}
    for _ in range(2):
        caplog.clear()
        _start(tiny_config, monkeypatch, [*LONG, "a table", "汉字.", " "], **text)
        (said,) = [each for each in caplog.records if "training captions" in each.message]
        assert said.levelname == "WARNING"
        assert "2 of 33 training captions have no known word" in said.message
        limit = "config.data.text.max_length=8"
        assert f"30 of 33 training captions are longer than {limit} and are cut." in said.message
    caplog.clear()
    caplog.set_level("INFO", logger="absl")
    _start(tiny_config, monkeypatch, ["a table"] * 19 + LONG[:1], **text)
    assert [each.levelname for each in caplog.records if "1 of 20" in each.message] == ["INFO"]


def test_captions_of_which_none_has_a_known_word_are_an_error(tiny_config, monkeypatch):
    chinese = ["红色的狗在草地上.", "白色的狗在海滩上."]
    with pytest.raises(UserError, match="2 of 2 training captions have no known.*with min_count=1"):
        _start(tiny_config, monkeypatch, chinese, min_count=2)
