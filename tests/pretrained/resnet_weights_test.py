import dataclasses

import numpy as np
import parity
import pytest
from safetensors.numpy import save_file
from torch_resnet import make_resnet

from configs.baselines import get_config
from xmodal.pretrained.variants import CONVERTERS
from xmodal.pretrained.weight_files import load_source

# The fewest units such that some widen, some have a stride, and some do neither.
SMALL = (2, 2)
SIZE = 75


def _keras():
    keras = pytest.importorskip("keras")
    from keras.src.applications.resnet import ResNet, stack_residual_blocks_v1

    def stack(x):
        for stage, count in enumerate(SMALL):
            stride = {"stride1": 1} if stage == 0 else {}
            name = f"conv{stage + 2}"
            x = stack_residual_blocks_v1(x, 64 * 2**stage, count, name=name, **stride)
        return x

    keras.utils.set_random_seed(0)
    model = ResNet(
        stack, preact=False, use_bias=True, weights_name="resnet50", weights=None,
        include_top=False, pooling="avg", input_shape=(SIZE, SIZE, 3),
    )  # fmt: skip
    return parity.random_norms(keras, model)


def _caffe(images):
    return images[..., ::-1].astype(np.float32) - np.float32([103.939, 116.779, 123.68])


@pytest.mark.slow
def test_equals_keras_applications(small):
    model, images = _keras(), parity.images(1, SIZE)
    flat, _ = parity.convert_arrays("resnet", parity.keras_arrays(model), "keras")
    expected = model(_caffe(images), training=False)
    parity.check_dtypes("resnet", flat, images, expected, variant="keras")


@pytest.mark.parametrize(
    ("variant", "options", "keywords"),
    [
        ("torchvision", {}, {}),
        ("torchvision", {"groups": 4, "group_width": 32}, {"cardinality": 4, "group_width": 32}),
        ("vse_infinity", {"like_caffe": True}, {}),
    ],
)
def test_equals_torchvision(small, tmp_path, variant, options, keywords):
    torch = pytest.importorskip("torch")
    model, forward = make_resnet(torch, SMALL, **options)
    state = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    save_file(state, tmp_path / "resnet.safetensors")
    arrays = load_source(tmp_path / "resnet.safetensors").arrays
    flat, report = parity.convert_arrays("resnet", arrays, variant)
    assert set(report.unexpected) == {"fc.weight", "fc.bias"}
    images = parity.images(2, SIZE)
    mean, std = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    pixels = torch.tensor((images / np.float32(255) - mean) / std).permute(0, 3, 1, 2)
    with torch.no_grad():
        expected = forward(pixels).mean((2, 3)).numpy()
    parity.check_dtypes("resnet", flat, images, expected, variant=variant, **keywords)


def _conv(tf, weights, x, name, norm, names, size, channels, stride):
    """A convolution with its norm; if it has a stride, it is padded by kernel size."""
    kernel = weights.kernel(f"{name}/{names[0]}", (size, size, x.shape[-1], channels))
    if stride > 1:
        x = tf.pad(x, [[0, 0], *[[(size - 1) // 2] * 2] * 2, [0, 0]])
    x = tf.nn.conv2d(x, kernel, stride, "SAME" if stride == 1 else "VALID")
    gamma, var = (weights.vector(f"{norm}/{leaf}", channels, 1) for leaf in names[1:3])
    beta, mean = (weights.vector(f"{norm}/{leaf}", channels) for leaf in names[3:])
    return tf.nn.batch_normalization(x, mean, var, beta, gamma, 1e-5)


TF_NAMES = ("kernel", "gamma", "moving_variance", "beta", "moving_mean")


def _slim_forward(tf, weights, x):
    """resnet_v1 of tensorflow/models, research/slim."""

    def conv(x, name, *shape):
        name = f"resnet_v1_50/{name}"
        return _conv(tf, weights, x, name, f"{name}/BatchNorm", ("weights", *TF_NAMES[1:]), *shape)

    x = tf.nn.relu(conv(x, "conv1", 7, 64, 2))
    x = tf.nn.max_pool2d(x, 3, 2, "SAME")
    for block, units in enumerate(SMALL, start=1):
        for unit in range(1, units + 1):
            stride = 2 if unit == units and block < len(SMALL) else 1
            width, place = 32 * 2**block, f"block{block}/unit_{unit}/bottleneck_v1"
            if x.shape[-1] == 4 * width:
                shortcut = tf.nn.max_pool2d(x, 1, stride, "SAME")
            else:
                shortcut = conv(x, f"{place}/shortcut", 1, 4 * width, stride)
            y = tf.nn.relu(conv(x, f"{place}/conv1", 1, width, 1))
            y = tf.nn.relu(conv(y, f"{place}/conv2", 3, width, stride))
            x = tf.nn.relu(shortcut + conv(y, f"{place}/conv3", 1, 4 * width, 1))
    return tf.reduce_mean(x, [1, 2])


def _save_hub_module(tf, weights, folder):
    """A module of TF-Hub's for TensorFlow 2, without its function; see reusable_saved_models.md."""
    module = tf.train.Checkpoint()
    statistics = ("moving_mean", "moving_variance")
    module.variables = [
        tf.Variable(array, name=name, trainable=not name.endswith(statistics))
        for name, array in weights.items()
    ]
    module.trainable_variables = [each for each in module.variables if each.trainable]
    decay = tf.function(lambda: tf.nn.l2_loss(module.variables[0]), input_signature=[])
    module.regularization_losses = [decay]
    tf.saved_model.save(module, str(folder))


@pytest.mark.slow
@pytest.mark.parametrize("publisher", ["hub", "slim"])
def test_equals_slim(publisher, small, tmp_path):
    tf = pytest.importorskip("tensorflow")
    weights, images = parity.RandomWeights(), parity.images(2, SIZE + 1)
    mean = np.float32([123.68, 116.779, 103.939])  # Caffe's weights are for RGB minus this.
    pixels = images / np.float32(127.5) - 1 if publisher == "hub" else images - mean
    expected = _slim_forward(tf, weights, tf.constant(pixels))
    others = {"resnet_v1_50/logits/biases": np.zeros(5), "resnet_v1_50/mean_rgb": mean}
    if publisher == "hub":
        _save_hub_module(tf, weights, tmp_path)
    else:
        step = {"global_step": np.int64(7)}
        parity.save_checkpoint(weights | others | step, tmp_path / "resnet.ckpt")
    source = dataclasses.replace(load_source(tmp_path), variant="slim")
    flat, report = parity.convert_arrays("resnet", source.arrays, "slim")
    assert set(report.unexpected) == (set() if publisher == "hub" else set(others))
    # Each of the baselines accepts its own weights alone: a run compares this with its config.
    config = {"hub": "resnet152", "slim": "resnet152_slim"}[publisher]
    wanted = get_config(config).model.image.encoder.normalization
    description = CONVERTERS["resnet"].describe(source).image.description
    assert description.preprocessing["normalization"] == wanted
    tower = parity.tower("resnet", variant="slim", normalization=wanted)
    assert parity.relative(parity.embed(tower, flat, images, jit=False), expected) < 1e-4


def _simclr_forward(tf, weights, x, names):
    """google-research/simclr, sk_ratio 0; `names` of (layer, norm) in the order it makes them."""

    def conv(x, *shape):
        return _conv(tf, weights, x, *next(names), TF_NAMES, *shape)

    x = tf.nn.max_pool2d(tf.nn.relu(conv(x, 7, 64, 2)), 3, 2, "SAME")
    for group, units in enumerate(SMALL):
        for unit in range(units):
            width, shortcut = 64 * 2**group, x
            stride = 2 if group and not unit else 1
            if not unit:
                shortcut = conv(x, 1, 4 * width, stride)
            y = tf.nn.relu(conv(x, 1, width, 1))
            y = tf.nn.relu(conv(y, 3, width, stride))
            x = tf.nn.relu(shortcut + conv(y, 1, 4 * width, 1))
    return tf.reduce_mean(x, [1, 2])


def _simclr_numbers(scope, first):
    yield f"{scope}conv2d", f"{scope}batch_normalization"
    for number in range(first, 99):
        yield f"{scope}conv2d_{number}", f"{scope}batch_normalization_{number}"


def _simclr_places(root):
    yield f"{root}initial_conv_relu_max_pool/0/conv2d", f"{root}initial_conv_relu_max_pool/2/bn"
    for group, units in enumerate(SMALL):
        for unit in range(units):
            block = f"{root}block_groups/{group}/layers/{unit}"
            if not unit:
                yield f"{block}/projection_layers/0/conv2d", f"{block}/projection_layers/1/bn"
            for place in (0, 3, 6):
                list_ = f"{block}/conv_relu_dropblock_layers"
                yield f"{list_}/{place}/conv2d", f"{list_}/{place + 1}/bn"


@pytest.mark.parametrize(
    "names", [_simclr_numbers("base_model/", 1), _simclr_places("model/resnet_model/")]
)
def test_equals_simclr(names, small, tmp_path):
    tf = pytest.importorskip("tensorflow")
    weights, images = parity.RandomWeights(), parity.images(2, SIZE + 1)
    expected = _simclr_forward(tf, weights, tf.constant(images / np.float32(255)), names)
    heads = {
        "head_supervised/linear_layer/dense/kernel": np.zeros((2048, 5), np.float32),
        "head_contrastive/nl_0/batch_normalization/gamma": np.ones(2048, np.float32),
    }
    parity.save_checkpoint(weights | heads, tmp_path / "model.ckpt")
    flat, report = parity.convert_arrays("resnet", load_source(tmp_path).arrays, "simclr")
    assert set(report.unexpected) == set(heads)
    tower = parity.tower("resnet", variant="simclr")
    assert parity.relative(parity.embed(tower, flat, images, jit=False), expected) < 1e-4
