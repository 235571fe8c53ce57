"""Released SCAN, SGR and SAF give the scores, losses, gradients and three steps of torch."""

import argparse
import json

import jax
import numpy as np
import parity
import published_attention as published
import pytest
from published_matching import shake_norms
from published_polysemous import torch_hinges

from xmodal.core.tree_paths import leaves_by_path
from xmodal.losses import LOSSES, Context
from xmodal.pretrained import converters
from xmodal.pretrained.folder import read_model, save_folder
from xmodal.train.step.task_losses import observe_batch
from xmodal.train.step.tasks import make_tasks

CHANNELS, ROWS = 5, 11
LENGTHS = (7, 1, 4, 2, 4)
SIZE = len(LENGTHS)
RNG = np.random.default_rng(0)
IDS = RNG.integers(1, ROWS, (SIZE, 7))
MASK = np.arange(7) < np.array(LENGTHS)[:, None]
IDS[~MASK] = 0
REGIONS = RNG.normal(size=(SIZE, 36, CHANNELS)).astype(np.float32)
ITEMS = np.arange(SIZE, dtype=np.int32)
SCAN = {
    "cross_attn": "t2i",
    "agg_func": "LogSumExp",
    "lambda_lse": 6.0,
    "lambda_softmax": 9.0,
    "raw_feature_norm": "clipped_l2norm",
    "no_imgnorm": False,
}


def convert(torch, kind, modules, folder, options):
    """Saves the modules as released, converts them, and returns the new folder."""
    number = len(list(folder.iterdir())) if folder.exists() else 0
    place = folder / f"{number}"
    place.mkdir(parents=True)
    (place / "vocab.json").write_text(json.dumps({"word2idx": {f"w{n}": n for n in range(ROWS)}}))
    checkpoint = {
        "epoch": 3,
        "model": [module.state_dict() for module in modules],
        "opt": argparse.Namespace(**options),
    }
    source = place / "model_best.pth.tar"
    torch.save(checkpoint, source)
    name = "scan" if kind == "scan" else "sgraf"
    made = converters.convert(name, source, vocabulary=str(place / "vocab.json"))
    save_folder(place / "made", *made)
    return place / "made"


def read(folder):
    """The model of a folder without dropout, its parameters, and its state."""
    description = read_model(folder).section()
    description["text"]["encoder"]["dropout"] = 0.0
    for modality in ("image", "text"):
        if description[modality]["head"]["name"] == "global_attention":
            description[modality]["head"]["dropout"] = 0.0
    return parity.load(folder, description)


def make_loss(model, state, *, train, size=SIZE, **options):
    """From parameters to the loss, (scores, parameters set without gradient), and gradients."""
    similarity = model.similarity
    loss = {"name": "triplet", "options": options}
    tasks = make_tasks({"i2t": {"views": ["image", "caption_0"], "loss": loss}})
    inputs = {
        "image": {"image": REGIONS[:size]},
        "text": {
            "text_ids": IDS[:size].astype(np.int32),
            "text_mask": MASK[:size].astype(np.int32),
        },
    }

    def compute(params):
        key = jax.random.key(0)
        modalities = [
            model.embed(s, params, state, inputs[s], train=train, key=key)[0] for s in inputs
        ]
        own, views = (
            params.get("similarity", {}),
            dict(zip(tasks[0].views, modalities, strict=True)),
        )
        observed = {}
        if train:
            views, observed = observe_batch(tasks, views, params, similarity)
        items = [similarity.prepare(view, own) for view in views.values()]
        context = Context(ITEMS[:size], similarity, own)
        loss, _ = LOSSES["triplet"].function(*views.values(), context, **options)
        return loss, (similarity.score(*items, own), observed)

    return jax.jit(jax.value_and_grad(compute, has_aux=True))


def torch_modalities(torch, functions, size=SIZE):
    return (
        functions.images(torch.tensor(REGIONS[:size])),
        functions.texts(torch.tensor(IDS[:size]), LENGTHS[:size]),
    )


def make(torch, kind, options=None):
    if kind == "scan":
        return published.make_scan(torch, options, channels=CHANNELS, rows=ROWS)
    modules, functions = published.make_sgraf(torch, kind, channels=CHANNELS, rows=ROWS)
    for module in modules:
        shake_norms(torch, module)
    return modules, functions


def test_scan_equals_torch(torch, tmp_path):
    modules, functions = make(torch, "scan", SCAN)
    compare(torch, "scan", modules, functions, tmp_path, SCAN, train=False)


def compare(torch, kind, modules, functions, folder, options, *, train):
    """Scores, loss and gradients; with `train`, also running statistics."""
    model, params, state = read(convert(torch, kind, modules, folder, options))
    # Recomputed tiles, one of them smaller, where the statistics of the batch count.
    engine = "chunked" if kind == "saf" else "dense"
    differentiate = make_loss(model, state, train=train, engine=engine, chunk_size=3)
    (loss, (scores, observed)), gradients = differentiate(params)
    for module in modules:
        module.train(train)
    modalities = torch_modalities(torch, functions)
    running = [m for module in modules for m in module.modules() if hasattr(m, "running_mean")]
    before = [{name: x.clone() for name, x in norm.named_buffers()} for norm in running]
    wanted = functions.score(*modalities)
    assert parity.relative(scores, wanted.detach()) < 1e-4
    if kind == "saf" and train:
        bn = modules[2].SAF_module.bn
        # The authors' batches are sorted, the longest first.
        replay = torch.nn.BatchNorm1d(1)
        replay.load_state_dict({**bn.state_dict(), **before[running.index(bn)]})
        check_running(torch, functions, modules, modalities, replay, observed["similarity"])
    for norm, buffers in zip(running, before, strict=True):
        norm.load_state_dict({**norm.state_dict(), **buffers})
    expected = SIZE * torch_hinges(torch, functions.loss_score(*modalities), 0.2)
    assert loss == pytest.approx(expected.item(), rel=1e-4)
    expected.backward()
    parameters = [p for module in modules for p in module.parameters()]
    with torch.no_grad():
        for p in parameters:
            p.copy_(0 * p if p.grad is None else p.grad)
    _, theirs, _ = read(convert(torch, kind, modules, folder, options))
    check_layers(gradients, theirs)


def check_layers(found, converted):
    """Compares gradients, to 1e-4 of the largest number of each layer or step of SGR.

    Those of some biases nearly cancel.
    """
    found, wanted, scales = leaves_by_path(found), leaves_by_path(converted), {}
    assert found.keys() == wanted.keys()

    def layer(path):
        parts = path.split("/")
        return tuple(parts[:2] if parts[0] == "similarity" else parts[:-1])

    for path, x in wanted.items():
        scales[layer(path)] = max(np.abs(x).max(), scales.get(layer(path), 1e-5))
    for path in found.keys() - {*STATISTICS, *UNTRAINED}:
        error = np.abs(found[path] - wanted[path]).max() / scales[layer(path)]
        assert error < 1e-4, (path, error)


STATISTICS = ("similarity/gate_norm/mean", "similarity/gate_norm/variance")
# Their gradient is 0, or rounding.
UNTRAINED = (
    *(f"similarity/step{number}/key/bias" for number in (1, 2, 3)),
    *("similarity/gate/bias", "image/head/global/bias"),
)


def check_running(torch, functions, modules, modalities, replay, observed):
    """The running statistics are those after one update for each caption, the longest first."""
    images, tokens = modalities
    seen = []
    hook = modules[2].SAF_module.bn.register_forward_pre_hook(lambda _, x: seen.append(x[0]))
    functions.score(images, sorted(tokens, key=len, reverse=True))
    hook.remove()
    for gates in seen:
        replay(gates)
    found = observed["gate_norm"]
    assert parity.relative(found["mean"], replay.running_mean) < 1e-4
    assert parity.relative(found["variance"], replay.running_var) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sgr", "saf"])
def test_sgraf_equals_torch_in_training(torch, tmp_path, kind):
    modules, functions = make(torch, kind)
    compare(torch, kind, modules, functions, tmp_path, {}, train=True)
