"""VSRN as KunpengLi1994/VSRN and sunnychencool/AOQ released it, without its caption decoder."""

from xmodal.pretrained import layer_rules
from xmodal.pretrained.image_text import gru_encoder, regions, sentences
from xmodal.pretrained.published_weights import Published
from xmodal.pretrained.weight_files import WeightSource

_LAYERS = {"query": "theta", "key": "phi", "value": "g", "output": "W.0"}


def describe_vsrn(source: WeightSource) -> Published:
    """Returns the model of a checkpoint.

    The Flickr30k checkpoint has a batch normalization after the GRU and no norm before the graph
    layers.
    """
    arrays = source.arrays
    image = layer_rules.find_prefix(arrays, "img_rnn.weight_ih_l0")
    width, inputs = layer_rules.array_shape(arrays, f"{image}fc.weight")
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
        "head/linear": layer_rules.linear(f"{image}fc"),
        "head/recurrent": layer_rules.gru(f"{image}img_rnn"),
    }
    for number in numbers:
        module, ours = f"{image}Rs_GCN_{number}.", f"head/layer{number}/"
        layers |= {
            ours + name: layer_rules.convolution(module + theirs)
            for name, theirs in _LAYERS.items()
        }
        layers[f"{ours}norm"] = layer_rules.norm(f"{module}W.1")
    if is_flickr:
        layers["projection/batch_norm"] = layer_rules.norm(f"{image}bn")
    projection = {"batch_norm": True} if is_flickr else None
    words, text_layers = gru_encoder(arrays, layer_rules.find_prefix(arrays, "embed.weight"))
    return Published(
        towers={
            "image": regions(inputs, head, projection=projection),
            "text": sentences(source, words, {"name": "lasttoken"}),
        },
        similarity={"name": "cosine"},
        layers={"image": layers, "text": text_layers},
        unused=(r"(.*\.)?2\.(encoder|decoder)\.",),  # AOQ's caption decoder.
    )
