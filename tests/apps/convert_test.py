"""The conversion command, on a random BERT in Hugging Face's format."""

import sys

import numpy as np
import pytest
import safetensors.numpy

from tests.pretrained import published_bert as published
from xmodal.apps import convert
from xmodal.pretrained.folder import read_description, read_weights

SIZE = published.Size(vocab_size=9, width=6, depth=2, heads=3, mlp_dim=10, max_positions=5)


@pytest.fixture
def source(tmp_path):
    """A folder as downloaded."""
    folder = tmp_path / "source"
    published.write_beside(folder, SIZE)
    arrays = published.to_hugging_face(published.make_weights(SIZE))
    safetensors.numpy.save_file(arrays, folder / "model.safetensors")
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
    assert f"{output}: 21 arrays, " in printed
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
    message = f"params/encoder/layers/mlp_output/bias <- .*{bias}(.|\n)*classifier.bias"
    with pytest.raises(SystemExit, match=message):
        run("--allow_missing=bert")
    assert not list(source.parent.glob("made/*"))
    output = run("--allow_unexpected=class,encoder", "--allow_missing=.*/mlp_out")
    assert "params/encoder/layers/mlp_output/bias" not in read_weights(output)
