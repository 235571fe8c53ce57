"""Settings that the experiments of CMCM on Clue and on CITE++ share.

Alikhani et al., "Cross-Modal Coherence for Text-to-Image Retrieval" (AAAI 2022), and
klory/Cross-Modal-Coherence-for-Text-to-Image-Retrieval. Where the two differ, this follows the
code, which produced the printed numbers; variants follow the paper:
    t2i.loss            distances, hardest negatives of both modalities, mean over 2B anchors. The
                        paper's eq. (1) takes cosines and cross-modal negatives, with the sign of
                        its hinge turned: `cosine`
    relations.loss      positive labels are weighted by negatives / positives. In eq. (2), which
                        lacks a minus, all labels are weighted by 1 / proportion of the relation:
                        `reciprocal`
    reranker.gap        0.05. The paper's T is 0.1: the evaluator `refined_printed`, or
                        `--config.evals.refined.reranker.gap=0.1`
    data.image          the shorter side is resized to 224 pixels, and a square cropped, at random
                        in training. The paper resizes images to 224 x 224: `resized`
    dimension           1,024; the paper writes 300 in one place
Unlike here, the authors validate on the test split. Here, a tenth of the training pairs sets the
learning rate and selects the checkpoint, by ten pools instead of one, and test is evaluated once.
The incomplete last batch of an epoch is dropped (theirs is kept), and the LSTM starts from Flax's
initial values (LeCun normal, orthogonal; torch's are uniform).

Variants of both files. `quick,VARIANT` runs a variant on the built-in dataset; `shapes,VARIANT`
does so at a size that learns, starting from the CNN of `configs/quickstart.py` instead of
ImageNet's:
    base      no relations, no attention        no_attn   relations, no attention
    cmca      no relations, attention           cosine    eq. (1) in place of distances
    RELATION  CMCM_c of the paper: one relation, binary
    captions  only relations, predicted from the captions: no pictures are needed
    reciprocal, resized   see above             as_printed   both, and `cosine`

In the evaluators `only_RELATION`, only the captions with that relation are queries; they rank all
images of a pool by the plain similarity, as in the authors' code. In `not_visible`, the captions
without Visible are. `quick` has no `refined_printed`. After training,
`xmodal score_gaps --run=RUN --output=DIR` plots figure 3b, from which T follows.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from ml_collections import ConfigDict

from configs import base, itm, quickstart

DIMENSION = 1024
# Negatives per positive in the training split of the built-in dataset, within 6 %.
SHAPES_RELATIONS = {
    "visible": 0.52, "subjective": 9.0, "action": 5.9, "story": 3.0, "meta": 1.5, "irrelevant": 9.6,
}  # fmt: skip
# The held-out tenth of the training pairs.
HELD_OUT = {"split": "train[90%:]", "batch_size": 128}


def experiment(
    name: str, dataset: dict, relations: Mapping[str, float], *, max_length: int, strength: float
) -> ConfigDict:
    """CMCM itself: attention, and all relations.

    Args:
      name: name of the run.
      dataset: `config.data`.
      relations: name of a relation -> negatives to positives in training, in the dataset's order.
      max_length: largest number of tokens in a text.
      strength: strength of the refinement.
    """
    config = base.base(name)
    config.total_steps, config.batch_size, config.log_every = 10_000, 32, 100
    config.seed = 8
    projection: dict[str, Any] = {"width": DIMENSION, "batch_norm": True, "init": "torch"}
    projection["normalize"] = True
    words = {"name": "rnn", "cell": "lstm", "vocab_size": 0, "width": 300, "bidirectional": True}
    config.model.image = base.tower({"name": "resnet"}, **projection)  # torchvision's ResNet-50
    config.model.text = base.tower(words, "attention", **projection)
    retrieval = base.pair_task("distance_triplet", margin=0.3)
    relation = base.pair_task("relation_bce", weight=0.1, negatives="none", inputs=("relations",))
    config.tasks = {
        "t2i": retrieval | {"similarity": {"name": "euclidean"}},
        "relations": relation,
    }
    config.init_from.published = ("image/encoder/", "text/encoder/table")
    config.data, config.train_split = dataset, "train[:90%]"
    config.data.labels = ("relations",)
    crops = {"square": True, "flip": False, "color": False}
    config.data.image = base.pixels(224, crops, recipe="torchvision")
    config.data.text = base.words("spaces", min_count=1, max_length=max_length, lower_case=False)
    config.optimizer = base.adam(1e-4, b1=0.5, b2=0.999)
    config.best_checkpoint = {"metric": "pools/t2i/median_rank", "mode": "min"}
    config.optimizer["plateau"] = config.best_checkpoint.to_dict() | {"factor": 0.1, "patience": 5}
    reranker = {"name": "selective_refinement", "strength": strength, "gap": 0.05}
    config.evals = {
        "pools": pools(every=100),
        "refined": pools(every=500, reranker=reranker, task="relations"),
        "refined_printed": pools(reranker=reranker | {"gap": 0.1}, task="relations"),
        "relations": {"type": "relations", "task": "relations", "every": 500, **HELD_OUT},
    }
    config.checkpoint.every = 500
    return judge(config, tuple(relations.values()))


def judge(
    config: ConfigDict, weights: Sequence[float], select: Sequence[int] | None = None
) -> ConfigDict:
    """Sets the relations to predict, in training and evaluation.

    Args:
      config: config with the task `relations`.
      weights: weights of the positive labels of all relations in the experiment.
      select: positions of the relations to predict; None for all.
    """
    select = tuple(range(len(weights)) if select is None else select)
    loss = config.tasks.relations.loss
    # Negatives / positives + 1 is the reciprocal of the share of positives, see `by_reciprocals`.
    added = 1 if loss.options.get("both_terms") else 0
    pos_weight = tuple(weights[place] + added for place in select)
    loss.options.update({"pos_weight": pos_weight, "select": select})
    loss.module.relations = len(select)
    for section in config.evals.values():
        if section.type == "relations":
            section.select = select
    return config


def pools(every: int = 0, split: str = "test", **options: object) -> dict:
    """An evaluator of retrieval from random pools of 500 pairs, ten times."""
    return {"type": "pools", "final_split": split, "every": every, **HELD_OUT, **options}


def by_relation(relations: Collection[str], labels: Collection[str] = ()) -> dict:
    """Evaluators `only_RELATION`: the queries are the captions with that relation.

    `labels`: names of the relations in the dataset; by default, their own with a capital.
    """
    names = zip(relations, labels or map(str.capitalize, relations), strict=True)
    return {f"only_{relation}": pools(only_with=(label,)) for relation, label in names}


def variant(config: ConfigDict, argument: str, relations: Mapping[str, float]) -> ConfigDict:
    """The variants that an argument names, joined by commas; `quick` or `shapes` comes first.

    Raises:
      ValueError: a variant is unknown, or comes too late.
    """
    names = argument.split(",")
    if late := {"quick", "shapes"}.intersection(names[1:]):
        raise ValueError(f"Variant {min(late)!r} must come first, in place of {names[0]!r}.")
    for name in names:
        known = relations if config.data.dataset != "crisscrossed_shapes" else SHAPES_RELATIONS
        config = base.variant(config, name, quick=quick, shapes=shapes, **_changes(known))
    return config


def _changes(relations: Mapping[str, float]) -> dict[str, Callable[[ConfigDict], ConfigDict]]:
    changes: dict[str, Callable[[ConfigDict], ConfigDict]] = {
        "base": lambda config: without_attention(without_relations(config)),
        "cmca": without_relations,
        "no_attn": without_attention,
        "cosine": by_cosine,
        "reciprocal": by_reciprocals,
        "resized": resized,
        "as_printed": as_printed,
        "captions": captions_alone,
    }
    weights = tuple(relations.values())
    own = (partial(judge, weights=weights, select=(place,)) for place in range(len(weights)))
    return changes | dict(zip(relations, own, strict=True))  # CMCM_c of the paper.


def without_attention(config: ConfigDict) -> ConfigDict:
    """Replaces attention by the final states of both directions."""
    config.model.text.head = {"name": "lasttoken", "source": "state"}
    return config


def without_relations(config: ConfigDict) -> ConfigDict:
    """Only retrieval, without refinement."""
    config.data.labels = ()
    del config.tasks["relations"]
    keep_evaluators(config, lambda section: not section.get("task"))
    return config


def keep_evaluators(config: ConfigDict, is_kept: Callable[[ConfigDict], bool]) -> None:
    """Removes the other evaluators."""
    config.evals = {name: section for name, section in config.evals.items() if is_kept(section)}


def by_cosine(config: ConfigDict) -> ConfigDict:
    """Eq. (1): hardest cross-modal negatives by cosine, mean over the pairs of each direction."""
    config.tasks.t2i = itm.hinge(margin=0.3, reduction="mean") | {"negatives": "image"}
    return config


def by_reciprocals(config: ConfigDict) -> ConfigDict:
    """Eq. (2): the reciprocal of a relation's share weights both terms of its cross-entropy."""
    options = config.tasks.relations.loss.options
    options.pos_weight = tuple(1 + ratio for ratio in options.pos_weight)
    options.both_terms = True
    return config


def resized(config: ConfigDict) -> ConfigDict:
    """Whole images, resized to squares, in training and evaluation."""
    config.data.image = base.pixels(config.data.image.size, recipe="squash_bilinear")
    return config


def as_printed(config: ConfigDict) -> ConfigDict:
    """The paper's equations and images; its threshold is that of `refined_printed`."""
    return resized(by_reciprocals(by_cosine(config)))


def captions_alone(config: ConfigDict) -> ConfigDict:
    """The text tower and the classifier, which reads only the caption."""
    config.model.image = config.data.image = None
    if config.data.config.endswith("images"):
        config.data.config = config.data.config.removesuffix("images") + "labels"
    config.init_from.published = ("text/encoder/table",)
    config.tasks = {"relations": config.tasks.relations}
    config.tasks.relations.update({"views": ("caption_0",), "weight": 1.0})
    # No network is pretrained here, and a text model soon memorizes the few captions.
    config.total_steps, config.optimizer.learning_rate = min(config.total_steps, 1000), 1e-3
    # It replaces the pools for selecting the learning rate and the checkpoint.
    config.evals.relations.every = config.evals.pools.every
    keep_evaluators(config, lambda section: section.type == "relations")
    config.best_checkpoint = {"metric": "relations/mean/average_precision", "mode": "max"}
    config.init_from.run = ""  # `shapes` takes only a CNN from that run.
    if config.optimizer.plateau is not None:
        config.optimizer.plateau.update(config.best_checkpoint)
    return config


def quick(config: ConfigDict) -> ConfigDict:
    """Small towers, and the captions of the built-in dataset with their coherence relations."""
    evals, best = config.evals, config.best_checkpoint
    config = base.on_built_in_dataset(config, steps=50)
    config.train_split = "train"
    config.data.config = "coherence"
    config.model.image.encoder = base.small_convnet()
    config.model.text.encoder.update({"embedding_width": 32, "width": 32})
    config.model.image.projection.width = config.model.text.projection.width = 64
    config.data.image.augment = None
    config.data.text.max_length = 32
    config.evals = {name: evals[name] for name in ("pools", "refined", "relations")}
    config.evals.not_visible = pools(without=("Visible",))
    config.evals.update(by_relation(SHAPES_RELATIONS))
    for section in config.evals.values():
        section.update({"split": "validation", "every": 25})
        if section.type == "pools":
            section.update({"size": 20, "repeats": 3})
    config.best_checkpoint = best
    return judge(config, tuple(SHAPES_RELATIONS.values()))


def shapes(config: ConfigDict) -> ConfigDict:
    """600 steps from the CNN of `runs/quickstart`, which is trained further; pools of 500 pairs."""
    config = quick(config)
    config.total_steps, config.log_every = 600, 100
    quickstart.use_cnn(config)
    for section in config.evals.values():
        section.every = 0
        if section.type == "pools":
            section.update({"size": 500, "repeats": 10})
    config.evals.pools.every = config.checkpoint.every = 200
    return config
