"""CMCM: checkpoints of klory/Cross-Modal-Coherence-for-Text-to-Image-Retrieval."""

import re
from typing import Any

import numpy as np

from xmodal.core.errors import UserError
from xmodal.pretrained import torch_models
from xmodal.pretrained.conversion_report import Taken
from xmodal.pretrained.folder import Description
from xmodal.pretrained.image_text import torchvision_encoder
from xmodal.pretrained.torch_models import Arrays, LayerRule, Published, PublishedTask

VARIANTS = {"scaled": True, "unscaled": False}
"""Whether attention scores are divided by the root of their width: arrays do not show this."""
# Keys of a checkpoint that training can resume from.
EXPECTED_UNEXPECTED = (r"(optimizer|scheduler|lr_scheduler)\.",)
FIRST_WORDS = ("<pad>", "<unk>")
"""Rows of the word table in front of the vocabulary's; the authors call the second `<other>`."""

_IMAGES = {"size": 224, "eval_recipe": "torchvision", "eval_crop": 1.0}
_TEXTS = {"tokenizer": "spaces", "lower_case": False, "unknown": "token", "markers": "none"}
_IMAGE, _TEXT = "resnet.encoder.0.weight", "sent_encoder.embed_layer.weight"
# The trainer saves the first name, the tester reads the second.
_CLASSIFIER = re.compile(r"(?:.*\.)?discourse_class(?:ifier)?\.(?:module\.)?fc\.weight")
# torchvision's layers by their places in a torch.nn.Sequential.
_PLACES = {"conv1": 0, "bn1": 1, "layer1": 4, "layer2": 5, "layer3": 6, "layer4": 7}


def describe_cmcm(arrays: Arrays, variant: str) -> Published:
    """Returns the model of a checkpoint, with attention if the arrays include it.

    The classifier of relations, which is untrained in checkpoints of Base and CMCA, is the task
    `relations`.

    Raises:
      UserError: the source is not such a checkpoint.
    """
    image = torch_models.find_prefix(arrays, _IMAGE)
    text = torch_models.find_prefix(arrays, _TEXT)
    rows, words = torch_models.array_shape(arrays, f"{text}{_TEXT}")
    _, width = torch_models.array_shape(arrays, f"{text}sent_encoder.rnn.weight_hh_l0")
    encoder = {
        "name": "rnn",
        "cell": "lstm",
        "vocab_size": rows,
        "embedding_width": words,
        "width": width,
        "layers": 1,
        "bidirectional": True,
    }
    head: dict[str, Any] = {"name": "last", "source": "state"}
    attention: dict[str, LayerRule] = {}
    if f"{text}sent_encoder.atten_layer.u" in arrays:
        head = {"name": "attention", "scaled": VARIANTS[variant]}
        attention = {
            "head/hidden": torch_models.linear(f"{text}sent_encoder.atten_layer.fc"),
            "head/query": torch_models.whole(f"{text}sent_encoder.atten_layer.u"),
        }
    return Published(
        sides={
            "image": Description(
                _image_encoder(arrays, f"{image}resnet.encoder."),
                {"name": "mean"},
                _IMAGES,
                projection=_projection(arrays, f"{image}bottleneck.1"),
            ),
            "text": Description(encoder, head, _TEXTS, projection=_projection(arrays, f"{text}fc")),
        },
        similarity={"name": "cosine"},
        layers={
            "image": {
                "encoder": _resnet(f"{image}resnet.encoder."),
                "projection/batch_norm": torch_models.norm(f"{image}bottleneck.0"),
                "projection": torch_models.linear(f"{image}bottleneck.1"),
            },
            "text": {
                "encoder/table": torch_models.whole(f"{text}{_TEXT}"),
                "encoder/recurrent": torch_models.lstm(f"{text}sent_encoder.rnn"),
                **attention,
                "projection/batch_norm": torch_models.norm(f"{text}bn"),
                "projection": torch_models.linear(f"{text}fc"),
            },
        },
        tasks=_tasks(arrays),
        first_words=FIRST_WORDS,
    )


def _projection(arrays: Arrays, layer: str) -> dict[str, Any]:
    width, _ = torch_models.array_shape(arrays, f"{layer}.weight")
    return {"batch_norm": True, "width": width, "normalize": True}


def _tasks(arrays: Arrays) -> dict[str, PublishedTask]:
    found = [name.removesuffix(".weight") for name in arrays if _CLASSIFIER.fullmatch(name)]
    if len(found) > 1:
        raise UserError(f"it has several classifiers of relations: {', '.join(found)}.")
    if not found:
        return {}
    (layer,) = found
    relations, _ = torch_models.array_shape(arrays, f"{layer}.weight")

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
    return {"relations": PublishedTask(section, rule)}


def _image_encoder(arrays: Arrays, start: str) -> dict[str, Any]:
    named = {f"{start}{place}.": f"{layer}." for layer, place in _PLACES.items()}
    renamed = {
        layer + name.removeprefix(prefix): array
        for prefix, layer in named.items()
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
    return torchvision_encoder(renamed, "")


def _resnet(start: str) -> LayerRule:
    torchvision = torch_models.resnet("")

    def rule(leaf: str) -> Taken:
        taken = torchvision(leaf)
        layer, _, rest = str(taken.name).removeprefix(".").partition(".")
        return taken._replace(name=f"{start}{_PLACES[layer]}.{rest}")

    return rule
