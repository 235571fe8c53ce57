"""CLIP and SigLIP against torch: values, gradients, three steps."""

import math

import jax
import numpy as np
import optax
import parity
import published_clip as published
import pytest

from xmodal.core.config import read
from xmodal.core.errors import UserError
from xmodal.models import make_dual_encoder
from xmodal.pretrained.converters import convert
from xmodal.pretrained.model_folder import save_model
from xmodal.train.optimization.optimizer import OptimizerConfig, make_optimizer
from xmodal.train.step.task_losses import clamp_scales, compute_losses
from xmodal.train.step.tasks import make_tasks
from xmodal.train.tree import flatten

IMAGES = parity.images(4, published.PIXELS)
IDS, MASK = published.texts()
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
RATE, STEPS = 1e-3, 3
LIMIT = math.log(100)


@pytest.fixture(scope="module")
def torch():
    pytest.importorskip("transformers")
    return pytest.importorskip("torch")


def params_of(arrays):
    """Flat arrays as the parameters of a model."""
    flat = {
        name.replace("/params/", "/", 1): array
        for name, array in arrays.items()
        if "/batch_stats/" not in name
    }
    return parity.nest({f"params/{name}": array for name, array in flat.items()})[0]


def inputs_of(ids, mask):
    return {
        "image": {"image": IMAGES},
        "text": {"text_ids": ids.astype(np.int32), "text_mask": mask.astype(np.int32)},
    }


def make_loss(description, loss, inputs, dtype="float32"):
    """The model, and a function from parameters to the loss, unit vectors and logits."""
    section = description.model()
    for modality in ("image", "text"):
        section[modality]["encoder"]["dtype"] = dtype
    model = make_dual_encoder(section)
    tasks = make_tasks({
        "i2t": {"views": ("image", "caption_0"), "loss": {"name": loss}, "negatives": "pair"}
    })  # fmt: skip

    def compute(params):
        views = {
            modality: model.embed(modality, params, {modality: {}}, inputs[modality])[0]
            for modality in inputs
        }
        batch = {"image_id": np.arange(len(IMAGES), dtype=np.int32)}
        total, _, _ = compute_losses(
            tasks, {"image": views["image"], "caption_0": views["text"]}, batch, params, {},
            similarity=model.similarity, seed=0, step=np.int32(0),
        )  # fmt: skip
        unit = {modality: model.similarity.prepare(view) for modality, view in views.items()}
        logits = model.similarity.logits(unit["image"], unit["text"], params["similarity"])
        return total, (unit, logits)

    return model, tasks, compute


def torch_outputs(torch, model, ids, mean, std):
    pixels = (torch.tensor(IMAGES) / 255 - torch.tensor(mean)) / torch.tensor(std)
    return model(
        input_ids=torch.tensor(ids), pixel_values=pixels.permute(0, 3, 1, 2), return_loss=True
    )


def check_values(found, expected, tolerance):
    loss, (unit, logits) = found
    assert parity.relative(loss, expected.loss.detach()) < tolerance
    assert parity.relative(unit["image"], expected.image_embeds.detach()) < tolerance
    assert parity.relative(unit["text"], expected.text_embeds.detach()) < tolerance
    assert parity.relative(logits, expected.logits_per_image.detach()) < tolerance


def save_with(model, tensors, folder, source):
    """A folder with other numbers under the names of the model's arrays."""
    arrays = published.arrays_of(model) | tensors
    published.write(folder, arrays)
    for name in ("config.json", "merges.txt", "spiece.model"):
        if (source / name).exists():
            (folder / name).write_bytes((source / name).read_bytes())
    return folder


def check_gradients(gradients, model, kind, folder, source):
    """To 1e-4 of the largest number of an array; those of key biases are zero."""
    tensors = {name: each.grad.numpy() for name, each in model.named_parameters()}
    wanted = flatten(
        params_of(published.convert(kind, save_with(model, tensors, folder, source))[0])
    )
    found = flatten(gradients)
    assert found.keys() == wanted.keys()
    for path, expected in wanted.items():
        if path.endswith("key/bias"):
            assert np.abs(found[path]).max() < 1e-5, path
        else:
            assert parity.relative(found[path], expected) < 1e-4, path


@pytest.mark.slow
def test_clip_equals_torch(torch, clip, tmp_path):
    """Embeddings, logits, loss, gradients, and three steps of CLIP's AdamW with its clamp."""
    model, folder = clip
    arrays, description = published.convert("clip", folder)
    params = params_of(arrays)
    description = _with(description, max_logit_scale=100.0)
    ours, tasks, compute = make_loss(description, "softmax", inputs_of(IDS, MASK))
    step = jax.jit(jax.value_and_grad(compute, has_aux=True))
    found, gradients = step(params)
    expected = torch_outputs(torch, model, IDS, MEAN, STD)
    check_values(found, expected, 1e-5)
    expected.loss.backward()
    check_gradients(gradients, model, "clip", tmp_path / "gradients", folder)
    half = make_loss(description, "softmax", inputs_of(IDS, MASK), "bfloat16")[-1]
    check_values(jax.jit(half)(params), expected, 2e-2)

    decayed = r".*(kernel|word_embeddings|position_embeddings)$"
    options = {
        "learning_rate": RATE, "name": "adamw", "options": {"b2": 0.98, "eps": 1e-6},
        "weight_decay": {"rate": 0.2, "pattern": decayed},
    }  # fmt: skip
    optimizer = make_optimizer(read(OptimizerConfig, "optimizer", options), STEPS, params)
    start = params["similarity"]["log_scale"] = np.float32(LIMIT - 1e-4)

    @jax.jit
    def update(params, state, gradients):
        changes, state = optimizer.update(gradients, state, params)
        params = optax.apply_updates(params, changes)
        return clamp_scales(tasks, params, ours.similarity), state

    before = {name: each.detach().clone() for name, each in model.named_parameters()}
    try:
        with torch.no_grad():
            model.logit_scale.fill_(float(start))
        matrices = [each for each in model.parameters() if each.ndim > 1]
        others = [each for each in model.parameters() if each.ndim < 2]
        groups = [{"params": matrices, "weight_decay": 0.2}, {"params": others, "weight_decay": 0}]
        torch_optimizer = torch.optim.AdamW(groups, RATE, (0.9, 0.98), 1e-6)
        state, scales = optimizer.init(params), []
        trained = params
        for _ in range(STEPS):
            trained, state = update(trained, state, step(trained)[1])
            torch_optimizer.zero_grad()
            torch_outputs(torch, model, IDS, MEAN, STD).loss.backward()
            torch_optimizer.step()
            with torch.no_grad():
                model.logit_scale.clamp_(0, LIMIT)
            scales.append((float(trained["similarity"]["log_scale"]), model.logit_scale.item()))
        wanted = published.convert("clip", save_with(model, {}, tmp_path / "trained", folder))[0]
    finally:
        model.load_state_dict(before, strict=False)
    np.testing.assert_allclose(*np.transpose(scales), rtol=1e-6)
    # The scale rises beyond its limit at once, and comes back.
    assert scales[0][0] == pytest.approx(LIMIT, rel=1e-6) or scales[0][0] < float(start)
    _check_movement(params, trained, params_of(wanted))


def _with(description, **options):
    similarity = {**description.similarity, **options}
    return type(description)(description.towers, similarity, description.parameters)


def _check_movement(start, ours, theirs):
    """The way of each array differs by at most 1e-3 of its length; single numbers may more."""
    start, ours, theirs = map(flatten, (start, ours, theirs))
    for path, wanted in theirs.items():
        error, moved = ours[path] - wanted, wanted - start[path]
        if path.endswith("key/bias"):
            # Gradients of key biases are rounding errors, which Adam scales up to the rate.
            assert np.abs(error).max() <= 2 * STEPS * RATE, path
        else:
            assert np.linalg.norm(error) < 1e-3 * np.linalg.norm(moved), path


@pytest.mark.slow
def test_siglip_equals_torch(torch, siglip, tmp_path):
    """Pads are read; scale and bias are learned."""
    model, folder = siglip
    ids = np.random.default_rng(5).integers(0, 40, IDS.shape)
    arrays, description = published.convert("siglip", folder)
    params, inputs = params_of(arrays), inputs_of(ids, np.ones_like(ids))
    compute = make_loss(description, "sigmoid", inputs)[-1]
    found, gradients = jax.jit(jax.value_and_grad(compute, has_aux=True))(params)
    expected = torch_outputs(torch, model, ids, (0.5,) * 3, (0.5,) * 3)
    check_values(found, expected, 1e-5)
    expected.loss.backward()
    check_gradients(gradients, model, "siglip", tmp_path / "gradients", folder)
    model.zero_grad()
    half = make_loss(description, "sigmoid", inputs, "bfloat16")[-1]
    check_values(jax.jit(half)(params), expected, 2e-2)
    text = description.towers["text"]
    assert text.preprocessing == {
        "lower_case": True, "max_length": published.TEXT, "attend_to_padding": True,
        "tokenizer": "sentencepiece", "end": "</s>", "pad": "</s>",
    }  # fmt: skip
    assert description.towers["image"].preprocessing == {
        "size": 24, "eval_transform": "squash", "eval_crop": 1.0
    }  # fmt: skip


@pytest.mark.slow
def test_the_resnet_equals_torch(torch, clip, tmp_path):
    """open_clip's own ModifiedResNet, and the text tower of the other test."""
    model, folder = clip
    resnet = published.make_resnet(torch, width=8, units=(1, 2, 1, 1), pixels=64, output=24)
    names = published.openai_arrays(published.arrays_of(model))
    arrays = {name: array for name, array in names.items() if not name.startswith("visual.")}
    arrays |= {f"visual.{name}": array.numpy() for name, array in resnet.state_dict().items()}
    published.write(tmp_path / "rn", arrays)
    source, merges = tmp_path / "rn", str(folder / "merges.txt")
    with pytest.raises(UserError, match="nothing in it names the activation"):
        published.convert("clip", source, vocabulary=merges)
    made = convert("clip", source, "quick_gelu", merges)
    save_model(tmp_path / "made", *made)
    images = parity.images(3, 64)
    _, description, found = parity.embed_converted(tmp_path / "made", images, IDS[:3], MASK[:3])
    assert description.towers["image"].encoder["units"] == [1, 2, 1, 1]
    assert description.towers["image"].preprocessing["size"] == 64
    with torch.no_grad():
        pixels = (torch.tensor(images) / 255 - torch.tensor(MEAN)) / torch.tensor(STD)
        expected = resnet(pixels.permute(0, 3, 1, 2))
    assert parity.relative(found["image"].vector, expected) < 1e-5
