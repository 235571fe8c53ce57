"""PVSE as its authors released it: yalesong/pvse, `coco_pvse.pth` and `coco_pvse_k1.pth`."""

from xmodal.pretrained import layer_rules
from xmodal.pretrained.folder import Description
from xmodal.pretrained.image_text import IMAGES, gru_encoder, sentences
from xmodal.pretrained.layer_rules import LayerRule
from xmodal.pretrained.published_weights import Published
from xmodal.pretrained.resnet_weights import torchvision_encoder
from xmodal.pretrained.weight_files import WeightSource

VARIANTS = {"legacy": "last", "final": "state"}
"""The state of a sentence: the output at its last word, as in the released checkpoints, or the
final states of both directions, as in later code."""

_ANCHOR = "img_enc.pie_net.attention.w_2.weight"


def describe_pvse(source: WeightSource) -> Published:
    """Returns the model of a checkpoint or of its state dict; for images, not videos."""
    arrays = source.arrays
    start = layer_rules.find_prefix(arrays, _ANCHOR)
    embeddings, _ = layer_rules.array_shape(arrays, start + _ANCHOR)
    width, _ = layer_rules.array_shape(arrays, f"{start}img_enc.fc.weight")
    words, word_rules = gru_encoder(arrays, f"{start}txt_enc.")
    head = {"name": "pie", "width": width, "embeddings": embeddings}
    encoder, cnn = torchvision_encoder(arrays, f"{start}img_enc.cnn.")
    state = VARIANTS[source.choose("legacy")]
    image = Description(encoder, {**head, "source": "mean", "linear": True}, IMAGES)
    return Published(
        towers={
            "image": image,
            "text": sentences(source, words, {**head, "source": state, "linear": False}),
        },
        similarity={"name": "cosine" if embeddings == 1 else "max_cosine"},
        layers={
            "image": {
                "encoder": cnn,
                "head/summary": layer_rules.linear(f"{start}img_enc.fc"),
                **pie_rules("head", f"{start}img_enc.pie_net"),
            },
            "text": {**word_rules, **pie_rules("head", f"{start}txt_enc.pie_net")},
        },
    )


def pie_rules(ours: str, module: str) -> dict[str, LayerRule]:
    """Returns the rules of a `PIENet`: attention, linear layer and layer norm."""
    norm = layer_rules.norm(f"{module}.layer_norm")
    return {**attention_rules(ours, module), f"{ours}/norm": norm}


def attention_rules(ours: str, module: str) -> dict[str, LayerRule]:
    """Returns the rules of a module's attention and of the linear layer after it."""
    layers = {
        "attention_hidden": "attention.w_1",
        "attention_scores": "attention.w_2",
        "attended": "fc",
    }
    return {
        f"{ours}/{layer}": layer_rules.linear(f"{module}.{theirs}")
        for layer, theirs in layers.items()
    }
