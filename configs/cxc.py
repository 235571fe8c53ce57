"""Settings that the experiments of the Crisscrossed Captions paper share.

They follow the released code (tensorflow/lingvo, lingvo/tasks/milan) where it differs from the
print. `:as_printed` follows the print:

                      released code, default                 `as_printed`
COCO for training     train and restval, 113k images         train, 82k images
before new layers     a linear layer with a ReLU             nothing
new layers            the values of attention are the        the textbook's
                      normalized input, which is also what
                      the residual adds; learned scales of
                      the queries
denominator           the positive and captions of other     captions of all other examples,
                      images                                 without the positive
directions            their mean                             their sum
gradients             clipped to norm 1; outlying updates    unchanged
                      are skipped
L2                    in EfficientNet, as TF-Hub has it      none

The printed loss has no lower bound, and nothing stops scores from growing. A run ends with an error
if its loss is no longer finite. The paper does not mention L2 and drop-connect, which belong to the
published image tower. Nor does it say how an image's captions are sampled: see each experiment.

EfficientNet-B4 is the module of TF-Hub, made by tensorflow/models
(official/vision/image_classification/efficientnet). There, block b of B4's 32 blocks, counted from
0, is dropped with probability 0.2 b / 16, where 16 is the number of blocks of B0: 0.388 for the
last block. Dividing by 32 would give 0.194. The L2 term is 5e-6 of the sum of squares of the
kernels of all convolutions except depthwise ones, whose layer ignores `kernel_regularizer`, and of
the biases of squeeze-and-excitation. The norms are not included.
"""

from typing import Any

from ml_collections import ConfigDict

from configs import base

# TF-Hub's imagenet/resnet_v1_152/feature_vector/4. Without `normalization`, weights that were
# trained on other pixels would be accepted.
RESNET152 = {"name": "resnet", "depth": 152, "variant": "slim", "normalization": "inception"}
_ON_DEVICES = {"dtype": "bfloat16", "statistics": "per_device"}


def experiment(name: str) -> ConfigDict:
    """DE_T2T+I2T's model, data, optimizer and evaluation; each experiment adds its tasks."""
    config = base.base(name)
    config.total_steps, config.batch_size = 40_000, 2048
    efficientnet = {"name": "efficientnet", "variant": "b4", "drop_connect_over": "base_blocks"}
    config.model = {
        # The pooled 1792-d output, without a projection.
        "image": base.tower(efficientnet | _ON_DEVICES),
        "text": frozen_bert(width=1792),
        "similarity": {"name": "dot", "temperature": 1.0},
    }
    config.freeze = ("text/encoder/",)
    config.init_from.published = ("image/encoder/", "text/encoder/")
    config.l2 = {"pattern": "image/encoder/.*(kernel|(squeeze|excite)/bias)$", "scale": 5e-6}
    config.optimizer = skipping_adam(5e-6)
    config.data = coco()
    config.evals = {"coco": base.benchmarks()}
    config.best_checkpoint.metric = "coco/coco5k/mean_recall@10"
    return config


def frozen_bert(**projection: Any) -> dict:
    """The text tower: BERT-Base, three new layers, a linear projection."""
    encoder = base.bert(lower_depth=0, dtype="bfloat16")
    return base.tower(encoder, {"name": "transformer", "dtype": "bfloat16"}, **projection)


def use_minilm(config: ConfigDict, lower_depth: int, **projection: Any) -> None:
    """Starts from the sentence encoder all-MiniLM-L6-v2, and trains its last layers.

    The others are computed once for all captions.
    """
    encoder = base.bert(width=384, depth=6, lower_depth=lower_depth, mlp_dim=1536)
    config.model.text = base.tower(encoder, **projection)
    config.init_from.towers.text = "weights/minilm"
    config.freeze, config.frozen_features.modalities = ("text/encoder/(?!layers/)",), ("text",)


def skipping_adam(learning_rate: float) -> dict:
    """Adam as released: lowers the rate by 0.1 % every 1000 steps and skips outlying updates.

    TensorFlow, in the released code, adds `eps` before the bias correction of the second moment:
    there, it counts for 32 times as much in the first step and for as much after a few thousand.
    """
    schedule = {"name": "staircase", "rate": 0.999, "every": 1000, "warmup_steps": 0}
    optimizer = base.adam(learning_rate, schedule, clip_norm=1.0, b1=0.9, b2=0.999, eps=1e-8)
    return optimizer | {"skip_outliers": {"deviations": 4.0, "decay": 0.995, "floor": 0.1}}


def crops(**changes: object) -> dict:
    """`config.data.image.augment` of the paper."""
    return {"area": (0.67, 1.0), "aspect": (0.75, 1.33), "flip": True, "color": True} | changes


def coco() -> dict:
    """COCO in the Karpathy split, restval in train, with the released CxC ratings."""
    return base.dataset("coco_captions") | {
        "image": base.pixels(380, crops(), crop=0.875),
        # The learned vocabulary may exceed its size by a few percent; the model has 30,522 rows.
        "text": base.wordpiece(vocabulary_size=29_000, max_length=48),
        # 90 % of captions have at most 16 tokens, and thus three quarters on nearly every device.
        "length_bucketing": {"length": 16, "share": 0.75},
        "prefetch": 4,
    }


def image_text(weight: float = 1.0) -> dict:
    """Images against captions in both directions: equation (1)."""
    return _softmax("image", "caption_0", weight)


def text_text(weight: float = 1.0) -> dict:
    """Captions of one image against each other; the weight, c in equation (2), is not published."""
    return _softmax("caption_0", "caption_1", weight)


def _softmax(left: str, right: str, weight: float) -> dict:
    options: dict[str, Any] = {"form": "with_positive", "directions": "mean", "engine": "dense"}
    return base.task(left, right, "softmax", weight=weight, **options)


def as_printed(config: ConfigDict) -> ConfigDict:
    """The `:as_printed` variant of an experiment: nothing of the released code alone."""
    for task in config.tasks.values():
        task.negatives = "pair"
        task.loss.options.update({"form": "printed", "directions": "sum"})
    config.model.text.head.update({"block": "standard", "input_layer": False})
    config.optimizer.clip_norm = config.optimizer.skip_outliers = config.l2 = None
    if config.data.dataset == "coco_captions":
        config.data.config += "_without_restval"
    return config


def resnet152(config: ConfigDict) -> ConfigDict:
    """The `:resnet152` variant: another image tower, whose output the projection has to match.

    Whether its module has an L2 term could not be found out; there is none here.
    """
    config.model.image = base.tower(RESNET152 | _ON_DEVICES)
    config.model.text.projection.width, config.data.image.size, config.l2 = 2048, 224, None
    return config


def small_batch(config: ConfigDict) -> ConfigDict:
    """The `:small_batch` variant, with the statistics of all images: a core has only 4."""
    config.batch_size, config.model.image.encoder.statistics = 128, "global"
    return config


def quick(config: ConfigDict) -> ConfigDict:
    """The `:quick` variant of an experiment: the same parts, small, on the built-in dataset."""
    config = base.on_built_in_dataset(config)
    config.data.text.update({"vocabulary_size": 1000, "max_length": 32})
    config.data.text_lengths, config.data.length_bucketing = (), None
    if config.model.image is not None:
        statistics = config.model.image.encoder.statistics
        config.model.image.encoder = base.small_convnet(statistics=statistics)
    sizes = {"width": 64, "heads": 2, "mlp_dim": 128, "dtype": "float32"}
    text = config.model.text
    text.encoder.update({"vocab_size": 0, "max_positions": 32, "depth": 1, **sizes})
    text.head.update(sizes)
    if text.projection is not None:
        # EfficientNet's last convolution has 1280 channels before scaling, 320 after.
        text.projection.width = 320
    return config


VARIANTS = {
    "as_printed": as_printed,
    "resnet152": resnet152,
    "small_batch": small_batch,
    "quick": quick,
}
