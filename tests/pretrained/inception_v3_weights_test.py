import numpy as np
import parity
import pytest

SIZE = 75


def _pixels(images):
    return images / np.float32(127.5) - 1


def _keras():
    keras = pytest.importorskip("keras")
    # Keras continues numbering layers within a process: start in the middle.
    keras.utils.set_random_seed(0)
    keras.layers.Conv2D(1, 1)
    model = keras.applications.InceptionV3(
        include_top=False, weights=None, pooling="avg", input_shape=(SIZE, SIZE, 3)
    )
    return parity.random_norms(keras, model)


@pytest.mark.slow
def test_equals_keras_applications():
    model = _keras()
    images = parity.images(2, SIZE)
    flat, _ = parity.convert_arrays("inception_v3", parity.keras_arrays(model))
    expected = model(_pixels(images), training=False)
    parity.check_dtypes("inception_v3", flat, images, expected)


def _slim_forward(tf, weights, x):
    """inception_v3 of tensorflow/models, research/slim, up to the pooling."""

    def conv(x, scope, channels, stride=1, padding="SAME", size=None):
        height, width = size or map(int, scope[-3:].split("x"))
        scope = f"InceptionV3/{scope}"
        kernel = weights.kernel(f"{scope}/weights", (height, width, x.shape[-1], channels))
        beta, mean = (
            weights.vector(f"{scope}/BatchNorm/{k}", channels) for k in ("beta", "moving_mean")
        )
        var = weights.vector(f"{scope}/BatchNorm/moving_variance", channels, 1)
        x = tf.nn.conv2d(x, kernel, stride, padding)
        return tf.nn.relu(tf.nn.batch_normalization(x, mean, var, beta, None, 1e-3))

    def branch(x, block, number, *convs):
        for scope, channels, *rest in convs:
            x = conv(x, f"Mixed_{block}/Branch_{number}/{scope}", channels, *rest)
        return x

    def fork(x, block, number, scopes):
        place = f"Mixed_{block}/Branch_{number}"
        return tf.concat([conv(x, f"{place}/{scope}", 384) for scope in scopes], 3)

    def average(x):
        return tf.nn.avg_pool2d(x, 3, 1, "SAME")

    def maximum(x):
        return tf.nn.max_pool2d(x, 3, 2, "VALID")

    x = conv(x, "Conv2d_1a_3x3", 32, 2, "VALID")
    x = conv(x, "Conv2d_2a_3x3", 32, 1, "VALID")
    x = maximum(conv(x, "Conv2d_2b_3x3", 64))
    x = conv(x, "Conv2d_3b_1x1", 80, 1, "VALID")
    x = maximum(conv(x, "Conv2d_4a_3x3", 192, 1, "VALID"))
    for block, first, second, pooled in [
        ("5b", "Conv2d_0a_1x1", "Conv2d_0b_5x5", 32),
        ("5c", "Conv2d_0b_1x1", "Conv_1_0c_5x5", 64),
        ("5d", "Conv2d_0a_1x1", "Conv2d_0b_5x5", 64),
    ]:
        triple = ("Conv2d_0a_1x1", 64), ("Conv2d_0b_3x3", 96), ("Conv2d_0c_3x3", 96)
        x = tf.concat(
            [
                branch(x, block, 0, ("Conv2d_0a_1x1", 64)),
                branch(x, block, 1, (first, 48), (second, 64)),
                branch(x, block, 2, *triple),
                branch(average(x), block, 3, ("Conv2d_0b_1x1", pooled)),
            ],
            3,
        )
    down = (2, "VALID", (3, 3))
    x = tf.concat(
        [
            branch(x, "6a", 0, ("Conv2d_1a_1x1", 384, *down)),
            branch(
                x, "6a", 1, ("Conv2d_0a_1x1", 64), ("Conv2d_0b_3x3", 96),
                ("Conv2d_1a_1x1", 96, *down),
            ),
            maximum(x),
        ],
        3,
    )  # fmt: skip
    for block, inner in [("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)]:
        double = [("Conv2d_0a_1x1", inner), ("Conv2d_0b_7x1", inner), ("Conv2d_0c_1x7", inner)]
        double += [("Conv2d_0d_7x1", inner), ("Conv2d_0e_1x7", 192)]
        single = ("Conv2d_0a_1x1", inner), ("Conv2d_0b_1x7", inner), ("Conv2d_0c_7x1", 192)
        x = tf.concat(
            [
                branch(x, block, 0, ("Conv2d_0a_1x1", 192)),
                branch(x, block, 1, *single),
                branch(x, block, 2, *double),
                branch(average(x), block, 3, ("Conv2d_0b_1x1", 192)),
            ],
            3,
        )
    single = ("Conv2d_0a_1x1", 192), ("Conv2d_0b_1x7", 192), ("Conv2d_0c_7x1", 192)
    x = tf.concat(
        [
            branch(x, "7a", 0, ("Conv2d_0a_1x1", 192), ("Conv2d_1a_3x3", 320, *down)),
            branch(x, "7a", 1, *single, ("Conv2d_1a_3x3", 192, *down)),
            maximum(x),
        ],
        3,
    )
    for block, scopes in [
        ("7b", ("Conv2d_0b_1x3", "Conv2d_0b_3x1")),
        ("7c", ("Conv2d_0b_1x3", "Conv2d_0c_3x1")),
    ]:
        one = branch(x, block, 1, ("Conv2d_0a_1x1", 384))
        two = branch(x, block, 2, ("Conv2d_0a_1x1", 448), ("Conv2d_0b_3x3", 384))
        x = tf.concat(
            [
                branch(x, block, 0, ("Conv2d_0a_1x1", 320)),
                fork(one, block, 1, scopes),
                fork(two, block, 2, ("Conv2d_0c_1x3", "Conv2d_0d_3x1")),
                branch(average(x), block, 3, ("Conv2d_0b_1x1", 192)),
            ],
            3,
        )
    return tf.reduce_mean(x, [1, 2])


@pytest.mark.slow
def test_equals_slim():
    tf = pytest.importorskip("tensorflow")
    weights, images = parity.RandomWeights(), parity.images(2, SIZE)
    expected = _slim_forward(tf, weights, tf.constant(_pixels(images)))
    others = {
        "global_step": np.int64(7),
        "InceptionV3/AuxLogits/Conv2d_1b_1x1/weights": np.zeros((1, 1, 768, 128), np.float32),
        "InceptionV3/Logits/Conv2d_1c_1x1/biases": np.zeros(1001, np.float32),
    }
    flat, report = parity.convert_arrays("inception_v3", weights | others)
    assert len(report.unexpected) == 2
    tower = parity.tower("inception_v3")
    assert parity.relative(parity.embed(tower, flat, images), expected) < 1e-4
