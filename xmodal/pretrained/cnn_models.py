"""Released image-text models with a ResNet: PCME, PVSE, VSE++ and CMCM."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from xmodal.core.errors import UserError
from xmodal.pretrained.folder import Description
from xmodal.pretrained.image_text import IMAGES, sentences, word_encoder
from xmodal.pretrained.layer_rules import Arrays, Table, Taken, find_prefix, nest
from xmodal.pretrained.published_weights import Published, PublishedTower
from xmodal.pretrained.resnet_weights import torchvision_encoder
from xmodal.pretrained.vocabularies import words_of
from xmodal.pretrained.weight_files import WeightSource

# Attention and the linear layer after it, of a `PIENet` and of PCME's spread.
_ATTENTION = {
    "attention_hidden": "attention.w_1",
    "attention_scores": "attention.w_2",
    "attended": "fc",
}
_PIE = _ATTENTION | {"norm": "layer_norm"}
PVSE_VARIANTS = {"legacy": "last", "final": "state"}
"""The state of a sentence in PVSE: the output at its last word, as in the released checkpoints, or
the final states of both directions, as in later code."""

_ABSOLUTE = {"normalize": True, "absolute": True}
VSEPP_VARIANTS: Mapping[str, tuple[str, Mapping[str, Any], Mapping[str, Any]]] = {
    "vsepp": ("cosine", {}, {}),
    "vse0": ("dot", {}, {"normalize": True}),
    "order": ("order", {"normalize": True}, {"normalize": True}),
    "order0": ("order", _ABSOLUTE, _ABSOLUTE),
    "order_absolute": ("order", _ABSOLUTE, _ABSOLUTE),
}
"""What VSE++'s arrays do not show: the similarity, and the last steps of the image and the text.

`order_absolute` was trained with the hardest negatives, `order0` with all; both compare alike.
"""
# (measure, use_abs, no_imgnorm) of a checkpoint's options.
_VSEPP_TRAINED = {
    ("cosine", False, False): "vsepp",
    ("cosine", False, True): "vse0",
    ("order", False, False): "order",
    ("order", True, False): "order0",
}

CMCM_VARIANTS = {"scaled": True, "unscaled": False}
"""Whether CMCM's attention scores are divided by the root of their width: arrays do not show it."""
CMCM_FIRST_WORDS = ("<pad>", "<unk>")
"""Rows of CMCM's word table in front of the vocabulary's; the authors call the second `<other>`."""
_CMCM_IMAGES = {"size": 224, "eval_transform": "torchvision", "eval_crop": 1.0}
_CMCM_TEXTS = {
    "tokenizer": "spaces",
    "lower_case": False,
    "unknown": "token",
    "special_tokens": "none",
}
# The trainer saves the first name, the tester reads the second.
_CLASSIFIER = re.compile(r"(?:.*\.)?discourse_class(?:ifier)?\.(?:module\.)?fc\.weight")
# torchvision's layers by their places in a torch.nn.Sequential.
_PLACES = {"conv1": "0", "bn1": "1", "layer1": "4", "layer2": "5", "layer3": "6", "layer4": "7"}


def describe_pcme(source: WeightSource) -> Published:
    """Returns the PCME of a checkpoint of naver-ai/pcme, or of its state dict.

    Only a checkpoint has the scale and the shift of the match probability; with a state dict they
    start at 15.
    """
    arrays, anchor = source.arrays, "img_enc.uncertain_net.fc2.weight"
    start = find_prefix(arrays, anchor)
    image, text = f"{start}img_enc.", f"{start}txt_enc."
    width, _ = arrays[start + anchor].shape
    encoder, image_table = torchvision_encoder(arrays, f"{image}cnn.")
    head = {"name": "gaussian", "width": width}
    of_image = {**head, "source": "mean", "linear": True, "recurrent": False}
    of_text = {**head, "source": "last", "linear": False, "recurrent": True}
    criterion = {"match_scale": "criterion.negative_scale", "match_shift": "criterion.shift"}
    own = {
        "head/mean/summary": f"{image}fc",
        "head/log_sigma/summary": f"{image}uncertain_net.fc2",
    }
    image_table = {**image_table, **_gaussian(image), **own}
    text_table = _gaussian(text) | {"head/log_sigma/recurrent": f"{text}uncertain_net.rnn"}
    return Published(
        image=PublishedTower(Description(encoder, of_image, IMAGES), image_table),
        text=sentences(source, word_encoder(arrays, text), of_text, text_table),
        similarity={"name": "match_probability"},
        parameters={ours: name for ours, name in criterion.items() if name in arrays},
        unused=(r"(optimizer|lr_scheduler)\.",),  # In checkpoints that training can resume from.
    )


def _gaussian(encoder: str) -> dict[str, str | Taken]:
    """Attention of the mean and of the spread, and the layer norm of the mean."""
    return {
        **nest("head/mean/", f"{encoder}pie_net.", _PIE),
        **nest("head/log_sigma/", f"{encoder}uncertain_net.", _ATTENTION),
    }


def describe_pvse(source: WeightSource) -> Published:
    """Returns the PVSE of a checkpoint of yalesong/pvse; for images, not videos."""
    arrays, anchor = source.arrays, "img_enc.pie_net.attention.w_2.weight"
    start = find_prefix(arrays, anchor)
    image, text = f"{start}img_enc.", f"{start}txt_enc."
    embeddings, _ = arrays[start + anchor].shape
    width, _ = arrays[f"{image}fc.weight"].shape
    head = {"name": "pie", "width": width, "embeddings": embeddings}
    encoder, image_table = torchvision_encoder(arrays, f"{image}cnn.")
    of_image = {**head, "source": "mean", "linear": True}
    of_text = {**head, "source": PVSE_VARIANTS[source.choose("legacy")], "linear": False}
    own, text_table = (nest("head/", f"{side}pie_net.", _PIE) for side in (image, text))
    image_table = {**image_table, **own, "head/summary": f"{image}fc"}
    return Published(
        image=PublishedTower(Description(encoder, of_image, IMAGES), image_table),
        text=sentences(source, word_encoder(arrays, text), of_text, text_table),
        similarity={"name": "cosine" if embeddings == 1 else "max_cosine"},
    )


def describe_vsepp(source: WeightSource) -> Published:
    """Returns the model of a checkpoint of fartashf/vsepp: VSE++, VSE0 or order embeddings.

    Its CNN is a ResNet, or its features are stored ones.
    """
    arrays = source.arrays
    trained = _vsepp_trained(source.options)
    similarity, of_image, of_text = VSEPP_VARIANTS[source.choose("vsepp", trained)]
    image = find_prefix(arrays, "0.fc.weight") + "0."
    width, inputs = arrays[f"{image}fc.weight"].shape
    projection, table = {"width": width, **of_image}, {"projection": f"{image}fc"}
    if any(name.startswith(f"{image}cnn.") for name in arrays):
        encoder, cnn = torchvision_encoder(arrays, f"{image}cnn.module.")
        table, pixels = {**table, **cnn}, IMAGES
        projection["normalize_input"] = True
    else:
        encoder, pixels = {"name": "precomputed", "features": inputs}, {"size": 0}
    words = word_encoder(arrays, find_prefix(arrays, "1.embed.weight") + "1.")
    described = Description(encoder, {"name": "mean"}, pixels, projection=projection)
    return Published(
        image=PublishedTower(described, table),
        text=sentences(source, words, {"name": "lasttoken"}, projection=of_text or None),
        similarity={"name": similarity},
    )


def _vsepp_trained(options: Mapping[str, Any]) -> str | None:
    """Returns the variant that a checkpoint's options name; None if they do not."""
    if "measure" not in options:
        return None
    flags = tuple(bool(options.get(name)) for name in ("use_abs", "no_imgnorm"))
    found = _VSEPP_TRAINED.get((options["measure"], *flags))
    if found is None:
        raise UserError(
            f"it was trained with measure={options['measure']!r}, use_abs={flags[0]} and "
            f"no_imgnorm={flags[1]}, which is not one of {', '.join(VSEPP_VARIANTS)}."
        )
    return "order_absolute" if found == "order0" and options.get("max_violation") else found


def describe_cmcm(source: WeightSource) -> Published:
    """Returns the CMCM of a checkpoint, with attention if the arrays include it.

    The checkpoints are those of klory/Cross-Modal-Coherence-for-Text-to-Image-Retrieval. The
    classifier of relations, which is untrained in checkpoints of Base and CMCA, is the task
    `relations`.
    """
    arrays = source.arrays
    image = find_prefix(arrays, "resnet.encoder.0.weight")
    text = find_prefix(arrays, "sent_encoder.embed_layer.weight")
    sent, cnn = f"{text}sent_encoder.", f"{image}resnet.encoder."
    text_encoder, text_table = word_encoder(arrays, sent, table="embed_layer", cell="lstm")
    head: dict[str, Any] = {"name": "lasttoken", "source": "state"}
    text_table |= {
        "projection/batch_norm": f"{text}bn",
        "projection": f"{text}fc",
        "head/hidden": f"{sent}atten_layer.fc",
        "head/query": f"{sent}atten_layer.u",
    }
    if text_table["head/query"] in arrays:
        head = {"name": "attention", "scaled": CMCM_VARIANTS[source.choose("scaled")]}
    named = {
        layer + name.removeprefix(f"{cnn}{place}"): array
        for layer, place in _PLACES.items()
        for name, array in arrays.items()
        if name.startswith(f"{cnn}{place}.")
    }
    encoder, by_name = torchvision_encoder(named, "")
    image_table = {
        ours: cnn + re.sub(r"^\w+", lambda top: _PLACES[top[0]], str(name))
        for ours, name in by_name.items()
    }
    image_table["projection/batch_norm"] = f"{image}bottleneck.0"
    image_table["projection"] = f"{image}bottleneck.1"
    tasks, task_table = _relations(arrays)
    projections = {}
    for modality, layer in (("image", f"{image}bottleneck.1"), ("text", f"{text}fc")):
        width, _ = arrays[f"{layer}.weight"].shape
        projections[modality] = {"batch_norm": True, "width": width, "normalize": True}
    vocabulary = words_of(source, text_encoder["vocab_size"], CMCM_FIRST_WORDS)
    images = Description(encoder, {"name": "mean"}, _CMCM_IMAGES, projection=projections["image"])
    texts = Description(text_encoder, head, _CMCM_TEXTS, vocabulary, projections["text"])
    return Published(
        image=PublishedTower(images, image_table),
        text=PublishedTower(texts, text_table),
        similarity={"name": "cosine"},
        tasks=tasks,
        layers={"tasks": task_table},
        # Keys of a checkpoint that training can resume from.
        unused=(r"(optimizer|scheduler|lr_scheduler)\.",),
    )


def _relations(arrays: Arrays) -> tuple[dict[str, Any], Table]:
    """Returns the section of the classifier of relations as a task, and its table."""
    found = [name.removesuffix(".weight") for name in arrays if _CLASSIFIER.fullmatch(name)]
    if not found:
        return {}, {}
    layer = found[0]
    relations, _ = arrays[f"{layer}.weight"].shape
    section = {
        "views": ["image", "caption_0"],
        "loss": {"name": "relation_bce", "module": {"relations": relations}},
        "negatives": "none",
    }
    # The classifier's input starts with the text, that of our task with the image.
    table: Table = {
        "relations/module/bias": f"{layer}.bias",
        "relations/module/left": Taken(f"{layer}.weight", lambda x: np.split(x, 2, axis=1)[1].T),
        "relations/module/right": Taken(f"{layer}.weight", lambda x: np.split(x, 2, axis=1)[0].T),
    }
    return {"relations": section}, table
