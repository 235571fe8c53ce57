import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.models.encoders import pixels


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # Of the RGB pixel (255, 51, 0).
        ("imagenet", [(1 - 0.485) / 0.229, (0.2 - 0.456) / 0.224, -0.406 / 0.225]),
        ("torch", [(1 - 0.485) / 0.229, (0.2 - 0.456) / 0.224, -0.406 / 0.225]),
        (
            "clip",
            [
                (1 - 0.48145466) / 0.26862954,
                (0.2 - 0.4578275) / 0.26130258,
                -0.40821073 / 0.27577711,
            ],
        ),
        ("inception", [1, -0.6, -1]),
        ("caffe", [-103.939, 51 - 116.779, 255 - 123.68]),
        ("detector", [-102.9801, 51 - 115.9465, 255 - 122.7717]),
        ("vgg", [255 - 123.68, 51 - 116.779, -103.939]),
        ("unit", [1, 0.2, 0]),
    ],
)
def test_a_known_pixel(name, expected):
    images = np.broadcast_to(np.uint8([255, 51, 0]), (2, 3, 4, 3))
    normal = pixels.normalize(jnp.asarray(images), name)
    assert normal.dtype == np.float32
    np.testing.assert_allclose(normal, np.broadcast_to(expected, images.shape), atol=1e-5)
