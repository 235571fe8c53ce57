"""CLIP and SigLIP against torch: values, gradients, three steps."""

import jax
import numpy as np
import parity
import published_clip as published
import pytest

from xmodal.core.config import read
from xmodal.core.errors import UserError
from xmodal.models import make_dual_encoder
from xmodal.pretrained.converters import convert
from xmodal.pretrained.folder import save_folder
from xmodal.train.optimization.optimizer import OptimizerConfig, make_optimizer
from xmodal.train.step.task_losses import compute_losses
from xmodal.train.step.tasks import make_tasks

IMAGES = parity.images(4, published.PIXELS)
IDS, MASK = published.texts()
RATE, STEPS = 1e-3, 3
# In exact arithmetic, they have no gradient.
CONSTANT = tuple(f"{modality}/encoder/layers/key/bias" for modality in ("image", "text"))


def params_of(arrays):
    """Flat arrays as the parameters of a model."""
    flat = {f"params/{name.replace('/params/', '/', 1)}": array for name, array in arrays.items()}
    return parity.nest(flat)[0]


def make_loss(description, loss, ids, mask, dtype="float32"):
    """A function from parameters to the loss, unit vectors and logits."""
    inputs = {
        "image": {"image": IMAGES},
        "text": {"text_ids": ids.astype(np.int32), "text_mask": mask.astype(np.int32)},
    }
    section = description.section()
    for modality in inputs:
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
        unit = [model.similarity.prepare(view) for view in views.values()]
        return total, (*unit, model.similarity.logits(*unit, params["similarity"]))

    return compute


def torch_outputs(torch, model, ids, mean, std):
    pixels = (torch.tensor(IMAGES) / 255 - torch.tensor(mean)) / torch.tensor(std)
    return model(
        input_ids=torch.tensor(ids), pixel_values=pixels.permute(0, 3, 1, 2), return_loss=True
    )


def check_values(found, expected, tolerance):
    found = [found[0], *found[1]]
    names = ("loss", "image_embeds", "text_embeds", "logits_per_image")
    for ours, name in zip(found, names, strict=True):
        assert parity.relative(ours, getattr(expected, name).detach()) < tolerance, name


def reader(kind, source, folder):
    """From a state dict of the model in `source` to our parameters."""

    def read_params(weights):
        arrays = {name: np.array(each.detach()) for name, each in weights.items()}
        place = published.write(parity.new_folder(folder), arrays)
        for name in ("config.json", "merges.txt", "spiece.model"):
            if (source / name).exists():
                (place / name).write_bytes((source / name).read_bytes())
        return params_of(published.convert(kind, place)[0])

    return read_params


@pytest.mark.slow
def test_clip_equals_torch(torch, clip, tmp_path):
    """Embeddings, logits, loss, gradients, and three steps of CLIP's AdamW."""
    model, folder = clip
    arrays, description = published.convert("clip", folder)
    params = params_of(arrays)
    compute = make_loss(description, "softmax", IDS, MASK)
    expected = torch_outputs(torch, model, IDS, *published.COLORS)
    check_values(jax.jit(compute)(params), expected, 1e-5)
    half = make_loss(description, "softmax", IDS, MASK, "bfloat16")
    check_values(jax.jit(half)(params), expected, 2e-2)
    decayed = r".*(kernel|word_embeddings|position_embeddings)$"
    options = {
        "learning_rate": RATE, "name": "adamw", "options": {"b2": 0.98, "eps": 1e-6},
        "weight_decay": {"rate": 0.2, "pattern": decayed},
    }  # fmt: skip
    matrices = [each for each in model.parameters() if each.ndim > 1]
    others = [each for each in model.parameters() if each.ndim < 2]
    groups = [{"params": matrices, "weight_decay": 0.2}, {"params": others, "weight_decay": 0}]
    parity.check_three_steps(
        model,
        torch.optim.AdamW(groups, RATE, (0.9, 0.98), 1e-6),
        lambda: torch_outputs(torch, model, IDS, *published.COLORS).loss,
        params,
        make_optimizer(read(OptimizerConfig, "optimizer", options), STEPS, params),
        jax.jit(jax.value_and_grad(lambda params: compute(params)[0])),
        reader("clip", folder, tmp_path),
        ignored=CONSTANT,
    )


@pytest.mark.slow
def test_siglip_equals_torch(torch, siglip, tmp_path):
    """Pads are read; scale and bias are learned."""
    model, folder = siglip
    ids = np.random.default_rng(5).integers(0, 40, IDS.shape)
    arrays, description = published.convert("siglip", folder)
    params, mask = params_of(arrays), np.ones_like(ids)
    compute = make_loss(description, "sigmoid", ids, mask)
    found, gradients = jax.jit(jax.value_and_grad(compute, has_aux=True))(params)
    expected = torch_outputs(torch, model, ids, (0.5,) * 3, (0.5,) * 3)
    check_values(found, expected, 1e-5)
    model.zero_grad()
    expected.loss.backward()
    theirs = reader("siglip", folder, tmp_path)(parity.gradients_of(torch, model))
    parity.check_gradients(gradients, theirs, (*CONSTANT, "image/head/key/bias"))
    half = make_loss(description, "sigmoid", ids, mask, "bfloat16")
    check_values(jax.jit(half)(params), expected, 2e-2)
    assert description.towers["text"].preprocessing == {
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
    source, merges = published.write(tmp_path / "rn", arrays), str(folder / "merges.txt")
    with pytest.raises(UserError, match="nothing in it names the activation"):
        published.convert("clip", source, vocabulary=merges)
    save_folder(tmp_path / "made", *convert("clip", source, "quick_gelu", merges))
    images = parity.images(3, 64)
    _, description, found = parity.embed_converted(tmp_path / "made", images, IDS[:3], MASK[:3])
    assert description.towers["image"].encoder["units"] == [1, 2, 1, 1]
    assert description.towers["image"].preprocessing["size"] == 64
    mean, std = map(torch.tensor, published.COLORS)
    with torch.no_grad():
        expected = resnet(((torch.tensor(images) / 255 - mean) / std).permute(0, 3, 1, 2))
    assert parity.relative(found["image"].vector, expected) < 1e-5
