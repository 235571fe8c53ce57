"""SGR and SAF as Paranioar/SGRAF released them: `model_best.pth.tar`, one model each."""

from collections.abc import Mapping
from typing import Any

from xmodal.pretrained import torch_models
from xmodal.pretrained.conversion_report import Taken
from xmodal.pretrained.folder import Description
from xmodal.pretrained.image_text import FEATURES, SENTENCES
from xmodal.pretrained.scan_weights import describe_words
from xmodal.pretrained.torch_models import Arrays, LayerRule, Published

# A constant added to all logits of a softmax.
EXPECTED_UNEXPECTED = (r"(.*\.)?[vt]_global_w\.embedding_common\.0\.bias",)

_STEP = {"query": "graph_query_w", "key": "graph_key_w", "output": "sim_graph_w"}
_NORM = {"scale": "weight", "bias": "bias", "mean": "running_mean", "variance": "running_var"}


def describe_sgraf(arrays: Arrays, options: Mapping[str, Any]) -> Published:
    """Returns the model of a checkpoint, which is SGR or SAF by its arrays.

    Args:
      arrays: its arrays.
      options: its `opt`.

    Raises:
      UserError: the source is not such a checkpoint.
    """
    start = torch_models.find_prefix(arrays, "2.sim_eval_w.weight").removesuffix("2.")
    image, text, pairs = (f"{start}{number}." for number in range(3))
    width, inputs = torch_models.array_shape(arrays, f"{image}fc.weight")
    regions, *_ = torch_models.array_shape(
        arrays, f"{pairs}v_global_w.embedding_local.1.running_mean"
    )
    words, text_layers = describe_words(arrays, text, options, recurrent="cap_rnn", dropout=0.4)
    similarity, pair_layers = _describe_pairs(arrays, pairs)
    head = {"name": "global_attention", "width": width, "batch_norm": True}
    encoder = {"name": "precomputed", "features": (regions, inputs)}
    image_layers = {"head/linear": torch_models.linear(f"{image}fc")}
    for part in ("local", "global"):
        module = f"{pairs}v_global_w.embedding_{part}"
        image_layers[f"head/{part}"] = torch_models.linear(f"{module}.0")
        image_layers[f"head/{part}_norm"] = torch_models.norm(f"{module}.1")
        module = f"{pairs}t_global_w.embedding_{part}"
        text_layers[f"head/{part}"] = torch_models.linear(f"{module}.0")
    for layers, module in ((image_layers, "v_global_w"), (text_layers, "t_global_w")):
        layers["head/weight"] = torch_models.linear(f"{pairs}{module}.embedding_common.0")
    return Published(
        sides={
            "image": Description(encoder, head, FEATURES),
            "text": Description(words, {"name": "global_attention"}, SENTENCES),
        },
        similarity=similarity,
        layers={"image": image_layers, "text": text_layers, "similarity": pair_layers},
    )


def _describe_pairs(arrays: Arrays, start: str) -> tuple[dict[str, Any], dict[str, LayerRule]]:
    """Returns the section of the similarity, and its rules."""
    size, _ = torch_models.array_shape(arrays, f"{start}sim_tranloc_w.weight")
    layers = {
        "local": torch_models.linear(f"{start}sim_tranloc_w"),
        "global": torch_models.linear(f"{start}sim_tranglo_w"),
        "score": torch_models.linear(f"{start}sim_eval_w"),
    }
    module = f"{start}SAF_module."
    if f"{module}bn.weight" in arrays:
        layers["gate"] = torch_models.linear(f"{module}attn_sim_w")
        layers["gate_norm"] = lambda leaf: Taken(f"{module}bn.{_NORM[leaf]}")
        return {"name": "saf", "width": size, "gate_norm": "batch"}, layers
    module = f"{start}SGR_module."
    steps = [n for n in range(100) if f"{module}{n}.sim_graph_w.weight" in arrays]
    for number in steps:
        for ours, theirs in _STEP.items():
            rule = torch_models.linear(f"{module}{number}.{theirs}")
            layers[f"step{number + 1}/{ours}"] = rule
    return {"name": "sgr", "width": size, "steps": len(steps)}, layers
