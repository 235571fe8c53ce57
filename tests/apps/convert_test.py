"""The conversion command, on a random BERT in Hugging Face's format."""

import json
import pathlib
import sys

import numpy as np
import pytest
import safetensors.numpy

from xmodal.apps import convert
from xmodal.pretrained.folder import read_description, read_weights

CONFIG = {
    "model_type": "bert",
    "vocab_size": 9,
    "hidden_size": 6,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 10,
    "max_position_embeddings": 5,
}


@pytest.fixture
def source(tmp_path):
    """A folder as downloaded."""
    folder = tmp_path / "source"
    folder.mkdir()
    shapes = {f"embeddings.{kind}_embeddings.weight": (rows, 6) for kind, rows in (
        ("word", 9), ("position", 5), ("token_type", 2)
    )}  # fmt: skip
    dense = {"attention.self.query": 6, "attention.self.key": 6, "attention.self.value": 6}
    dense |= {"attention.output.dense": 6, "intermediate.dense": 10}
    for layer in ("0", "1"):
        start = f"encoder.layer.{layer}."
        for name, outputs in dense.items():
            shapes |= {f"{start}{name}.weight": (outputs, 6), f"{start}{name}.bias": (outputs,)}
        shapes |= {f"{start}output.dense.weight": (6, 10), f"{start}output.dense.bias": (6,)}
    norms = ["embeddings.LayerNorm"]
    norms += [f"encoder.layer.{n}.{p}output.LayerNorm" for n in "01" for p in ("", "attention.")]
    shapes |= {f"{name}.{kind}": (6,) for name in norms for kind in ("weight", "bias")}
    shapes |= {"pooler.dense.weight": (6, 6), "pooler.dense.bias": (6,)}
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    safetensors.numpy.save_file(arrays, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c", "d", "e"]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
    return folder


@pytest.fixture
def run(source, monkeypatch):
    """Runs the command on the source; returns the output folder."""

    def call(*options):
        output = source.parent / "made" / "tower"
        command = [f"--source={source}", f"--output={output}", "--tower=bert", *options]
        monkeypatch.setattr(sys, "argv", ["convert_weights", *command])
        convert.main()
        return output

    return call


def change(source, **arrays):
    """Adds arrays to the source; None removes one."""
    path = source / "model.safetensors"
    old = safetensors.numpy.load(path.read_bytes())
    new = {name: array for name, array in (old | arrays).items() if array is not None}
    safetensors.numpy.save_file(new, path)


def test_a_folder_with_everything_appears(source, run, capsys):
    output = run()
    names = {"weights.safetensors", "tower.json", "report.txt", "vocab.txt"}
    assert {path.name for path in output.iterdir()} == names
    assert (output / "vocab.txt").read_bytes() == (source / "vocab.txt").read_bytes()
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == 1
    assert f"{output}: 21 arrays loaded, " in printed
    assert "pooler.dense.bias" in printed
    assert "  pooler.dense.bias\n" in (output / "report.txt").read_text()
    arrays = read_weights(output)
    assert arrays["params/encoder/layers/mlp_hidden/kernel"].shape == (2, 6, 10)
    description = read_description(output)
    assert description.encoder == {
        "name": "bert", "vocab_size": 9, "width": 6, "depth": 2, "heads": 3, "mlp_dim": 10,
        "max_positions": 5,
    }  # fmt: skip
    assert description.head is None
    with pytest.raises(SystemExit, match="Error: .*tower exists already"):
        run()


def test_arrays_that_are_not_accounted_for(source, run):
    bias = "encoder.layer.1.output.dense.bias"
    change(source, **{"classifier.bias": np.ones(2, np.float32), bias: None})
    message = f"params/encoder/layers/mlp_output/bias .from {bias}(.|\n)*classifier.bias"
    with pytest.raises(SystemExit, match=message):
        run("--allow_missing=bert")
    assert not list(source.parent.glob("made/*"))
    output = run("--allow_unexpected=class,encoder", "--allow_missing=.*/mlp_out")
    assert "params/encoder/layers/mlp_output/bias" not in read_weights(output)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--source=nowhere/bert", "Error: There are no weights at nowhere/bert"),
        ("--variant=large", "Error: --variant='large' is not a variant of bert; known: none"),
    ],
)
def test_mistakes(run, source, option, message):
    with pytest.raises(SystemExit, match=message):
        run(option)
    assert not pathlib.Path(source.parent / "made").exists()
