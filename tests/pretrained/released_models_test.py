"""Checkpoints with the released names give the same embeddings as torch."""

import argparse
import pickle
import sys
import types

from published_polysemous import make_pvse
from torch_resnet import make_resnet

from xmodal.apps import convert as command
from xmodal.pretrained.folder import read_model
from xmodal.pretrained.vocabularies import read_words

SMALL = (2, 2)
CHANNELS = 512
WORDS = ["<pad>", "<start>", "<end>", "<unk>", "a", "dog", "café", "n't"]


def test_the_command_makes_a_folder(torch, tmp_path, monkeypatch, capsys):
    cnn, forward = make_resnet(torch, SMALL)
    model, _ = make_pvse(torch, cnn, forward, channels=CHANNELS, rows=len(WORDS), embeddings=2)
    weights = {n: array for n, array in model.state_dict().items() if ".cnn.fc." not in n}
    # As saved by train.py of that code with several GPUs.
    weights = {f"module.{name}": array for name, array in weights.items()}
    checkpoint = {"args": argparse.Namespace(num_embeds=2), "epoch": 3, "model": weights}
    torch.save(checkpoint, tmp_path / "model_best.pth.tar")
    words = {"word2idx": {word: number for number, word in enumerate(WORDS)}}
    (tmp_path / "coco_vocab.pkl").write_bytes(pickle.dumps(words))
    flags = ["--model=pvse", f"--source={tmp_path}/model_best.pth.tar"]
    flags += [f"--vocabulary={tmp_path}/coco_vocab.pkl", f"--output={tmp_path}/made"]
    monkeypatch.setattr(sys, "argv", ["convert_weights", *flags])
    command.main()
    assert "; 0 missing; " in capsys.readouterr().out
    made = read_model(tmp_path / "made")
    assert made.similarity == {"name": "max_cosine"}
    assert made.parameters == {}
    assert made.towers["text"].head["source"] == "last"
    assert made.towers["image"].head["embeddings"] == 2
    assert read_words(tmp_path / "made/text/vocab.txt") == WORDS


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
