"""Helpers for the parity tests of encoders and converted models."""

import os
import pathlib

import h5py
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from xmodal.core.tree_paths import leaves_by_path, unflatten
from xmodal.models import make_dual_encoder, make_tower
from xmodal.pretrained.converters import convert, take_arrays
from xmodal.pretrained.folder import read_model, read_part, read_weights, save_folder
from xmodal.pretrained.variants import CONVERTERS
from xmodal.pretrained.weight_files import WeightSource


def real_file(name):
    """A file in the folder XMODAL_TEST_DATA; skips the test if it is missing."""
    folder = os.environ.get("XMODAL_TEST_DATA")
    path = pathlib.Path(folder or ".") / name
    if not folder or not path.exists():
        pytest.skip(f"the environment variable XMODAL_TEST_DATA names no folder with {name}")
    return path


def images(batch, size, seed=1):
    return np.random.default_rng(seed).integers(0, 256, (batch, size, size, 3), np.uint8)


def assert_equal_arrays(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


def relative(ours, reference):
    reference = np.asarray(reference)
    return np.max(np.abs(np.asarray(ours) - reference)) / np.max(np.abs(reference))


def nest(flat):
    """Flat names as `(params, model_state)`."""
    tree = {}
    for name, array in flat.items():
        node = tree
        *path, leaf = name.split("/")
        for key in path:
            node = node.setdefault(key, {})
        node[leaf] = array
    return tree.pop("params", {}), tree


def load(folder, section=None):
    """The model in a folder, perhaps with another section of a config; parameters and state."""
    description = read_model(folder)
    trees = {modality: nest(read_weights(folder / modality)) for modality in description.towers}
    params, state = ({modality: tree[part] for modality, tree in trees.items()} for part in (0, 1))
    for part in ("similarity", "cross_encoder"):
        if arrays := read_part(folder, part):
            params[part] = unflatten(arrays)
    return make_dual_encoder(section or description.section()), params, state


def tower(encoder, **keywords):
    """A tower that averages the encoder's last map."""
    return make_tower("tower", {"encoder": {"name": encoder, **keywords}, "head": {"name": "mean"}})


def convert_arrays(name, arrays, variant="", **files):
    """Our arrays and the report for those of a source, all of which are used or expected."""
    files = {file.replace("_", "."): content for file, content in files.items()}
    published = CONVERTERS[name].describe(WeightSource("x", arrays, files, variant=variant))
    flat, report = take_arrays(published, arrays)
    report.check((), published.unused)
    return flat, report


def embed(tower, flat, pixels, jit=True):
    """Embeds without `jit`, op by op, so that layers of the same shape compile only once."""
    apply = jax.jit(tower.apply) if jit else tower.apply
    return np.asarray(apply(*nest(flat), {"image": pixels})[0].vector)


def embed_converted(folder, images, ids, mask):
    """The model of a converted folder, its description, and the embeddings of both modalities."""
    description = read_model(folder)
    model = make_dual_encoder(description.section())
    inputs = {
        "image": {"image": images},
        "text": {"text_ids": ids.astype(np.int32), "text_mask": mask.astype(np.int32)},
    }
    found = {}
    for modality, columns in inputs.items():
        params, state = nest(read_weights(folder / modality))
        found[modality], _ = jax.jit(model.towers[modality].apply)(params, state, columns)
    return model, description, found


def all_pairs(model, params, images, texts):
    """The features of all pairs of images and texts, prepared for the cross-encoder."""
    images = model.cross_encoder.prepare("image", params, images)
    texts = model.cross_encoder.prepare("text", params, texts)
    count = len(jax.tree.leaves(images)[0])
    return images, jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *x.shape)), texts)


def check_gradients(found, converted, ignored=()):
    """Compares gradients with torch's, to 1e-4 of the largest number of each array.

    For CNNs, to 1e-2: rounding turns ReLUs on or off, and small images have few positions; for
    layers that read their outputs, to 1e-3.

    Args:
      found: tree of our gradients.
      converted: tree of torch's gradients under our names, converted like weights.
      ignored: prefixes of paths that are not compared.
    """
    ours, wanted = leaves_by_path(found), leaves_by_path(converted)
    with_cnn = any(path.startswith("image/encoder/") for path in ours)
    tolerances = {"image/encoder/": 1e-2, "image/": 1e-3 if with_cnn else 1e-4, "": 1e-4}
    for path, gradient in ours.items():
        if path.startswith(tuple(ignored)):
            continue
        expected = wanted[path]
        scale = max(np.abs(expected).max(), 1e-5)
        error = np.abs(gradient - expected).max() / scale
        tolerance = next(x for prefix, x in tolerances.items() if path.startswith(prefix))
        assert error < tolerance, (path, error)


def check_updates(start, found, converted, ignored=()):
    """Compares the changes of parameters with torch's, to 1e-2 of the change of each array."""
    before, ours, wanted = leaves_by_path(start), leaves_by_path(found), leaves_by_path(converted)
    for path in ours.keys() - set(ignored):
        change = np.linalg.norm(wanted[path] - before[path])
        assert np.linalg.norm(ours[path] - wanted[path]) < 1e-2 * change + 1e-7, path


def gradients_of(torch, model):
    """The gradients of a torch model by name; zeros where there is none."""
    return {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        for name, parameter in model.named_parameters()
    }


def check_three_steps(
    theirs, rule, compute_loss, params, optimizer, differentiate, read, *, clip=None, ignored=()
):
    """Losses, the first gradients, and the changes of all weights equal torch's.

    Args:
      theirs: the torch model, whose weights are restored.
      rule: its torch optimizer.
      compute_loss: returns its loss.
      params: our parameters.
      optimizer: our optimizer.
      differentiate: function from our parameters to the loss and its gradients.
      read: function from a state dict to the converted parameters.
      clip: norm to which torch's gradients are clipped.
      ignored: paths that are not compared.
    """
    import torch

    weights = {name: array.clone() for name, array in theirs.state_dict().items()}
    start, state = params, optimizer.init(params)
    for step in range(3):
        theirs.zero_grad()
        value, gradients = differentiate(params)
        expected = compute_loss()
        expected.backward()
        assert abs(float(value) - expected.item()) < 1e-4
        if step == 0:
            check_gradients(gradients, read(gradients_of(torch, theirs)), ignored=ignored)
        if clip:
            torch.nn.utils.clip_grad_norm_(theirs.parameters(), clip)
        rule.step()
        updates, state = optimizer.update(gradients, state, params)
        params = optax.apply_updates(params, updates)
    moved = read(theirs.state_dict())
    theirs.load_state_dict(weights)
    check_updates(start, params, moved, ignored=ignored)


def new_folder(parent):
    """A new folder in a folder."""
    folder = parent / f"{len(list(parent.iterdir()))}"
    folder.mkdir()
    return folder


def probe(x):
    """A sum of the numbers of an array of jax or torch, each with another weight."""
    weights = np.cos(np.arange(np.prod(x.shape), dtype=np.float32)).reshape(x.shape)
    return (x * (x.new_tensor(weights) if hasattr(x, "new_tensor") else weights)).sum()


def convert_torch(model, checkpoint, path, words, variant=""):
    """The folder of a model converted from a checkpoint, saved at `path`, and a vocabulary."""
    import torch

    torch.save(checkpoint, path)
    path.with_name("vocab.txt").write_text("\n".join(words))
    made = convert(model, path, variant, str(path.with_name("vocab.txt")))
    save_folder(path.with_name("made"), *made)
    return path.with_name("made")


def check_dtypes(encoder, flat, pixels, expected, **keywords):
    """A tower equals its reference in float32 and, as far as it can, in bfloat16."""
    for dtype, tolerance in [("float32", 1e-4), ("bfloat16", 2e-2)]:
        ours = embed(tower(encoder, dtype=dtype, **keywords), flat, pixels)
        assert relative(ours, expected) < tolerance, dtype


class RandomWeights(dict):
    """Arrays created when a reference implementation first requests them."""

    def __init__(self, seed=0):
        super().__init__()
        self._rng = np.random.default_rng(seed)

    def kernel(self, name, shape):
        scale = np.sqrt(2 / np.prod(shape[:-1]))
        return self.setdefault(name, self._rng.normal(0, scale, shape).astype(np.float32))

    def vector(self, name, width, mean=0.0):
        noise = self._rng.normal(mean, 0.1, width).astype(np.float32)
        return self.setdefault(name, np.abs(noise) if mean else noise)


def save_checkpoint(arrays, prefix):
    """Writes a TensorFlow 1 checkpoint, which names arrays freely."""
    tf = pytest.importorskip("tensorflow")
    tf.raw_ops.SaveV2(
        prefix=str(prefix), tensor_names=list(arrays), shape_and_slices=[""] * len(arrays),
        tensors=list(arrays.values()),
    )  # fmt: skip


def random_norms(keras, model, seed=0):
    """Gives biases and batch normalizations of a Keras model nontrivial values."""
    rng = np.random.default_rng(seed)
    for layer in model.layers:
        weights = layer.get_weights()
        if isinstance(layer, keras.layers.BatchNormalization):
            *affine, mean, var = [
                w + rng.normal(0, 0.1, w.shape).astype(np.float32) for w in weights
            ]
            layer.set_weights([*affine, mean, np.abs(var)])
        elif len(weights) == 2:
            layer.set_weights([weights[0], rng.normal(0, 0.1, weights[1].shape)])
        if isinstance(layer, keras.layers.Dropout):
            layer.rate = 0.0
    return model


def keras_arrays(model):
    """A Keras model's arrays under the names that `load_source` gives those of an `.h5` file."""
    return {
        f"{layer.name}/{weight.name}": np.asarray(weight)
        for layer in model.layers
        for weight in layer.weights
        if "seed" not in weight.name
    }


def save_released(model, path):
    """Writes an `.h5` file like those of keras.applications: a group per layer."""
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [layer.name.encode() for layer in model.layers]
        for layer in model.layers:
            group = file.create_group(layer.name)
            names = [f"{layer.name}/{weight.name}:0" for weight in layer.weights]
            group.attrs["weight_names"] = [name.encode() for name in names]
            for name, weight in zip(names, layer.weights, strict=True):
                group[name] = np.asarray(weight)
