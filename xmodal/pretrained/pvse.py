"""PVSE as its authors released it: yalesong/pvse, `coco_pvse.pth` and `coco_pvse_k1.pth`."""

from xmodal.pretrained import torch_models
from xmodal.pretrained.folder import Description
from xmodal.pretrained.image_text import IMAGES, SENTENCES, gru_encoder, torchvision_encoder
from xmodal.pretrained.torch_models import Arrays, LayerRule, Published

VARIANTS = {"legacy": "last", "final": "state"}
"""The state of a sentence: the output at its last word, as in the released checkpoints, or the
final states of both directions, as in later code."""

_ANCHOR = "img_enc.pie_net.attention.w_2.weight"


def describe_pvse(arrays: Arrays, variant: str) -> Published:
    """Returns the model of a checkpoint or of its state dict; for images, not videos."""
    start = torch_models.find_prefix(arrays, _ANCHOR)
    embeddings, _ = torch_models.array_shape(arrays, start + _ANCHOR)
    width, _ = torch_models.array_shape(arrays, f"{start}img_enc.fc.weight")
    words, word_rules = gru_encoder(arrays, f"{start}txt_enc.")
    head = {"name": "pie", "width": width, "embeddings": embeddings}
    image = Description(
        torchvision_encoder(arrays, f"{start}img_enc.cnn."),
        {**head, "source": "mean", "linear": True},
        IMAGES,
    )
    text = Description(words, {**head, "source": VARIANTS[variant], "linear": False}, SENTENCES)
    return Published(
        sides={"image": image, "text": text},
        similarity={"name": "cosine" if embeddings == 1 else "max_cosine"},
        layers={
            "image": {
                "encoder": torch_models.resnet(f"{start}img_enc.cnn"),
                "head/summary": torch_models.linear(f"{start}img_enc.fc"),
                **pie_rules("head", f"{start}img_enc.pie_net"),
            },
            "text": {
                **word_rules,
                **pie_rules("head", f"{start}txt_enc.pie_net"),
            },
        },
    )


def pie_rules(ours: str, module: str) -> dict[str, LayerRule]:
    """Returns the rules of a `PIENet`: attention, linear layer and layer norm."""
    return {
        **attention_rules(ours, module),
        f"{ours}/norm": torch_models.norm(f"{module}.layer_norm"),
    }


def attention_rules(ours: str, module: str) -> dict[str, LayerRule]:
    """Returns the rules of a module's attention and of the linear layer after it."""
    layers = {"attention_hidden": "attention.w_1", "attention_scores": "attention.w_2"}
    layers["attended"] = "fc"
    return {
        f"{ours}/{layer}": torch_models.linear(f"{module}.{theirs}")
        for layer, theirs in layers.items()
    }
