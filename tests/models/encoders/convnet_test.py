"""The small residual network against loops over pixels."""

import numpy as np
import pytest

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (2, 7, 6, 3), np.uint8)
KEYWORDS = {"channels": (4, 5), "units": (1, 2), "normalization": "unit"}


def convolve(x, kernel, stride):
    """A 3x3 convolution of one map [H, W, I] with TensorFlow's SAME padding."""
    sizes = [-(-n // stride) for n in x.shape[:2]]
    pads = [max((m - 1) * stride + 3 - n, 0) for n, m in zip(x.shape, sizes, strict=False)]
    x = np.pad(x, [*((p // 2, p - p // 2) for p in pads), (0, 0)])
    rows, columns = sizes
    return np.array(
        [
            [
                np.einsum("hwi,hwio->o", x[stride * r :][:3, stride * c : stride * c + 3], kernel)
                for c in range(columns)
            ]
            for r in range(rows)
        ]
    )


def normalize(x, params, statistics):
    scale = params["scale"] / np.sqrt(statistics["var"] + 1e-5)
    return np.maximum((x - statistics["mean"]) * scale + params["bias"], 0)


def encode(image, params, statistics):
    x = image / 255.0
    for stage in ("stage1", "stage2"):
        x = convolve(x, params[stage]["kernel"], 2)
        for unit in sorted(name for name in params if name.startswith(f"{stage}_")):
            own, branch = params[unit], x
            for name in ("first", "second"):
                norm = f"{name}_norm"
                branch = normalize(branch, own[norm], statistics[unit][norm])
                branch = convolve(branch, own[name]["kernel"], 1)
            x = x + branch
    x = normalize(x, params["norm"], statistics["norm"])
    return x.reshape(-1, x.shape[-1])


@pytest.mark.parametrize("remat", [False, True])
def test_equals_the_loop(tower, random_variables, remat):
    made = tower("convnet", head={"name": "flatten"}, remat=remat, **KEYWORDS)
    params, state = random_variables(made, {"image": IMAGES}, scale=0.4)
    vector = made.apply(params, state, {"image": IMAGES})[0].vector
    assert vector.shape == (2, 2 * 2 * 5)
    arrays, statistics = params["encoder"], state["batch_stats"]["encoder"]
    expected = [encode(image, arrays, statistics).ravel() for image in IMAGES]
    np.testing.assert_allclose(vector, expected, rtol=1e-4, atol=1e-5)
