"""CLIP's byte pairs, with a slow reference that merges the whole text's words symbol by symbol."""

import random
import re

import pytest

from xmodal.data.text.pieces import byte_pairs
from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.tokenizer_files import END, START, read_vocabulary
from xmodal.data.text.tokenizers import make_tokenizer

MERGES = "#version: 0.2\nr e\nre d</w>\nc i\nci r\nc l\ncl e</w>\ncir cle</w>\n"


@pytest.fixture
def merges(tmp_path):
    path = tmp_path / "merges.txt"
    path.write_text(MERGES)
    return path


def slow_ids(word, tokens, rules):
    """Applies the rules one after the other, as long as the first of all applies anywhere."""
    symbols = dict(zip(GPT2_BYTES, tokens[:256], strict=True))
    parts = [symbols[byte] for byte in word.encode()]
    parts[-1] += "</w>"
    while True:
        for left, right in rules:
            text = " ".join(parts)
            pattern = rf"(?<!\S){re.escape(left)} {re.escape(right)}(?!\S)"
            joined = re.sub(pattern, lambda found: found[0].replace(" ", ""), text)
            if joined != text:
                parts = joined.split(" ")
                break
        else:
            return [tokens.index(part) for part in parts]


# GPT-2 lists printable bytes first.
PRINTABLE = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), 256)]
GPT2_BYTES = PRINTABLE + sorted(set(range(256)) - set(PRINTABLE))


def test_ids_are_those_of_the_slow_rules(merges):
    file = read_vocabulary(merges)
    assert len(file) == 512 + 7 + 2
    assert list(file[:3]) == ["!", '"', "#"]
    rules = [tuple(line.split(" ")) for line in MERGES.splitlines()[1:]]
    tokenizer = make_tokenizer(TextConfig("bpe", str(merges), max_length=40), file)
    drawn = random.Random(0)
    words = ["".join(drawn.choices("redcilé", k=drawn.randint(1, 9))) for _ in range(50)]
    words += ["red", "circle", "circlecircle", "reed"]
    ids, mask = tokenizer.encode(words)
    for word, row, real in zip(words, ids, mask, strict=True):
        expected = slow_ids(word, list(file), rules)
        assert row[real > 0].tolist() == [len(file) - 2, *expected, len(file) - 1]
    assert file[-2:] == (START, END)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("it's 12 o'clock!?", ["it", "'s", "1", "2", "o", "'", "clock", "!?"]),
        ("t\u00a0s", ["t", "s"]),
        ("don't we'll 'tis", ["don", "'t", "we", "'ll", "'t", "is"]),
        ("<|endoftext|>x <|end", [END, "x", "<|", "end"]),
        ("  ", []),
    ],
)
def test_words_of_a_text(merges, text, words):
    file = read_vocabulary(merges)
    groups = byte_pairs(file, TextConfig("bpe")).by_word(text)
    spelled = ["".join(file[token] for token in group) for group in groups]
    assert [word.removesuffix("</w>") for word in spelled] == words
