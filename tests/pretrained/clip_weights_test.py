"""CLIP and SigLIP in four publishers' formats against torch: values, gradients, three steps."""

import math
import os

import jax
import numpy as np
import optax
import parity
import published_clip as published
import pytest

from tests.preprocessing.tiny_pieces import sentencepiece_model
from xmodal.base.config import UserError, read
from xmodal.models import make_dual_encoder
from xmodal.preprocessing.sentence_pieces import sentence_piece_tokens
from xmodal.pretrained.model_converters import convert_model
from xmodal.pretrained.model_folder import save_model
from xmodal.training.optimization.optimizer import OptimizerConfig, make_optimizer
from xmodal.training.tasks import clamp_scales, compute_losses, make_tasks
from xmodal.training.tree import flatten

IMAGES = parity.images(4, published.PIXELS)
IDS, MASK = published.texts()
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
RATE, STEPS = 1e-3, 3
LIMIT = math.log(100)


@pytest.fixture(scope="module")
def torch():
    pytest.importorskip("transformers")
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def clip(torch, tmp_path_factory):
    """A CLIP of transformers, and its folder."""
    model, folder = published.make_clip(torch), tmp_path_factory.mktemp("clip")
    model.save_pretrained(folder)
    (folder / "merges.txt").write_text(published.MERGES)
    return model, folder


@pytest.fixture(scope="module")
def siglip(torch, tmp_path_factory):
    """A SigLIP of transformers, and its folder."""
    folder, pieces = tmp_path_factory.mktemp("siglip"), sentencepiece_model()
    (folder / "spiece.model").write_bytes(pieces)
    model = published.make_siglip(torch, len(sentence_piece_tokens(pieces)))
    model.save_pretrained(folder)
    return model, folder


def convert(kind, source, **options):
    """The arrays, with the numbers of the similarity, and the description."""
    arrays, description, _ = convert_model(kind, source, **options)
    numbers = description.parameters.items()
    arrays |= {f"similarity/{name}": np.float32(value) for name, value in numbers}
    return arrays, description


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
    for side in ("image", "text"):
        section[side]["encoder"]["dtype"] = dtype
    model = make_dual_encoder(section)
    tasks = make_tasks({
        "i2t": {"views": ("image", "caption_0"), "loss": {"name": loss}, "negatives": "pair"}
    })  # fmt: skip

    def compute(params):
        views = {side: model.embed(side, params, {side: {}}, inputs[side])[0] for side in inputs}
        batch = {"image_id": np.arange(len(IMAGES), dtype=np.int32)}
        total, _, _ = compute_losses(
            tasks, {"image": views["image"], "caption_0": views["text"]}, batch, params, {},
            similarity=model.similarity, seed=0, step=np.int32(0),
        )  # fmt: skip
        unit = {side: model.similarity.prepare(view) for side, view in views.items()}
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
    wanted = flatten(params_of(convert(kind, save_with(model, tensors, folder, source))[0]))
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
    arrays, description = convert("clip", folder)
    params = params_of(arrays)
    description = _with(description, max_scale=100.0, clamp=True)
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
        wanted = convert("clip", save_with(model, {}, tmp_path / "trained", folder))[0]
    finally:
        model.load_state_dict(before, strict=False)
    np.testing.assert_allclose(*np.transpose(scales), rtol=1e-6)
    # The scale rises beyond its limit at once, and comes back.
    assert scales[0][0] == pytest.approx(LIMIT, rel=1e-6) or scales[0][0] < float(start)
    _check_movement(params, trained, params_of(wanted))


def _with(description, **options):
    similarity = {**description.similarity, **options}
    return type(description)(description.sides, similarity, description.parameters)


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
    arrays, description = convert("siglip", folder)
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
    text = description.sides["text"]
    assert text.preprocessing == {
        "lower_case": True, "max_length": published.TEXT, "reads_pads": True,
        "tokenizer": "sentencepiece", "end": "</s>", "pad": "</s>",
    }  # fmt: skip
    assert description.sides["image"].preprocessing == {
        "size": 24, "eval_recipe": "squash", "eval_crop": 1.0
    }  # fmt: skip


def assert_equal(found, wanted, atol=0.0):
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=0, atol=atol, err_msg=name)


QUICK = {"embed_dim": 24, "quick_gelu": True, "vision_cfg": {"image_size": 24, "layers": 2,
         "width": 64, "head_width": 32, "patch_size": 8},
         "text_cfg": {"context_length": 12, "vocab_size": 517, "width": 64, "heads": 4,
                      "layers": 3}}  # fmt: skip
PIXELS = {"size": [24, 24], "mode": "RGB", "mean": MEAN, "std": STD, "interpolation": "bicubic",
          "resize_mode": "shortest"}  # fmt: skip


def test_clip_of_openai_and_open_clip(torch, clip, tmp_path):
    """A scripted archive, state dicts, safetensors with a config, and a training checkpoint."""
    model, folder = clip
    wanted, description = convert("clip", folder)
    arrays = published.openai_arrays(published.arrays_of(model))
    merges = {"vocabulary": str(folder / "merges.txt")}

    sizes = {"input_resolution": 24, "context_length": 12, "vocab_size": 517}
    published.script(torch, arrays, tmp_path / "ViT-B-32.pt", **sizes)
    found, openai = convert("clip", tmp_path / "ViT-B-32.pt", **merges)
    assert_equal(found, wanted, atol=1e-3)  # Matrices are float16 there.
    assert openai.sides["image"].encoder["activation"] == "quick_gelu"
    assert openai.sides["image"].preprocessing == description.sides["image"].preprocessing

    config = {"model_cfg": QUICK, "preprocess_cfg": PIXELS}
    saved = published.write(tmp_path / "open", arrays, "open_clip_model.safetensors",
                            open_clip_config=config)  # fmt: skip
    found, open_clip = convert("clip", saved, **merges)
    assert_equal(found, wanted)
    assert open_clip == description

    tensors = {name: torch.tensor(np.array(array)) for name, array in arrays.items()}
    (saved / "open_clip_model.safetensors").unlink()
    torch.save(tensors, saved / "open_clip_pytorch_model.bin")
    assert_equal(convert("clip", saved, **merges)[0], wanted)

    checkpoint = {
        "epoch": 3,
        "name": "run",
        "state_dict": {f"module.{name}": tensor for name, tensor in tensors.items()},
        "optimizer": {"state": {0: {"exp_avg": torch.ones(2)}}, "param_groups": [{"lr": 0.1}]},
    }
    torch.save(checkpoint, tmp_path / "epoch_3.pt")
    with pytest.raises(UserError, match="nothing in it tells the activation .*--variant=quick_gel"):
        convert("clip", tmp_path / "epoch_3.pt", **merges)
    found, exact = convert("clip", tmp_path / "epoch_3.pt", variant="gelu", **merges)
    assert_equal(found, wanted)
    assert exact.sides["text"].encoder["activation"] == "gelu"
    # The widths decide without a config.
    assert exact.sides["image"].encoder["heads"] == 1


@pytest.mark.parametrize("kind", ["stacked", "unstacked", "timm"])
def test_siglip_of_big_vision_and_open_clip(siglip, tmp_path, kind):
    model, folder = siglip
    wanted, description = convert("siglip", folder)
    own, pieces = published.arrays_of(model), {"vocabulary": str(folder / "spiece.model")}
    if kind == "timm":
        source = published.write(tmp_path / "open", published.timm_arrays(own))
        config = {"model_cfg": {
            "embed_dim": 64, "custom_text": True,
            "vision_cfg": {"timm_model_name": "vit_tiny_siglip", "timm_pool": "map",
                           "timm_proj": "none", "image_size": 24},
            "text_cfg": {"heads": 4, "width": 64, "layers": 3, "no_causal_mask": True,
                         "proj_bias": True, "pool_type": "last", "norm_kwargs": {"eps": 1e-6}},
        }}  # fmt: skip
        published.write(tmp_path / "open", published.timm_arrays(own), open_clip_config=config)
        with pytest.raises(UserError, match="tells the activation .*--variant=gelu_tanh"):
            convert("siglip", source, **pieces)
        found, made = convert("siglip", source, variant="gelu_tanh", **pieces)
    else:
        heads = {"image": 2, "text": 4}
        arrays = published.big_vision_arrays(own, heads, stacked=kind == "stacked")
        np.savez(tmp_path / "siglip.npz", **arrays)
        found, made = convert("siglip", tmp_path / "siglip.npz", **pieces)
        assert made.sides["image"].encoder["heads"] == 2
        assert made.sides["image"].preprocessing["eval_recipe"] == "big_vision"
    assert_equal(found, wanted)
    assert made.sides["text"].encoder == description.sides["text"].encoder


def test_the_resnet_equals_torch(torch, clip, tmp_path):
    """RN with two stages: embeddings, and the text side of the other test."""
    model, folder = clip
    resnet = published.make_resnet(torch, width=8, units=(1, 2), output=24)
    names = published.openai_arrays(published.arrays_of(model))
    arrays = {name: array for name, array in names.items() if not name.startswith("visual.")}
    arrays |= {f"visual.{name}": array.numpy() for name, array in resnet.state_dict().items()}
    published.write(tmp_path / "rn", arrays)
    source, merges = tmp_path / "rn", str(folder / "merges.txt")
    with pytest.raises(UserError, match="nothing in it tells the activation"):
        convert("clip", source, vocabulary=merges)
    made = convert_model("clip", source, "quick_gelu", merges)
    save_model(tmp_path / "made", *made)
    images = parity.images(3, 32)
    _, description, found = parity.embed_converted(tmp_path / "made", images, IDS[:3], MASK[:3])
    assert description.sides["image"].encoder["units"] == [1, 2]
    assert description.sides["image"].preprocessing["size"] == 32
    with torch.no_grad():
        pixels = (torch.tensor(images) / 255 - torch.tensor(MEAN)) / torch.tensor(STD)
        expected = resnet.eval()(pixels.permute(0, 3, 1, 2))
    assert parity.relative(found["image"].vector, expected) < 1e-5


def test_bad_input_is_named(torch, clip, siglip, tmp_path):
    (model, folder), (_, other) = clip, siglip
    arrays = published.openai_arrays(published.arrays_of(model))
    merges, config = {"vocabulary": str(folder / "merges.txt")}, {"model_cfg": QUICK}

    def refused(message, kind, source, **options):
        with pytest.raises(UserError, match=message):
            convert(kind, source, **{**merges, **options})

    source = published.write(tmp_path / "open", arrays, open_clip_config=config)
    refused("open_clip_config.json, it was trained with quick_gelu, not .*gelu; leave --variant",
            "clip", source, variant="gelu")  # fmt: skip
    refused("--variant='relu' is none of clip; known: quick_gelu, gelu", "clip", source,
            variant="relu")  # fmt: skip
    changed = {**QUICK, "vision_cfg": {**QUICK["vision_cfg"], "pos_embed_type": "sin_cos_2d"}}
    published.write(source, arrays, open_clip_config={"model_cfg": changed})
    refused("vision_cfg.pos_embed_type='sin_cos_2d', which is not supported", "clip", source)
    published.write(source, arrays, open_clip_config={
        "model_cfg": QUICK, "preprocess_cfg": {**PIXELS, "resize_mode": "longest"}
    })  # fmt: skip
    refused("resizes images by longest, bicubic; known: shortest by bicubic", "clip", source)
    published.write(source, arrays, open_clip_config={
        "model_cfg": QUICK, "preprocess_cfg": {**PIXELS, "size": [32, 32]}
    })  # fmt: skip
    refused("images of 32 pixels, but its positions are for 24", "clip", source)
    cut = {**arrays, "visual.positional_embedding": arrays["visual.positional_embedding"][:9]}
    published.write(source, cut, open_clip_config=config)
    refused("has 8 positions of patches, which make no square", "clip", source)
    del cut["visual.positional_embedding"]
    published.write(source, cut, open_clip_config=config)
    refused("it has no array 'visual.positional_embedding'", "clip", source)
    extra = {**arrays, "visual.transformer.resblocks.0.ls_1.gamma": np.ones(64, np.float32)}
    published.write(source, extra, open_clip_config=config)
    refused(r"1 array.* not expected.*\n  visual.transformer.resblocks.0.ls_1.gamma", "clip",
            source)  # fmt: skip

    # Another model, another tokenizer, no tokenizer.
    refused("no class token, as a SigLIP: use --model=siglip", "clip", other)
    refused("no attention pooling .* use --model=clip", "siglip", folder)
    published.write(tmp_path / "none", {"encoder.weight": np.ones((2, 2), np.float32)})
    refused("no CLIP or SigLIP: it has none of .*'visual.class_embedding'", "clip",
            tmp_path / "none")  # fmt: skip
    refused("is a sentencepiece.model, but the model needs merges.txt", "clip", folder,
            vocabulary=str(other / "spiece.model"))  # fmt: skip
    (tmp_path / "merges.txt").write_text(published.MERGES + "a n\n")
    refused("has 518 tokens, but the model has 517: it belongs to another model", "clip", folder,
            vocabulary=str(tmp_path / "merges.txt"))  # fmt: skip
    published.write(tmp_path / "bare", published.arrays_of(siglip[0]), config={
        "model_type": "siglip", "vision_config": {"num_attention_heads": 2},
            "text_config": {"num_attention_heads": 4}
    })  # fmt: skip
    refused("no tokenizer: put its spiece.model or tokenizer.model or .* use --vocabulary",
            "siglip", tmp_path / "bare", vocabulary="")  # fmt: skip
    published.write(tmp_path / "bare", published.arrays_of(siglip[0]), config={
        "model_type": "siglip2", "vision_config": {"num_attention_heads": 2},
            "text_config": {"num_attention_heads": 4}
    })  # fmt: skip
    refused("model_type='siglip2'; known: .*NaFlex is not supported", "siglip", tmp_path / "bare")

    # A truncated archive, and one that would run a command if it were unpickled.
    published.script(torch, arrays, tmp_path / "whole.pt")
    content = (tmp_path / "whole.pt").read_bytes()
    (tmp_path / "cut.pt").write_bytes(content[: len(content) // 2])
    refused("cut.pt cannot be read as a file of torch.save", "clip", tmp_path / "cut.pt")
    torch.save({**{n: torch.tensor(np.array(a)) for n, a in arrays.items()}, "x": Evil(tmp_path)},
               tmp_path / "evil.pt")  # fmt: skip
    convert("clip", tmp_path / "evil.pt", variant="gelu", **merges)
    assert not (tmp_path / "ran").exists()


class Evil:
    """Creates a file when it is unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder / "ran"),)
