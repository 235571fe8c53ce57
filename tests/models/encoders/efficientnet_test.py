import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.models.basics import Mode
from xmodal.models.batch_norm import BatchNorm
from xmodal.models.encoders import efficientnet
from xmodal.models.encoders.mbconv import MBConv, Stage


def _images(batch, size):
    return {"image": np.random.default_rng(1).integers(0, 256, (batch, size, size, 3), np.uint8)}


@pytest.mark.parametrize(
    ("variant", "total"),
    [
        ("b0", 4_049_571),
        ("b4", 17_673_823),
        pytest.param("b7", 64_097_687, marks=pytest.mark.slow),
        # Those of efficientnet_lite_pytorch, without the classifier.
        ("lite0", 3_413_024 + 7),
        ("lite2", 4_869_168 + 7),
    ],
)
def test_number_of_parameters(variant, total, tower):
    made = tower("efficientnet", variant=variant)
    shapes = jax.eval_shape(made.init, jax.random.key(0), _images(1, 32))
    # The published totals of keras.applications count 7 numbers of its input normalization.
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == total - 7


@pytest.mark.parametrize(("over", "last"), [("blocks", 0.2 * 31 / 32), ("base_blocks", 0.3875)])
def test_drop_connect_of_b4_grows_linearly(over, last):
    rates = efficientnet.drop_connect_rates(0.2, efficientnet.VARIANTS["b4"][1], over)
    assert len(rates) == 32
    np.testing.assert_allclose(rates, np.linspace(0, last, 32))


def test_drop_connect_drops_whole_branches_and_keeps_the_mean():
    block = MBConv(
        Stage(kernel=3, blocks=1, channels=8, expand=1, stride=1),
        channels=8, stride=1, depthwise=lambda x, kernel, stride: x, norm=BatchNorm,
        activation=jax.nn.silu, dtype=jnp.float32, squeeze_excite=True, drop_connect=0.25,
    )  # fmt: skip
    x = jnp.asarray(np.random.default_rng(0).normal(size=(4000, 1, 1, 8)), jnp.float32)
    keys = {"params": jax.random.key(0), "dropout": jax.random.key(1)}
    init = jax.jit(block.init, static_argnums=2)
    variables = init(keys, x, Mode.EVALUATE)

    @jax.jit
    def compute(variables, x):
        whole = block.clone(drop_connect=0.0).apply(variables, x, Mode.EVALUATE)
        rngs = {"dropout": jax.random.key(2)}
        dropped = block.apply(variables, x, Mode.EVALUATE, rngs=rngs)
        return whole - x, dropped - x

    branch, dropped = map(np.asarray, compute(variables, x))
    kept = np.any(dropped != 0, axis=(1, 2, 3))
    assert np.mean(kept) == pytest.approx(0.75, abs=0.03)
    np.testing.assert_allclose(dropped[kept], branch[kept] / 0.75, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "devices"), [("", 1), ("", 2), ("lite0", 1)])
def test_fused_blocks_equal_the_plain(variant, devices, monkeypatch, random_variables, tower):
    """Values, running statistics, dropped branches and gradients, of maps of odd sizes."""
    monkeypatch.setattr(efficientnet, "STAGES", efficientnet.STAGES[:3])
    images = _images(8, 27)
    options = {"variant": variant} if variant else {"width": 0.25, "depth": 1.0}
    options |= {"drop_connect": 0.5, "statistics": "per_device", "devices": devices}
    plain, fused = (tower("efficientnet", form=form, **options) for form in ("plain", "fused"))
    params, state = random_variables(plain, images)
    jax.tree.map(
        lambda a, b: np.testing.assert_array_equal(a.shape, b.shape),
        (params, state),
        random_variables(fused, images),
    )

    def step(made):
        def loss(params):
            key = jax.random.key(0)
            embedding, new_state = made.apply(params, state, images, train=True, key=key)
            return jnp.sum(jnp.sin(embedding.vector)), (embedding.vector, new_state)

        return jax.jit(jax.value_and_grad(loss, has_aux=True))

    expected, actual = (step(made)(params) for made in (plain, fused))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3), actual, expected
    )
    # Four images per array on one device, and on two.
    assert "tensor<2x14x14x4x" in step(fused).lower(params).as_text()
