"""The total loss of every paper's config on a random batch, against the published formula.

The formulas are NumPy, with the numbers of papers and released codes; nothing is read from a
config. Scores of SCAN and SAF and the outputs of modules are given: other tests compare them.
"""

import dataclasses
import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from tests.configs.configs_test import NAMES, get_config
from tests.losses import references
from tests.similarity.token_views import make_view
from xmodal.core.tree_paths import leaves_by_path
from xmodal.similarity import Embedding, make_similarity
from xmodal.train import rngs
from xmodal.train.optimization import run_lengths
from xmodal.train.optimization.parameter_groups import select
from xmodal.train.step import task_losses
from xmodal.train.step.tasks import make_tasks

SIZE, DIM, STEPS_PER_EPOCH = 6, 8, 10
DISTINCT, SHARED = np.arange(SIZE), np.array([0, 1, 2, 3, 3, 4])
VIEWS = ("image", "caption_0", "caption_1", "mined_image_0", "mined_image_1")
VIEWS += ("mined_caption_0", "mined_caption_1")
CONCEPT_FIELDS = ("instance", "fused", "consensus")


class Given:
    """A task module with given outputs."""

    momentum = None

    def __init__(self, outputs):
        self.outputs = outputs

    def apply(self, params, state, *inputs, train, key):
        return self.outputs, {}


def make_batch(name, ids):
    """Random embeddings and whatever else the losses of a config read."""
    rng = np.random.default_rng(3)
    shape = {"pvse": (SIZE, 2, DIM), "pcme": (SIZE, 7, DIM)}.get(name, (SIZE, DIM))

    def normal(*shape):
        return rng.normal(size=shape).astype(np.float32)

    def view(number):
        if name in ("scan", "sgraf"):
            return make_view(SIZE, 5, DIM, seed=number, ragged=number > 0)
        extras = {field: normal(SIZE, DIM) for field in CONCEPT_FIELDS}
        extras |= {"log_concepts": log_softmax(normal(SIZE, 7), axis=1)}
        return Embedding(normal(*shape), normal(SIZE, DIM), extras | {"residuals": normal(*shape)})

    queue = {side: normal(SIZE + 4, DIM) for side in ("left", "right")}
    return types.SimpleNamespace(
        ids=ids,
        views={each: view(number) for number, each in enumerate(VIEWS)},
        columns={
            "image_id": ids,
            "text_ids": np.zeros((SIZE, 2, 3), np.int32),
            "text_mask": np.ones((SIZE, 2, 3), bool),
            "relations": rng.integers(0, 2, (SIZE, 7)),
        },
        outputs={
            "generation": {"nll": 9 + normal(SIZE), "targets": np.full(SIZE, 5)},
            "relations": {"logits": normal(SIZE, {"cmcm_cite": 7}.get(name, 6))},
            "i2t": queue | {"ids": np.concatenate([ids, [7, 0, 3, 8]])},
        },
        pair_logits=normal(SIZE, SIZE, 2),
        weights={"image": {"encoder": {"a": {"kernel": normal(3, 4), "bias": normal(4)}}}},
        scored=[],  # Pairs (images [I, J], texts [I, J]) that the losses score.
    )


def compute_total(name, argument, batch, step, monkeypatch):
    """The loss of the config at a step, with its L2 term."""
    config = run_lengths.resolve_epochs(get_config(name, argument).to_dict(), STEPS_PER_EPOCH)
    for task in config["tasks"].values():
        if task["loss"]["module"].get("vocab_size") == 0:
            task["loss"]["module"]["vocab_size"] = 11
    tasks = tuple(
        dataclasses.replace(task, module=Given(batch.outputs[task.name]))
        if task.module is not None
        else task
        for task in make_tasks(config["tasks"])
    )

    def score_pairs(images, texts, key):
        images = np.arange(SIZE) if images is None else np.asarray(images)
        images = np.broadcast_to(images[:, None], texts.shape)
        batch.scored.append((images, np.asarray(texts)))
        return jnp.asarray(batch.pair_logits)[images, texts]

    monkeypatch.setattr(task_losses, "make_pair_logits", lambda *_, **__: score_pairs)
    batch.similarity = make_similarity(config["model"]["similarity"])
    sides = batch.views["image"], batch.views["caption_0"]
    batch.params = batch.similarity.init(jax.random.key(1), *sides)
    total, _, _ = task_losses.compute_losses(
        tasks, batch.views, batch.columns, {"similarity": batch.params}, {},
        similarity=batch.similarity, seed=0, step=jnp.int32(step), cross_encoder=object(),
    )  # fmt: skip
    if config["l2"] is not None:
        l2 = config["l2"]
        flat = leaves_by_path(batch.weights)
        decayed = select(l2["pattern"], flat, "config.l2")
        total += l2["scale"] * sum(jnp.sum(jnp.square(flat[path])) for path in decayed)
    return float(total)


# Official losses.


def scores_of(batch, similarity, left="image", right="caption_0", field="vector"):
    views = (batch.views[each] for each in (left, right))
    vectors = (v.vector if field == "vector" else v.extras[field] for v in views)
    return references.score_pairs(similarity, *vectors)


def hinges(similarity, batch, **options):
    """VSE++'s loss, in which captions of the same image are negatives."""
    return references.triplet(scores_of(batch, similarity), DISTINCT, **{"margin": 0.2} | options)


def token_hinges(batch):
    """The same of scores of token sets."""
    sides = [batch.similarity.prepare(batch.views[each], batch.params) for each in VIEWS[:2]]
    scores = np.asarray(batch.similarity.logits(*sides, batch.params), np.float64)
    return references.triplet(scores, DISTINCT, margin=0.2)


def vsrn(batch):
    return hinges("cosine", batch) + batch.outputs["generation"]["nll"].mean()


def aoq(batch):
    """AOQ's table of terms, with the captioning loss of VSRN, 1:1."""
    own = np.diag(scores_of(batch, "cosine"))

    def paired(image, text):
        return np.diag(scores_of(batch, "cosine", image, text))

    others = scores_of(batch, "cosine") - 9 * np.eye(SIZE)
    other_text = paired("image", "mined_caption_0")
    other_image = paired("mined_image_0", "caption_0")
    total = 0.0
    for hardest, mined in ((others.max(1), other_text), (others.max(0), other_image)):
        weight = 1.5 - (mined - hardest) / 0.3
        total += np.sum(weight * np.maximum(0, 0.2 + hardest - own))
    apart = paired("mined_image_0", "mined_caption_0"), paired("mined_image_1", "mined_caption_1")
    for offline in (other_text, other_image, *apart):
        total += np.sum(np.maximum(0, offline - own))
    return total + batch.outputs["generation"]["nll"].mean()


def pvse(batch):
    hinge = hinges("max_cosine", batch, margin=0.1, reduction="mean")
    views = [batch.views[each] for each in VIEWS[:2]]
    diversity = 0.0
    for view in views:
        unit = view.extras["residuals"]
        unit = unit / np.linalg.norm(unit, axis=-1, keepdims=True)
        gram = np.einsum("bkd,bld->bkl", unit, unit) * (1 - np.eye(2))
        diversity += np.mean(np.linalg.norm(gram, axis=(1, 2)) / 2**2)
    x, y = (view.vector.reshape(-1, DIM) for view in views)

    def kernel(a, b):
        return np.exp(-0.5 * np.linalg.norm(a[:, None] - b[None], axis=-1))

    return hinge + 0.1 * diversity + 0.01 * np.mean(kernel(x, x) - 2 * kernel(x, y) + kernel(y, y))


def pvse_1(batch, mining="hardest"):
    """K = 1, without the other terms; the mean of the sum variant is over all entries."""
    return hinges("cosine", batch, margin=0.1, reduction="mean", mining=mining)


def pcme(batch):
    views = [batch.views[each] for each in VIEWS[:2]]
    total = references.soft_contrastive(scores_of(batch, "match_probability"), DISTINCT)
    return total + 1e-5 * sum(references.divergence(v.vector, v.log_sigma) for v in views)


def cvse(batch):
    total = 0.0
    for field, weight in (("fused", 3), ("instance", 5), ("consensus", 1)):
        scores = scores_of(batch, "dot", field=field)
        total += weight * references.triplet(scores, DISTINCT, margin=0.2)
    image, text = (batch.views[each].extras["log_concepts"] for each in VIEWS[:2])
    return total + 2 * np.sum(np.exp(text) * (text - image))


def correlate(statistic, batch):
    """VETE's losses of pairs shuffled by a permutation."""
    key = jax.random.split(rngs.stream_key(0, "tasks/i2t", 0))[1]
    order = jax.random.permutation(key, SIZE)
    return statistic(scores_of(batch, "cosine"), np.asarray(order))


CLUE = (0.485, 14.117, 5.379, 3.122, 1.558, 10.518)
CITE = (0.2178, 7.684, 2.043, 4.171, 5.333, 0.7016, 2.196)


def cmcm(pos_weight, batch, share=0.1):
    left, right = (batch.views[each].vector for each in VIEWS[:2])
    total = references.distance_triplet("euclidean", left, right, batch.ids, margin=0.3)
    labels = batch.columns["relations"][:, : len(pos_weight)]
    logits = batch.outputs["relations"]["logits"]
    return total + (share and share * references.relation_bce(logits, labels, pos_weight))


def cmcm_as_printed(batch):
    """Equations 1 and 2 with their signs put right."""
    labels, logits = batch.columns["relations"][:, :6], batch.outputs["relations"]["logits"]
    weights = [1 + ratio for ratio in CLUE]  # 1 / proportion
    hinge = hinges("cosine", batch, margin=0.3, reduction="mean")
    return hinge + 0.1 * references.relation_bce(logits, labels, weights, weights)


def cross_entropy(batch, *pairs, similarity="dot", scale=1.0):
    """CxC's losses: the mean of both directions, with items of the same image left out."""
    scores = [scale * scores_of(batch, similarity, *pair) for pair in pairs]
    return sum(references.softmax(each, batch.ids) for each in scores)


def cxc(batch, *pairs):
    """With the regularizer of EfficientNet-B4, 5e-6 of the sum of squares of its kernels."""
    kernel = batch.weights["image"]["encoder"]["a"]["kernel"]
    return cross_entropy(batch, *pairs) + 5e-6 * np.sum(kernel**2)


def printed(batch, *pairs):
    """Equations (1) and (2) of CxC as printed: all j but i, both directions, no other term."""
    scores = [scores_of(batch, "dot", *pair) for pair in pairs]
    return sum(references.softmax(each, DISTINCT, "printed", "sum") for each in scores)


def siglip(batch):
    return references.sigmoid(10 * scores_of(batch, "cosine") - 10, batch.ids)


def classify_pairs(batch):
    """The mean cross-entropy of all scored pairs, of which those of one position match."""
    losses = []
    for images, texts in batch.scored:
        logits = np.log(softmax(batch.pair_logits[images, texts].astype(np.float64), axis=-1))
        losses += [-np.where(images == texts, logits[..., 1], logits[..., 0]).ravel()]
    return np.mean(np.concatenate(losses))


def blip(batch, soft):
    """ITC with momentum features and soft targets, and ITM, 1:1."""
    found, total = batch.outputs["i2t"], 0.0
    same = batch.ids[:, None] == found["ids"][None]
    for side, other, view in (("left", "right", "image"), ("right", "left", "caption_0")):
        logits, momentum = (
            references.score_pairs("cosine", query, found[other]) / 0.07
            for query in (batch.views[view].vector, found[side][:SIZE])
        )
        targets = soft * softmax(momentum, axis=1) + (1 - soft) * same / same.sum(1, keepdims=True)
        total -= 0.5 * np.mean(np.sum(targets * log_softmax(logits, axis=1), axis=1))
    assert [texts.shape for _, texts in batch.scored] == [(SIZE, 2), (SIZE, 1)]
    return total + classify_pairs(batch)


def vilt(batch):
    """The cross-entropy of a caption among 15 others."""
    ((images, texts),) = batch.scored
    assert texts.shape == (SIZE, 16)
    assert (images[:, 0] == texts[:, 0]).all()
    return -np.mean(log_softmax(batch.pair_logits[images, texts][..., 1], axis=1)[:, 0])


def vinvl(batch):
    """One negative for every pair."""
    assert sum(texts.size for _, texts in batch.scored) == 2 * SIZE
    return classify_pairs(batch)


I2T, T2T = ("image", "caption_0"), ("caption_0", "caption_1")
VSE0 = functools.partial(hinges, "cosine", mining="all")
HARDEST = functools.partial(hinges, "cosine")
# Config, step, ids of the images, official loss. CLIP and CMCM have no images with two captions.
CASES = [
    ("vsepp", 0, SHARED, HARDEST),
    ("vse0", 0, SHARED, functools.partial(hinges, "dot", mining="all")),
    ("order", 0, SHARED, functools.partial(hinges, "order")),
    ("order:order0", 0, SHARED, functools.partial(hinges, "order", mining="all", margin=0.05)),
    ("vsrn", 0, SHARED, vsrn),
    ("aoq", 0, SHARED, aoq),
    ("vse_infinity", STEPS_PER_EPOCH - 1, SHARED, VSE0),
    ("vse_infinity", STEPS_PER_EPOCH, SHARED, HARDEST),
    ("vse_infinity:grids", STEPS_PER_EPOCH - 1, SHARED, VSE0),
    ("vse_infinity:grids", STEPS_PER_EPOCH + 3, SHARED, lambda batch: 0.3 * HARDEST(batch)),
    ("vse_infinity:grids", 5 * STEPS_PER_EPOCH, SHARED, HARDEST),
    ("pvse", 0, SHARED, pvse),
    ("pvse:k1", 0, SHARED, pvse_1),
    ("pvse:k1_none", 0, SHARED, functools.partial(pvse_1, mining="all")),
    ("pcme", 0, SHARED, pcme),
    ("scan", 0, SHARED, token_hinges),
    ("sgraf", 0, SHARED, token_hinges),
    ("cvse", 0, SHARED, cvse),
    ("vete", 0, SHARED, functools.partial(correlate, references.pearson)),
    ("vete:gru,covariance", 0, SHARED, functools.partial(correlate, references.covariance)),
    ("vete:cnn,rank", 0, SHARED, VSE0),
    ("cmcm_clue", 0, DISTINCT, functools.partial(cmcm, CLUE)),
    ("cmcm_clue:base", 0, DISTINCT, functools.partial(cmcm, CLUE, share=0)),
    ("cmcm_clue:as_printed", 0, DISTINCT, cmcm_as_printed),
    ("cmcm_cite", 0, DISTINCT, functools.partial(cmcm, CITE)),
    ("cc_pretrain", 0, SHARED, lambda batch: cxc(batch, I2T)),
    ("cxc_image_text", 0, SHARED, lambda batch: cxc(batch, I2T)),
    ("cxc_multitask", 0, SHARED, lambda batch: cxc(batch, I2T, T2T)),
    ("cxc_text_text", 0, SHARED, lambda batch: cross_entropy(batch, T2T)),
    ("cxc_image_text:as_printed", 0, SHARED, lambda batch: printed(batch, I2T)),
    ("cxc_multitask:as_printed", 0, SHARED, lambda batch: printed(batch, I2T, T2T)),
    ("cxc_text_text:as_printed", 0, SHARED, lambda batch: printed(batch, T2T)),
    (
        "clip:vit_b32", 0, DISTINCT,
        lambda batch: cross_entropy(batch, I2T, similarity="cosine", scale=1 / 0.07),
    ),
    ("clip:siglip_b16", 0, DISTINCT, siglip),
    ("blip", STEPS_PER_EPOCH // 2, SHARED, functools.partial(blip, soft=0.2)),
    ("blip", 3 * STEPS_PER_EPOCH, SHARED, functools.partial(blip, soft=0.4)),
    ("vilt", 0, DISTINCT, vilt),
    ("vinvl", 0, DISTINCT, vinvl),
]  # fmt: skip
# Experiments of our own.
OTHERS = {"clip_finetune", "flickr8k", "flickr8k_itm", "quickstart", "vit"}


@pytest.mark.parametrize(("config", "step", "ids", "official"), CASES)
def test_the_total_is_the_published_one(config, step, ids, official, monkeypatch):
    name, _, argument = config.partition(":")
    batch = make_batch("vsepp" if argument.startswith("k1") else name, ids)
    total = compute_total(name, argument, batch, step, monkeypatch)
    assert total == pytest.approx(official(batch), rel=1e-5)


def test_every_paper_is_compared():
    assert {config.partition(":")[0] for config, *_ in CASES} == set(NAMES) - OTHERS
