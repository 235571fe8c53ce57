"""Word tokenizers against lookups spelled out one text at a time."""

import numpy as np
import pytest

from xmodal.core.errors import UserError
from xmodal.data.text.text_config import TextConfig, TokenAugmentConfig
from xmodal.data.text.tokenizers import make_tokenizer
from xmodal.data.text.words import learn_words, split_at_spaces, split_nltk, split_ptb, split_words

WORDS = ["dog", "the", "Dog", ".", "n't", "do", "café", "'s", "1,000", "the", "ball"]
TEXTS = [
    "The dog's ball.",
    "DOG Dog dog",
    "Don't! The dog does.",
    "",
    "zebra",
    "Café 1,000 ball BALL the",
]


def look_up(text, words, length, lower_case=True):
    """The rule for "words": as written, then in lower case; the first row of a word."""
    rows = []
    for token in split_words(text):
        if token in words:
            rows.append(words.index(token))
        elif lower_case and token.lower() in words:
            rows.append(words.index(token.lower()))
    return rows[:length]


@pytest.mark.parametrize("lower_case", [True, False])
def test_ids_of_published_words_equal_the_rule_spelled_out(lower_case):
    config = TextConfig(tokenizer="words", max_length=4, lower_case=lower_case)
    ids, mask = make_tokenizer(config, WORDS).encode(TEXTS)
    assert ids.shape == mask.shape == (6, 4)
    assert ids.dtype == mask.dtype == np.int32
    for text, row, known in zip(TEXTS, ids, mask, strict=True):
        expected = look_up(text, WORDS, 4, lower_case)
        assert row.tolist() == expected + [0] * (4 - len(expected)), text
        assert known.tolist() == [1] * len(expected) + [0] * (4 - len(expected)), text
    # The second lookup matters: "The" and "DOG" are known only in lower case.
    assert ids[0, 0] == (1 if lower_case else 0)
    assert mask[1].tolist() == ([1, 1, 1, 0] if lower_case else [1, 1, 0, 0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A dog, running.  (Fast)", ["A", "dog", ",", "running", ".", "(", "Fast", ")", ""]),
        (r"one \t two", ["one", "", "", "two"]),
        (r"a\nb  c", ["a", "b", "c"]),
        (r"x\xa0 y-z", ["x", "y-z"]),
        ('"Hi" 50% & me*', ["", '"', "Hi", '"', "50", "%", "&", "me", "*", ""]),
    ],
)
def test_cmcm_cuts_at_single_spaces(text, words):
    assert split_at_spaces(text) == words
    config = TextConfig(tokenizer="spaces", lower_case=False, unknown="token", max_length=12)
    vocabulary = learn_words([text], split_at_spaces, 1)
    ids, mask = make_tokenizer(config, vocabulary).encode([text, "never seen"])
    assert [vocabulary[row] for row in ids[0][: mask[0].sum()]] == words
    assert [vocabulary[row] for row in ids[1][: mask[1].sum()]] == ["<unk>", "<unk>"]


@pytest.mark.parametrize("special_tokens", ["none", "sentence"])
@pytest.mark.parametrize("unknown", ["drop", "token"])
@pytest.mark.parametrize(("name", "split"), [("ptb", split_ptb), ("nltk", split_nltk)])
def test_words_with_special_tokens_and_unknown_words(name, split, unknown, special_tokens):
    vocabulary = learn_words(["the dog 's ball . does", "the dog"], str.split, 1)
    config = TextConfig(
        tokenizer=name, unknown=unknown, special_tokens=special_tokens, max_length=6
    )
    ids, mask = make_tokenizer(config, vocabulary).encode(TEXTS)
    for text, row, real in zip(TEXTS, ids, mask, strict=True):
        words = split(text.lower())
        words = [word if word in vocabulary else "<unk>" for word in words]
        if unknown == "drop":
            words = [word for word in words if word != "<unk>"]
        if special_tokens == "sentence":
            words = ["<start>", *words[:4], "<end>"]
        words = words[:6]
        assert [vocabulary[k] for k in row[real == 1]] == words, text
        assert row[real == 0].tolist() == [0] * (6 - len(words)), text


def _augmented(config, texts, seeds):
    vocabulary = learn_words(texts, str.split, 1)
    ids, mask = make_tokenizer(config, vocabulary).encode(texts, seeds)
    rows = [[vocabulary[k] for k in row[real == 1]] for row, real in zip(ids, mask, strict=True)]
    return rows, vocabulary


def test_augmentation_replaces_and_deletes_the_stated_shares():
    texts = [" ".join(f"w{k}" for k in range(20))] * 400
    augment = TokenAugmentConfig(unknown=0.1, delete=0.1)
    config = TextConfig(tokenizer="ptb", augment=augment, special_tokens="sentence", max_length=30)
    seeds = np.stack([np.full(400, 7), np.arange(400)], axis=1)
    rows, _ = _augmented(config, texts, seeds)
    assert {len(row) for row in rows} == {20}  # 2 special tokens and 20 - 2 words
    assert {(row[0], row[-1]) for row in rows} == {("<start>", "<end>")}
    words = np.array([row[1:-1] for row in rows])
    share = (words == "<unk>").mean()
    assert abs(share - 0.1) < 0.015  # 4 standard deviations
    kept = np.array([[f"w{k}" in row for k in range(20)] for row in rows]).mean(axis=0)
    assert np.abs(kept - 0.9 * 0.9).max() < 0.09
    for row in words:  # in order
        numbers = [int(word[1:]) for word in row if word != "<unk>"]
        assert numbers == sorted(numbers)


PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij", "##x", "##y", "."]


def test_words_of_pieces_are_masked_replaced_or_deleted_whole():
    """VSE-infinity: of a fifth of the words, half are masked, a tenth replaced, others deleted."""
    config = TextConfig(max_length=40, augment=TokenAugmentConfig(change=0.2))
    text = "axyx b cx. d e f g hyy i jx."
    count, sizes = 3000, [4, 1, 2, 1, 1, 1, 1, 1, 3, 1, 2, 1]
    seeds = np.stack([np.full(count, 5), np.arange(count)], axis=1)
    tokenizer = make_tokenizer(config, PIECES)
    assert tokenizer.encode([text])[1].sum() == 2 + sum(sizes)
    ids, mask = tokenizer.encode([text] * count, seeds)
    rows = [row[real == 1].tolist() for row, real in zip(ids, mask, strict=True)]
    assert {(row[0], row[-1]) for row in rows} == {(2, 3)}
    # Deleted: 0.2 x 0.4 of the words, with all their pieces.
    lengths = np.array([len(row) - 2 for row in rows])
    np.testing.assert_allclose(lengths.mean(), sum(sizes) * (1 - 0.08), rtol=0.01)
    # Masked: 0.2 x 0.5, plus 0.2 x 0.1 x 1/18 drawn from the vocabulary by chance.
    masks = np.mean([row.count(4) for row in rows])
    np.testing.assert_allclose(masks, sum(sizes) * (0.1 + 0.02 / 18), rtol=0.06)
    # A word of three pieces is masked or deleted as a whole.
    alone = make_tokenizer(
        TextConfig(max_length=9, augment=TokenAugmentConfig(change=1.0, mask=0.5, replace=0.0)),
        PIECES,
    )
    seen = {
        tuple(row[m == 1]) for row, m in zip(*alone.encode(["hyy"] * 50, seeds[:50]), strict=True)
    }
    assert seen == {(2, 4, 4, 4, 3), (2, 3)}


def test_special_tokens_are_changed_where_that_is_asked_for():
    vocabulary = [*learn_words(["a b c"], str.split, 1), "<mask>"]
    seeds = np.stack([np.full(200, 5), np.arange(200)], axis=1)
    for change_special_tokens in (True, False):
        augment = TokenAugmentConfig(
            change=0.5, mask=1.0, replace=0.0, change_special_tokens=change_special_tokens
        )
        config = TextConfig(
            tokenizer="nltk", special_tokens="sentence", max_length=6, augment=augment
        )
        ids, _ = make_tokenizer(config, vocabulary).encode(["a b c"] * 200, seeds)
        ends = {vocabulary[k] for k in ids[:, [0, 4]].ravel()}
        assert ends == {"<start>", "<end>"} | ({"<mask>"} if change_special_tokens else set())
        np.testing.assert_allclose((ids[:, 1:4] == len(vocabulary) - 1).mean(), 0.5, atol=0.08)
        again, _ = make_tokenizer(config, vocabulary).encode(["a b c"] * 2, seeds[7:9])
        np.testing.assert_array_equal(again, ids[7:9])
    with pytest.raises(UserError, match="needs the token <mask>"):
        make_tokenizer(config, vocabulary[:-1])
