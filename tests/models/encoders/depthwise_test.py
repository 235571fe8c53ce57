import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.models.encoders import depthwise

SHAPES = [  # rows, columns, kernel, stride
    (7, 9, 3, 1),
    (8, 7, 3, 2),
    (9, 12, 5, 2),
    (4, 3, 5, 2),
    (1, 1, 5, 2),
    (9, 7, 1, 2),
    (5, 130, 3, 2),
]


def _reference(x, kernel, stride):
    """Loops over the outputs, with explicit SAME padding as in TensorFlow."""
    batch, rows, columns, channels = x.shape
    size = kernel.shape[0]
    out_rows, out_columns = -(-rows // stride), -(-columns // stride)
    top = max((out_rows - 1) * stride + size - rows, 0) // 2
    left = max((out_columns - 1) * stride + size - columns, 0) // 2
    outputs = np.zeros((batch, out_rows, out_columns, channels))
    for r in range(out_rows):
        for c in range(out_columns):
            for i in range(size):
                for j in range(size):
                    y, z = r * stride + i - top, c * stride + j - left
                    if 0 <= y < rows and 0 <= z < columns:
                        outputs[:, r, c] += x[:, y, z] * kernel[i, j, :, 0]
    return outputs


@pytest.mark.parametrize("name", depthwise.IMPLEMENTATIONS)
@pytest.mark.parametrize(("rows", "columns", "size", "stride"), SHAPES)
def test_values_equal_the_loops(name, rows, columns, size, stride):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, rows, columns, 3)).astype(np.float32)
    kernel = rng.normal(size=(size, size, 3, 1)).astype(np.float32)
    outputs = jax.jit(depthwise.choose(name, "cpu"), static_argnums=2)(x, kernel, stride)
    np.testing.assert_allclose(outputs, _reference(x, kernel, stride), atol=1e-5)


@pytest.mark.parametrize(("rows", "columns", "size", "stride"), SHAPES)
def test_gradients_are_equal(rows, columns, size, stride):
    rng = np.random.default_rng(1)
    x = jnp.asarray(rng.normal(size=(2, rows, columns, 3)), jnp.float32)
    kernel = jnp.asarray(rng.normal(size=(size, size, 3, 1)), jnp.float32)

    def gradients(name):
        def loss(x, kernel):
            return jnp.sum(jnp.sin(depthwise.choose(name, "cpu")(x, kernel, stride)))

        return jax.jit(jax.grad(loss, argnums=(0, 1)))(x, kernel)

    for one, other in zip(gradients("shifted"), gradients("convolution"), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)
