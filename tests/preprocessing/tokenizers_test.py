"""Words looked up in the vocabulary of a table of vectors, one caption at a time."""

import csv
import gzip
import pathlib

import pytest
import tensorflow as tf

from xmodal import data
from xmodal.config import UserError
from xmodal.data.config import TextConfig
from xmodal.data.tokenizers import WordTokenizer
from xmodal.words import tokenise

WORDS = ["dog", "the", "Dog", ".", "n't", "do", "café", "'s", "1,000", "the", "ball"]
CAPTIONS = pathlib.Path(__file__).parents[3] / "shared/data/flickr8k/captions.csv.gz"


def look_up(text, words, length, lower_case=True):
    """The rule, spelled out: as written, then in lower case, the first row of a word."""
    rows = []
    for token in tokenise(text):
        if token in words:
            rows.append(words.index(token))
        elif lower_case and token.lower() in words:
            rows.append(words.index(token.lower()))
    return rows[:length]


@pytest.mark.parametrize("lower_case", [True, False])
def test_ids_and_mask_equal_the_rule_spelled_out(lower_case):
    texts = ["The dog's ball.", "DOG Dog dog", "Don't!", "", "zebra", "Café 1,000 ball BALL the"]
    config = TextConfig(tokenizer="words", max_length=4, lower_case=lower_case)
    ids, mask = WordTokenizer(WORDS, config)(tf.constant(texts))
    assert ids.shape == mask.shape == (6, 4)
    assert ids.dtype == mask.dtype == tf.int32
    for text, row, known in zip(texts, ids.numpy(), mask.numpy(), strict=True):
        expected = look_up(text, WORDS, 4, lower_case)
        assert row.tolist() == expected + [0] * (4 - len(expected)), text
        assert known.tolist() == [1] * len(expected) + [0] * (4 - len(expected)), text
    # The fall-back matters: "The" and "DOG" are known in lower case only.
    assert ids[0, 0] == (1 if lower_case else 0)
    assert mask[1].numpy().tolist() == ([1, 1, 1, 0] if lower_case else [1, 1, 0, 0])


def test_any_shape_is_kept_also_in_a_graph():
    tokenizer = WordTokenizer(WORDS, TextConfig(tokenizer="words", max_length=3))
    texts = tf.constant([["the dog", "ball"], ["", "do"]])
    dataset = tf.data.Dataset.from_tensors(texts).map(tokenizer)
    assert [spec.shape.as_list() for spec in dataset.element_spec] == [[2, 2, 3]] * 2
    ((ids, mask),) = dataset.as_numpy_iterator()
    assert ids.tolist() == [[[1, 0, 0], [10, 0, 0]], [[0, 0, 0], [5, 0, 0]]]
    assert mask.tolist() == [[[1, 1, 0], [1, 0, 0]], [[0, 0, 0], [1, 0, 0]]]
    ids, mask = tokenizer(tf.zeros([0], tf.string))
    assert ids.shape == (0, 3)


def test_invalid_bytes_are_skipped():
    tokenizer = WordTokenizer(WORDS, TextConfig(tokenizer="words", max_length=3))
    ids, mask = tokenizer(tf.constant([b"the\xff dog\xc3"]))
    assert ids.numpy().tolist() == [[1, 0, 0]]
    assert mask.numpy().tolist() == [[1, 1, 0]]


def test_a_split_reads_words_from_the_vocabulary_of_the_config(tiny_config, tmp_path):
    texts = data.eval_set(tiny_config, split="test").caption_texts
    known = sorted({word.lower() for text in texts for word in tokenise(text.decode())})[::2]
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in known))
    text = {"tokenizer": "words", "vocabulary": str(tmp_path / "vocab.txt"), "max_length": 9}
    config = tiny_config | {"text": text}
    assert data.vocabulary_size(config) == len(known)
    (captions,) = data.eval_set(config, split="test").captions(1000)
    for caption, ids, mask in zip(texts, captions["text_ids"], captions["text_mask"], strict=True):
        assert ids[mask == 1].tolist() == look_up(caption.decode(), known, 9)
    assert 0 < captions["text_mask"].mean() < 1
    (batch,) = data.train_batches(
        config, split="train", seed=0, batch_size=8, first_step=0, total_steps=1
    )
    assert batch["text_ids"].shape == batch["text_mask"].shape == (8, 2, 9)


def test_words_need_a_vocabulary(tiny_config):
    config = tiny_config | {"text": {"tokenizer": "words"}}
    with pytest.raises(UserError, match=r"'words' needs config\.data\.text\.vocabulary"):
        data.eval_set(config, split="test").captions(8)
    # Images alone need none.
    assert len(list(data.eval_set(config, split="test").images(100))) == 1
    with pytest.raises(UserError, match="max_length is 0; at least 1"):
        WordTokenizer(WORDS, TextConfig(tokenizer="words", max_length=0))


@pytest.mark.skipif(not CAPTIONS.exists(), reason=f"no {CAPTIONS}")
def test_real_captions():
    with gzip.open(CAPTIONS, "rt", encoding="utf-8", newline="") as file:
        texts = [row["caption"] for row in csv.DictReader(file)][:3000:10]
    words = sorted({word for text in texts[::2] for word in tokenise(text)})
    config = TextConfig(tokenizer="words", max_length=40)
    ids, mask = WordTokenizer(words, config)(tf.constant(texts))
    found = [row[known == 1].tolist() for row, known in zip(ids.numpy(), mask.numpy(), strict=True)]
    assert found == [look_up(text, words, 40) for text in texts]
    covered = sum(map(len, found[1::2])) / sum(len(tokenise(text)) for text in texts[1::2])
    assert covered > 0.8
