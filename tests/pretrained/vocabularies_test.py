"""Vocabularies as the authors of models pickled them."""

import pickle
import sys
import types

from xmodal.pretrained.vocabularies import read_words

WORDS = ["<pad>", "<start>", "<end>", "<unk>", "a", "dog", "café", "n't"]


class Vocabulary:
    """Of the authors' code."""


def test_vocabularies(tmp_path, monkeypatch):
    # Pickled by a module that does not exist here.
    monkeypatch.setitem(sys.modules, "vocab", types.ModuleType("vocab"))
    monkeypatch.setattr(Vocabulary, "__module__", "vocab")
    monkeypatch.setattr("vocab.Vocabulary", Vocabulary, raising=False)
    words = Vocabulary()
    words.idx = len(WORDS)
    # In a different order from the ids.
    words.word2idx = {word: number for number, word in reversed(list(enumerate(WORDS)))}
    words.idx2word = dict(enumerate(WORDS))
    (tmp_path / "coco_vocab.pkl").write_bytes(pickle.dumps(words))
    monkeypatch.undo()
    assert read_words(tmp_path / "coco_vocab.pkl") == WORDS
    (tmp_path / "dict.pkl").write_bytes(pickle.dumps({"word2idx": words.word2idx}))
    assert read_words(tmp_path / "dict.pkl") == WORDS
