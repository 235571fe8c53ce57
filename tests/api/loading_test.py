"""Loading the model of a run or of converted weights."""

import json
import subprocess
import sys

import numpy as np
import pytest
from tiny_dual_encoder import SECTION, TEXT, WORDS, make_texts, make_weights, save_run

import xmodal
from xmodal.core.tree_paths import leaves_by_path
from xmodal.pretrained.conversion_report import Report
from xmodal.pretrained.folder import Description, save_folder

TEXTS = make_texts(9)
NO_REPORT = Report({}, {}, [], {})
FILES = {"vocab.txt": "".join(f"{word}\n" for word in WORDS).encode()}


def reference(params):
    table = params["text"]["encoder"]["table"]
    rows = [[WORDS.index(w if w in WORDS else "<unk>") for w in text.split()] for text in TEXTS]
    return np.stack([table[each].mean(axis=0) for each in rows])


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    return save_run(str(tmp_path_factory.mktemp("run")))


def test_a_run_at_its_best_step_or_another(run_dir):
    params, _ = make_weights()
    features = np.zeros((2, 5), np.float32)
    for options, step in (({}, 3), ({"step": "latest"}, 5), ({"step": 3}, 3)):
        model = xmodal.load(run_dir, **options)
        assert model.name.endswith(f"step {step}")
        np.testing.assert_allclose(model.embed_texts(TEXTS), reference(params), rtol=1e-5)
        bias = params["image"]["projection"]["bias"] + step
        np.testing.assert_allclose(model.embed_images(features), [bias, bias], rtol=1e-6)
    assert repr(model) == f"<xmodal.Model {run_dir} step 3: image and text, cosine>"
    with pytest.raises(xmodal.UserError, match="no checkpoint of step 4; it has"):
        xmodal.load(run_dir, step=4)


def arrays_of(params, modality):
    return {f"params/{path}": array for path, array in leaves_by_path(params[modality]).items()}


def test_a_converted_tower(tmp_path):
    params, _ = make_weights()
    text = Description(SECTION["text"]["encoder"], {"name": "mean"}, TEXT, FILES)
    save_folder(tmp_path / "tower", arrays_of(params, "text"), text, NO_REPORT)
    model = xmodal.load(tmp_path / "tower")
    assert model.modalities == ("text",)
    np.testing.assert_allclose(model.embed_texts(TEXTS), reference(params), rtol=1e-5)
    with pytest.raises(xmodal.UserError, match="has no image tower, only text"):
        model.embed_images(np.ones((1, 5), np.float32))


@pytest.mark.slow
def test_the_import_is_quick_and_names_what_is_public():
    code = (
        "import sys, xmodal\n"
        "heavy = ('jax', 'flax', 'tensorflow', 'numpy')\n"
        "loaded = [name for name in heavy if name in sys.modules]\n"
        "import json; print(json.dumps([loaded, xmodal.__all__, dir(xmodal)]))\n"
        "xmodal.load, xmodal.evaluate, xmodal.Model, xmodal.UserError, xmodal.train\n"
        "try:\n    xmodal.laod\nexcept AttributeError as error:\n    print(error)"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    first, second = output.stdout.splitlines()
    loaded, public, listed = json.loads(first)
    assert loaded == []
    assert set(public) <= {*listed, "__version__"}
    assert second == "No xmodal attribute laod"
    assert output.stderr == ""  # from libraries that report on the machine
