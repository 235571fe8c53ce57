"""SentencePiece models against the library itself."""

import pytest

from tests.data.text.tiny_pieces import AWKWARD, CAPTIONS, sentencepiece_model
from xmodal.core.errors import UserError
from xmodal.data.text.text_config import TextConfig
from xmodal.data.text.tokenizer_files import read_vocabulary
from xmodal.data.text.tokenizers import make_tokenizer

T = 12


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer") / "spiece.model"
    path.write_bytes(sentencepiece_model())
    return path


def make(model, **options):
    return make_tokenizer(TextConfig("sentencepiece", **options), read_vocabulary(model))


def own_ids(model, text):
    import sentencepiece

    return sentencepiece.SentencePieceProcessor(model_file=str(model)).encode(text)


@pytest.mark.parametrize("lower_case", [True, False])
@pytest.mark.parametrize(("start", "end"), [("", ""), ("<s>", "</s>")])
def test_ids_are_the_librarys(model, start, end, lower_case):
    texts = CAPTIONS[:4] + AWKWARD
    tokenizer = make(model, start=start, end=end, lower_case=lower_case, max_length=T)
    ids, mask = tokenizer.encode(texts)
    for text, row, real in zip(texts, ids, mask, strict=True):
        bare = own_ids(model, text.lower() if lower_case else text)
        # An end stays when a text is cut.
        first, last = [3] * bool(start), [1] * bool(end)
        expected = first + bare[: T - len(first) - len(last)] + last
        assert row.tolist() == expected + [0] * (T - len(expected))
        assert real.tolist() == [1] * len(expected) + [0] * (T - len(expected))
    assert {len(own_ids(model, text)) > T for text in texts} == {True, False}


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("A man's snow_board - RED!  (2)", "a mans snow board red 2"),
        ("...", ""),
        ("«été», d'été.\n", "«été» dété"),
    ],
)
def test_punctuation_is_removed_if_asked(model, text, canonical):
    """The rules of big_vision; by default, SigLIP reads punctuation."""
    ids, mask = make(model, canonicalize=True, max_length=40).encode([text])
    assert ids[mask > 0].tolist() == own_ids(model, canonical)
    ids, mask = make(model, max_length=40).encode([text])
    assert ids[mask > 0].tolist() == own_ids(model, text.lower())
    with pytest.raises(UserError, match=r"canonicalize=True is a setting of .* not of 'bpe'"):
        TextConfig("bpe", canonicalize=True)
