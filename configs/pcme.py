"""PCME: every image and caption is a distribution, and pairs match with a probability.

    python -m xmodal convert --tower=resnet --variant=torchvision --source=FILE \\
        --output=weights/resnet152
    python -m xmodal.main --config=configs/pcme.py \\
        --config.init_from.towers.image=weights/resnet152 \\
        --config.init_from.word_vectors.file=glove.840B.300d.txt
    python -m xmodal.main --config=configs/pcme.py:finetuned --config.init_from.run=RUN
    python -m xmodal.eval_main --run=RUN2

The first run keeps the CNN and the word vectors frozen; `:finetuned` continues from its last
weights and trains everything with a tenth of the learning rate, a new optimizer and a new schedule.

Chun et al., "Probabilistic Embeddings for Cross-Modal Retrieval" (CVPR 2021), and naver-ai/pcme,
trained and evaluated as in its README: the last checkpoint (`best_checkpoint.mode`; that code also
stores the best by the sum of recalls), with pairs ranked by match probability. The evaluator `mean`
ranks by the cosine of the means instead. Quirks of that code, each set by a value below:
    text.head.source      "last": the backward direction of the sentence state has read one word;
                          "state" has read them all
    encoder.batch_norm    "batch_frozen" in the first stage: the frozen CNN normalizes by the batch
                          and updates the running statistics
    clip_norm             None. That code clips at 2, which hardly has an effect in its mixed
                          precision; `clipped` and `finetuned_clipped` do clip, at every step
    soft_contrastive      counts every pair twice (`directions`), sums over the batch, and uses the
                          log standard deviation in place of the log variance in its divergence
The similarity learns the scale and shift of the match probability, which are not clipped. The
original config turns off the uniformity term; add a task `uniformity` for it. The vocabulary comes
from the training captions; the authors' also includes those of the test images. AdamP looks for
scale-invariant weights gate by gate in a GRU; in their code, the gates are one matrix. `itm.py`
lists differences that all of these papers share.

README of naver-ai/pcme, COCO test, 1K:
    R@1 I->T 68.8   T->I 54.6      PMRP I->T 45.0   T->I 46.0
Its PMRP on 1K is the benchmark `pmrp_pcme_1k`, on 5K `pmrp_pcme`: both only if named, and from
released labels. `python -m xmodal.eval_main --run=RUN2 --step=latest --evaluators=coco
--save_embeddings=FILE` writes the file that `--embeddings=FILE --annotations=LABELS
--benchmarks=coco1k,coco5k,pmrp_pcme_1k` evaluates.
"""

from ml_collections import ConfigDict

from configs import base, itm

MEANS = {"name": "cosine", "field": "mean"}


def get_config(argument: str = "") -> ConfigDict:
    """`finetuned` is the second stage; `clipped` clips gradients; `quick` is small."""
    config = itm.experiment("pcme")
    head = {"name": "gaussian", "width": itm.DIMENSION, "samples": 7}
    # The spread of a text comes from a separate GRU, read at the last word.
    texts = head | {"source": "last", "linear": False, "recurrent": True}
    image, words = itm.resnet(batch_norm="batch_frozen"), itm.frozen_words(itm.DIMENSION // 2)
    config.model.image = base.tower(image, head | {"source": "mean"})
    config.model.text = base.tower(words, texts)
    config.model.similarity = {"name": "match_probability"}
    config.freeze = config.init_from.published = ("image/encoder/", "text/encoder/table")
    config.tasks.i2t = base.pair_task(
        "soft_contrastive", negatives="pair", directions="sum", kl_weight=1e-5
    )
    config.data.image.augment.erase = 0.2
    config.data.text.min_count = 1
    config.data.text.augment = {"unknown": 0.1, "delete": 0.1}
    config.optimizer = base.adam(2e-4, {"name": "cosine", "every": "1 epochs"})
    groups = {"similarity": {"pattern": "similarity/", "clip": False}}
    config.optimizer.update({"name": "adamp", "groups": groups})
    config.evals.coco.every = "10 epochs"
    config.best_checkpoint.mode = "last"
    config.evals.mean = config.evals.coco.to_dict() | {"similarity": MEANS}
    return base.variant(
        config, argument, finetuned=finetuned, clipped=clipped,
        finetuned_clipped=lambda config: clipped(finetuned(config)), shapes=shapes, quick=quick,
        quick_finetuned=lambda config: finetuned(quick(config)),
    )  # fmt: skip


def finetuned(config: ConfigDict) -> ConfigDict:
    """The second stage: everything trains, with a new optimizer."""
    config.freeze = ()
    config.model.image.encoder.batch_norm = "batch"
    config.optimizer.learning_rate *= 0.1
    config.init_from.update({"step": "latest", "optimizer": False})
    return config


def clipped(config: ConfigDict) -> ConfigDict:
    """Clips the gradients of the model to a norm of 2, but not those of the similarity."""
    config.optimizer.clip_norm = 2.0
    return config


def shapes(config: ConfigDict) -> ConfigDict:
    """Small heads on the built-in dataset, whose benchmark `shapes_matches` has many positives.

    After 500 steps at the paper's learning rate, the spreads still hide the means: recalls are near
    chance.
    """
    config = itm.on_shapes(config)
    config.total_steps, config.optimizer.learning_rate = 2000, 1e-3
    config.data.text.augment = None
    config.evals.mean = config.evals.shapes.to_dict() | {"similarity": MEANS}
    config.evals.ambiguity = itm.ambiguity()
    return config


def quick(config: ConfigDict) -> ConfigDict:
    """A small random CNN, small Gaussian heads, and trainable word vectors."""
    config = base.on_built_in_dataset(config, steps=50)
    config.model.image.encoder = base.small_convnet(batch_norm="batch_frozen")
    itm.shrink(config, words=32, width=16, head=32)
    for modality in ("image", "text"):
        config.model[modality].head.samples = 3
    config.freeze = ("image/encoder/",)
    config.evals.mean = config.evals.shapes.to_dict() | {"similarity": MEANS}
    config.evals.ambiguity = itm.ambiguity()
    config.data.image.augment = None
    config.data.text.max_length = 32
    return config
