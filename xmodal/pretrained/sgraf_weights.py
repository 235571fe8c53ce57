"""SGR and SAF as Paranioar/SGRAF released them: `model_best.pth.tar`, one model each."""

from typing import Any

from xmodal.pretrained import layer_rules
from xmodal.pretrained.image_text import regions, sentences
from xmodal.pretrained.layer_rules import Arrays, LayerRule
from xmodal.pretrained.published_weights import Published
from xmodal.pretrained.scan_weights import describe_words
from xmodal.pretrained.weight_files import WeightSource

_STEP = {"query": "graph_query_w", "key": "graph_key_w", "output": "sim_graph_w"}


def describe_sgraf(source: WeightSource) -> Published:
    """Returns the model of a checkpoint, which is SGR or SAF by its arrays.

    Raises:
      UserError: it is not such a checkpoint.
    """
    arrays = source.arrays
    start = layer_rules.find_prefix(arrays, "2.sim_eval_w.weight")
    image, text, pairs = (f"{start}{number}." for number in range(3))
    width, inputs = layer_rules.array_shape(arrays, f"{image}fc.weight")
    norm = f"{pairs}v_global_w.embedding_local.1.running_mean"
    count, *_ = layer_rules.array_shape(arrays, norm)
    words, text_layers = describe_words(source, text, recurrent="cap_rnn", dropout=0.4)
    similarity, pair_layers = _describe_pairs(arrays, pairs)
    image_layers = {"head/linear": layer_rules.linear(f"{image}fc")}
    for layers, module in ((image_layers, "v_global_w"), (text_layers, "t_global_w")):
        embedding = f"{pairs}{module}.embedding_"
        layers["head/local"] = layer_rules.linear(f"{embedding}local.0")
        layers["head/global"] = layer_rules.linear(f"{embedding}global.0")
        layers["head/weight"] = layer_rules.linear(f"{embedding}common.0")
        layers["head/local_norm"] = layer_rules.norm(f"{embedding}local.1")
        layers["head/global_norm"] = layer_rules.norm(f"{embedding}global.1")
    head = {"name": "global_attention", "width": width, "batch_norm": True}
    return Published(
        towers={
            "image": regions(inputs, head, count),
            "text": sentences(source, words, {"name": "global_attention"}),
        },
        similarity=similarity,
        layers={"image": image_layers, "text": text_layers, "similarity": pair_layers},
        # A constant added to all logits of a softmax.
        unused=(r"(.*\.)?[vt]_global_w\.embedding_common\.0\.bias",),
    )


def _describe_pairs(arrays: Arrays, start: str) -> tuple[dict[str, Any], dict[str, LayerRule]]:
    """Returns the section of the similarity, and its rules."""
    size, _ = layer_rules.array_shape(arrays, f"{start}sim_tranloc_w.weight")
    layers = {
        "local": layer_rules.linear(f"{start}sim_tranloc_w"),
        "global": layer_rules.linear(f"{start}sim_tranglo_w"),
        "score": layer_rules.linear(f"{start}sim_eval_w"),
    }
    module = f"{start}SAF_module."
    if f"{module}bn.weight" in arrays:
        layers["gate"] = layer_rules.linear(f"{module}attn_sim_w")
        layers["gate_norm"] = layer_rules.norm(f"{module}bn")
        return {"name": "saf", "width": size, "gate_norm": "batch"}, layers
    module = f"{start}SGR_module."
    steps = layer_rules.count_layers(arrays, f"{module}{{}}.sim_graph_w.weight")
    for number in range(steps):
        for ours, theirs in _STEP.items():
            rule = layer_rules.linear(f"{module}{number}.{theirs}")
            layers[f"step{number + 1}/{ours}"] = rule
    return {"name": "sgr", "width": size, "steps": steps}, layers
