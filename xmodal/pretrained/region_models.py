"""Released models of regions: SCAN, SGR, SAF, VSRN, and VSE-infinity, which also has grids."""

from collections.abc import Mapping
from typing import Any

from xmodal.core.errors import UserError
from xmodal.pretrained.bert_weights import HUGGING_FACE, bert_sizes
from xmodal.pretrained.folder import Description
from xmodal.pretrained.image_text import regions, sentences, word_encoder
from xmodal.pretrained.layer_rules import Arrays, Taken, count_layers, find_prefix, nest
from xmodal.pretrained.published_weights import Published, PublishedTower
from xmodal.pretrained.resnet_weights import torchvision_encoder
from xmodal.pretrained.vocabularies import words_of
from xmodal.pretrained.weight_files import WeightSource

_QUERIES = {"t2i": "text", "i2t": "image"}
_POOLS = {"LogSumExp": "lse", "Mean": "mean", "Max": "max", "Sum": "sum"}
# A tower's attention over its tokens in SGRAF.
_GLOBAL = {
    "local": "local.0",
    "global": "global.0",
    "weight": "common.0",
    "local_norm": "local.1",
    "global_norm": "global.1",
}
_SGR_STEP = {"query": "graph_query_w", "key": "graph_key_w", "output": "sim_graph_w"}
_VSRN_LAYER = {"query": "theta", "key": "phi", "value": "g", "output": "W.0", "norm": "W.1"}
_GPO = {"recurrent": "gpool.gru", "score": "gpool.linear"}


def describe_scan(source: WeightSource) -> Published:
    """Returns the model of a checkpoint of kuanghuei/SCAN; its options describe the similarity."""
    arrays, options = source.arrays, source.options
    start = find_prefix(arrays, "0.fc.weight")
    found = [options.get(name, "") for name in ("cross_attn", "agg_func")]
    queries, pool = _QUERIES.get(found[0]), _POOLS.get(found[1])
    if not queries or not pool or f"{start}0.fc.weight_g" in arrays:
        raise UserError(
            f"its cross_attn is {found[0]!r}, its agg_func {found[1]!r} (in 'opt'); known are "
            f"{', '.join(_QUERIES)} and {', '.join(_POOLS)}, without weight_norm."
        )
    similarity = {
        "name": "scan",
        "queries": queries,
        "pool": pool,
        "pool_scale": options.get("lambda_lse", 6.0),
        "attention_scale": options["lambda_softmax"],
        "attention_norm": options["raw_feature_norm"],
    }
    width, inputs = arrays[f"{start}0.fc.weight"].shape
    head, table = {"name": "unit_tokens", "width": width}, {"head/linear": f"{start}0.fc"}
    return Published(
        image=regions(inputs, head, table),
        text=sentences(source, _unit_words(source, f"{start}1."), {"name": "unit_tokens"}),
        similarity=similarity,
    )


def _unit_words(
    source: WeightSource, start: str, **keywords: Any
) -> tuple[Mapping[str, Any], dict[str, str]]:
    """The result of `word_encoder`, with the mean of both directions as each token."""
    for name in ("no_imgnorm", "no_txtnorm"):
        if source.options.get(name):
            raise UserError(f"its tokens are not normalized ({name}), which is not supported.")
    words, table = word_encoder(source.arrays, start, **keywords)
    return words | {"directions": "mean" if words["bidirectional"] else "joined"}, table


def describe_sgraf(source: WeightSource) -> Published:
    """Returns the model of a checkpoint of Paranioar/SGRAF, which is SGR or SAF by its arrays."""
    arrays = source.arrays
    start = find_prefix(arrays, "2.sim_eval_w.weight")
    image, text, pairs = (f"{start}{number}." for number in range(3))
    width, inputs = arrays[f"{image}fc.weight"].shape
    count, *_ = arrays[f"{pairs}v_global_w.embedding_local.1.running_mean"].shape
    size, _ = arrays[f"{pairs}sim_tranloc_w.weight"].shape
    words = _unit_words(source, text, recurrent="cap_rnn", dropout=0.4)
    image_table = nest("head/", f"{pairs}v_global_w.embedding_", _GLOBAL)
    text_table = nest("head/", f"{pairs}t_global_w.embedding_", _GLOBAL)
    pair_table: dict[str, str | Taken] = {
        "local": f"{pairs}sim_tranloc_w",
        "global": f"{pairs}sim_tranglo_w",
        "score": f"{pairs}sim_eval_w",
        "gate": f"{pairs}SAF_module.attn_sim_w",
        "gate_norm": f"{pairs}SAF_module.bn",
    }
    similarity: dict[str, Any] = {"name": "saf", "width": size, "gate_norm": "batch"}
    if f"{pairs}SAF_module.bn.weight" not in arrays:
        step = f"{pairs}SGR_module.{{}}."
        steps = count_layers(arrays, f"{step}sim_graph_w.weight")
        similarity = {"name": "sgr", "width": size, "steps": steps}
        for number in range(steps):
            pair_table |= nest(f"step{number + 1}/", step.format(number), _SGR_STEP)
    head = {"name": "global_attention", "width": width, "batch_norm": True}
    return Published(
        image=regions(inputs, head, {"head/linear": f"{image}fc", **image_table}, count),
        text=sentences(source, words, {"name": "global_attention"}, text_table),
        similarity=similarity,
        layers={"similarity": pair_table},
        # A constant added to all logits of a softmax.
        unused=(r"(.*\.)?[vt]_global_w\.embedding_common\.0\.bias",),
    )


def describe_vsrn(source: WeightSource) -> Published:
    """Returns the model of a checkpoint of KunpengLi1994/VSRN or sunnychencool/AOQ.

    Its caption decoder is left out. The Flickr30k checkpoint has a batch normalization after the
    GRU and no norm before the graph layers.
    """
    arrays = source.arrays
    image = find_prefix(arrays, "img_rnn.weight_ih_l0")
    width, inputs = arrays[f"{image}fc.weight"].shape
    numbers = [n for n in range(1, 100) if f"{image}Rs_GCN_{n}.g.weight" in arrays]
    is_flickr = f"{image}bn.weight" in arrays
    head = {
        "name": "graph",
        "width": width,
        "layers": len(numbers),
        "input_norm": "none" if is_flickr else "regions",
        "output_norm": "regions",
    }
    table: dict[str, Any] = {
        "head/linear": f"{image}fc",
        "head/recurrent": f"{image}img_rnn",
        "projection/batch_norm": f"{image}bn",
    }
    for number in numbers:
        table |= nest(f"head/layer{number}/", f"{image}Rs_GCN_{number}.", _VSRN_LAYER)
    projection = {"batch_norm": True} if is_flickr else None
    words = word_encoder(arrays, find_prefix(arrays, "embed.weight"))
    return Published(
        image=regions(inputs, head, table, projection=projection),
        text=sentences(source, words, {"name": "lasttoken"}),
        similarity={"name": "cosine"},
        unused=(r"(.*\.)?2\.(encoder|decoder)\.",),  # AOQ's caption decoder.
    )


def describe_vse_infinity(source: WeightSource) -> Published:
    """Returns the model of a checkpoint of woodfrog/vse_infty.

    It has regions or grid cells, and BERT or a BiGRU.
    """
    arrays = source.arrays
    has_grids = any(".backbone.resnet." in f".{name}" for name in arrays)
    anchor = "image_encoder.fc.weight" if has_grids else "mlp.layers.0.weight"
    image = find_prefix(arrays, anchor)
    module = f"{image}image_encoder." if has_grids else image
    width, inputs = arrays[f"{module}fc.weight"].shape
    head, table = _gpo(arrays, module)
    head["width"], table["head/linear"] = width, f"{module}fc"
    if has_grids:
        encoder, cnn = torchvision_encoder(arrays, f"{image}backbone.resnet.", "vse_infinity")
        table |= cnn
        if source.choose("imagenet", _vse_infinity_trained(source.options)) == "detector":
            encoder["normalization"] = "detector"
        grids = {"size": 512, "eval_transform": "cxc", "eval_crop": 1.0}
        pictures = PublishedTower(Description(encoder, head, grids), table)
    else:
        head["mlp"], _ = arrays[f"{module}mlp.layers.0.weight"].shape
        mlp = {"mlp_hidden": "layers.0", "mlp_norm": "bns.0", "mlp_output": "layers.1"}
        table |= nest("head/", f"{module}mlp.", mlp)
        pictures = regions(inputs, head, table)
    return Published(
        image=pictures,
        text=_vse_infinity_text(source),
        similarity={"name": "cosine"},
        # The CNN's other names, its classifier, a norm that is never used, and BERT's unused
        # outputs.
        unused=(
            r"(.*\.)?backbone\.(base|top|resnet\.fc)\.",
            r"(.*\.)?mlp\.bns\.1\.",
            r"(.*\.)?bert\.(pooler\.|embeddings\.position_ids)",
        ),
    )


def _vse_infinity_trained(options: Mapping[str, Any]) -> str | None:
    """Returns the variant that a checkpoint's options name; None if they do not."""
    backbone = options.get("backbone_source")
    if options.get("precomp_enc_type") != "backbone" or not isinstance(backbone, str):
        return None
    return "detector" if "detector" in backbone else "imagenet"


def _vse_infinity_text(source: WeightSource) -> PublishedTower:
    arrays, words = source.arrays, "bert.embeddings.word_embeddings.weight"
    is_bert = any(name.endswith(words) for name in arrays)
    start = find_prefix(arrays, words if is_bert else "embed.weight")
    head, table = _gpo(arrays, start)
    if not is_bert:
        return sentences(source, word_encoder(arrays, start, directions="mean"), head, table)
    bert = nest("", f"{start}bert.", HUGGING_FACE)
    encoder = {"name": "bert", **bert_sizes(arrays, bert)}
    head["width"], _ = arrays[f"{start}linear.weight"].shape
    table |= nest("encoder/", "", bert) | {"head/linear": f"{start}linear"}
    inputs = {"tokenizer": "wordpiece", "lower_case": True}
    files = words_of(source, encoder["vocab_size"])
    return PublishedTower(Description(encoder, head, inputs, files), table)


def _gpo(arrays: Arrays, start: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The section of the generalized pooling, and its table."""
    _, code_width = arrays[f"{start}gpool.gru.weight_ih_l0"].shape
    _, hidden = arrays[f"{start}gpool.linear.weight"].shape
    section = {"name": "gpo", "code_width": code_width, "hidden": hidden}
    return section, nest("head/position_weights/", start, _GPO)
