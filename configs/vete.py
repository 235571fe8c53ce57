"""VETE: text embeddings learned from images, judged on sentence similarity.

    python -m xmodal.convert_weights --tower=inception_v3 --source=FILE --output=weights/inception
    python -m xmodal.main --config=configs/vete.py --config.data.manual_dir=DIR \\
        --config.init_from.towers.image=weights/inception \\
        --config.evals.sts.data.manual_dir=STS_DIR

Kurach et al., "Better Text Understanding Through Image-To-Text Transfer" (2017). A bag of words is
correlated with a linear map of frozen Inception v3 features: the loss is the negative Pearson
correlation between cosine similarities and labels of B true and B shuffled pairs. One caption per
image, im2txt's split of COCO. SemEval's sentence pairs are evaluated beside the run's own dataset.

Paper, VETE-BOW, Pearson: images2014 .861, images2015 .855, avg2014 .579, avg2015 .622.
"""

from ml_collections import ConfigDict

from configs import base

DIMENSION = 128


def get_config(argument: str = "") -> ConfigDict:
    """`quick` runs on the embedded dataset."""
    config = base.base("vete")
    config.total_steps = "10 epochs"
    config.model.image = {
        "encoder": {"name": "inception_v3"},
        "head": {"name": "mean"},
        "projection": {"width": DIMENSION, "bias": False},
    }
    config.model.text = {
        "encoder": {"name": "words", "vocab_size": 0, "width": DIMENSION},
        "head": {"name": "mean"},
        "projection": None,
    }
    config.model.similarity = {"name": "cosine"}
    config.freeze = ("image/encoder/",)
    config.init_from.published = ("image/encoder/",)
    config.frozen_features.sides = ("image",)
    config.tasks = {"i2t": base.task("image", "caption_0", "pearson", negatives="none")}
    config.data = base.dataset("coco_captions", "im2txt_one_caption")
    config.data.image.size = 300
    config.data.text = base.words(
        "ptb", min_count=4, max_length=40, markers="sentence", unknown="drop"
    )
    config.optimizer = base.adam(1e-3)
    config.evals = {"coco": base.boards(every="1 epochs"), "sts": sentence_pairs()}
    config.select.metric = "sts/avg2016/pearson"
    config.checkpoint.every = "1 epochs"
    return base.variant(config, argument, quick=quick)


def sentence_pairs() -> dict:
    """An evaluator of SemEval's sentence pairs, 2012 to 2016."""
    return {
        "type": "pairs",
        "data": {"dataset": "semeval_sts", "config": "pairs", "data_dir": "", "manual_dir": ""},
        "split": "test",
        "final_split": "test",
        "every": "1 epochs",
        "batch_size": 512,
    }


def quick(config: ConfigDict) -> ConfigDict:
    """Stored features of a small random CNN, and the embedded dataset's own rated captions."""
    sts = config.evals.sts
    config = base.on_embedded_dataset(config, steps=50)
    config.model.image.encoder = base.small_convnet()
    config.data.text.min_count, config.data.text.max_length = 1, 32
    config.evals.sts = sts
    config.evals.sts.data = {
        "dataset": "crisscrossed_shapes",
        "config": "rated_captions",
        "data_dir": "",
        "manual_dir": "",
    }
    config.evals.sts.split, config.evals.sts.every = "validation", 25
    return config
