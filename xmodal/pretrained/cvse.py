"""CVSE as BruceW91/CVSE released it: `model_best.pth.tar`, a list of eight state dicts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xmodal.core.errors import UserError
from xmodal.data.text.concept_graph import normalize_adjacency, read_concepts
from xmodal.data.text.words import UNKNOWN
from xmodal.pretrained.folder import Description
from xmodal.pretrained.image_text import SENTENCES, regions, word_encoder
from xmodal.pretrained.layer_rules import Arrays, Table, Taken, find_prefix, nest
from xmodal.pretrained.published_weights import Published, PublishedTower
from xmodal.pretrained.vocabularies import as_file, words_of
from xmodal.pretrained.weight_files import WeightSource

# A second name of every linear layer, layers and graphs that are never used, and biases before a
# softmax.
_UNUSED = (
    r"(.*\.)?[2-5]\.(fc[1234]|fc2_2|embedding_2_2|embedding_3\.0\.bias)\b",
    r"(.*\.)?6\.(adj_O_[MP]|joint_att_emb)\b",
)
VARIANTS = {"coco": (0.4, 0.9), "flickr30k": (0.35, 0.85)}
"""Share of labels, and of an item's own vector in evaluation, which arrays do not show."""

# The heads of a tower: attention over its tokens, attention over concepts, and their graph.
_INSTANCE = {"local": "embedding_1.0", "global": "embedding_2.0", "weight": "embedding_3.0"}
_CONSENSUS: Table = {
    "concept": "embedding_1.0",
    "concept_norm": "embedding_1.1",
    "item": "embedding_2.0",
    "item_norm": "embedding_2.1",
    "weight": Taken("embedding_3.0.weight", np.transpose),
}
_GRAPH: Table = {
    "hidden": "gc1.weight",
    "output": "gc2.weight",
    "adjacency": Taken("adj_all", normalize_adjacency),
}
# Arrays that are added to those of a checkpoint.
_VECTORS, _TABLE = "concepts.vectors", "concepts.of_word"


def describe_cvse(source: WeightSource) -> Published:
    """Returns the model of a checkpoint with its concepts, which it does not hold."""
    share, fusion = VARIANTS[source.choose("coco", _trained(source.options))]
    start = find_prefix(source.arrays, "6.adj_all")
    arrays, files = _with_concepts(source, f"{start}1.embed.weight")
    width, inputs = arrays[f"{start}0.fc.weight"].shape
    words, graph = arrays[f"{start}6.gc1.weight"].shape
    head = {
        "name": "consensus",
        "concepts": len(arrays[f"{start}6.adj_all"]),
        "concept_width": words,
        "graph_width": graph,
        "eval_fusion": fusion,
    }
    encoder, layers = word_encoder(arrays, f"{start}1.", directions="mean")
    labels = {"unit_query": True, "vocab_size": encoder["vocab_size"], "label_share": share}
    image_table = {
        "head/instance/linear": f"{start}0.fc",
        "head/instance/local_norm": f"{start}2.embedding_1.1",
        "head/instance/global_norm": f"{start}2.embedding_2.1",
        **_head_table(start, 2),
    }
    text = Description(encoder, head | labels, SENTENCES | {"reading": "bytes"}, files)
    text_table = {**layers, "head/concept_of_word": _TABLE, **_head_table(start, 3)}
    return Published(
        image=regions(inputs, head | {"width": width, "batch_norm": True}, image_table),
        text=PublishedTower(text, text_table),
        similarity={"name": "dot"},
        unused=_UNUSED,
        arrays=arrays,
    )


def _trained(options: Mapping[str, Any]) -> str | None:
    """Returns the variant that a checkpoint's options name; None if they do not."""
    if not isinstance(options.get("data_name"), str):
        return None
    return "flickr30k" if "f30k" in options["data_name"] else "coco"


def _with_concepts(source: WeightSource, table: str) -> tuple[Arrays, dict[str, bytes]]:
    """Returns the arrays of a checkpoint with those of its concepts, and its vocabulary.

    The authors' code reads a caption as `b'...'`, so that its first word is unknown, but looks up
    that word's concept. Here each word that names a concept has a second entry that begins with
    `b'`, with the vector of `<unk>`.
    """
    vectors = source.arrays[table]
    words: Sequence[str] = words_of(source, len(vectors))["vocab.txt"].decode().splitlines()
    if not source.concepts or (concepts := read_concepts(source.concepts)).vectors is None:
        raise UserError(
            "it has no concepts: use --concepts to name a file with their vectors, which `python "
            "-m data_prep.concepts --concepts=category_concepts.json "
            "--word_vectors=coco_concepts_glove_word2vec.pkl` writes."
        )
    first = [f"b'{word}" for word in concepts.forms if f"b'{word}" not in words]
    rows = np.repeat(vectors[[words.index(UNKNOWN)]], len(first), axis=0)
    forms = [word.removeprefix("b'") for word in (*words, *first)]
    added = {
        table: np.concatenate([vectors, rows]),
        _VECTORS: concepts.vectors,
        # As all arrays of a folder.
        _TABLE: concepts.concept_of_word(forms).astype(np.float32),
    }
    return {**source.arrays, **added}, as_file([*words, *first])


def _head_table(start: str, number: int) -> dict[str, str | Taken]:
    """The table of one tower; `number` is the place of its attention in the list of state dicts."""
    return {
        **nest("head/instance/", f"{start}{number}.", _INSTANCE),
        **nest("head/", f"{start}{number + 2}.", _CONSENSUS),
        **nest("head/graph/", f"{start}6.", _GRAPH),
        "head/graph/vectors": _VECTORS,
    }
