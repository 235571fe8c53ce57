"""VSRN's caption generation against torch modules written from its description."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torch_gru import check, check_gradients, make_gru

from xmodal.losses import LOSSES
from xmodal.models import Embedding, make_task_module

VOCABULARY, WIDTH, WORDS, REGIONS = 9, 5, 4, 6
START, END = 1, 2


def captions(lengths, columns):
    """Ids with special tokens, padded, and their mask."""
    rng = np.random.default_rng(0)
    ids = np.zeros((len(lengths), columns), np.int32)
    for row, length in enumerate(lengths):
        ids[row, :length] = [START, *rng.integers(3, VOCABULARY, length - 2), END]
    return ids, np.int32(np.arange(columns) < np.array(lengths)[:, None])


def make(**config):
    given = {"vocab_size": VOCABULARY, "width": WIDTH, "word_width": WORDS, **config}
    return make_task_module("loss.module", "caption_decoder", given)


def problem(lengths, columns, count=REGIONS, **config):
    rng = np.random.default_rng(1)
    module = make(**config)
    regions = rng.normal(size=(len(lengths), count, 7)).astype(np.float32)
    image = Embedding(
        regions[:, 0], extras={"regions": regions, "region_mask": np.ones(regions.shape[:2], bool)}
    )
    ids, mask = captions(lengths, columns)
    inputs = {"text_ids": ids, "text_mask": mask}
    shapes, state = jax.eval_shape(
        lambda key: module.init(key, image, image, inputs, {}), jax.random.key(0)
    )
    assert state == {}
    draw = lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), jnp.float32)  # noqa: E731
    params = jax.tree.map(draw, shapes)
    return module, params, image, inputs


def as_torch(torch, params, regions, ids, mask, max_length):
    """The loss [B] of each caption, in a loop over words as in torch."""
    functional, leaves = torch.nn.functional, {}

    def leaf(name, array):
        leaves[name] = torch.tensor(np.asarray(array), requires_grad=True)
        return leaves[name]

    def linear(name, layer, x):
        bias = leaf(f"{name}/bias", layer["bias"]) if "bias" in layer else 0
        return x @ leaf(f"{name}/kernel", layer["kernel"]) + bias

    encoder = make_gru(torch, {"forward": params["encoder"]["layer1_forward"]})
    decoder = make_gru(torch, {"forward": params["step"]["cell"]})
    outputs, hidden = encoder(linear("regions", params["regions"], regions))
    # One layer on the joined outputs and state.
    weight = torch.cat(
        [leaf("keys/kernel", params["keys"]["kernel"]),
         leaf("step/query/kernel", params["step"]["query"]["kernel"])]
    )  # fmt: skip
    bias = leaf("keys/bias", params["keys"]["bias"])
    scores = leaf("step/scores/kernel", params["step"]["scores"]["kernel"])
    words, out = leaf("words", params["words"]), params["output"]
    out = [leaf("output/kernel", out["kernel"]), leaf("output/bias", out["bias"])]
    # Labels have max_length + 1 columns; the mask covers one padding token after the end.
    labels = torch.zeros(len(ids), max_length + 1, dtype=torch.long)
    covered = torch.zeros(len(ids), max_length + 1)
    for row, (caption, real) in enumerate(zip(ids, mask, strict=True)):
        caption = caption[real == 1].tolist()
        if len(caption) >= max_length:
            caption = [*caption[: max_length - 1], END]
            covered[row, :max_length] = 1
        else:
            covered[row, : len(caption) + 1] = 1
        labels[row, : len(caption)] = torch.tensor(caption)
    total = 0
    for step in range(max_length - 1):
        state = hidden[-1][:, None].expand(-1, outputs.shape[1], -1)
        energy = torch.tanh(torch.cat([outputs, state], dim=2) @ weight + bias) @ scores
        alpha = functional.softmax(energy[..., 0], dim=1)
        context = (alpha[:, None] @ outputs)[:, 0]
        joined = torch.cat([words[labels[:, step]], context], dim=1)
        output, hidden = decoder(joined[:, None], hidden)
        logs = functional.log_softmax(output[:, 0] @ out[0] + out[1], dim=1)
        picked = logs.gather(1, labels[:, step + 1 : step + 2])[:, 0]
        total = total - picked * covered[:, step + 1]
    return total, leaves, encoder, decoder


# Captions shorter than the limit, one equal, one longer; and fewer columns than the limit.
@pytest.mark.parametrize(
    ("lengths", "columns", "max_length"), [((3, 8, 7, 6, 2), 9, 7), ((3, 5, 2), 5, 20)]
)
def test_equals_torch_with_every_gradient(lengths, columns, max_length):
    torch = pytest.importorskip("torch")
    module, params, image, inputs = problem(lengths, columns, max_length=max_length)
    given = torch.tensor(image.extras["regions"], requires_grad=True)
    nll, leaves, encoder, decoder = as_torch(
        torch, params, given, inputs["text_ids"], inputs["text_mask"], max_length
    )
    (nll.sum() / len(lengths)).backward()

    @jax.jit
    def run(params, regions):
        def loss(params, regions):
            described = Embedding(image.vector, extras={**image.extras, "regions": regions})
            outputs, _ = module.apply(params, {}, described, image, inputs, {})
            context = type("Context", (), {"outputs": outputs})
            return LOSSES["caption_generation"].function(described, image, context)[0], outputs

        return jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)(params, regions)

    (value, outputs), (of_params, of_regions) = run(params, image.extras["regions"])
    check(outputs["nll"], nll.detach())
    np.testing.assert_allclose(value, nll.mean().item(), rtol=1e-4)
    targets = [min(length, max_length - 1) for length in lengths]
    np.testing.assert_array_equal(outputs["targets"], targets)
    check(of_regions, given.grad)
    for path, wanted in leaves.items():
        got = of_params
        for part in path.split("/"):
            got = got[part]
        check(got, wanted.grad)
    check_gradients(encoder, {"forward": of_params["encoder"]["layer1_forward"]})
    check_gradients(decoder, {"forward": of_params["step"]["cell"]})
