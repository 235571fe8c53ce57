"""Tiny CLIPs and SigLIPs of transformers, and their arrays under the names of other publishers."""

import importlib.util
import json
import re
import sys
import types

import numpy as np
import pytest
import safetensors.numpy

from xmodal.pretrained import converters

MERGES = "#version: 0.2\nt h\nth e</w>\na t</w>\n"
ROWS, END, TEXT, PIXELS = 512 + 3 + 2, 516, 12, 24
COLORS = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
"""The mean and the standard deviation of CLIP's pixels."""
_VISION = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
           "intermediate_size": 96, "patch_size": 8, "image_size": PIXELS}  # fmt: skip
_WORDS = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
          "intermediate_size": 48, "max_position_embeddings": TEXT, "vocab_size": ROWS}  # fmt: skip


def make_clip(torch):
    import transformers

    config = transformers.CLIPConfig(
        vision_config=_VISION, text_config={**_WORDS, "eos_token_id": END}, projection_dim=24
    )
    return _randomize(torch, transformers.CLIPModel(config))


def make_siglip(torch, rows, pixels=PIXELS):
    import transformers

    words = {**_WORDS, "vocab_size": rows, "projection_size": 64}
    vision = {**_VISION, "image_size": pixels}
    config = transformers.SiglipConfig(vision_config=vision, text_config=words)
    return _randomize(torch, transformers.SiglipModel(config))


def _randomize(torch, model):
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            is_scale = re.search(r"norm\w*\.weight", name)
            parameter.normal_(float(bool(is_scale)), 0.08)
        model.logit_scale.fill_(3.0)
        if hasattr(model, "logit_bias"):
            model.logit_bias.fill_(-2.5)
    return model.eval()


def arrays_of(model):
    names = model.state_dict()
    return {name: names[name].numpy() for name in names if not name.endswith("position_ids")}


def texts(batch=4):
    """Ids with the end token, padded with 0, and their mask."""
    rng = np.random.default_rng(3)
    lengths = np.array([TEXT, 3, 7, 5, 2, 9])[:batch]
    mask = np.arange(TEXT) < lengths[:, None]
    ids = np.where(mask, rng.integers(0, 512, (batch, TEXT)), 0)
    ids[np.arange(batch), lengths - 1] = END
    return ids, mask


def write(folder, arrays, name="model.safetensors", **files):
    """A folder of weights, with JSON files `config=` and others; returns it."""
    folder.mkdir(exist_ok=True)
    copies = {key: np.ascontiguousarray(array) for key, array in arrays.items()}
    (folder / name).write_bytes(safetensors.numpy.save(copies))
    for key, content in files.items():
        (folder / f"{key}.json").write_text(json.dumps(content))
    return folder


_LAYER = {
    "layer_norm1": "ln_1", "layer_norm2": "ln_2", "self_attn.out_proj": "attn.out_proj",
    "mlp.fc1": "mlp.c_fc", "mlp.fc2": "mlp.c_proj",
}  # fmt: skip
_OPENAI = {
    "vision_model.embeddings.patch_embedding.weight": "visual.conv1.weight",
    "vision_model.embeddings.class_embedding": "visual.class_embedding",
    "vision_model.embeddings.position_embedding.weight": "visual.positional_embedding",
    "vision_model.pre_layrnorm": "visual.ln_pre",
    "vision_model.post_layernorm": "visual.ln_post",
    "vision_model.encoder.layers": "visual.transformer.resblocks",
    "text_model.embeddings.token_embedding": "token_embedding",
    "text_model.embeddings.position_embedding.weight": "positional_embedding",
    "text_model.final_layer_norm": "ln_final",
    "text_model.encoder.layers": "transformer.resblocks",
}
_TIMM = {
    "vision_model.embeddings.patch_embedding": "visual.trunk.patch_embed.proj",
    "vision_model.embeddings.position_embedding.weight": "visual.trunk.pos_embed",
    "vision_model.post_layernorm": "visual.trunk.norm",
    "vision_model.encoder.layers": "visual.trunk.blocks",
    "vision_model.head.probe": "visual.trunk.attn_pool.latent",
    "vision_model.head.attention.out_proj": "visual.trunk.attn_pool.proj",
    "vision_model.head.layernorm": "visual.trunk.attn_pool.norm",
    "vision_model.head.mlp": "visual.trunk.attn_pool.mlp",
    **{name: f"text.{theirs}" for name, theirs in _OPENAI.items() if name.startswith("text_model")},
    "text_model.head": "text.text_projection",
}
_TIMM_LAYER = {
    "layer_norm1": "norm1", "layer_norm2": "norm2", "self_attn.out_proj": "attn.proj",
    "mlp.fc1": "mlp.fc1", "mlp.fc2": "mlp.fc2",
}  # fmt: skip


def openai_arrays(arrays):
    """A CLIP of transformers under the names of openai/CLIP."""
    found = _renamed(_joined(arrays, "attn.in_proj_"), _OPENAI, lambda name: _LAYER)
    found["visual.proj"] = found.pop("visual_projection.weight").T
    found["text_projection"] = found.pop("text_projection.weight").T
    return found


def timm_arrays(arrays):
    """A SigLIP of transformers under the names of open_clip."""
    joined = _joined({n: a for n, a in arrays.items() if n.startswith("vision")}, "attn.qkv.")
    joined |= _joined({n: a for n, a in arrays.items() if not n.startswith("vision")},
                      "attn.in_proj_")  # fmt: skip
    pooled = "vision_model.head.attention.in_proj_"
    for kind in ("weight", "bias"):
        query, *others = np.split(joined.pop(pooled + kind), 3)
        joined[f"visual.trunk.attn_pool.q.{kind}"] = query
        joined[f"visual.trunk.attn_pool.kv.{kind}"] = np.concatenate(others)
    layer = {True: _TIMM_LAYER, False: _LAYER}
    found = _renamed(joined, _TIMM, lambda name: layer[name.startswith("visual.")])
    found["visual.trunk.pos_embed"] = found["visual.trunk.pos_embed"][None]
    return found


def _joined(arrays, fused):
    """With the matrices of query, key and value in one."""
    found = {}
    for name, array in arrays.items():
        part = re.search(r"self_attn\.([qkv])_proj\.(weight|bias)", name)
        if not part:
            found[name] = array
        elif part[1] == "q":
            others = [arrays[name.replace("q_proj", f"{each}_proj")] for each in "qkv"]
            found[name.replace(part[0], f"{fused}{part[2]}")] = np.concatenate(others)
    return found


def _renamed(arrays, names, layer):
    found = {}
    for name, array in arrays.items():
        start = max((each for each in names if name.startswith(each)), key=len, default="")
        new = names.get(start, "") + name.removeprefix(start)
        for part, theirs in layer(new).items():
            new = re.sub(rf"(\.\d+\.){re.escape(part)}\.", rf"\1{theirs}.", new)
        found[new] = array
    return found


_FLAX_LAYER = {
    "layer_norm1": "LayerNorm_0", "layer_norm2": "LayerNorm_1",
    "mlp.fc1": "MlpBlock_0/Dense_0", "mlp.fc2": "MlpBlock_0/Dense_1",
    **{f"self_attn.{name[0]}_proj": f"MultiHeadDotProductAttention_0/{name}"
       for name in ("query", "key", "value")},
    "self_attn.out_proj": "MultiHeadDotProductAttention_0/out",
}  # fmt: skip


def big_vision_arrays(arrays, heads, stacked):
    """A SigLIP of transformers under the names and in the layouts of big_vision."""
    vision, text = _below(arrays, "vision_model."), _below(arrays, "text_model.")
    found = {
        "img/embedding/kernel": vision["embeddings.patch_embedding.weight"].transpose(2, 3, 1, 0),
        "img/embedding/bias": vision["embeddings.patch_embedding.bias"],
        "img/pos_embedding": vision["embeddings.position_embedding.weight"][None],
        "img/MAPHead_0/probe": vision["head.probe"],
        "txt/Embed_0/embedding": text["embeddings.token_embedding.weight"],
        "txt/pos_embedding": text["embeddings.position_embedding.weight"][None],
        "txt/head/kernel": text["head.weight"].T,
        "txt/head/bias": text["head.bias"],
        "t": arrays["logit_scale"].reshape(1),
        "b": arrays["logit_bias"].reshape(1),
    }
    for theirs, own, norm, count in (
        ("img/Transformer", vision, "post_layernorm", heads["image"]),
        ("txt/Encoder_0", text, "final_layer_norm", heads["text"]),
    ):
        for new, old in (("scale", "weight"), ("bias", "bias")):
            found[f"{theirs}/encoder_norm/{new}"] = own[f"{norm}.{old}"]
        layers = []
        while layer := _below(own, f"encoder.layers.{len(layers)}."):
            layers.append(_flax_layer(layer, count))
        for name in layers[0]:
            if stacked:
                found[f"{theirs}/encoderblock/{name}"] = np.stack([one[name] for one in layers])
            else:
                for number, layer in enumerate(layers):
                    found[f"{theirs}/encoderblock_{number}/{name}"] = layer[name]
    head = {
        name.replace("attention.", "self_attn.").replace("layernorm", "layer_norm1"): array
        for name, array in _below(vision, "head.").items()
        if name != "probe"
    }
    for kind in ("weight", "bias"):
        parts = np.split(head.pop(f"self_attn.in_proj_{kind}"), 3)
        head |= {f"self_attn.{part}_proj.{kind}": p for part, p in zip("qkv", parts, strict=True)}
    found |= {f"img/MAPHead_0/{n}": a for n, a in _flax_layer(head, heads["image"]).items()}
    return {f"params/{name}": array for name, array in found.items()}


def _below(arrays, start):
    return {n.removeprefix(start): array for n, array in arrays.items() if n.startswith(start)}


def _flax_layer(arrays, heads):
    """Kernels [W, H, D] of torch's [out, in], and the output's [H, D, W]."""
    found = {}
    for name, array in arrays.items():
        part, _, kind = name.rpartition(".")
        theirs = _FLAX_LAYER[part]
        if theirs.endswith(("query", "key", "value")):
            array = array.T.reshape(*array.shape[1:], heads, -1)
        elif array.ndim > 1:
            array = array.T.reshape(heads, -1, len(array)) if "out_proj" in part else array.T
        new = "scale" if "norm" in part else "kernel"
        found[f"{theirs}/{new if kind == 'weight' else kind}"] = array
    return found


def script(torch, arrays, path, **buffers):
    """Saves arrays as OpenAI does: a scripted module with half-precision matrices."""

    class Root(torch.nn.Module):
        def forward(self, x):
            return x + self.logit_scale

    root = Root()
    for name, array in arrays.items():
        *places, leaf = name.split(".")
        module = root
        for place in places:
            if not hasattr(module, place):
                module.add_module(place, torch.nn.Module())
            module = getattr(module, place)
        tensor = torch.tensor(np.ascontiguousarray(array))
        tensor = tensor.half() if tensor.ndim > 1 else tensor
        module.register_parameter(leaf, torch.nn.Parameter(tensor))
    for name, value in buffers.items():
        root.register_buffer(name, torch.tensor(value))
    torch.jit.save(torch.jit.trace(root, torch.ones(1)), path)


def make_resnet(torch, width, units, pixels, output):
    """ModifiedResNet of open_clip with random norms."""
    torch.manual_seed(1)
    heads = width * 32 // 64
    model = open_clip().model.ModifiedResNet(units, output, heads, pixels, width)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            for name in ("weight", "bias", "running_mean", "running_var"):
                getattr(module, name).data.uniform_(0.5, 1.5)
    return model.eval()


class _Any:
    """Stands for a class or an enumeration of torchvision."""

    BICUBIC, BILINEAR = "bicubic", "bilinear"

    def __init__(self, *args, **kwargs):
        pass


def open_clip():
    """The package open_clip, without torchvision, which has no wheel for every torch."""
    import transformers

    if importlib.util.find_spec("open_clip") is None:
        pytest.skip("open_clip is not installed")
    transformers.utils.is_torchvision_available()  # Its answer is kept.
    names = ("torchvision", "torchvision.ops", "torchvision.ops.misc", "torchvision.transforms",
             "torchvision.transforms.functional")  # fmt: skip
    modules = {name: types.ModuleType(name) for name in names}
    for name, module in modules.items():
        module.__getattr__, module.__path__ = lambda name: _Any, []
        parent, _, child = name.rpartition(".")
        setattr(modules.get(parent, module), child, module)
    sys.modules.update(modules)
    try:
        return importlib.import_module("open_clip")
    finally:
        for name in modules:
            del sys.modules[name]


def convert(kind, source, **options):
    """The arrays, with the numbers of the similarity, and the description."""
    arrays, description, _ = converters.convert(kind, source, **options)
    numbers = description.parameters.items()
    arrays |= {f"similarity/{name}": np.float32(value) for name, value in numbers}
    return arrays, description
