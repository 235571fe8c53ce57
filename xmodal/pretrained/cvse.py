"""CVSE as BruceW91/CVSE released it: `model_best.pth.tar`, a list of eight state dicts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xmodal.core.errors import UserError
from xmodal.data.text.concept_graph import normalize_adjacency, read_concepts
from xmodal.data.text.vocabulary import UNKNOWN
from xmodal.pretrained import torch_models
from xmodal.pretrained.conversion_report import Taken
from xmodal.pretrained.folder import Description
from xmodal.pretrained.image_text import FEATURES, SENTENCES, gru_encoder
from xmodal.pretrained.torch_models import Arrays, LayerRule, Published

# A second name of every linear layer, layers and graphs that are never used, and biases before a
# softmax.
EXPECTED_UNEXPECTED = (
    r"(.*\.)?[2-5]\.(fc[1234]|fc2_2|embedding_2_2|embedding_3\.0\.bias)\b",
    r"(.*\.)?6\.(adj_O_[MP]|joint_att_emb)\b",
)
VARIANTS = {"coco": (0.4, 0.9), "flickr30k": (0.35, 0.85)}
"""Share of labels, and of an item's own vector in evaluation, which arrays do not show."""

ADDED = _VECTORS, _TABLE = "concepts.vectors", "concepts.of_word"
"""Names of the arrays that `add_concepts` adds."""

_USUAL = {
    "use_BatchNorm": True,
    "activation_type": "tanh",
    "feature_fuse_type": "weight_sum",
    "no_imgnorm": False,
    "no_txtnorm": False,
    "use_abs": False,
    "measure": "cosine",
}


def trained_variant(options: Mapping[str, Any]) -> str | None:
    """Returns the variant that a checkpoint's options name; None if they do not.

    Raises:
      UserError: they name another model.
    """
    for name, usual in _USUAL.items():
        if options.get(name, usual) != usual:
            raise UserError(f"it was trained with {name}={options[name]!r}, not {usual!r}.")
    if not isinstance(options.get("data_name"), str):
        return None
    variant = "flickr30k" if "f30k" in options["data_name"] else "coco"
    share = options.get("Concept_label_ratio", VARIANTS[variant][0])
    if share != VARIANTS[variant][0]:
        raise UserError(
            f"it was trained with Concept_label_ratio={share}; that of {variant} is "
            f"{VARIANTS[variant][0]}."
        )
    return variant


def add_concepts(arrays: Arrays, words: Sequence[str], file: str) -> tuple[Arrays, list[str]]:
    """Returns the arrays and words of a checkpoint with its concepts, which it does not hold.

    The authors' code reads a caption as `b'...'`, so that its first word is unknown, but looks up
    that word's concept. Here each word that names a concept has a second entry that begins with
    `b'`, with the vector of `<unk>`.

    Args:
      arrays: arrays of the checkpoint.
      words: its vocabulary.
      file: concept file with the checkpoint's concepts and vectors, see `data_prep.concepts`.

    Raises:
      UserError: the file is missing or has no vectors, or `<unk>` is not in the vocabulary.
    """
    if not file:
        raise UserError(
            "it has no concepts: use --concepts to name their file, which `python -m "
            "data_prep.concepts --concepts=category_concepts.json "
            "--word_vectors=coco_concepts_glove_word2vec.pkl` writes."
        )
    concepts = read_concepts(file)
    if concepts.vectors is None:
        raise UserError(
            f"{file} has no vectors: write it with `data_prep.concepts --word_vectors`."
        )
    if UNKNOWN not in words:
        raise UserError(f"its vocabulary has no {UNKNOWN}: use the one published with it.")
    name = f"{torch_models.find_prefix(arrays, '6.adj_all')}1.embed.weight"
    first = [f"b'{word}" for word in concepts.forms if f"b'{word}" not in words]
    rows = np.repeat(arrays[name][[list(words).index(UNKNOWN)]], len(first), axis=0)
    forms = [word.removeprefix("b'") for word in (*words, *first)]
    added = {
        name: np.concatenate([arrays[name], rows]),
        _VECTORS: concepts.vectors,
        # As all arrays of a folder.
        _TABLE: concepts.concept_of_word(forms).astype(np.float32),
    }
    return {**arrays, **added}, [*words, *first]


def describe_cvse(arrays: Arrays, variant: str) -> Published:
    """Returns the model of a checkpoint.

    Raises:
      UserError: the source is not such a checkpoint.
    """
    start = torch_models.find_prefix(arrays, "6.adj_all")
    width, inputs = torch_models.array_shape(arrays, f"{start}0.fc.weight")
    concepts, _ = torch_models.array_shape(arrays, f"{start}6.adj_all")
    words, graph = torch_models.array_shape(arrays, f"{start}6.gc1.weight")
    share, fusion = VARIANTS[variant]
    head = {
        "name": "consensus",
        "concepts": concepts,
        "concept_width": words,
        "graph_width": graph,
        "eval_fusion": fusion,
    }
    encoder, text_layers = gru_encoder(arrays, f"{start}1.", directions="mean")
    labels = {"unit_query": True, "vocab_size": encoder["vocab_size"], "label_share": share}
    image_layers = {
        "head/instance/linear": torch_models.linear(f"{start}0.fc"),
        "head/instance/local_norm": torch_models.norm(f"{start}2.embedding_1.1"),
        "head/instance/global_norm": torch_models.norm(f"{start}2.embedding_2.1"),
    }
    text_layers["head/concept_of_word"] = torch_models.whole(_TABLE)
    return Published(
        sides={
            "image": Description(
                {"name": "precomputed", "features": (36, inputs)},
                head | {"width": width, "batch_norm": True},
                FEATURES,
            ),
            "text": Description(encoder, head | labels, SENTENCES | {"reading": "bytes"}),
        },
        similarity={"name": "dot"},
        layers={
            "image": image_layers | _head_rules(start, 2),
            "text": text_layers | _head_rules(start, 3),
        },
    )


def _head_rules(start: str, number: int) -> dict[str, LayerRule]:
    """Rules for one side; `number` is the place of its attention in the list of state dicts."""
    attention, consensus = f"{start}{number}.", f"{start}{number + 2}."
    graph = {
        "hidden": Taken(f"{start}6.gc1.weight"),
        "output": Taken(f"{start}6.gc2.weight"),
        "adjacency": Taken(f"{start}6.adj_all", normalize_adjacency, "normalized"),
        "vectors": Taken(_VECTORS),
    }
    return {
        "head/instance/local": torch_models.linear(f"{attention}embedding_1.0"),
        "head/instance/global": torch_models.linear(f"{attention}embedding_2.0"),
        "head/instance/weight": torch_models.linear(f"{attention}embedding_3.0"),
        "head/graph": graph.__getitem__,
        "head/concept": torch_models.linear(f"{consensus}embedding_1.0"),
        "head/concept_norm": torch_models.norm(f"{consensus}embedding_1.1"),
        "head/item": torch_models.linear(f"{consensus}embedding_2.0"),
        "head/item_norm": torch_models.norm(f"{consensus}embedding_2.1"),
        "head/weight": lambda leaf: Taken(
            f"{consensus}embedding_3.0.weight", np.transpose, "transposed"
        ),
    }
