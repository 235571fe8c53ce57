"""CVSE equals torch: a released model's scores, its losses and their gradients."""

import argparse
import json

import jax
import jax.numpy as jnp
import numpy as np
import parity
import published_cvse as published
import pytest

import xmodal
from configs import cvse
from xmodal.core.tree_paths import leaves_by_path
from xmodal.data.text.concept_graph import read_concepts
from xmodal.models import make_dual_encoder
from xmodal.pretrained import converters
from xmodal.pretrained.folder import read_model, save_folder
from xmodal.train.step.task_losses import compute_losses
from xmodal.train.step.tasks import make_tasks

WORDS = ("<pad>", "<start>", "<end>", "<unk>", "a", "man", "men", "dog", "riding", ".", "'", "b'a")
CONCEPTS = {
    "concepts": ["man", "dog", "riding", "wave", "sky"],
    "forms": {"man": 0, "men": 0, "dog": 1, "dogs": 1, "riding": 2, "wave": 3, "sky": 4},
    "captions": [10, 8, 4, 2, 20],
    "joint": [[0, 1, 2], [0, 2, 3], [1, 2, 1], [3, 4, 1]],
}
RNG = np.random.default_rng(0)
VECTORS = RNG.normal(size=(5, 6)).astype(np.float32)
LENGTHS = np.array([7, 1, 4, 2, 5, 3])
MASK = np.arange(7) < LENGTHS[:, None]
IDS = np.where(MASK, RNG.integers(1, len(WORDS), MASK.shape), 0)
REGIONS = RNG.normal(size=(len(IDS), 36, 5)).astype(np.float32)
# Labels of the training texts come from other captions too.
LABEL_IDS = np.concatenate([IDS, np.roll(IDS, 1, axis=0)], axis=1)
# Biases before a batch normalization, which rounding alone moves.
IDLE = ("head/instance/global/bias", "head/concept/bias", "head/item/bias")


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cvse")
    (folder / "vocab.json").write_text(
        json.dumps({"word2idx": {word: row for row, word in enumerate(WORDS)}})
    )
    (folder / "concepts.json").write_text(json.dumps({**CONCEPTS, "vectors": VECTORS.tolist()}))
    return folder


@pytest.fixture(scope="module")
def released(torch):
    torch.manual_seed(0)
    modules, functions = published.make_cvse(
        torch, channels=5, rows=len(WORDS), vectors=torch.tensor(VECTORS), weights=slow_graph()
    )
    for module in modules:
        for each in module.modules():
            if isinstance(each, torch.nn.BatchNorm1d):
                for tensor in (each.weight, each.running_mean, each.running_var):
                    tensor.data = torch.rand(tensor.shape) + 0.5
    return modules, functions


def slow_graph():
    """The graph before its last normalization, entry by entry."""
    count, joint = len(CONCEPTS["concepts"]), {}
    for k, other, number in CONCEPTS["joint"]:
        joint[k, other] = joint[other, k] = number
    graph = np.zeros((count, count))
    for (k, other), number in joint.items():
        share = number / CONCEPTS["captions"][k]
        graph[k, other] = 5 ** (share - 0.02) - 5**-0.02 >= 0.3
    return (graph * 0.25 / (graph.sum(0) + 1e-6) + np.eye(count)).astype(np.float32)


def convert(torch, folder, modules, name="made", **options):
    source = folder / f"{name}.pth.tar"
    weights = [module.state_dict() for module in modules]
    options = argparse.Namespace(data_name="coco_precomp", use_BatchNorm=True, **options)
    torch.save({"epoch": 3, "model": weights, "opt": options, "Eiters": 9}, source)
    made = converters.convert(
        "cvse", source, "", str(folder / "vocab.json"), concepts=str(folder / "concepts.json")
    )
    save_folder(folder / name, *made)
    return folder / name


def label(ids):
    """Which concepts the ids of each text name, float32 [N, K]."""
    forms = CONCEPTS["forms"]
    named = [{forms.get(WORDS[number], -1) for number in row} for row in ids]
    return np.array([[float(k in each) for k in range(5)] for each in named], np.float32)


def test_the_graph_of_a_concept_file_equals_a_slow_loop(folder):
    weights = slow_graph()
    assert np.count_nonzero(weights) == 5 + 6
    scale = np.diag(weights.sum(1) ** -0.5)
    expected = (weights @ scale).T @ scale
    found = read_concepts(folder / "concepts.json").adjacency()
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert np.any(np.abs(found - found.T) > 1e-3)


@pytest.mark.slow
def test_released_model_equals_torch(torch, folder, released):
    modules, functions = released
    for module in modules:
        module.eval()
    made = convert(torch, folder, modules)
    model = xmodal.load(made)
    # As bytes, the first is b'man riding.', the second has double quotes, which leave `b` alone.
    texts = ["Man riding.", "a man's dog", "a dog . men"]
    rows = [
        ["<start>", "<unk>", "riding", ".", "'", "<end>"],
        ["<start>", "<unk>", "<unk>", "a", "man", "<unk>", "dog", "<unk>", "<end>"],
        ["<start>", "b'a", "dog", ".", "men", "'", "<end>"],
    ]
    ids = [[WORDS.index(word) for word in row] for row in rows]
    lengths = torch.tensor([len(row) for row in ids])
    padded = torch.tensor([row + [0] * (9 - len(row)) for row in ids])
    labels = torch.tensor(label([[5, 8], [5, 7], [7, 6]]))
    with torch.no_grad():
        expected = (
            functions.images(torch.tensor(REGIONS), 0.9),
            functions.texts(padded, lengths, labels, 0.9),
        )
        wanted = published.compute_scores(*expected)
    images, captions = model.embed_images(REGIONS), model.embed_texts(texts)
    assert images.shape == (len(REGIONS), 16)
    assert parity.relative(images @ captions.T, wanted) < 1e-4


@pytest.mark.slow
def test_losses_and_gradients_equal_torch(torch, folder, released):
    modules, functions = released
    for module in modules:
        module.train()
    made = convert(torch, folder, modules, "start")
    section = read_model(made).section()
    for modality in ("image", "text"):
        section[modality]["head"]["dropout"] = 0.0
    model = make_dual_encoder(section | {"shared": ("head/graph",)})
    tasks, ids = make_tasks(cvse.get_config().tasks.to_dict()), jnp.arange(len(IDS))
    inputs = {
        "image": {"image": REGIONS},
        "text": {"text_ids": IDS, "text_mask": MASK.astype(np.int32), "text_label_ids": LABEL_IDS},
    }

    def compute(params, state):
        views, new = {}, {}
        for modality, view in (("image", "image"), ("text", "caption_0")):
            views[view], new[modality] = model.embed(
                modality, params, state, inputs[modality], train=True, key=jax.random.key(0)
            )
        loss, _, scalars = compute_losses(
            tasks, views, {"image_id": ids}, params, {},
            similarity=model.similarity, seed=0, step=jnp.int32(0),
        )  # fmt: skip
        return loss, (scalars, new)

    _, params, state = parity.load(made)
    gradient = jax.jit(jax.value_and_grad(compute, has_aux=True))
    (loss, (scalars, state)), found = gradient(params, state)
    labels = torch.tensor(label(LABEL_IDS))
    views = (
        functions.images(torch.tensor(REGIONS), published.FUSION),
        functions.texts(torch.tensor(IDS), torch.tensor(LENGTHS), labels, published.FUSION),
    )
    wanted, parts = published.compute_loss(torch, *views)
    wanted.backward()
    assert float(loss) == pytest.approx(wanted.item(), rel=1e-4)
    for name, part in zip(("fused", "instance", "consensus", "concepts"), parts, strict=True):
        assert float(scalars[f"{name}/loss"]) == pytest.approx(part.item(), rel=1e-4)
    # The running statistics.
    statistics = leaves_by_path(parity.load(convert(torch, folder, modules, "after"))[2])
    for name, leaf in leaves_by_path(state).items():
        np.testing.assert_allclose(leaf, statistics[name], rtol=1e-4, atol=1e-5, err_msg=name)
    check_gradients(torch, folder, modules, found)


def check_gradients(torch, folder, modules, found):
    """All gradients equal torch's; the graph's are those of both modalities."""
    parameters = [each for module in modules for each in module.parameters()]
    with torch.no_grad():
        for each in parameters:
            each.copy_(0 * each if each.grad is None else each.grad)
        modules[6].adj_all.copy_(torch.tensor(slow_graph()))
        _, params, _ = parity.load(convert(torch, folder, modules, "gradients"))
    found = jax.tree.map(np.asarray, found)
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(found["text"]["head"]["graph"]))
    found["text"]["head"]["graph"] = found["image"]["head"]["graph"]
    table = np.array(found["text"]["encoder"]["table"])
    table[len(WORDS) :] = params["text"]["encoder"]["table"][len(WORDS) :]
    found["text"]["encoder"]["table"] = table
    idle = [f"{modality}/{path}" for modality in params for path in IDLE]
    parity.check_gradients(found, params, idle)
