"""BLIP with the released names gives the embeddings, scores, gradients and updates of torch."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import parity
import pytest

from configs import blip
from xmodal.core import mesh as mesh_lib
from xmodal.core.config import read
from xmodal.core.tree_paths import unflatten
from xmodal.models import Features, make_dual_encoder
from xmodal.pretrained.model_folder import read_model, read_part
from xmodal.train.inherit import inherit
from xmodal.train.initialization.from_towers import load_towers
from xmodal.train.resolve import build_run
from xmodal.train.run_config import fill
from xmodal.train.sections import InitConfig
from xmodal.train.tree import TrainState, flatten

ROWS, WIDTH, EMBED = 16, 64, 10
ENC = ROWS - 1
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{number}" for number in range(ROWS - 6))]
LENGTHS = (7, 2, 4)
RNG = np.random.default_rng(0)
IDS = np.where(np.arange(7) == 0, 2, RNG.integers(4, len(WORDS), (len(LENGTHS), 7)))
MASK = np.arange(7) < np.array(LENGTHS)[:, None]
IMAGES = parity.images(2, 24)
RATE, TEMPERATURE = 1e-3, 0.04
# In exact arithmetic, keys' biases have no gradient.
CONSTANT = {
    *(f"{side}/encoder/layers/key/bias" for side in ("image", "text")),
    *(f"cross_encoder/layers_{number}/cross_attention/key/bias" for number in range(2)),
}


@pytest.fixture(scope="module")
def theirs():
    transformers = pytest.importorskip("transformers")
    import torch

    torch.manual_seed(0)
    sizes = {"hidden_size": WIDTH, "num_attention_heads": 1, "intermediate_size": 80}
    text = {
        **sizes, "vocab_size": ROWS, "num_hidden_layers": 2, "encoder_hidden_size": WIDTH,
        "max_position_embeddings": 9, "hidden_dropout_prob": 0.0, "layer_norm_eps": 1e-12,
        "attention_probs_dropout_prob": 0.0,
    }  # fmt: skip
    vision = {
        **sizes, "num_hidden_layers": 3, "image_size": 24, "patch_size": 8, "layer_norm_eps": 1e-6
    }  # fmt: skip
    config = transformers.BlipConfig(
        text_config=text, vision_config=vision, image_text_hidden_size=EMBED
    )
    model = transformers.BlipForImageTextRetrieval(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    return model


@pytest.fixture(scope="module")
def folder(theirs, tmp_path_factory):
    """The converted folder, from the names of transformers."""
    return convert(theirs.state_dict(), tmp_path_factory.mktemp("blip"))


def convert(weights, path):
    return parity.convert_torch("blip", {"model": weights}, path / "model.pth", WORDS)


def to_released(weights):
    """The names of salesforce/BLIP, with momentum copies and queues beside them."""
    import torch

    renamed = {}
    for name, array in weights.items():
        for old, new in (
            ("vision_model.embeddings.class_embedding", "visual_encoder.cls_token"),
            ("vision_model.embeddings.position_embedding", "visual_encoder.pos_embed"),
            ("vision_model.embeddings.patch_embedding", "visual_encoder.patch_embed.proj"),
            ("vision_model.post_layernorm", "visual_encoder.norm"),
            ("vision_model.encoder.layers", "visual_encoder.blocks"),
            ("layer_norm", "norm"),
            ("self_attn.qkv", "attn.qkv"),
            ("self_attn.projection", "attn.proj"),
        ):
            name = name.replace(old, new)
        renamed[name] = array
    copies = {
        f"{name.partition('.')[0]}_m.{name.partition('.')[2]}": array
        for name, array in renamed.items()
        if not name.startswith("itm_head")
    }
    queue = {"image_queue": array[:1], "ptr_queue": array[:1], "temp": torch.tensor(TEMPERATURE)}
    return {**renamed, **copies, **queue}


def torch_inputs(images=IMAGES, ids=IDS, mask=MASK):
    import torch

    mean, std = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
    pixels = (images / 255.0 - np.array(mean)) / np.array(std)
    return (
        torch.tensor(pixels.transpose(0, 3, 1, 2), dtype=torch.float32),
        torch.tensor(ids),
        torch.tensor(mask.astype(np.int64)),
    )


def torch_vectors(model, pixels, ids, mask):
    image = model.vision_proj(model.vision_model(pixels).last_hidden_state[:, 0])
    text = model.text_encoder(input_ids=ids, attention_mask=mask).last_hidden_state
    return image, model.text_proj(text[:, 0])


def torch_logits(model, pixels, ids, mask):
    """Logits [I, J, 2] of all pairs, with [ENC] in place of [CLS]."""
    import torch

    tokens = model.vision_model(pixels).last_hidden_state
    ids = ids.clone()
    ids[:, 0] = ENC
    rows = []
    for image in tokens:
        found = model.text_encoder(
            input_ids=ids,
            attention_mask=mask,
            encoder_hidden_states=image.expand(len(ids), -1, -1),
            encoder_attention_mask=torch.ones(len(ids), len(image)),
        )
        rows.append(model.itm_head(found.last_hidden_state[:, 0]))
    return torch.stack(rows)


def our_logits(model, params, found):
    texts = jnp.asarray(IDS[..., None], jnp.int32)
    images = model.cross_encoder.prepare("image", params, found["image"].extras["features"])
    texts = model.cross_encoder.prepare("text", params, Features(texts, jnp.asarray(MASK)))
    every = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(IMAGES), *x.shape)), texts)
    return model.cross_encoder.logits(params, images, every)


def load(folder):
    model, _, found = parity.embed_converted(folder, IMAGES, IDS, MASK)
    return model, read_converted(folder), found


def read_converted(folder):
    sides = ("image", "text")
    params = {side: parity.nest(parity.read_weights(folder / side))[0] for side in sides}
    return params | {"cross_encoder": unflatten(read_part(folder, "cross_encoder"))}


@pytest.mark.slow
def test_embeddings_and_scores_equal_transformers(theirs, folder):
    import torch

    model, params, found = load(folder)
    with torch.no_grad():
        image, text = torch_vectors(theirs, *torch_inputs())
        logits = torch_logits(theirs, *torch_inputs())
    assert parity.relative(found["image"].vector, image) < 1e-5
    assert parity.relative(found["text"].vector, text) < 1e-5
    np.testing.assert_array_equal(found["text"].extras["features"].tokens[..., 0], IDS)
    ours = jax.jit(lambda params: our_logits(model, params, found))(params)
    assert parity.relative(ours, logits) < 1e-5


def order_as_blip(logits, cosines, top):
    """Positions [Q, N] by the evaluation of salesforce/BLIP, train_retrieval.py.

    The best of the cosines get logit + cosine, all others -100, whose order is arbitrary there; it
    is that of the cosines here.
    """
    import torch

    scores = torch.full_like(cosines, -100.0)
    for query, row in enumerate(cosines):
        cosine, best = row.topk(top)
        scores[query, best] = logits[query, best] + cosine
    return np.lexsort((-cosines.numpy(), -scores.numpy()))


@pytest.mark.slow
@pytest.mark.parametrize("top", [4, 9])
def test_reranked_orders_equal_those_of_transformers(top, theirs, folder):
    """Complete rankings of both directions, from pictures and strings on."""
    import torch

    images = parity.images(9, 24, seed=2)
    ids, mask, texts = parity.random_sentences(WORDS, 23, longest=6, length=9)
    inputs = torch_inputs(images, ids, mask)
    with torch.no_grad():
        image, text = map(torch.nn.functional.normalize, torch_vectors(theirs, *inputs))
        cosines, logits = image @ text.T, torch_logits(theirs, *inputs)[..., 1]
    expected = {
        "i2t": order_as_blip(logits, cosines, top),
        "t2i": order_as_blip(logits.T, cosines.T, top),
    }
    found = parity.evaluated_orders(folder, images, texts, top=top, first_stage_weight=1.0)
    for direction, orders in expected.items():
        np.testing.assert_array_equal(found[direction], orders)
        by_cosine = np.argsort(-(cosines if direction == "i2t" else cosines.T).numpy())
        assert (orders[:, 0] != by_cosine[:, 0]).any()
        np.testing.assert_array_equal(np.sort(orders[:, :top]), np.sort(by_cosine[:, :top]))


@pytest.mark.slow
def test_gradients_and_updates_equal_transformers(theirs, folder, tmp_path):
    """Three steps of Adam on weights that the text tower and the cross-encoder share."""
    import torch

    model, start, _ = load(folder)

    @jax.jit
    @jax.value_and_grad
    def compute(params):
        image, _ = model.embed("image", params, {"image": {}}, {"image": IMAGES})
        log_p = jax.nn.log_softmax(our_logits(model, params, {"image": image}))
        return -jnp.mean(log_p[..., 1])

    weights = {name: array.clone() for name, array in theirs.state_dict().items()}
    params, optimizer = start, optax.adam(RATE)
    state, rule = optimizer.init(params), torch.optim.Adam(theirs.parameters(), RATE)
    for step in range(3):
        theirs.zero_grad()
        value, gradients = compute(params)
        expected = -torch.log_softmax(torch_logits(theirs, *torch_inputs()), -1)[..., 1].mean()
        expected.backward()
        assert abs(float(value) - expected.item()) < 1e-5
        if step == 0:
            wanted = read_converted(convert(parity.gradients_of(torch, theirs), tmp_path))
            parity.check_gradients(gradients, wanted, ignored=CONSTANT)
        rule.step()
        updates, state = optimizer.update(gradients, state, params)
        params = optax.apply_updates(params, updates)
    (tmp_path / "after").mkdir()
    moved = read_converted(convert(theirs.state_dict(), tmp_path / "after"))
    theirs.load_state_dict(weights)
    parity.check_updates(start, params, moved, ignored=CONSTANT)


def test_released_names_give_the_same_arrays(theirs, folder, tmp_path):
    other = convert(to_released(theirs.state_dict()), tmp_path)
    for part in ("image", "text"):
        one, two = (parity.read_weights(each / part) for each in (folder, other))
        assert one.keys() == two.keys()
        for name, array in one.items():
            np.testing.assert_array_equal(array, two[name])
    one, two = (read_part(each, "cross_encoder") for each in (folder, other))
    assert one.keys() == two.keys() >= {"marker", "output/kernel"}
    for name, array in one.items():
        np.testing.assert_array_equal(array, two[name])


def test_a_run_starts_from_all_of_it(theirs, tmp_path):
    """From its temperature, too; the run keeps what does not belong to the weights."""
    path = convert(to_released(theirs.state_dict()), tmp_path)
    config = blip.get_config("large")
    sizes = {"width": WIDTH, "heads": 1, "mlp_dim": 80}
    config.model.image.encoder.update({**sizes, "patch": 8, "depth": 3})
    texts = {"depth": 2, "vocab_size": len(WORDS), "max_positions": 9}
    config.model.text.encoder.update({**sizes, **texts})
    for side in ("image", "text"):
        config.model[side].projection.width = EMBED
    config.data.image.size, config.data.text.max_length = 24, 9
    config.init_from.model = str(path)
    filled = fill(inherit(config), 2560)
    parts = build_run(filled, mesh_lib.make_mesh(jax.devices()[:1]))
    found = load_towers(parts.state_shapes, InitConfig(model=str(path)))
    assert flatten(parts.state_shapes.all_params()).keys() == found.keys()
    np.testing.assert_allclose(np.exp(-found["similarity/log_scale"]), TEMPERATURE, rtol=1e-6)
    encoder, schedule = filled.model.image.encoder, filled.optimizer.schedule
    assert (encoder.drop_path, encoder.remat, filled.model.text.encoder.dropout) == (0.1, True, 0.1)
    assert (schedule.every, filled.total_steps) == (20, 120)  # 2,560 / 128


def test_positions_are_resampled_for_larger_pictures(folder, caplog):
    """As by torch's interpolation in salesforce/BLIP, models/vit.py (interpolate_pos_embed)."""
    model = make_dual_encoder(read_model(folder).model())
    pictures = {"image": np.zeros((1, 32, 32, 3), np.uint8)}
    shapes = jax.eval_shape(lambda: model.towers["image"].init(jax.random.key(0), pictures))[0]
    state = TrainState(np.int32(0), {"image": shapes}, {}, {}, {})
    source = read(InitConfig, "config.init_from", {"towers": {"image": str(folder / "image")}})
    with caplog.at_level("INFO"):
        found = load_towers(state, source)
    assert "10 positions resampled to 17 (torch_bicubic)" in caplog.text
    assert found["image/encoder/position_embeddings"].shape == (17, WIDTH)
