"""PCME as its authors released it: naver-ai/pcme, `pcme_coco.pth`."""

from xmodal.pretrained import layer_rules
from xmodal.pretrained.folder import Description
from xmodal.pretrained.image_text import IMAGES, gru_encoder, sentences
from xmodal.pretrained.layer_rules import LayerRule
from xmodal.pretrained.published_weights import Published
from xmodal.pretrained.pvse import attention_rules, pie_rules
from xmodal.pretrained.resnet_weights import torchvision_encoder
from xmodal.pretrained.weight_files import WeightSource

_ANCHOR = "img_enc.uncertain_net.fc2.weight"


def describe_pcme(source: WeightSource) -> Published:
    """Returns the model of a checkpoint or of its state dict.

    Only a checkpoint has the scale and the shift of the match probability; with a state dict they
    start at 15.
    """
    arrays = source.arrays
    start = layer_rules.find_prefix(arrays, _ANCHOR)
    width, _ = layer_rules.array_shape(arrays, start + _ANCHOR)
    words, word_rules = gru_encoder(arrays, f"{start}txt_enc.")
    encoder, cnn = torchvision_encoder(arrays, f"{start}img_enc.cnn.")
    head = {"name": "gaussian", "width": width}
    of_image = {**head, "source": "mean", "linear": True, "recurrent": False}
    of_text = {**head, "source": "last", "linear": False, "recurrent": True}
    criterion = {"match_scale": "criterion.negative_scale", "match_shift": "criterion.shift"}
    net = f"{start}img_enc.uncertain_net"
    return Published(
        towers={
            "image": Description(encoder, of_image, IMAGES),
            "text": sentences(source, words, of_text),
        },
        similarity={"name": "match_probability"},
        layers={
            "image": {
                "encoder": cnn,
                **_branches(f"{start}img_enc."),
                "head/mean/summary": layer_rules.linear(f"{start}img_enc.fc"),
                "head/log_sigma/summary": layer_rules.linear(f"{net}.fc2"),
            },
            "text": {
                **word_rules,
                **_branches(f"{start}txt_enc."),
                "head/log_sigma/recurrent": layer_rules.gru(f"{start}txt_enc.uncertain_net.rnn"),
            },
        },
        parameters={ours: name for ours, name in criterion.items() if name in arrays},
        unused=(r"(optimizer|lr_scheduler)\.",),  # Of a checkpoint that training can resume from.
    )


def _branches(encoder: str) -> dict[str, LayerRule]:
    """Attention of the mean and of the spread, and the layer norm of the mean."""
    return {
        **pie_rules("head/mean", f"{encoder}pie_net"),
        **attention_rules("head/log_sigma", f"{encoder}uncertain_net"),
    }
