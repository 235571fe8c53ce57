import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.base.config import UserError
from xmodal.models.batch_norm import BatchNorm
from xmodal.models.devices import Devices
from xmodal.models.encoders import efficientnet, packing
from xmodal.models.encoders.depthwise import convolution
from xmodal.models.encoders.mbconv import MBConv, Stage
from xmodal.models.mode import Mode


def _images(batch, size):
    return {"image": np.random.default_rng(1).integers(0, 256, (batch, size, size, 3), np.uint8)}


@pytest.mark.parametrize(
    ("variant", "total"),
    [
        ("b0", 4_049_571),
        pytest.param("b1", 6_575_239, marks=pytest.mark.slow),
        pytest.param("b2", 7_768_569, marks=pytest.mark.slow),
        pytest.param("b3", 10_783_535, marks=pytest.mark.slow),
        ("b4", 17_673_823),
        pytest.param("b5", 28_513_527, marks=pytest.mark.slow),
        pytest.param("b6", 40_960_143, marks=pytest.mark.slow),
        pytest.param("b7", 64_097_687, marks=pytest.mark.slow),
        # Those of efficientnet_lite_pytorch, without the classifier.
        ("lite0", 3_413_024 + 7),
        ("lite2", 4_869_168 + 7),
        pytest.param("lite4", 11_837_936 + 7, marks=pytest.mark.slow),
    ],
)
def test_number_of_parameters(variant, total, tower):
    made = tower("efficientnet", variant=variant)
    shapes = jax.eval_shape(made.init, jax.random.key(0), _images(1, 32))
    # The published totals of keras.applications count 7 numbers of its input normalization.
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == total - 7


def test_drop_connect_rates():
    by_blocks = efficientnet.drop_connect_rates(0.2, depth=1.8)
    assert len(by_blocks) == 32
    np.testing.assert_allclose(by_blocks, [0.2 * index / 32 for index in range(32)])
    assert len(efficientnet.drop_connect_rates(0.2, depth=1.8, lite=True)) == 30
    quirk = efficientnet.drop_connect_rates(0.2, depth=1.8, over="base_blocks")
    assert quirk[-1] == pytest.approx(0.3875)
    assert efficientnet.drop_connect_rates(0.2, 1.0) == efficientnet.drop_connect_rates(
        0.2, 1.0, "base_blocks"
    )


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
        whole, _ = block.clone(drop_connect=0.0).apply(variables, x, Mode.EVALUATE)
        rngs = {"dropout": jax.random.key(2)}
        dropped, _ = block.apply(variables, x, Mode.EVALUATE, rngs=rngs)
        return whole - x, dropped - x

    branch, dropped = map(np.asarray, compute(variables, x))
    kept = np.any(dropped != 0, axis=(1, 2, 3))
    assert np.mean(kept) == pytest.approx(0.75, abs=0.03)
    np.testing.assert_allclose(dropped[kept], branch[kept] / 0.75, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("expand", "gated", "images"), [(1, True, 1), (2, True, 1), (2, True, 2), (2, False, 2)]
)
def test_estimated_means_and_recomputed_gradients_change_no_result(expand, gated, images):
    block = MBConv(
        Stage(kernel=3, blocks=1, channels=8, expand=expand, stride=1),
        channels=8, stride=1, depthwise=convolution, norm=BatchNorm,
        activation=jax.nn.silu, dtype=jnp.float32, squeeze_excite=gated,
    )  # fmt: skip
    x = jnp.asarray(30 + np.random.default_rng(0).normal(size=(4, 9, 6, 8)), jnp.float32)
    variables = jax.jit(block.init, static_argnums=2)(jax.random.key(0), x, Mode.TRAIN)

    def step(fuse):
        def loss(params, x):
            state = variables | {"params": params}
            packed = packing.pack(x, images)
            estimate = packing.estimate_mean(packed) if fuse else None
            (y, estimate), new = block.apply(
                state, packed, Mode.TRAIN, estimate, mutable=["batch_stats"]
            )
            assert (estimate is not None) == fuse
            y = packing.unpack(y)
            return jnp.sum(jnp.sin(y - x)), (y, new)

        return jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True))(variables["params"], x)

    def check(fused, plain):
        np.testing.assert_allclose(fused, plain, atol=1e-4 * np.max(np.abs(plain)) + 1e-4)

    jax.tree.map(check, step(True), step(False))


@pytest.mark.parametrize("channels", [8, 6])
def test_a_block_knows_the_means_of_its_output(channels):
    block = MBConv(
        Stage(kernel=3, blocks=1, channels=channels, expand=2, stride=1),
        channels=channels, stride=1, depthwise=convolution, norm=BatchNorm,
        activation=jax.nn.silu, dtype=jnp.float32, squeeze_excite=True,
    )  # fmt: skip
    x = jnp.asarray(3 + np.random.default_rng(0).normal(size=(4, 9, 6, 8)), jnp.float32)
    estimate = jnp.mean(x, axis=(0, 1, 2))

    @jax.jit
    def compute(x, estimate):
        variables = block.init(jax.random.key(0), x, Mode.TRAIN, estimate)
        bias = jnp.arange(float(channels))
        variables["params"]["project_norm"]["bias"] = bias
        return block.apply(variables, x, Mode.TRAIN, estimate, mutable=["batch_stats"])[0]

    y, estimate = compute(x, estimate)
    np.testing.assert_allclose(estimate, jnp.mean(y, axis=(0, 1, 2)), atol=1e-4)


@pytest.mark.slow
def test_remat_and_dtype_change_memory_not_parameters(random_variables, monkeypatch, tower):
    monkeypatch.setattr(efficientnet, "STAGES", efficientnet.STAGES[1:2])
    images = _images(4, 16)
    options = {"width": 0.25, "depth": 1.0, "drop_connect": 0.5, "depthwise": "convolution"}
    plain = tower("efficientnet", **options)
    params, state = random_variables(plain, images)

    def gradient(made):
        def loss(params):
            key = jax.random.key(0)
            embedding, new_state = made.apply(params, state, images, train=True, key=key)
            return jnp.sum(jnp.square(embedding.vector)), new_state

        return jax.jit(jax.value_and_grad(loss, has_aux=True))(params)

    expected = gradient(plain)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5),
        gradient(tower("efficientnet", remat=True, **options)),
        expected,
    )
    (value, new_state), gradients = gradient(tower("efficientnet", dtype="bfloat16", **options))
    assert {leaf.dtype for leaf in jax.tree.leaves((new_state, gradients))} == {np.dtype("float32")}
    assert value == pytest.approx(float(expected[0][0]), rel=0.05)


def test_wrong_inputs_and_options_name_the_remedy(tower):
    made = tower("efficientnet", variant="b0", projection=5)
    with pytest.raises(ValueError, match=r"uint8 images .* float32 \[2, 8, 8, 3\]"):
        made.init(jax.random.key(0), {"image": np.zeros((2, 8, 8, 3), np.float32)})
    with pytest.raises(ValueError, match="pass key="):
        made.apply({}, {}, _images(1, 8), train=True)
    with pytest.raises(UserError, match="side.encoder.variant; known: .'b0', 'b1'"):
        tower("efficientnet", variant="b9")
    with pytest.raises(UserError, match=r"a variant .* or a width and a depth"):
        tower("efficientnet")
    with pytest.raises(UserError, match="'batch', 'batch_frozen', 'running'"):
        tower("efficientnet", variant="b0", batch_norm="none")
    with pytest.raises(UserError, match="'global', 'per_device'"):
        tower("efficientnet", variant="b0", statistics="none")
    with pytest.raises(UserError, match="drop_connect is 1.5; it must be less than 1"):
        tower("efficientnet", variant="b0", drop_connect=1.5)
    with pytest.raises(UserError, match="'base_blocks', 'blocks'"):
        efficientnet.drop_connect_rates(0.2, 1.0, "layers")


def test_momentum_of_the_running_statistics():
    settings = efficientnet.EfficientNetConfig(width=0.25, depth=0.25, momentum=0.9)
    encoder = efficientnet.make_efficientnet(settings, Devices(1, "cpu"))
    norm = encoder.norm()
    x = np.full((2, 3), 5.0, np.float32)
    fresh = norm.init(jax.random.key(0), x, Mode.EVALUATE)
    _, moved = norm.apply(fresh, x, Mode.TRAIN, mutable="batch_stats")
    np.testing.assert_allclose(moved["batch_stats"]["mean"], 0.5 + 0 * x[0], rtol=1e-6)
    np.testing.assert_allclose(moved["batch_stats"]["var"], 0.9 + 0 * x[0], rtol=1e-6)
