"""Checkpoints with the released names give the same embeddings as torch."""

import argparse
import collections
import pickle
import sys
import types

import numpy as np
import parity
import pytest
from published_polysemous import make_pcme, make_pvse, torch_pixels
from torch_resnet import make_resnet

from xmodal.apps import convert
from xmodal.core.errors import UserError
from xmodal.pretrained.model_converters import convert_model
from xmodal.pretrained.model_folder import read_model, save_model
from xmodal.pretrained.vocabularies import read_words
from xmodal.pretrained.weight_files import load_source

SMALL = (2, 2)
CHANNELS = 512
WORDS = ["<pad>", "<start>", "<end>", "<unk>", "a", "dog", "café", "n't"]
LENGTHS = (7, 1, 4, 2, 3)
RNG = np.random.default_rng(0)
IDS = RNG.integers(0, len(WORDS), (len(LENGTHS), 7))
MASK = np.arange(7) < np.array(LENGTHS)[:, None]
IMAGES = parity.images(len(LENGTHS), 75)


def pcme(torch):
    cnn, forward = make_resnet(torch, SMALL)
    return make_pcme(torch, cnn, forward, channels=CHANNELS, rows=len(WORDS))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["zip", "legacy", "parallel"])
def test_pcme_equals_torch(torch, tmp_path, form):
    model, functions, criterion = pcme(torch)
    prefix = "module." if form == "parallel" else ""
    # The CNN's classifier is an empty Sequential in the authors' code.
    weights = {
        prefix + name: tensor
        for name, tensor in model.state_dict().items()
        if not name.startswith("img_enc.cnn.fc.")
    }
    checkpoint = {
        "model": weights,
        "criterion": criterion.state_dict(),
        "optimizer": {"state": {0: {"exp_avg": torch.ones(2)}}, "param_groups": [{"lr": 0.1}]},
        "config": {"model": {"embed_dim": 8}},
        "word2idx": {word: number for number, word in enumerate(WORDS)},
        "metadata": argparse.Namespace(epoch=3),
    }
    source = tmp_path / "pcme_coco.pth"
    torch.save(checkpoint, source, _use_new_zipfile_serialization=form != "legacy")
    save_model(tmp_path / "made", *convert_model("pcme", source))

    _, description, found = parity.embed_converted(tmp_path / "made", IMAGES, IDS, MASK)
    assert description.parameters == pytest.approx({"match_scale": 0.7, "match_shift": 1.3})
    assert description.similarity == {"name": "match_probability"}
    assert read_words(tmp_path / "made/text/vocab.txt") == WORDS
    with torch.no_grad():
        expected = {
            "image": functions.images(torch_pixels(torch, IMAGES)),
            "text": functions.texts(torch.tensor(IDS), torch.tensor(LENGTHS)),
        }
    for side, (mean, log_sigma) in expected.items():
        mean = torch.nn.functional.normalize(mean, dim=-1)
        assert parity.relative(found[side].extras["mean"], mean) < 1e-4
        assert parity.relative(found[side].log_sigma, log_sigma) < 1e-4
        assert found[side].vector.shape == (len(LENGTHS), 7, 8)


@pytest.mark.slow
def test_every_array_counts(torch, tmp_path):
    model, _, _ = pcme(torch)
    weights = model.state_dict()
    torch.save(weights, tmp_path / "model.pt")
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    words = str(tmp_path / "vocab.txt")
    with pytest.raises(UserError, match=r"2 array.* not expected.*\n  img_enc.cnn.fc.bias"):
        convert_model("pcme", tmp_path / "model.pt", vocabulary=words)
    weights = {name: array for name, array in weights.items() if ".cnn.fc." not in name}
    del weights["txt_enc.uncertain_net.rnn.bias_hh_l0_reverse"]
    torch.save(weights, tmp_path / "model.pt")
    with pytest.raises(UserError, match=r"(?s)3 array.* missing.*log_sigma/recurrent/layer1_b"):
        convert_model("pcme", tmp_path / "model.pt", vocabulary=words)
    del weights["img_enc.uncertain_net.fc2.weight"]
    torch.save(weights, tmp_path / "model.pt")
    with pytest.raises(UserError, match=r"has 0 arrays 'img_enc.uncertain_net.fc2.weight'"):
        convert_model("pcme", tmp_path / "model.pt")


@pytest.mark.slow
def test_a_model_without_words_asks_for_them(torch, tmp_path):
    model, _, _ = pcme(torch)
    weights = {n: array for n, array in model.state_dict().items() if ".cnn.fc." not in n}
    torch.save(weights, tmp_path / "model.pth")
    with pytest.raises(UserError, match="no words for its 8 word vectors: use --vocabulary"):
        convert_model("pcme", tmp_path / "model.pth")
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS[:-1]))
    with pytest.raises(UserError, match="7 words, but the model has 8 word vectors"):
        convert_model("pcme", tmp_path / "model.pth", vocabulary=str(tmp_path / "vocab.txt"))
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    _, description, _ = convert_model(
        "pcme", tmp_path / "model.pth", vocabulary=str(tmp_path / "vocab.txt")
    )
    assert description.parameters == {}


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
    command = ["--model=pvse", f"--source={tmp_path}/model_best.pth.tar"]
    command += [f"--vocabulary={tmp_path}/coco_vocab.pkl", f"--output={tmp_path}/made"]
    monkeypatch.setattr(sys, "argv", ["convert_weights", *command])
    convert.main()
    assert "; 0 missing; " in capsys.readouterr().out
    made = read_model(tmp_path / "made")
    assert made.similarity == {"name": "max_cosine"}
    assert made.parameters == {}
    assert made.sides["text"].head["source"] == "last"
    assert made.sides["image"].head["embeddings"] == 2
    assert read_words(tmp_path / "made/text/vocab.txt") == WORDS
    refused = [
        (["--vocabulary=x", "--tower=bert"], "chooses words of a table, not of bert"),
        (["--tower=bert", "--model=pvse"], "2"),
        ([], "2"),
    ]
    for command, message in refused:
        monkeypatch.setattr(sys, "argv", ["c", *command, "--source=x", "--output=y"])
        with pytest.raises(SystemExit, match=message):
            convert.main()
    command = ["--model=pvse", "--variant=new", "--source=x", f"--output={tmp_path}/y"]
    monkeypatch.setattr(sys, "argv", ["convert_weights", *command])
    with pytest.raises(SystemExit, match="'new' is not a variant of pvse; known: legacy, final"):
        convert.main()


@pytest.mark.parametrize("legacy", [False, True])
def test_torch_files_equal_torch(torch, tmp_path, legacy):
    base = torch.arange(12.0).reshape(3, 4)
    saved = {
        "list": [base, {"view": base[1:, ::2].T, "scalar": torch.tensor(3)}],
        "half": torch.ones(2, dtype=torch.float16),
        "brain": torch.full((2,), 1.5, dtype=torch.bfloat16),
        "empty": torch.zeros(0, 3),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "options": argparse.Namespace(rate=0.1),
        "text": "x",
    }
    torch.save(saved, tmp_path / "m.pth.tar", _use_new_zipfile_serialization=not legacy)
    arrays = load_source(tmp_path / "m.pth.tar").arrays
    np.testing.assert_array_equal(arrays["list.0"], base)
    np.testing.assert_array_equal(arrays["list.1.view"], base[1:, ::2].T)
    assert arrays["list.1.scalar"] == 3
    assert arrays["half"].dtype == np.float16
    np.testing.assert_array_equal(arrays["brain"].astype(np.float32), [1.5, 1.5])
    assert arrays["empty"].shape == (0, 3)
    assert set(arrays) == {
        "list.0", "list.1.view", "list.1.scalar", "half", "brain", "empty", "parameter"
    }  # fmt: skip
    # Truncation anywhere gives a clear error message.
    content = (tmp_path / "m.pth.tar").read_bytes()
    for size in (0, 1, 30, len(content) // 2, len(content) - 9):
        (tmp_path / "cut.pth").write_bytes(content[:size])
        with pytest.raises(UserError, match=r"cut.pth cannot be read as a file of torch.save"):
            load_source(tmp_path / "cut.pth")


class Settings(dict):
    """A class that only its own code can load."""


UNREAD = {
    "subclass of dict": (
        lambda torch: {"net": Settings(model={"w": torch.ones(2)})},
        "net is an object of the class .*Settings with tensors",
    ),
    "two names": (
        lambda torch: {"a.b": torch.ones(1), "a": {"b": torch.zeros(1)}},
        "a.b is the name of two tensors",
    ),
    "module": (lambda torch: torch.nn.Linear(2, 3), "its content is a whole module .*Linear"),
    "wrapped": (
        lambda torch: {"epoch": 3, "net": torch.nn.DataParallel(torch.nn.Linear(2, 3))},
        "net is a whole module .*DataParallel",
    ),
    "sparse": (lambda torch: {"a": {"w": torch.eye(3).to_sparse()}}, "a.w is a sparse tensor"),
    "csr": (lambda torch: [torch.eye(3).to_sparse_csr()], "0 is a sparse tensor"),
    "quantized": (
        lambda torch: {"w": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)},
        "w is a quantized tensor",
    ),
    "complex": (
        lambda torch: {"w": torch.ones(2, dtype=torch.complex64)},
        "w is a complex tensor",
    ),
    "negative": (
        lambda torch: {"w": torch.ones(2, dtype=torch.complex64).conj().imag},
        "w is a conjugate or negative view",
    ),
    "float8": (
        lambda torch: {"w": torch.ones(2).to(torch.float8_e4m3fn)},
        "w is a tensor of 8-bit floating-point",
    ),
    "meta": (lambda torch: {"w": torch.empty(2, device="meta")}, "w is a tensor without numbers"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", UNREAD)
@pytest.mark.parametrize("legacy", [False, True])
def test_what_is_not_an_array_is_named_with_the_remedy(torch, tmp_path, name, legacy):
    make, message = UNREAD[name]
    path = tmp_path / "m.pth"
    torch.save(make(torch), path, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(UserError, match=rf"m.pth: {message}.*torch.save\(model.state_dict\(\), "):
        load_source(path)


def test_a_scripted_module_is_read_like_its_state_dict(torch, tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Sequential(torch.nn.Linear(3, 1)))
    model.register_buffer("count", torch.tensor(7))
    torch.jit.save(torch.jit.trace(model, torch.ones(1, 2)), tmp_path / "m.pt")
    found = load_source(tmp_path / "m.pt").arrays
    wanted = model.state_dict()
    assert found.keys() == wanted.keys()
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)


def test_other_classes_beside_tensors_are_left_out(torch, tmp_path):
    content = collections.defaultdict(dict, model={"w": torch.ones(2)}, seen=Settings(words=["a"]))
    torch.save(content, tmp_path / "m.pth")
    assert set(load_source(tmp_path / "m.pth").arrays) == {"model.w"}


def test_a_tensor_with_attributes_is_read(torch, tmp_path):
    tensor = torch.arange(3.0)
    tensor.note = "x"
    torch.save({"w": tensor}, tmp_path / "m.pth")
    np.testing.assert_array_equal(load_source(tmp_path / "m.pth").arrays["w"], [0, 1, 2])


def test_lists_that_repeat_each_other_end(torch, tmp_path):
    shared = {"w": torch.ones(2)}
    torch.save({"model": shared, "ema": shared}, tmp_path / "m.pth")
    assert set(load_source(tmp_path / "m.pth").arrays) == {"model.w", "ema.w"}
    bomb = {}
    for _ in range(9):
        bomb = [bomb] * 10
    torch.save(bomb, tmp_path / "m.pth")
    with pytest.raises(UserError, match="lists repeat more than 1,000,000 entries"):
        load_source(tmp_path / "m.pth")


def test_a_damaged_archive_is_a_sentence(torch, tmp_path):
    torch.save({"a": torch.ones(3), "b": [torch.zeros(2)]}, tmp_path / "m.pth")
    content = (tmp_path / "m.pth").read_bytes()
    rng = np.random.default_rng(0)
    flips = [(10, 99)]  # the compression method of a directory entry
    start = content.index(b"PK\x01\x02")
    flips += [(int(rng.integers(len(content) - start)), int(rng.integers(256))) for _ in range(300)]
    refused = 0
    for place, value in flips:
        damaged = bytearray(content)
        damaged[start + place] = value
        (tmp_path / "m.pth").write_bytes(damaged)
        try:
            load_source(tmp_path / "m.pth")
        except UserError as error:
            refused += "damaged, truncated" in str(error)
    assert refused > 50


class _Attack:
    def __init__(self, *call):
        self._call = call

    def __reduce__(self):
        return self._call


def test_no_pickle_runs_code(tmp_path):
    flag = tmp_path / "ran"
    attacks = {"word2idx": {"a": 0}, "bad": _Attack(open, (str(flag), "w"))}
    for name in ("vocab.pkl", "model.pth"):
        (tmp_path / name).write_bytes(pickle.dumps(attacks))
    assert read_words(tmp_path / "vocab.pkl") == ["a"]
    with pytest.raises(UserError, match=r"does not start like one"):
        load_source(tmp_path / "model.pth")
    assert not flag.exists()


class Vocabulary:
    """Of the authors' code."""


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_vocabularies(tmp_path, protocol, monkeypatch):
    # Pickled by a module that does not exist here.
    monkeypatch.setitem(sys.modules, "vocab", types.ModuleType("vocab"))
    monkeypatch.setattr(Vocabulary, "__module__", "vocab")
    monkeypatch.setattr("vocab.Vocabulary", Vocabulary, raising=False)
    words = Vocabulary()
    words.idx = len(WORDS)
    # In a different order from the ids.
    words.word2idx = {word: number for number, word in reversed(list(enumerate(WORDS)))}
    words.idx2word = dict(enumerate(WORDS))
    (tmp_path / "coco_vocab.pkl").write_bytes(pickle.dumps(words, protocol))
    monkeypatch.undo()
    assert read_words(tmp_path / "coco_vocab.pkl") == WORDS
    (tmp_path / "dict.pkl").write_bytes(pickle.dumps({"word2idx": words.word2idx}, protocol))
    assert read_words(tmp_path / "dict.pkl") == WORDS


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.pkl", pickle.dumps({"word2idx": {"a": 0, "b": 2}}), "does not number its 2 words"),
        ("v.pkl", pickle.dumps({"word2idx": {"a": 0, "b\nc": 1}}), r"word 'b\\nc' of id 1 cannot"),
        ("v.pkl", pickle.dumps({"words": []}), "has no vocabulary"),
        ("v.pkl", b"\x80\x04x", "cannot be read as a pickle"),
        ("v.json", b"{", "cannot be read as a vocabulary"),
        ("v.json", b'{"word2idx": {"a": 1}}', "does not number its 1 words"),
        ("v.txt", b"a\n\nb\n", "the word '' of id 1 cannot"),
        ("v.txt", b"\xff", "cannot be read as a vocabulary"),
    ],
)
def test_bad_vocabularies(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_words(tmp_path / name)
