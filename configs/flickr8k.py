"""Real photographs and captions: text towers trained on MobileNetV2 features of Flickr8k.

    python -m xmodal.main --config=configs/flickr8k.py --config.data.manual_dir=DIR

DIR contains Flickr8k's captions, splits and ratings, and mobilenet_v2_features.npz (if files are
missing, the error lists them). Correlations are with the expert and crowd ratings of the test
images. The text tower is trained from scratch: 10 minutes of CPU time on two cores, including
evaluation.

`pretrained` starts from a small sentence encoder, all-MiniLM-L6-v2, and trains its last layer on
stored features of the five lower ones. `pretrained_i2t` is the same without the caption-caption
task. `pretrained_images` continues from a run of `pretrained` and trains MobileNetV2 on the
pictures. `vit` trains ViT-Ti/16 on them from random weights, at 64 pixels and for 1.6 epochs, six
CPU minutes.

    python -m xmodal convert --tower=bert --source=FOLDER --output=weights/minilm
    python -m xmodal.main --config=configs/flickr8k.py:pretrained \\
        --config.data.manual_dir=DIR --workdir=RUN
    python -m xmodal convert --tower=mobilenet_v2 --source=FILE \\
        --output=weights/mobilenet_v2
    python -m xmodal.main --config=configs/flickr8k.py:pretrained_images \\
        --config.data.manual_dir=DIR --config.init_from.run=RUN

Results: configs/results.md. The sentence encoder was trained on caption pairs from Flickr30k, which
includes the photographs of Flickr8k, so its T->T is not for unseen captions.
"""

from ml_collections import ConfigDict

from configs import base, clip, cxc

DIMENSION = 512


def get_config(argument: str = "") -> ConfigDict:
    """The text tower from scratch, or one of the `pretrained` variants."""
    return base.variant(
        from_scratch(), argument, pretrained=pretrained, pretrained_i2t=pretrained_i2t,
        pretrained_images=pretrained_images, vit=vit,
    )  # fmt: skip


def from_scratch() -> ConfigDict:
    """A small text tower and a projection of the features."""
    config = base.base("flickr8k")
    config.total_steps, config.batch_size, config.log_every = 600, 256, 50
    features = {"name": "precomputed", "features": 1280, "input_norm": "l2"}
    sizes = {"width": 256, "depth": 1, "heads": 4, "mlp_dim": 512, "max_positions": 32}
    config.model.image = base.tower(features, width=DIMENSION)
    config.model.text = base.tower(base.bert(vocab_size=0, dropout=0.2, **sizes), width=DIMENSION)
    config.model.similarity.temperature = 0.07
    config.tasks = {"i2t": cxc.image_text(), "t2t": cxc.text_text(0.3)}
    config.data = base.dataset("flickr8k", "features")
    config.data.captions_per_image = 2
    config.data.image.size = 0
    config.data.text = base.wordpiece(vocabulary_size=5000, max_length=20)
    config.optimizer = base.adamw(1e-3, decay=0.01, warmup="up to 100", clip_norm=1.0)
    config.evals = {"flickr8k": base.benchmarks(every=150)}
    config.checkpoint.every = 150
    return config


def pretrained(config: ConfigDict) -> ConfigDict:
    """Trains the last layer of a sentence encoder on stored features of the other layers."""
    config.total_steps, config.log_every = 200, 10
    # The same path and inputs as when MobileNetV2 itself is trained.
    config.model.image.encoder.input_norm = "none"
    cxc.use_minilm(config, lower_depth=5, width=DIMENSION)
    config.optimizer.learning_rate = 7e-4
    config.optimizer.schedule.warmup_steps = "up to 20"
    config.evals.flickr8k.every = config.checkpoint.every = 100
    return config


def pretrained_i2t(config: ConfigDict) -> ConfigDict:
    """The same without the caption-caption task."""
    config = pretrained(config)
    config.data.captions_per_image = 1
    del config.tasks.t2t
    return config


def pretrained_images(config: ConfigDict) -> ConfigDict:
    """Continues from a run of `pretrained`, with MobileNetV2 itself instead of its features."""
    config = pretrained(config)
    config.batch_size = 64
    config.model.image.encoder = {"name": "mobilenet_v2", "folded": True}
    config.data.config = "images"
    config.data.image = base.pixels(160, cxc.crops())
    config.init_from.towers = {"image": "weights/mobilenet_v2", "text": ""}
    config.init_from.run = "runs/flickr8k_pretrained"
    config.init_from.include = ("text/", "image/projection/")
    config.init_from.optimizer = False
    config.optimizer.learning_rate = 3e-4
    return config


def vit(config: ConfigDict) -> ConfigDict:
    """ViT-Ti/16 from random weights, on small pictures instead of features of large ones."""
    config.total_steps, config.batch_size, config.log_every = 150, 64, 10
    config.model.image.encoder = {"name": "vit", "width": 192, "heads": 3, "mlp_dim": 768}
    config.model.image.head = {"name": "cls"}
    config.data.config = "images"
    config.data.image = base.pixels(64, clip.crops() | {"flip": True})
    config.optimizer.schedule.warmup_steps = "up to 10"
    config.evals.flickr8k.every = config.checkpoint.every = 75
    return config
