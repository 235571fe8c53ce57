"""cuDNN's attention: the same function in XLA against loops, and programs lowered for CUDA."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import transformer_reference as reference
from jax._src.cudnn import fused_attention_stablehlo as kernels

from xmodal.models import Devices
from xmodal.models.attention import attend, attend_fused, split_heads
from xmodal.models.basics import Mode
from xmodal.models.encoders.vit import VitConfig, make_vit

KERNEL = "__cudnn$fmhaSoftmax"
# Nine patches, an odd number, and ten tokens with that of the class.
VIT = {"patch": 2, "width": 16, "depth": 2, "heads": 2, "mlp_dim": 8, "dtype": "bfloat16"}
IMAGES = {"image": np.zeros((3, 6, 6, 3), np.uint8)}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("tokens", "lengths"), [(5, None), (5, (5, 2, 0)), (6, None), (6, (3, 6, 1))]
)
def test_equals_a_loop_and_its_gradients_those_of_products(causal, tokens, lengths):
    rng = np.random.default_rng(tokens)
    query, key, value = rng.normal(size=(3, 3, tokens, 9)).astype(np.float32)
    mask = None if lengths is None else np.arange(tokens) < np.asarray(lengths)[:, None]
    # Nobody reads what padding attends to.
    real = np.ones((3, tokens), bool) if mask is None else mask
    changes = np.where(real[..., None], rng.normal(size=query.shape), 0).astype(np.float32)

    def run(function, **options):
        def total(*inputs):
            heads = (split_heads(x, 3) for x in inputs)
            found = function(*heads, mask, causal=causal, **options)
            return jnp.sum(found * changes), found

        return jax.jit(jax.value_and_grad(total, (0, 1, 2), has_aux=True))(query, key, value)

    (_, found), gradients = run(attend_fused, implementation="xla")
    assert np.isfinite(found).all()
    for row, place in np.argwhere(real):
        length = tokens if lengths is None else lengths[row]
        seen = min(length, place + 1) if causal else length
        one = query[row, place : place + 1]
        expected = reference.attention(one, key[row], value[row], seen, 3)[0]
        np.testing.assert_allclose(found[row, place], expected, rtol=1e-5, atol=1e-6)
    for one, other in zip(gradients, run(attend)[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    few, *others = (split_heads(x, 3) for x in (query[:, :3], key, value))
    found_few = attend_fused(few, *others, mask, causal=causal, implementation="xla")
    seen = real[:, :3]
    np.testing.assert_allclose(found_few[seen], found[:, :3][seen], rtol=1e-5, atol=1e-6)


@pytest.fixture
def cuda(monkeypatch):
    """Lowers a function for CUDA, as a machine that has cuDNN would."""
    monkeypatch.setattr(kernels, "check_cudnn_version", lambda: 91000)

    def lower(function, *arguments):
        return jax.jit(function).trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()

    return lower


def embed(encoder, inputs, mode=Mode.EVALUATE, mutable=()):
    """`(function, variables)` of the sum of an encoder's tokens, without values."""
    variables = jax.eval_shape(lambda: encoder.init(jax.random.key(0), inputs, mode))

    def total(variables):
        rngs = {"dropout": jax.random.key(1)}
        features, _ = encoder.apply(variables, inputs, mode, rngs=rngs, mutable=list(mutable))
        return jnp.sum(features.tokens.astype(jnp.float32))

    return total, variables


@pytest.mark.parametrize("class_token", [False, True])
def test_gpus_run_the_kernel_both_ways_in_a_layer(class_token, cuda):
    config = VitConfig(**VIT, class_token=class_token, attention="cudnn")
    total, variables = embed(make_vit(config, Devices(1, "gpu")), IMAGES)
    text = cuda(jax.grad(total), variables)
    assert text.count(f"@{KERNEL}(") == 1
    assert text.count(f"@{KERNEL}Backward(") == 1
    tokens = 9 + class_token
    assert f"tensor<3x{tokens}x16x" in text
    assert f"tensor<3x2x{tokens}x{tokens}x" not in text  # The weights.
