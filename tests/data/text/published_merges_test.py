"""CLIP's ids, with its published merges, against the tokenizers of open_clip and openai/CLIP."""

import importlib.metadata
import importlib.util

import numpy as np
import pytest

from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.tokenizer_files import read_vocabulary
from xmodal.data.text.tokenizers import make_tokenizer

LENGTH = 77
AWKWARD = [
    "",
    "!!! !",
    "it's they're I'VE we'll o'clock 'tis rock'n'roll",
    "12345 3.14 ½ ² Ⅷ ١٢",
    "&lt;b&gt;bold&lt;/b&gt; &amp;amp;amp;amp; &eacute;&#233; &nbsp;x &notanentity;",
    "caf\u00c3\u00a9 \u00e2\u20ac\u2122 na\u00efve",  # UTF-8 read as Latin-1, and intact.
    "\u201cquotes\u201d \ufb01ligature \uff26\uff35\uff2c\uff2c Straße İstanbul ǅungla ΣΑΣ",
    "a'\u017f b's 'T",  # The long s is an s regardless of case.
    "日本語 한국어 العربية हिन्दी \U0001f469\u200d\U0001f469\u200d\U0001f467",
    "\U0001f1e9\U0001f1ea e\u0301",
    "a\u00a0b\u2003c\u200bd\u3000e\ufefff bell\x07 esc\x1b[31mred null\x00 \x1fe",
    "snow_board re-use @user #tag $5.00 50% a/b\\c",
    "one two three " * 40,
]


def published(package, module):
    """A module of a package, which itself imports more than it takes to make ids."""
    path = next(
        (file for file in importlib.metadata.files(package) if str(file) == module), None
    ).locate()  # fmt: skip
    spec = importlib.util.spec_from_file_location(package.replace("-", "_"), path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="module")
def open_clip():
    pytest.importorskip("torch")
    if not importlib.util.find_spec("open_clip"):
        pytest.skip("open-clip-torch has the reference")
    return published("open-clip-torch", "open_clip/tokenizer.py")


@pytest.fixture(scope="module")
def tokenizer(open_clip):
    name = "pip:open-clip-torch"
    return make_tokenizer(TextConfig("bpe", name, max_length=LENGTH), read_vocabulary(name))


def test_ids_of_awkward_texts_are_those_of_open_clip(open_clip, tokenizer):
    assert len(tokenizer.vocabulary) == 49_408
    ids, mask = tokenizer.encode(AWKWARD)
    for text, row, theirs in zip(AWKWARD, ids, open_clip.tokenize(AWKWARD).numpy(), strict=True):
        np.testing.assert_array_equal(row, theirs, repr(text))
    lengths = mask.sum(1)
    assert (lengths == np.argmax(ids == 49_407, axis=1) + 1).all()
    assert lengths[0] == 2
    assert lengths[-1] == LENGTH
    ids, mask = tokenizer.encode(["<|endoftext|>"])  # open_clip spells it differently.
    assert ids[mask > 0].tolist() == [49_406, 49_407, 49_407]
