"""Names of the converters and of their variants, for `--help`, which imports no model."""

from collections.abc import Mapping

TOWERS: Mapping[str, tuple[str, ...]] = {
    "bert": (),
    "efficientnet": (
        *("b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"),
        *("lite0", "lite1", "lite2", "lite3", "lite4"),
    ),
    "inception_v3": (),
    "mobilenet_v2": (),
    "resnet": ("slim", "keras", "torchvision", "vse_infinity", "simclr"),
    "words": (),
}
"""Towers of `CONVERTERS` -> the names of their variants; () if there is no choice."""

MODELS: Mapping[str, tuple[str, ...]] = {
    "blip": (),
    # Activations, which arrays do not show.
    "clip": ("quick_gelu", "gelu"),
    "cmcm": ("scaled", "unscaled"),
    "cvse": ("coco", "flickr30k"),
    "pcme": (),
    "pvse": ("legacy", "final"),
    "scan": (),
    "sgraf": (),
    # `gelu_tanh` is that of every published SigLIP; open_clip computes `gelu`, and in SigLIP 2
    # `gelu_tanh` for the text side alone.
    "siglip": ("gelu_tanh", "gelu", "gelu_text_tanh"),
    "vilt": (),
    "vinvl": (),
    # The pixel normalization of a ResNet, torchvision's or bottom-up attention's, which arrays do
    # not show.
    "vse_infinity": ("imagenet", "detector"),
    "vsepp": ("vsepp", "vse0", "order", "order0", "order_absolute"),
    "vsrn": (),
}
"""The same of models, the default first."""
