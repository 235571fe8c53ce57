"""CVSE as BruceW91/CVSE released it: `model_best.pth.tar`, a list of eight state dicts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xmodal.core.errors import UserError
from xmodal.data.text.concept_graph import normalize_adjacency, read_concepts
from xmodal.data.text.vocabulary import UNKNOWN
from xmodal.pretrained import layer_rules
from xmodal.pretrained.conversion_report import Taken
from xmodal.pretrained.folder import Description
from xmodal.pretrained.image_text import SENTENCES, gru_encoder, regions
from xmodal.pretrained.layer_rules import Arrays, LayerRule
from xmodal.pretrained.published_weights import Published
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

# Arrays that are added to those of a checkpoint.
_VECTORS, _TABLE = "concepts.vectors", "concepts.of_word"


def describe_cvse(source: WeightSource) -> Published:
    """Returns the model of a checkpoint with its concepts, which it does not hold.

    Raises:
      UserError: it is not such a checkpoint, or has no concepts.
    """
    share, fusion = VARIANTS[source.choose("coco", _trained(source.options))]
    start = layer_rules.find_prefix(source.arrays, "6.adj_all")
    arrays, files = _with_concepts(source, f"{start}1.embed.weight")
    width, inputs = layer_rules.array_shape(arrays, f"{start}0.fc.weight")
    words, graph = layer_rules.array_shape(arrays, f"{start}6.gc1.weight")
    head = {
        "name": "consensus",
        "concepts": len(arrays[f"{start}6.adj_all"]),
        "concept_width": words,
        "graph_width": graph,
        "eval_fusion": fusion,
    }
    encoder, text_layers = gru_encoder(arrays, f"{start}1.", directions="mean")
    labels = {"unit_query": True, "vocab_size": encoder["vocab_size"], "label_share": share}
    image_layers = {
        "head/instance/linear": layer_rules.linear(f"{start}0.fc"),
        "head/instance/local_norm": layer_rules.norm(f"{start}2.embedding_1.1"),
        "head/instance/global_norm": layer_rules.norm(f"{start}2.embedding_2.1"),
    }
    text_layers["head/concept_of_word"] = layer_rules.whole(_TABLE)
    inputs_of_text = SENTENCES | {"reading": "bytes"}
    return Published(
        towers={
            "image": regions(inputs, head | {"width": width, "batch_norm": True}),
            "text": Description(encoder, head | labels, inputs_of_text, files),
        },
        similarity={"name": "dot"},
        layers={
            "image": image_layers | _head_rules(start, 2),
            "text": text_layers | _head_rules(start, 3),
        },
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
    if UNKNOWN not in words:
        raise UserError(f"its vocabulary has no {UNKNOWN}: use the one published with it.")
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


def _head_rules(start: str, number: int) -> dict[str, LayerRule]:
    """Rules for one tower; `number` is the place of its attention in the list of state dicts."""
    attention, consensus = f"{start}{number}.", f"{start}{number + 2}."
    graph = {
        "hidden": Taken(f"{start}6.gc1.weight"),
        "output": Taken(f"{start}6.gc2.weight"),
        "adjacency": Taken(f"{start}6.adj_all", normalize_adjacency, "normalized"),
        "vectors": Taken(_VECTORS),
    }
    return {
        "head/instance/local": layer_rules.linear(f"{attention}embedding_1.0"),
        "head/instance/global": layer_rules.linear(f"{attention}embedding_2.0"),
        "head/instance/weight": layer_rules.linear(f"{attention}embedding_3.0"),
        "head/graph": graph.__getitem__,
        "head/concept": layer_rules.linear(f"{consensus}embedding_1.0"),
        "head/concept_norm": layer_rules.norm(f"{consensus}embedding_1.1"),
        "head/item": layer_rules.linear(f"{consensus}embedding_2.0"),
        "head/item_norm": layer_rules.norm(f"{consensus}embedding_2.1"),
        "head/weight": layer_rules.changed(
            f"{consensus}embedding_3.0.weight", np.transpose, "transposed"
        ),
    }
