"""VSE++, VSE0 and order embeddings as fartashf/vsepp released them: `model_best.pth.tar`."""

from collections.abc import Mapping
from typing import Any

from xmodal.core.errors import UserError
from xmodal.pretrained import layer_rules
from xmodal.pretrained.folder import Description
from xmodal.pretrained.image_text import IMAGES, gru_encoder, sentences
from xmodal.pretrained.published_weights import Published
from xmodal.pretrained.resnet_weights import torchvision_encoder
from xmodal.pretrained.weight_files import WeightSource

_ABSOLUTE = {"normalize": True, "absolute": True}
VARIANTS: Mapping[str, tuple[str, Mapping[str, Any], Mapping[str, Any]]] = {
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


def describe_vsepp(source: WeightSource) -> Published:
    """Returns the model of a checkpoint; its CNN is a ResNet, or its features are stored ones.

    Raises:
      UserError: the options or the CNN are of another kind, or it is not such a checkpoint.
    """
    arrays = source.arrays
    similarity, of_image, of_text = VARIANTS[source.choose("vsepp", _trained(source.options))]
    image = layer_rules.find_prefix(arrays, "0.fc.weight") + "0."
    text = layer_rules.find_prefix(arrays, "1.embed.weight") + "1."
    width, inputs = layer_rules.array_shape(arrays, f"{image}fc.weight")
    projection = {"width": width, **of_image}
    layers = {"projection": layer_rules.linear(f"{image}fc")}
    if any(name.startswith(f"{image}cnn.") for name in arrays):
        encoder, layers["encoder"] = torchvision_encoder(arrays, f"{image}cnn.module.")
        projection["normalize_input"] = True
        pictures = Description(encoder, {"name": "mean"}, IMAGES, projection=projection)
    else:
        encoder = {"name": "precomputed", "features": inputs}
        pictures = Description(encoder, {"name": "mean"}, {"size": 0}, projection=projection)
    words, text_layers = gru_encoder(arrays, text)
    return Published(
        towers={
            "image": pictures,
            "text": sentences(source, words, {"name": "lasttoken"}, of_text or None),
        },
        similarity={"name": similarity},
        layers={"image": layers, "text": text_layers},
    )


def _trained(options: Mapping[str, Any]) -> str | None:
    """Returns the variant that a checkpoint's options name; None if they do not."""
    if "measure" not in options:
        return None
    flags = tuple(bool(options.get(name)) for name in ("use_abs", "no_imgnorm"))
    found = _TRAINED.get((options["measure"], *flags))
    if found is None:
        raise UserError(
            f"it was trained with measure={options['measure']!r}, use_abs={flags[0]} and "
            f"no_imgnorm={flags[1]}, which is not one of {', '.join(VARIANTS)}."
        )
    return "order_absolute" if found == "order0" and options.get("max_violation") else found
