"""ViLT with the released names gives the same scores, gradients and updates as torch."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import parity
import pytest

from xmodal.core.tree_paths import leaves_by_path
from xmodal.data.pixels.images import cut_into_patches
from xmodal.models import Features

PATCH, SIZE, ROWS, WIDTH = 8, 24, 16, 64
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{number}" for number in range(ROWS - 4))]
LENGTHS = (7, 2, 4)
RNG = np.random.default_rng(0)
IDS = np.where(np.arange(7) == 0, 2, RNG.integers(4, ROWS, (len(LENGTHS), 7)))
MASK = np.arange(7) < np.array(LENGTHS)[:, None]
IDS = np.where(MASK, IDS, 0)
# Of 3 x 3, 3 x 4 and 1 x 4 patches.
PICTURES = [RNG.integers(0, 256, (*shape, 3), np.uint8) for shape in ((24, 24), (24, 35), (9, 39))]
IMAGES = np.stack([cut_into_patches(picture, SIZE, PATCH) for picture in PICTURES])
# In exact arithmetic, they have no gradient.
CONSTANT = (
    *(f"cross_encoder/layers_{number}/key/bias" for number in range(3)), "cross_encoder/output/bias"
)  # fmt: skip
RATE, DECAY = 1e-3, 0.01


@pytest.fixture(scope="module")
def theirs():
    transformers = pytest.importorskip("transformers")
    import torch

    torch.manual_seed(0)
    config = transformers.ViltConfig(
        vocab_size=ROWS, hidden_size=WIDTH, num_attention_heads=1, intermediate_size=80,
        num_hidden_layers=3, max_position_embeddings=9, image_size=SIZE, patch_size=PATCH,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, layer_norm_eps=1e-6,
        max_image_length=-1, modality_type_vocab_size=2, qkv_bias=True,
    )  # fmt: skip
    model = transformers.ViltForImageAndTextRetrieval(config).eval()
    # As in the released code.
    model.vilt.embeddings.text_embeddings.LayerNorm.eps = 1e-12
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    return model


def convert(weights, path):
    return parity.convert_torch("vilt", {"state_dict": weights}, path / "model.ckpt", WORDS)


@pytest.fixture(scope="module")
def folder(theirs, tmp_path_factory):
    return convert(theirs.state_dict(), tmp_path_factory.mktemp("vilt"))


def to_released(weights):
    """The names of dandelin/ViLT, with the heads of pretraining beside them."""
    renamed = {}
    for name, array in weights.items():
        name = name.removeprefix("vilt.")
        for old, new in (
            ("embeddings.text_embeddings", "text_embeddings"),
            ("embeddings.cls_token", "transformer.cls_token"),
            ("embeddings.position_embeddings", "transformer.pos_embed"),
            ("embeddings.patch_embeddings.projection", "transformer.patch_embed.proj"),
            ("embeddings.token_type_embeddings", "token_type_embeddings"),
            ("encoder.layer.", "transformer.blocks."),
            ("attention.output.dense", "attn.proj"),
            ("intermediate.dense", "mlp.fc1"),
            ("output.dense", "mlp.fc2"),
            ("layernorm_before", "norm1"),
            ("layernorm_after", "norm2"),
            ("layernorm.", "transformer.norm."),
        ):
            if name.startswith("text_embeddings."):
                break
            name = name.replace(old, new)
        renamed[name] = array
    for kind in ("weight", "bias"):
        for number in range(3):
            start = f"transformer.blocks.{number}."
            parts = [
                renamed.pop(f"{start}attention.attention.{part}.{kind}")
                for part in ("query", "key", "value")
            ]
            renamed[f"{start}attn.qkv.{kind}"] = np.concatenate([p.numpy() for p in parts])
    import torch

    renamed = {name: torch.as_tensor(array) for name, array in renamed.items()}
    return {**renamed, "mlm_score.bias": torch.zeros(3)}


def our_scores(model, params):
    """Scores [I, J] of all pairs."""
    image, _ = model.embed("image", params, {"image": {}}, {"image": IMAGES})
    texts = Features(jnp.asarray(IDS[..., None], jnp.int32), jnp.asarray(MASK))
    pairs = parity.all_pairs(model, params, image.extras["features"], texts)
    return model.cross_encoder.scores(params, *pairs)


def torch_scores(model, images=IMAGES, ids=IDS, mask=MASK):
    """Scores [I, J] of pictures that are padded below and on the right, as in the released code."""
    import torch

    rows = []
    for image in images:
        (height, width), pixels = image[0, :2].astype(int), image[1:]
        grid = pixels[: height * width].reshape(height, width, PATCH, PATCH, 3).swapaxes(1, 2)
        picture = grid.reshape(height * PATCH, width * PATCH, 3) / 127.5 - 1
        padded, seen = np.zeros((3, SIZE, 40)), np.zeros((SIZE, 40), np.int64)
        padded[:, : height * PATCH, : width * PATCH] = picture.transpose(2, 0, 1)
        seen[: height * PATCH, : width * PATCH] = 1
        found = model(
            input_ids=torch.tensor(ids),
            attention_mask=torch.tensor(mask.astype(np.int64)),
            pixel_values=torch.tensor(padded, dtype=torch.float32).expand(len(ids), -1, -1, -1),
            pixel_mask=torch.tensor(seen).expand(len(ids), -1, -1),
        )
        rows.append(found.logits[:, 0])
    return torch.stack(rows)


def loss_of(scores, log_softmax):
    """Text j belongs to image j."""
    log_p = log_softmax(scores)
    return -(log_p[0, 0] + log_p[1, 1] + log_p[2, 2]) / 3


@pytest.mark.slow
def test_scores_gradients_and_updates_equal_transformers(theirs, folder, tmp_path):
    import torch

    model, params, _ = parity.load(folder)

    @jax.jit
    @jax.value_and_grad
    def compute(params):
        return loss_of(our_scores(model, params), jax.nn.log_softmax)

    ours = jax.jit(lambda params: our_scores(model, params))(params)
    with torch.no_grad():
        assert parity.relative(ours, torch_scores(theirs)) < 1e-5
    parity.check_three_steps(
        theirs,
        torch.optim.AdamW(theirs.parameters(), RATE, (0.9, 0.98), 1e-8, weight_decay=DECAY),
        lambda: loss_of(torch_scores(theirs), lambda x: torch.log_softmax(x, -1)),
        params,
        optax.adamw(RATE, 0.9, 0.98, 1e-8, weight_decay=DECAY),
        compute,
        lambda weights: parity.load(convert(weights, parity.new_folder(tmp_path)))[1],
        ignored=CONSTANT,
    )


def test_released_names_give_the_same_arrays(theirs, folder, tmp_path):
    other = convert(to_released(theirs.state_dict()), tmp_path)
    parity.assert_equal_arrays(*(leaves_by_path(parity.load(each)[1]) for each in (folder, other)))


@pytest.mark.slow
def test_a_pretrained_checkpoint_ranks_by_the_logit_of_a_match(theirs, tmp_path):
    import torch

    weights = theirs.state_dict()
    row, bias = weights.pop("rank_output.weight"), weights.pop("rank_output.bias")
    weights["itm_score.fc.weight"] = torch.cat([-3 * row, row])
    weights["itm_score.fc.bias"] = torch.cat([bias + 1, bias])
    model, params, _ = parity.load(convert(weights, tmp_path))
    with torch.no_grad():
        assert parity.relative(our_scores(model, params), torch_scores(theirs)) < 1e-5
