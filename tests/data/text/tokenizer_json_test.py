"""tokenizer.json files against the library itself."""

import numpy as np
import pytest

from tests.data.text.tiny_pieces import AWKWARD, CAPTIONS, tokenizer_json
from xmodal.core.errors import UserError
from xmodal.data.text.text_config import TextConfig, TokenAugmentConfig
from xmodal.data.text.tokenizer_files import read_vocabulary
from xmodal.data.text.tokenizers import make_tokenizer

T = 12


def write(path, **options):
    path.write_bytes(tokenizer_json(**options))
    return path


def make(path, **options):
    return make_tokenizer(TextConfig("tokenizer_json", **options), read_vocabulary(path))


def own(path):
    import tokenizers

    return tokenizers.Tokenizer.from_file(str(path))


@pytest.mark.parametrize("model", ["bpe", "unigram"])
@pytest.mark.parametrize("template", ["", "$A [SEP]", "[CLS] [CLS] $A [SEP]"])
def test_ids_cut_and_padded_are_the_librarys(model, template, tmp_path):
    path = write(tmp_path / "tokenizer.json", model=model, template=template)
    library = own(path)
    library.enable_truncation(T)
    library.enable_padding(pad_id=0, pad_token="[PAD]", length=T)
    texts = CAPTIONS[:4] + AWKWARD
    expected = library.encode_batch(texts)
    ids, mask = make(path, max_length=T, lower_case=False).encode(texts)
    np.testing.assert_array_equal(ids, [each.ids for each in expected])
    np.testing.assert_array_equal(mask, [each.attention_mask for each in expected])
    assert set(mask.sum(axis=1) == T) == {True, False}


def test_case_pads_unknown_and_mask(tmp_path):
    path = write(tmp_path / "tokenizer.json", pad_token="[MASK]", pad_id=4)
    ids, mask = make(path, max_length=T).encode(["a"])
    assert set(ids[mask == 0]) == {4}
    ids, mask = make(path, max_length=T, pad="[SEP]", attend_to_padding=True).encode(["a"])
    assert ids[0, 2:].tolist() == [3] * (T - 2)
    assert mask.all()
    seeds = np.array([[1, 2]])
    for model in ("bpe", "unigram"):
        path = write(tmp_path / f"{model}.json", model=model)
        changed = TokenAugmentConfig(change=1.0, mask=1.0, replace=0.0)
        count = len(own(path).encode("a star", add_special_tokens=False).ids)
        for augment, token in ((TokenAugmentConfig(unknown=1.0), 1), (changed, 4)):
            ids, mask = make(path, max_length=40, augment=augment).encode(["a star"], seeds)
            assert ids[mask > 0].tolist() == [2, *[token] * count, 3]


def test_files_of_another_kind(tmp_path):
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"a": 1}')
    with pytest.raises(UserError, match=r"wrong.json is not a tokenizer.json: .*merges.txt, "):
        read_vocabulary(wrong)


WORD_PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "red", "star", "##s", "cafe", "."]


@pytest.mark.parametrize("attend", [False, True])
@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "bpe_json", "unigram_json"])
def test_a_tokenizer_as_json_has_the_same_ids(kind, attend, tmp_path):
    pad = "the</w>" if kind == "bpe" else ""
    options = {"max_length": T, "separators": "-.", "attend_to_padding": attend, "pad": pad}
    if kind == "wordpiece":
        tokenizer = make_tokenizer(TextConfig(**options), WORD_PIECES)
    elif kind == "bpe":
        pytest.importorskip("ftfy")
        (tmp_path / "merges.txt").write_text("#version: 0.2\nt h\nth e</w>\na t</w>\n")
        vocabulary = read_vocabulary(tmp_path / "merges.txt")
        tokenizer = make_tokenizer(TextConfig("bpe", **options), vocabulary)
    else:
        path = write(tmp_path / "x.json", model=kind[:-5], pad_token="[MASK]", pad_id=4)
        tokenizer = make(path, canonicalize=True, **options)
    (tmp_path / "tokenizer.json").write_text(tokenizer.as_json())
    texts = [*CAPTIONS[:4], *AWKWARD, "A Café-au_lait. (red) stars?", "the cat " * 20]
    found = own(tmp_path / "tokenizer.json").encode_batch(texts)
    ids, mask = tokenizer.encode(texts)
    np.testing.assert_array_equal(ids, [each.ids for each in found])
    if not attend:
        np.testing.assert_array_equal(mask, [each.attention_mask for each in found])
    assert set(mask.sum(axis=1) == T) == {True, False} - ({False} if attend else set())


def test_words_of_nltk_and_first_words_have_no_json():
    words = ["<pad>", "<start>", "<end>", "<unk>", "a"]
    assert make_tokenizer(TextConfig("ptb"), words).as_json() is None
    assert make_tokenizer(TextConfig(max_words=3), WORD_PIECES).as_json() is None
