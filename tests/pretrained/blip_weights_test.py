"""BLIP with the released names gives the embeddings, scores, gradients and updates of torch."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import parity
import pytest

from xmodal.models import Features
from xmodal.pretrained.folder import read_part

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
    *(f"{modality}/encoder/layers/key/bias" for modality in ("image", "text")),
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
    features = found["image"].extras["features"], Features(texts, jnp.asarray(MASK))
    return model.cross_encoder.logits(params, *parity.all_pairs(model, params, *features))


def load(folder):
    _, _, found = parity.embed_converted(folder, IMAGES, IDS, MASK)
    return *parity.load(folder)[:2], found


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

    parity.check_three_steps(
        theirs,
        torch.optim.Adam(theirs.parameters(), RATE),
        lambda: -torch.log_softmax(torch_logits(theirs, *torch_inputs()), -1)[..., 1].mean(),
        start,
        optax.adam(RATE),
        compute,
        lambda weights: parity.load(convert(weights, parity.new_folder(tmp_path)))[1],
        ignored=CONSTANT,
    )


def test_released_names_give_the_same_arrays(theirs, folder, tmp_path):
    other = convert(to_released(theirs.state_dict()), tmp_path)
    for part in ("image", "text"):
        parity.assert_equal_arrays(*(parity.read_weights(each / part) for each in (folder, other)))
    one, two = (read_part(each, "cross_encoder") for each in (folder, other))
    assert one.keys() >= {"marker", "output/kernel"}
    parity.assert_equal_arrays(one, two)
