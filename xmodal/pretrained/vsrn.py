"""VSRN as KunpengLi1994/VSRN and sunnychencool/AOQ released it, without its caption decoder."""

from xmodal.pretrained import torch_models
from xmodal.pretrained.folder import Description
from xmodal.pretrained.image_text import FEATURES, SENTENCES, gru_encoder
from xmodal.pretrained.torch_models import Arrays, Published

EXPECTED_UNEXPECTED = (r"(.*\.)?2\.(encoder|decoder)\.",)
"""The caption decoder, the third state dict of AOQ's checkpoints."""

_IMAGE, _TEXT = "img_rnn.weight_ih_l0", "embed.weight"
_LAYERS = {"query": "theta", "key": "phi", "value": "g", "output": "W.0"}


def describe_vsrn(arrays: Arrays) -> Published:
    """Returns the model of a checkpoint.

    The Flickr30k checkpoint has a batch normalization after the GRU and no norm before the graph
    layers.
    """
    image = torch_models.find_prefix(arrays, _IMAGE)
    text = torch_models.find_prefix(arrays, _TEXT)
    width, inputs = torch_models.array_shape(arrays, f"{image}fc.weight")
    numbers = [n for n in range(1, 100) if f"{image}Rs_GCN_{n}.g.weight" in arrays]
    is_flickr = f"{image}bn.weight" in arrays
    head = {
        "name": "graph",
        "width": width,
        "layers": len(numbers),
        "input_norm": "none" if is_flickr else "regions",
        "output_norm": "regions",
    }
    layers = {
        "head/linear": torch_models.linear(f"{image}fc"),
        "head/recurrent": torch_models.gru(f"{image}img_rnn"),
    }
    for number in numbers:
        module, ours = f"{image}Rs_GCN_{number}.", f"head/layer{number}/"
        layers |= {
            ours + name: torch_models.convolution(module + theirs)
            for name, theirs in _LAYERS.items()
        }
        layers[f"{ours}norm"] = torch_models.norm(f"{module}W.1")
    projection = None
    if is_flickr:
        projection = {"batch_norm": True}
        layers["projection/batch_norm"] = torch_models.norm(f"{image}bn")
    words, text_layers = gru_encoder(arrays, text)
    encoder = {"name": "precomputed", "features": (36, inputs)}
    return Published(
        sides={
            "image": Description(encoder, head, FEATURES, projection=projection),
            "text": Description(words, {"name": "last"}, SENTENCES),
        },
        similarity={"name": "cosine"},
        layers={"image": layers, "text": text_layers},
    )
