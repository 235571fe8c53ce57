"""VSE++, VSE0 and order embeddings as fartashf/vsepp released them: `model_best.pth.tar`."""

from collections.abc import Mapping
from typing import Any

from xmodal.core.errors import UserError
from xmodal.pretrained import torch_models
from xmodal.pretrained.folder import Description
from xmodal.pretrained.image_text import (
    FEATURES,
    IMAGES,
    SENTENCES,
    gru_encoder,
    torchvision_encoder,
)
from xmodal.pretrained.torch_models import Arrays, Published

_ABSOLUTE = {"normalize": True, "absolute": True}
VARIANTS = {
    "vsepp": ("cosine", {}, {}),
    "vse0": ("dot", {}, {"normalize": True}),
    "order": ("order", {"normalize": True}, {"normalize": True}),
    "order0": ("order", _ABSOLUTE, _ABSOLUTE),
    "order_absolute": ("order", _ABSOLUTE, _ABSOLUTE),
}
"""What the arrays do not show: the similarity, and the last steps of the image and the text.

`order_absolute` was trained with the hardest negatives, `order0` with all; both compare alike.
"""

# (measure, use_abs, no_imgnorm) of a checkpoint's options.
_TRAINED = {
    ("cosine", False, False): "vsepp",
    ("cosine", False, True): "vse0",
    ("order", False, False): "order",
    ("order", True, False): "order0",
}
_HARDEST = {"order0": "order_absolute"}

_IMAGE, _TEXT = "0.fc.weight", "1.embed.weight"


def trained_variant(options: Mapping[str, Any]) -> str | None:
    """Returns the variant that a checkpoint's options name; None if they do not.

    Raises:
      UserError: they name a model that is not in `VARIANTS`.
    """
    if "measure" not in options:
        return None
    flags = tuple(bool(options.get(name)) for name in ("use_abs", "no_imgnorm"))
    found = _TRAINED.get((options["measure"], *flags))
    if found is None:
        raise UserError(
            f"it was trained with measure={options['measure']!r}, use_abs={flags[0]} and "
            f"no_imgnorm={flags[1]}, which is not one of {', '.join(VARIANTS)}."
        )
    return _HARDEST.get(found, found) if options.get("max_violation") else found


def describe_vsepp(arrays: Arrays, variant: str) -> Published:
    """Returns the model of a checkpoint; its CNN is a ResNet, or its features are stored ones.

    Raises:
      UserError: the CNN is a VGG, or the source is not such a checkpoint.
    """
    similarity, of_image, of_text = VARIANTS[variant]
    image = torch_models.find_prefix(arrays, _IMAGE) + "0."
    text = torch_models.find_prefix(arrays, _TEXT) + "1."
    width, inputs = torch_models.array_shape(arrays, f"{image}fc.weight")
    projection = {"width": width, **of_image}
    layers = {"projection": torch_models.linear(f"{image}fc")}
    encoder, preprocessing = {"name": "precomputed", "features": inputs}, FEATURES
    if any(name.startswith(f"{image}cnn.") for name in arrays):
        if f"{image}cnn.module.conv1.weight" not in arrays:
            raise UserError("its CNN is not a ResNet; VGG is not supported.")
        encoder = torchvision_encoder(arrays, f"{image}cnn.module.")
        layers["encoder"] = torch_models.resnet(f"{image}cnn.module")
        projection["normalize_input"], preprocessing = True, IMAGES
    words, text_layers = gru_encoder(arrays, text)
    return Published(
        sides={
            "image": Description(encoder, {"name": "mean"}, preprocessing, projection=projection),
            "text": Description(words, {"name": "last"}, SENTENCES, projection=of_text or None),
        },
        similarity={"name": similarity},
        layers={"image": layers, "text": text_layers},
    )
