"""Small image-text matching models on Flickr8k, under one protocol.

    python -m xmodal.main --config=configs/flickr8k_itm.py:pvse_k1 --config.data.manual_dir=DIR \\
        --config.init_from.word_vectors.file=glove.6B.200d.txt --config.seed=1 --workdir=RUN
    python -m xmodal.eval_main --run=RUN --compare=OTHER/test --output=COMPARED

DIR contains Flickr8k's captions, splits and ratings, and mobilenet_v2_features.npz.

| variant       | model                                                                          |
| ------------- | ------------------------------------------------------------------------------ |
| vsepp (or none), vse0 | VSE++, hardest negatives; all negatives and images of any length       |
| softmax       | VSE++'s towers under a softmax over the batch, temperature 0.07                |
| pvse_k1, pvse_k2 | PVSE with one embedding and with two, hardest negatives                     |
| pvse_k1_semi_hard, pvse_k1_none | PVSE with one embedding, other negatives                     |
| pcme          | PCME, ranked by match probability                                              |
| vse_infinity  | VSE-infinity with a BiGRU                                                      |
| scan, saf, sgr | SCAN (t-i, mean) and SGRAF's two, on cells of MobileNetV2                     |
| cvse          | CVSE with the 300 most frequent words, on cells                                |
| vsepp_cells, softmax_cells | VSE++ and softmax on the mean of the cells                        |

Heads, losses (including their quirks) and clipping come from the papers' config files. Everything
else is shared: pooled MobileNetV2 features, one vocabulary, trainable GloVe word vectors,
embeddings and GRUs of 128 dimensions, two epochs over the 30,000 training pairs in batches of 128
(468 steps), Adam at 3e-3 with a cosine schedule, no augmentation, and the last checkpoint. Losses
that mine negatives use all of them in the first epoch, as VSE-infinity does. Each image is a single
vector, so the heads of PVSE, PCME and VSE-infinity can only select among words.

The last six read pictures through frozen MobileNetV2, whose cells are stored once; DIR then has the
pictures, too. For cvse, these are the 7 x 7 cells of 224 pixels (750 MB); for vsepp_cells and
softmax_cells, their mean (45 MB). With `--config.init_from.towers.image=pip:efficientnet_lite2`,
they come from EfficientNet-Lite2 and pictures of 260 pixels. scan, saf and sgr compare every pair
of a batch token by token and get less (`reduce_pairs`): the 4 x 4 cells of 128 pixels, one epoch in
batches of 32 (937 steps), and all negatives; saf and sgr 64 dimensions, 16 numbers per comparison
and half of the steps. With the protocol of the others, they collapse. Results: configs/results.md.

    python -m xmodal convert --tower=mobilenet_v2 --source=FILE --output=weights/mobilenet_v2
"""

from collections.abc import Callable, Mapping
from functools import partial

from ml_collections import ConfigDict

from configs import base, cvse, cxc, itm, pcme, pvse, scan, sgraf, vse0, vse_infinity, vsepp

DIMENSION = 128
WORDS = 200


def get_config(argument: str = "vsepp") -> ConfigDict:
    """One of `MODELS` or `CELL_MODELS`."""
    variants = {name: partial(_make, name) for name in (*MODELS, *CELL_MODELS)}
    return base.choose(base.base("flickr8k_itm"), argument, **variants)


def _make(name: str, _: ConfigDict) -> ConfigDict:
    if name in MODELS:
        return share(name, MODELS[name]())
    config = use_cells(share(name, CELL_MODELS[name]()))
    # No checkpoint is selected by it. The maps of 512 pictures would fill gigabytes.
    config.evals.flickr8k.update({"split": "validation[:10%]", "batch_size": 32})
    return reduce_pairs(config) if name in PAIRWISE else config


def share(name: str, config: ConfigDict) -> ConfigDict:
    """A paper's towers (narrowed), loss and clipping, with the shared data and schedule."""
    config.name = f"flickr8k_{name}"
    config.total_steps, config.batch_size, config.log_every = "2 epochs", 128, 50
    config.model.image.encoder = {"name": "precomputed", "features": 1280}
    narrow(config)
    for task in config.tasks.values():
        # Uses all negatives in the first epoch, as VSE-infinity does, for losses that mine.
        if task.loss.options.get("mining") in ("hardest", "semi_hard"):
            late = {"schedule": "piecewise", "values": {"0": 1.0, "1 epochs": 0.0}}
            task.loss.options.all_share = late
    config.freeze = ()
    config.init_from.published = ("text/encoder/table",)
    config.data = base.dataset("flickr8k", "features")
    config.data.examples, config.data.image.size = "pairs", 0
    config.data.text = base.words("nltk", min_count=4, max_length=16, special_tokens="sentence")
    config.data.label_captions = 5 if "concepts" in config.tasks else 0
    schedule = {"name": "cosine", "warmup_steps": "up to 20"}
    config.optimizer = base.adam(3e-3, schedule, clip_norm=config.optimizer.clip_norm)
    # No checkpoint is selected: the last one is used.
    config.evals = {"flickr8k": base.benchmarks(every=0)}
    config.best_checkpoint.update({"metric": "flickr8k/mean_recall@10", "mode": "last"})
    config.checkpoint.every = 0
    return config


def use_cells(config: ConfigDict) -> ConfigDict:
    """Stored cells of the pictures instead of one vector of each."""
    # The weights determine the encoder, and the size of pictures.
    config.model.image.encoder = {"name": ""}
    config.data.config, config.data.image = "images", base.pixels(0)
    config.init_from.towers.image = "weights/mobilenet_v2"
    config.freeze, config.frozen_features.modalities = ("image/encoder/",), ("image",)
    return config


def reduce_pairs(config: ConfigDict) -> ConfigDict:
    """Fewer cells, smaller batches and comparisons, half the epochs, and no mining, see above."""
    config.data.image.size = 128
    config.total_steps, config.batch_size = "1 epochs", 32
    config.tasks.i2t.loss.options.mining = "all"
    # SAF and SGR pass a vector of every word and pair through layers.
    if config.model.similarity.get("width"):
        config.total_steps = 468
        config.model.image.head.width = config.model.text.encoder.width = DIMENSION // 2
        config.model.similarity.width = DIMENSION // 8
    return config


def narrow(config: ConfigDict) -> None:
    """`DIMENSION` in place of every paper's 1024, and half of it in place of 256."""
    text, similarity = config.model.text.encoder, config.model.similarity
    # If the two directions are joined, each has half of it.
    is_joined = text.get("bidirectional") and text.get("directions") != "mean"
    itm.shrink(config, WORDS, DIMENSION // 2 if is_joined else DIMENSION, DIMENSION)
    if similarity.get("width"):
        similarity.width = DIMENSION // 2


def softmax() -> ConfigDict:
    """VSE++'s towers under a softmax over the batch."""
    config = vsepp.get_config()
    config.model.similarity.temperature = 0.07
    config.tasks = {"i2t": cxc.image_text()}
    return config


def concepts() -> ConfigDict:
    """CVSE, whose concepts start from the vectors of their words."""
    config = cvse.get_config()
    for modality in ("image", "text"):
        config.model[modality].head.concept_width = WORDS
    return config


def grids_gru() -> ConfigDict:
    """VSE-infinity with a BiGRU; no CNN is trained, so the loss weight has no warm-up."""
    config = vse_infinity.get_config("grids_gru")
    config.tasks.i2t.weight = 1.0
    return config


MODELS: Mapping[str, Callable[[], ConfigDict]] = {
    "vse0": vse0.get_config,
    "vsepp": vsepp.get_config,
    "softmax": softmax,
    "pvse_k1": partial(pvse.get_config, "k1"),
    "pvse_k1_semi_hard": partial(pvse.get_config, "k1_semi_hard"),
    "pvse_k1_none": partial(pvse.get_config, "k1_none"),
    "pvse_k2": pvse.get_config,
    "pcme": pcme.get_config,
    "vse_infinity": grids_gru,
}
CELL_MODELS: Mapping[str, Callable[[], ConfigDict]] = {
    "vsepp_cells": vsepp.get_config,
    "softmax_cells": softmax,
    "scan": partial(scan.get_config, "t2i_mean"),
    "saf": partial(sgraf.get_config, "saf"),
    "sgr": partial(sgraf.get_config, "sgr"),
    "cvse": concepts,
}
# Every pair of a batch is compared token by token, see `reduce_pairs`.
PAIRWISE = ("scan", "saf", "sgr")
