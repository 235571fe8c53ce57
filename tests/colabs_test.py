"""Notebooks run from the first to the last cell, and use the metric names in files."""

import json
import os
import pathlib
import re

import pytest

from tests import short_runs
from tests.pretrained import published_clip

ROOT = pathlib.Path(__file__).parents[1]
NAMES = ("quickstart", "inspect_model", "compare_models", "clip")
# With a slash after the evaluator's name; paths start differently.
TAG = re.compile(r"\bshapes\w*/[\w@/]+")
# The quickstart's model with fewer channels and layers, small pictures, and smaller batches.
SMALLER = """
from configs import quickstart

def smaller(multitask=quickstart.multitask):
    config = multitask()
    config.batch_size, config.data.image.size, config.evals.shapes.bootstrap_samples = 16, 16, 10
    config.model.image.encoder.update({"channels": (4, 8), "units": (0, 0)})
    config.model.text.encoder.update({"width": 32, "heads": 2, "mlp_dim": 32})
    config.model.text.head = {"name": "mean"}
    return config

quickstart.multitask = smaller
"""


def read(name):
    nbformat = pytest.importorskip("nbformat", reason="it comes with the extra 'dev'")
    notebook = nbformat.read(ROOT / "colabs" / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    return notebook


@pytest.mark.parametrize("name", NAMES)
def test_cells_use_public_names_alone(name):
    code = "\n".join(cell.source for cell in read(name).cells if cell.cell_type == "code")
    imported = re.findall(r"^(?:from|import) ([\w.]+)", code, re.MULTILINE)
    others = {"IPython.display", "importlib.util", "numpy", "pathlib", "tensorflow_datasets"}
    assert set(imported) <= {"configs", "xmodal"} | others
    import xmodal

    assert set(re.findall(r"\bxmodal\.(\w+)\(", code)) <= set(xmodal.__all__)


@pytest.fixture(scope="module")
def execute(few_shapes, tmp_path_factory):
    """Executes a notebook with other settings; returns the outputs by cell id.

    All notebooks share a kernel, which is cleared in between, to reuse compiled functions.
    """
    pytest.importorskip("nbclient", reason="it comes with the extra 'dev'")
    from jupyter_client import KernelManager
    from nbclient import NotebookClient
    from nbformat.v4 import new_code_cell, new_notebook

    folder = tmp_path_factory.mktemp("notebooks")

    def execute_all(notebook):
        resources = {"metadata": {"path": str(folder)}}
        NotebookClient(notebook, km=kernel, timeout=600, resources=resources).execute()

    def run(name, **settings):
        notebook = read(name)
        (cell,) = (cell for cell in notebook.cells if cell.id == "settings")
        settings = {"STEPS": 5, "DATA_DIR": few_shapes} | settings
        assert all(f"{key} = " in cell.source for key in settings)
        cell.source += "".join(f"\n{key} = {value!r}" for key, value in settings.items())
        notebook.cells.insert(0, new_code_cell("%reset -f"))
        execute_all(notebook)
        return {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        patch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        for name, value in short_runs.variables(devices=1).items():
            patch.setenv(name, value)
        kernel = KernelManager(kernel_name="python3")
        execute_all(new_notebook(cells=[new_code_cell(SMALLER)]))
        yield folder, run
        kernel.shutdown_kernel(now=True)


def text_of(outputs):
    return "\n".join(
        output.get("text", "") + "".join(output.get("data", {}).get("text/markdown", ""))
        for output in outputs
    )


def data_of(outputs, kind):
    return [output["data"][kind] for output in outputs if kind in output.get("data", {})]


def tags_of(folder):
    return set(json.loads((folder / "test" / "metrics.json").read_text()))


@pytest.mark.slow
def test_notebooks_run_and_name_metrics_as_files_do(execute):
    folder, run = execute
    outputs = run("quickstart")
    known = tags_of(folder / "runs/colab")
    found = set(TAG.findall(text_of(outputs["evaluate"])))
    assert found <= known
    assert {f"shapes/{direction}/recall@{k}" for direction in ("i2t", "t2i", "t2t", "i2i")
            for k in (1, 5, 10)} == found  # fmt: skip
    (page,) = data_of(outputs["found"], "text/html")
    assert page.count("data:image/") > 5  # Every picture once.

    outputs = run("inspect_model")
    found = set(TAG.findall(text_of(outputs["numbers"])))
    assert found <= known
    assert {"shapes/sts/spearman", "shapes/shapes_own/t2i/recall@1"} <= found
    assert len(data_of(outputs["neighbors"], "text/html")) == 4
    assert text_of(outputs["search"]).count("crisscrossed_shapes test") == 5
    assert len(data_of(outputs["scores"], "text/html")) == 1
    assert len(data_of(outputs["ratings"], "image/png")) == 1

    # The first run is the quickstart's, which has finished.
    outputs = run("compare_models", FOLDER="runs", VARIANTS={"colab": "", "text_text": "t2t"})
    known |= tags_of(folder / "runs/text_text")
    for cell in ("table", "differences", "agreement"):
        found = set(TAG.findall(text_of(outputs[cell])))
        assert found
        assert found <= known | {tag.partition("/")[2] for tag in known}

    # Labels that a model proposed favor it: the weakest one leads on them, and is last on others.
    rows = re.findall(r"\| (\w+) \| ([\d.]+) \| ([\d.]+) \|", text_of(outputs["label-sets"]))
    leads = {name: float(a) > float(e) for name, a, e in rows}
    assert leads == {"only_A": True, "all_five": False, "truth": False}
    assert re.search(r"\| A +\| +1 \| +5 \| +5 \|", text_of(outputs["label-sets-agreement"]))


@pytest.mark.slow
def test_a_published_clip_is_evaluated_and_fine_tuned(execute, tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    published_clip.make_clip(torch).save_pretrained(tmp_path)
    (tmp_path / "merges.txt").write_text(published_clip.MERGES)
    folder, run = execute
    outputs = run("clip", PUBLISHED=str(tmp_path))
    assert (folder / "weights/clip/model.json").exists()
    assert "acc@1" in text_of(outputs["zero-shot"]).lower().replace("accuracy", "acc")
    assert "I→T" in text_of(outputs["before"])
    assert "shapes/i2t/recall@1" in text_of(outputs["after"])
    assert data_of(outputs["found"], "text/html")[0].count("data:image/") > 2
