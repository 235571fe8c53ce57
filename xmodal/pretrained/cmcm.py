"""CMCM: checkpoints of klory/Cross-Modal-Coherence-for-Text-to-Image-Retrieval."""

import re
from typing import Any

import numpy as np

from xmodal.core.errors import UserError
from xmodal.pretrained import layer_rules
from xmodal.pretrained.conversion_report import Taken
from xmodal.pretrained.folder import Description
from xmodal.pretrained.layer_rules import Arrays, LayerRule
from xmodal.pretrained.published_weights import Published
from xmodal.pretrained.resnet_weights import torchvision, torchvision_encoder
from xmodal.pretrained.vocabularies import words_of
from xmodal.pretrained.weight_files import WeightSource

VARIANTS = {"scaled": True, "unscaled": False}
"""Whether attention scores are divided by the root of their width: arrays do not show this."""
FIRST_WORDS = ("<pad>", "<unk>")
"""Rows of the word table in front of the vocabulary's; the authors call the second `<other>`."""

_IMAGES = {"size": 224, "eval_transform": "torchvision", "eval_crop": 1.0}
_TEXTS = {"tokenizer": "spaces", "lower_case": False, "unknown": "token", "special_tokens": "none"}
# The trainer saves the first name, the tester reads the second.
_CLASSIFIER = re.compile(r"(?:.*\.)?discourse_class(?:ifier)?\.(?:module\.)?fc\.weight")
# torchvision's layers by their places in a torch.nn.Sequential.
_PLACES = {"conv1": "0", "bn1": "1", "layer1": "4", "layer2": "5", "layer3": "6", "layer4": "7"}


def describe_cmcm(source: WeightSource) -> Published:
    """Returns the model of a checkpoint, with attention if the arrays include it.

    The classifier of relations, which is untrained in checkpoints of Base and CMCA, is the task
    `relations`.

    Raises:
      UserError: the source is not such a checkpoint.
    """
    arrays = source.arrays
    image = layer_rules.find_prefix(arrays, "resnet.encoder.0.weight")
    text = layer_rules.find_prefix(arrays, "sent_encoder.embed_layer.weight")
    sent = f"{text}sent_encoder."
    rows, words = layer_rules.array_shape(arrays, f"{sent}embed_layer.weight")
    _, width = layer_rules.array_shape(arrays, f"{sent}rnn.weight_hh_l0")
    encoder = {
        "name": "rnn",
        "cell": "lstm",
        "vocab_size": rows,
        "embedding_width": words,
        "width": width,
        "layers": 1,
        "bidirectional": True,
    }
    head: dict[str, Any] = {"name": "lasttoken", "source": "state"}
    text_layers = {
        "encoder/table": layer_rules.whole(f"{sent}embed_layer.weight"),
        "encoder/recurrent": layer_rules.lstm(f"{sent}rnn"),
        "projection/batch_norm": layer_rules.norm(f"{text}bn"),
        "projection": layer_rules.linear(f"{text}fc"),
    }
    if f"{sent}atten_layer.u" in arrays:
        head = {"name": "attention", "scaled": VARIANTS[source.choose("scaled")]}
        text_layers["head/hidden"] = layer_rules.linear(f"{sent}atten_layer.fc")
        text_layers["head/query"] = layer_rules.whole(f"{sent}atten_layer.u")
    cnn = f"{image}resnet.encoder."
    tasks, task_layers = _tasks(arrays)
    projection = _projection(arrays, f"{image}bottleneck.1")
    return Published(
        towers={
            "image": Description(
                _image_encoder(arrays, cnn), {"name": "mean"}, _IMAGES, projection=projection
            ),
            "text": Description(
                encoder,
                head,
                _TEXTS,
                words_of(source, rows, FIRST_WORDS),
                _projection(arrays, f"{text}fc"),
            ),
        },
        similarity={"name": "cosine"},
        layers={
            "image": {
                "encoder": torchvision(cnn, lambda layer: _PLACES[layer]),
                "projection/batch_norm": layer_rules.norm(f"{image}bottleneck.0"),
                "projection": layer_rules.linear(f"{image}bottleneck.1"),
            },
            "text": text_layers,
            "tasks": task_layers,
        },
        tasks=tasks,
        # Keys of a checkpoint that training can resume from.
        unused=(r"(optimizer|scheduler|lr_scheduler)\.",),
    )


def _projection(arrays: Arrays, layer: str) -> dict[str, Any]:
    width, _ = layer_rules.array_shape(arrays, f"{layer}.weight")
    return {"batch_norm": True, "width": width, "normalize": True}


def _tasks(arrays: Arrays) -> tuple[dict[str, Any], dict[str, LayerRule]]:
    """Returns the section of the classifier as a task, and its rule."""
    found = [name.removesuffix(".weight") for name in arrays if _CLASSIFIER.fullmatch(name)]
    if len(found) > 1:
        raise UserError(f"it has several classifiers of relations: {', '.join(found)}.")
    if not found:
        return {}, {}
    (layer,) = found
    relations, _ = layer_rules.array_shape(arrays, f"{layer}.weight")

    def rule(leaf: str) -> Taken:
        if leaf == "bias":
            return Taken(f"{layer}.bias")
        # The classifier's input starts with the text, that of our task with the image.
        half = {"left": 1, "right": 0}[leaf]
        how = f"{('first', 'second')[half]} half, transposed"
        return Taken(f"{layer}.weight", lambda kernel: np.split(kernel, 2, axis=1)[half].T, how)

    section = {
        "views": ["image", "caption_0"],
        "loss": {"name": "relation_bce", "module": {"relations": relations}},
        "negatives": "none",
    }
    return {"relations": section}, {"relations/module": rule}


def _image_encoder(arrays: Arrays, start: str) -> dict[str, Any]:
    named = {
        layer + name.removeprefix(f"{start}{place}"): array
        for layer, place in _PLACES.items()
        for name, array in arrays.items()
        if name.startswith(f"{start}{place}.")
    }
    return torchvision_encoder(named, "")[0]
