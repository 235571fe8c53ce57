"""VETE: text embeddings learned from images, evaluated on sentence similarity.

    python -m xmodal convert --tower=inception_v3 --source=FILE --output=weights/inception
    python -m xmodal.main --config=configs/vete.py --config.data.manual_dir=DIR \\
        --config.init_from.towers.image=weights/inception \\
        --config.evals.sts.data.manual_dir=STS_DIR
    python -m xmodal sweep --config=configs/vete.py --trials=100 --select=sts/avg2016 ...

Kurach et al., "Better Text Understanding Through Image-To-Text Transfer" (2017). A text encoder is
correlated with a linear map of frozen Inception v3 features: the loss is the negative Pearson
correlation between cosine similarities and labels of B true and B shuffled pairs. Training uses one
caption per image and im2txt's split of COCO. SemEval's sentence pairs are evaluated in addition to
the run's own dataset.

Arguments, joined by commas (`--config=configs/vete.py:gru,skt_5`):

    bow                       a bag of words, the default; sum and mean give equal cosines
    gru, lstm                 recurrent layers, the final state
    cnn                       Kim's convolutions
    pearson, covariance,      the loss, by default Pearson's correlation; `rank` is the sum of the
    skt_0.2, skt_1, skt_5,    hinges of all negatives of the batch in both directions
    rank
    pure_text_rnn, pin_model  PureTextRnn and PinModelA (Mao et al. 2016): the mean of the words of
                              a language model, whose first state is the image in the second
    word_level                one random word of a caption instead of the caption
    sbu, pinterest            SBU or Pinterest5M (5 epochs) instead of COCO, with COCO-Test and
                              Pin-Test; these need the folders of all three
    flickr8k                  Flickr8k with MobileNetV2 features instead of COCO
    quick                     small, on the built-in dataset

The paper does not give these values, which are chosen here: B = 128 (Pearson's correlation is over
the batch), the central square of an image, learning rate 1e-3 without decay, no word dropout, one
recurrent layer of width 128 with TensorFlow's one bias per gate, no bias in the linear map, margin
0.2 for the rank loss (Kiros et al.), the filters of Kim's code, and words seen at least four times
(im2txt). The bag of words drops unknown words; the other encoders give them all the same vector.
The last checkpoint is used. The paper's values come from a random search of 100 trials, selected by
avg2016 (algorithm 1). Its studies of losses and encoders reuse the same 100 draws (algorithm 2), as
do searches of the variants here. `xmodal word2vec --config=configs/vete.py --trials=100` searches
the settings of Word2Vec.

Paper, Pearson, trained on COCO:
               images2014  images2015  COCO-Test  Pin-Test  avg2014  avg2015
    VETE-BOW         .861        .855       .894      .579     .579     .622
    VETE-RNN         .838        .835       .901      .549     .538     .587
    VETE-CNN         .808        .773       .911      .528     .435     .486
    PinModelA        .671        .683       .709      .536     .493     .573
    PureTextRnn      .662        .692       .705      .484     .517     .568
    Word2Vec         .466        .441       .379      .383     .343     .367
Mean of the first four columns by loss (bag of words): covariance .594, skt_0.2 .616, skt_1 .730,
rank .788, skt_5 .791, pearson .797. By dataset, for Word2Vec, PinModelA, VETE-RNN and VETE-BOW:
COCO .417 .650 .780 .797; SBU .413 .632 .737 .775; Pinterest5M .408 .609 .753 .803.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from ml_collections import ConfigDict

from configs import base, itm

DIMENSION = 128


def get_config(argument: str = "") -> ConfigDict:
    """Takes an encoder, a loss and `quick`, joined by commas; all are optional."""
    config = base.base("vete")
    config.total_steps = "10 epochs"
    words = {"name": "words", "vocab_size": 0, "width": DIMENSION}
    config.model.image = base.tower({"name": "inception_v3"}, width=DIMENSION, bias=False)
    config.model.text = base.tower(words)
    config.freeze = config.init_from.published = ("image/encoder/",)
    config.frozen_features.modalities = ("image",)
    config.tasks = {"i2t": shuffled("pearson")}
    config.data = base.dataset("coco_captions", "im2txt_one_caption")
    # The shorter side becomes 300 pixels, of which the central square is used.
    config.data.image = base.pixels(300, recipe="torchvision")
    text = base.words("ptb", min_count=4, max_length=40, special_tokens="sentence", unknown="drop")
    config.data.text = text
    # A decay rate of 1 has no effect; the search draws other values.
    config.optimizer = base.adam(1e-3, {"name": "staircase", "rate": 1.0, "every": "1 epochs"})
    config.evals = {
        "coco": base.benchmarks(every="1 epochs"),
        "coco_test": sentence_pairs("coco_captions", "im2txt_test_pairs"),
        "sts": sentence_pairs("semeval_sts", "pairs", data_dir="", manual_dir=""),
    }
    config.best_checkpoint.update(metric="sts/avg2016/pearson", mode="last")
    config.checkpoint.every = "1 epochs"
    return base.variant(config, argument, **VARIANTS)


def get_space(argument: str = "") -> dict:
    """Ranges of the random search, which the paper does not give.

    All encoders and losses share their first parameters, in the same order: searches with the same
    --draw_seed draw the same values of these, as in the paper's algorithm 2.
    """
    names, encoder = argument.split(","), "model.text.encoder"
    # A language model uses only the word table and has its own dropout.
    reads_table = "pure_text_rnn" in names or "pin_model" in names
    dropout = "tasks.words.loss.module.dropout" if reads_table else f"{encoder}.dropout"
    space: dict[str, tuple[Any, ...]] = {
        "optimizer.learning_rate": ("log", 1e-4, 1e-2),
        "optimizer.schedule.rate": ("uniform", 0.5, 1.0),
        "batch_size": ("choice", 64, 128, 256, 512, 1024),
        f"{encoder}.init_scale": ("log", 0.01, 1.0),
        dropout: ("uniform", 0.0, 0.5),
    }
    if "gru" in names or "lstm" in names:
        space[f"{encoder}.layers"] = ("choice", 1, 2)
        space[f"{encoder}.width"] = ("choice", 128, 256, 512)
        # Every width gets the same linear map to that of the images.
        space["model.text.projection"] = ("choice", {"width": DIMENSION, "bias": False})
    if "cnn" in names:
        space[f"{encoder}.maps"] = ("choice", 50, 100, 200)
        space[f"{encoder}.windows"] = ("choice", (2, 3, 4), (3, 4, 5))
    if "rank" in names:
        space["tasks.i2t.loss.options.margin"] = ("uniform", 0.05, 0.5)
    return space


def sentence_pairs(dataset: str, builder_config: str, **folders: str) -> dict:
    """An evaluator of sentence pairs; by default the folders are those of the run."""
    own = {"dataset": dataset, "config": builder_config, **folders}
    return base.evaluator("embedding_similarity", "1 epochs", data=own, split="test")


def recurrent(cell: str, config: ConfigDict) -> ConfigDict:
    """A recurrent encoder with this cell; its last state is the embedding.

    A width that differs from the images' needs a linear map:
    `--config.model.text.projection="{'width': 128, 'bias': False}"`.
    """
    sizes = {"embedding_width": DIMENSION, "width": DIMENSION, "layers": 1, "biases": 1}
    encoder = {"name": "rnn", "cell": cell, "vocab_size": 0, **sizes}
    config.model.text = base.tower(encoder, "lasttoken")
    config.data.text.unknown = "token"
    return config


def cnn(config: ConfigDict) -> ConfigDict:
    """Convolutions as in Kim (2014), dropout after the maximum, and a linear map."""
    sizes = {"embedding_width": DIMENSION, "windows": (3, 4, 5), "maps": 100}
    encoder = {"name": "textcnn", "vocab_size": 0, "kernel_scale": 0.01, **sizes}
    config.model.text = base.tower(encoder, {"name": "max", "dropout": 0.5}, width=DIMENSION)
    config.data.text.unknown = "token"
    return config


def use_task(settings: dict, config: ConfigDict) -> ConfigDict:
    """Uses another loss over the same pairs."""
    config.tasks.i2t = settings
    return config


def pure_text_rnn(config: ConfigDict) -> ConfigDict:
    """A language model of captions, whose embedding is the mean of its word vectors."""
    config.model.image = config.data.image = None
    config.freeze = config.init_from.published = config.frozen_features.modalities = ()
    return predict_words(config, "caption_0")


def pin_model(config: ConfigDict) -> ConfigDict:
    """The same, with a linear map of the image as the first state."""
    config.model.image.projection = None
    return predict_words(config, "image", "caption_0")


def predict_words(config: ConfigDict, *views: str) -> ConfigDict:
    """Predicts the next word of a caption with the text encoder's word table."""
    inputs, module = ("text_ids", "text_mask"), {"width": 512}
    task = base.task("", "", "language_model", negatives="none", inputs=inputs, module=module)
    config.tasks = {"words": task | {"views": list(views)}}
    config.tasks.words.loss.reads = ("text/encoder/table",)
    config.data.text.unknown = "token"
    for name in {"coco", "sbu", "pinterest"} & set(config.evals):  # Its images have no embeddings.
        del config.evals[name]
    return config


def word_level(config: ConfigDict) -> ConfigDict:
    """Every step compares an image with one word of its caption."""
    config.data.text.special_tokens = "none"
    config.data.text.augment = {"keep": 1}
    return config


def use_dataset(
    name: str, builder_config: str, epochs: int, pins: dict[str, str], config: ConfigDict
) -> ConfigDict:
    """Trains on another dataset; `pins` are the folders of Pin-Test, empty for those of the run."""
    config.total_steps = f"{epochs} epochs"
    config.data.update({"dataset": name, "config": builder_config})
    evals = {name if key == "coco" else key: each for key, each in config.evals.items()}
    evals["coco_test"].data.update({"data_dir": "", "manual_dir": ""})
    config.evals = evals | {"pin_test": sentence_pairs("pinterest", "test_pairs", **pins)}
    return config


def flickr8k(config: ConfigDict) -> ConfigDict:
    """Stored features of 6,030 images without captions in SemEval, one caption each."""
    config.total_steps = "60 epochs"
    config.data.update({"dataset": "flickr8k", "config": "features_one_caption_unseen"})
    if config.model.image is not None:
        config.model.image.encoder = {"name": "precomputed", "features": 1280}
        config.data.image.size = 0
    config.freeze = config.init_from.published = config.frozen_features.modalities = ()
    config.data.text.min_count = 1
    config.optimizer.learning_rate = 3e-3
    test = sentence_pairs("flickr8k", "test_pairs")
    config.evals = {"flickr8k_test": test, "sts": config.evals.sts}
    for evaluator in config.evals.values():
        evaluator.every = "20 epochs"
    config.checkpoint.every = "20 epochs"
    return config


def quick(config: ConfigDict) -> ConfigDict:
    """Stored features of a small random CNN, and the built-in dataset's own rated captions."""
    sts, compares_images = config.evals.sts, "i2t" in config.tasks
    config = base.on_built_in_dataset(config, steps=50)
    if config.model.image is not None:
        config.model.image.encoder = base.small_convnet()
    config.data.text.update({"min_count": 1, "max_length": 32})
    config.evals.sts = sts
    sts.data.update(dataset="crisscrossed_shapes", config="rated_captions")
    sts.update({"split": "validation", "every": 25})
    if not compares_images:
        del config.evals.shapes
        config.best_checkpoint.metric = "sts/c2c_isim/pearson"
    return config


def shuffled(loss: str, **options: Any) -> dict:
    """A task on images and captions whose loss is over B true and B shuffled pairs."""
    return base.pair_task(loss, negatives="none", **options)


LOSSES = {
    "pearson": shuffled("pearson"),
    "covariance": shuffled("covariance"),
    "rank": itm.hinge("all"),
    **{f"skt_{a}": shuffled("soft_kendall", alpha=float(a)) for a in ("0.2", "1", "5")},
}
VARIANTS: dict[str, Callable[[ConfigDict], ConfigDict]] = {
    "bow": lambda config: config,
    "gru": partial(recurrent, "gru"),
    "lstm": partial(recurrent, "lstm"),
    "cnn": cnn,
    **{label: partial(use_task, settings) for label, settings in LOSSES.items()},
    "pure_text_rnn": pure_text_rnn,
    "pin_model": pin_model,
    "word_level": word_level,
    "sbu": partial(use_dataset, "sbu", "images", 10, {"data_dir": "", "manual_dir": ""}),
    "pinterest": partial(use_dataset, "pinterest", "one_caption", 5, {}),
    "flickr8k": flickr8k,
    "quick": quick,
}
