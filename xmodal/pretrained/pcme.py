"""PCME as its authors released it: naver-ai/pcme, `pcme_coco.pth`."""

from xmodal.pretrained import torch_models
from xmodal.pretrained.folder import Description
from xmodal.pretrained.image_text import IMAGES, SENTENCES, gru_encoder, torchvision_encoder
from xmodal.pretrained.pvse import attention_rules, pie_rules
from xmodal.pretrained.torch_models import Arrays, LayerRule, Published

# Keys of a checkpoint that training can resume from.
EXPECTED_UNEXPECTED = (r"(optimizer|lr_scheduler)\.",)

_ANCHOR = "img_enc.uncertain_net.fc2.weight"


def describe_pcme(arrays: Arrays) -> Published:
    """Returns the model of a checkpoint or of its state dict.

    Only a checkpoint has the scale and the shift of the match probability; with a state dict they
    start at 15.
    """
    start = torch_models.find_prefix(arrays, _ANCHOR)
    width, _ = torch_models.array_shape(arrays, start + _ANCHOR)
    words, word_rules = gru_encoder(arrays, f"{start}txt_enc.")
    head = {"name": "gaussian", "width": width}
    image = Description(
        torchvision_encoder(arrays, f"{start}img_enc.cnn."),
        {**head, "source": "mean", "linear": True, "recurrent": False},
        IMAGES,
    )
    text = Description(
        words, {**head, "source": "last", "linear": False, "recurrent": True}, SENTENCES
    )
    criterion = {"match_scale": "criterion.negative_scale", "match_shift": "criterion.shift"}
    return Published(
        sides={"image": image, "text": text},
        similarity={"name": "match_probability"},
        layers={
            "image": {
                "encoder": torch_models.resnet(f"{start}img_enc.cnn"),
                **_branches(f"{start}img_enc."),
                "head/mean/summary": torch_models.linear(f"{start}img_enc.fc"),
                "head/log_sigma/summary": torch_models.linear(f"{start}img_enc.uncertain_net.fc2"),
            },
            "text": {
                **word_rules,
                **_branches(f"{start}txt_enc."),
                "head/log_sigma/recurrent": torch_models.gru(f"{start}txt_enc.uncertain_net.rnn"),
            },
        },
        parameters={ours: name for ours, name in criterion.items() if name in arrays},
    )


def _branches(encoder: str) -> dict[str, LayerRule]:
    """Attention of the mean and of the spread, and the layer norm of the mean."""
    return {
        **pie_rules("head/mean", f"{encoder}pie_net"),
        **attention_rules("head/log_sigma", f"{encoder}uncertain_net"),
    }
