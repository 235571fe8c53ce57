"""The converters with their variants; the modules of models are imported when one is used."""

import pkgutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from xmodal.pretrained.published_weights import Published
    from xmodal.pretrained.weight_files import WeightSource


class Converter(NamedTuple):
    """Describes the weights of one kind of tower or model.

    Attributes:
      function: `MODULE.FUNCTION` in this package, from a `WeightSource` to `Published`.
      variants: names of the variants; () if there is no choice. A model's default is the first.
    """

    function: str
    variants: tuple[str, ...] = ()

    def describe(self, source: "WeightSource") -> "Published":
        """Returns the description of a source."""
        found: Published = pkgutil.resolve_name(f"xmodal.pretrained.{self.function}")(source)
        return found


TOWERS: Mapping[str, Converter] = {
    "bert": Converter("bert_weights.describe_bert"),
    "efficientnet": Converter(
        "cnn_weights.describe_efficientnet",
        (*(f"b{size}" for size in range(8)), *(f"lite{size}" for size in range(5))),
    ),
    "inception_v3": Converter("cnn_weights.describe_inception_v3"),
    "mobilenet_v2": Converter("cnn_weights.describe_mobilenet_v2"),
    "resnet": Converter(
        "resnet_weights.describe_resnet",
        ("slim", "keras", "torchvision", "vse_infinity", "simclr"),
    ),
    "vit": Converter("vilt.describe_vit"),
    "words": Converter("word_vectors.describe_words"),
}
"""Converters of towers by the name of the encoder."""

MODELS: Mapping[str, Converter] = {
    "blip": Converter("blip.describe_blip"),
    # Activations, which arrays do not show.
    "clip": Converter("clip.describe_clip", ("quick_gelu", "gelu")),
    "cmcm": Converter("cnn_models.describe_cmcm", ("scaled", "unscaled")),
    "cvse": Converter("cvse.describe_cvse", ("coco", "flickr30k")),
    "pcme": Converter("cnn_models.describe_pcme"),
    "pvse": Converter("cnn_models.describe_pvse", ("legacy", "final")),
    "scan": Converter("region_models.describe_scan"),
    "sgraf": Converter("region_models.describe_sgraf"),
    # `gelu_tanh` is that of every published SigLIP; open_clip computes `gelu`, and in SigLIP 2
    # `gelu_tanh` for the text tower alone.
    "siglip": Converter("clip.describe_siglip", ("gelu_tanh", "gelu", "gelu_text_tanh")),
    "vilt": Converter("vilt.describe_vilt"),
    "vinvl": Converter("vinvl.describe_vinvl"),
    # The pixel normalization of a ResNet, torchvision's or bottom-up attention's, which arrays do
    # not show.
    "vse_infinity": Converter("region_models.describe_vse_infinity", ("imagenet", "detector")),
    "vsepp": Converter(
        "cnn_models.describe_vsepp", ("vsepp", "vse0", "order", "order0", "order_absolute")
    ),
    "vsrn": Converter("region_models.describe_vsrn"),
}
"""Converters of models."""

CONVERTERS: Mapping[str, Converter] = {**TOWERS, **MODELS}
