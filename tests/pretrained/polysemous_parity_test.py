"""PVSE and PCME against torch: embeddings, every loss, and the gradient of every weight.

The weights come through the converters, under the names of the released checkpoints.
"""

import jax
import numpy as np
import parity
import pytest
from published_polysemous import (
    make_pcme,
    make_pvse,
    torch_pcme_loss,
    torch_pixels,
    torch_pvse_loss,
)
from torch_resnet import make_resnet

from xmodal.losses import LOSSES, Context
from xmodal.models import make_dual_encoder
from xmodal.pretrained import converters
from xmodal.pretrained.model_folder import read_model, save_model
from xmodal.similarity import make_similarity

SMALL, CHANNELS, ROWS, SIZE = (2, 2), 512, 9, 5
LENGTHS = (7, 1, 4, 2, 3)
IDS = np.random.default_rng(0).integers(0, ROWS, (SIZE, 7))
INPUTS = {
    "image": {"image": parity.images(SIZE, 75)},
    "text": {
        "text_ids": IDS.astype(np.int32),
        "text_mask": np.int32(np.arange(7) < np.array(LENGTHS)[:, None]),
    },
}
PVSE_TASKS = [
    ("triplet", 1.0, {"margin": 0.1, "mining": "hardest", "reduction": "mean"}),
    ("diversity", 0.1, {}),
    ("mmd", 0.01, {}),
]


@pytest.fixture
def convert(torch, tmp_path):
    """Converts a state dict by file: the description, `params` and `model_state` of the model."""

    def make(name, weights, variant=""):
        root = tmp_path / f"files{len(list(tmp_path.iterdir()))}"
        root.mkdir()
        (root / "vocab.txt").write_text("".join(f"w{n}\n" for n in range(ROWS)))
        own = {key: array for key, array in weights.items() if ".cnn.fc." not in f".{key}"}
        torch.save(own, root / "model.pth")
        made = converters.convert(name, root / "model.pth", variant, str(root / "vocab.txt"))
        save_model(root / "made", *made)
        return read_model(root / "made"), *parity.load(root / "made")[1:]

    return make


def embed(model, params, state):
    return [model.embed(modality, params, state, INPUTS[modality])[0] for modality in INPUTS]


def compute(tasks, views, similarity, similarity_params):
    ids = np.arange(SIZE, dtype=np.int32)
    context = Context(ids, ids, similarity, similarity_params)
    terms = [
        weight * LOSSES[name].function(*views, context, **options)[0]
        for name, weight, options in tasks
    ]
    return sum(terms)


def check_gradients(found, weights, convert, name, variant=""):
    """Compares the gradients of a modality's parameters with those in torch.

    The gradients of a state dict are converted like weights.
    """
    missing = {key: value for key, value in weights.items() if value.grad is None}
    gradients = {key: value.grad for key, value in weights.items() if value.grad is not None}
    gradients |= {key: value.detach() * 0 for key, value in missing.items()}
    converted = convert(name, gradients, variant)[1]
    parity.check_gradients(found, converted, ["image/encoder/"])


def named(model, buffers):
    """Parameters, and statistics that have no gradient, by the names of the state dict."""
    return dict(model.named_parameters()) | buffers


def freeze(params):
    image = {**params["image"], "encoder": jax.lax.stop_gradient(params["image"]["encoder"])}
    return {**params, "image": image}


@pytest.mark.slow
@pytest.mark.parametrize(("embeddings", "variant"), [(1, "legacy"), (2, "legacy"), (3, "final")])
def test_pvse_equals_torch(torch, convert, embeddings, variant):
    cnn, forward = make_resnet(torch, SMALL)
    model, functions = make_pvse(
        torch, cnn, forward,
        channels=CHANNELS, rows=ROWS, embeddings=embeddings, legacy=variant == "legacy",
    )  # fmt: skip
    description, params, state = convert("pvse", model.state_dict(), variant)
    ours = make_dual_encoder(description.model())
    assert ours.similarity.name == ("cosine" if embeddings == 1 else "max_cosine")
    tasks = PVSE_TASKS[:1] if embeddings == 1 else PVSE_TASKS

    def loss(params):
        views = embed(ours, freeze(params), state)
        return compute(tasks, views, ours.similarity, {}), views

    run = jax.jit(jax.value_and_grad(loss, has_aux=True))
    (value, views), gradients = run(params)
    pixels = torch_pixels(torch, INPUTS["image"]["image"])
    images = functions.images(pixels)
    texts = functions.texts(torch.tensor(IDS), torch.tensor(LENGTHS))
    for view, (vectors, residuals, attention) in zip(views, (images, texts), strict=True):
        expected = vectors[:, 0] if embeddings == 1 else vectors
        assert view.vector.shape == expected.shape
        assert parity.relative(view.vector, expected.detach()) < 1e-4
        assert parity.relative(view.extras["residuals"], residuals.detach()) < 1e-4
        assert parity.relative(view.extras["attention"], attention.detach()) < 1e-4
    expected = torch_pvse_loss(torch, images, texts)
    np.testing.assert_allclose(value, expected.item(), rtol=1e-4)
    expected.backward()
    check_gradients(gradients, named(model, dict(model.named_buffers())), convert, "pvse", variant)


@pytest.mark.slow
def test_pcme_equals_torch(torch, convert):
    cnn, forward = make_resnet(torch, SMALL)
    model, functions, criterion = make_pcme(torch, cnn, forward, channels=CHANNELS, rows=ROWS)
    for module in (model.img_enc.uncertain_net, model.txt_enc.uncertain_net):
        for weight in module.parameters():  # Spreads near 1, as for samples.
            weight.data *= 0.3
    learned = {f"criterion.{name}": array for name, array in criterion.state_dict().items()}
    description, params, state = convert("pcme", model.state_dict() | learned)
    assert description.parameters == pytest.approx({"match_scale": 0.7, "match_shift": 1.3})
    ours = make_dual_encoder(description.model())
    tasks = [("soft_contrastive", 1.0, {"kl_weight": 0.01})]
    numbers = {"match_scale": np.float32(0.7), "match_shift": np.float32(1.3)}

    def loss(params, numbers):
        views = embed(ours, freeze(params), state)
        similarity = make_similarity({"name": "match_probability"})
        return compute(tasks, views, similarity, numbers), views

    run = jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))
    (value, views), (gradients, of_numbers) = run(params, numbers)
    pixels = torch_pixels(torch, INPUTS["image"]["image"])
    modalities = [
        functions.images(pixels),
        functions.texts(torch.tensor(IDS), torch.tensor(LENGTHS)),
    ]
    samples, spreads = [], []
    for view, (mean, spread) in zip(views, modalities, strict=True):
        assert parity.relative(view.extras["mean"], mean.detach()) < 1e-4
        assert parity.relative(view.log_sigma, spread.detach()) < 1e-4
        # Use our noise, so that the samples are the same.
        noise = (view.vector - view.extras["mean"][:, None]) / np.exp(view.log_sigma)[:, None]
        samples.append(mean[:, None] + spread.exp()[:, None] * torch.tensor(np.array(noise)))
        spreads.append(spread)
        assert parity.relative(view.vector, samples[-1].detach()) < 1e-4
    expected = torch_pcme_loss(torch, *samples, spreads, criterion, 0.01)
    np.testing.assert_allclose(value, expected.item(), rtol=1e-4)
    expected.backward()
    check_gradients(gradients, named(model, dict(model.named_buffers())), convert, "pcme")
    for name, scalar in (("scale", criterion.negative_scale), ("shift", criterion.shift)):
        found = of_numbers[f"match_{name}"]
        np.testing.assert_allclose(found, scalar.grad.item(), rtol=1e-4)
