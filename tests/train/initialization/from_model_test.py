"""Starting a run from a converted model of both modalities, and evaluating one without training."""

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict

from configs import pcme
from xmodal.core import mesh as mesh_lib
from xmodal.models import make_dual_encoder
from xmodal.models.encoders import efficientnet
from xmodal.pretrained.conversion_report import Report
from xmodal.pretrained.folder import Description
from xmodal.pretrained.model_folder import ModelDescription, save_model
from xmodal.train import run_config
from xmodal.train.inherit import inherit
from xmodal.train.initialization import from_towers
from xmodal.train.optimization import run_lengths
from xmodal.train.resolve import build_run
from xmodal.train.tree import flatten

WORDS = ["<pad>", "<start>", "<end>", "<unk>", "a", "red", "green", "circle", "above", "the", "."]
PARAMETERS = {"match_scale": 4.5, "match_shift": 3.25}


@pytest.fixture(scope="module", autouse=True)
def _small_cnn():
    """Two stages, since these tests spend most of their time compiling."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(efficientnet, "STAGES", efficientnet.STAGES[:2])
        yield


def quick():
    config = pcme.get_config("quick")
    config.model.text.encoder.vocab_size = len(WORDS)
    return ConfigDict(run_lengths.resolve_epochs(config.to_dict(), 1))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, _small_cnn):
    """A converted model with random weights and the sizes of PCME's quick variant."""
    sections = quick().model.to_dict()
    image = {"size": 64, "eval_transform": "torchvision", "eval_crop": 0.875}
    text = {
        "tokenizer": "nltk",
        "lower_case": True,
        "special_tokens": "sentence",
        "unknown": "token",
    }
    files = {"vocab.txt": "".join(f"{word}\n" for word in WORDS).encode()}
    modalities = {
        "image": Description(sections["image"]["encoder"], sections["image"]["head"], image),
        "text": Description(sections["text"]["encoder"], sections["text"]["head"], text, files),
    }
    description = ModelDescription(modalities, {"name": "match_probability"}, PARAMETERS)
    model = make_dual_encoder(description.model())
    ids = np.zeros((1, 4), np.int32)
    inputs = {"image": {"image": np.zeros((1, 64, 64, 3), np.uint8)}}
    inputs["text"] = {"text_ids": ids, "text_mask": ids}
    params, state = jax.eval_shape(model.init, jax.random.key(0), inputs)
    rng = np.random.default_rng(0)
    arrays = {
        f"{modality}/{path}": rng.uniform(0.01, 0.1, leaf.shape).astype(np.float32)
        for modality in modalities
        for path, leaf in flatten({"params": params[modality], **state[modality]}).items()
    }
    path = tmp_path_factory.mktemp("models") / "made"
    save_model(path, arrays, description, Report({}, {}, [], {}))
    return path, arrays


def ours(arrays):
    """Arrays of a folder by their paths in a state."""
    params = {
        name.replace("/params/", "/"): array for name, array in arrays.items() if "/params/" in name
    }
    return params | {f"similarity/{name}": value for name, value in PARAMETERS.items()}


def start_config(folder):
    config = quick()
    config.init_from.model = str(folder)
    return config


def test_a_run_starts_from_all_of_it(folder):
    path, arrays = folder
    config = start_config(path)
    config = inherit(config)
    settings = run_config.read_settings(config)
    parts = build_run(config, mesh_lib.make_mesh(jax.devices()[:1]))
    shapes = parts.state_shapes
    weights, wanted = from_towers.load_towers(shapes, settings.init_from), ours(arrays)
    statistics = flatten(shapes.model_state).keys()
    assert flatten(shapes.all_params()).keys() == wanted.keys()
    assert weights.keys() == wanted.keys() | statistics
    for name, array in (wanted | {name: arrays[name] for name in statistics}).items():
        np.testing.assert_array_equal(weights[name], array, err_msg=name)
