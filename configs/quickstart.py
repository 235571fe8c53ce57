"""The multitask dual encoder on the built-in dataset, small enough for a laptop CPU.

python -m xmodal.main --config=configs/quickstart.py[:VARIANT]

Variants: i2t, t2t, classify, matching, matching_quick; `quick`, as in `classify,quick`, trains a
few steps.
"""

from ml_collections import ConfigDict

from configs import base, cxc


def get_config(argument: str = "") -> ConfigDict:
    """Returns the config; `i2t` and `t2t` train the single-task models on the same data.

    `classify` adds evaluators, `matching` a cross-encoder.
    """
    return base.variant(
        multitask(), argument, i2t=image_text, t2t=text_text, classify=classify,
        quick=quick, matching=image_text_matching, matching_quick=matching_quick,
    )  # fmt: skip


def multitask() -> ConfigDict:
    """Images against captions and captions against captions."""
    config = cxc.quick(cxc.experiment("quickstart"))
    config.name = "quickstart"
    config.total_steps, config.batch_size, config.log_every = 320, 128, 40
    config.tasks = {"i2t": cxc.image_text(), "t2t": cxc.text_text()}
    # Nothing is pretrained here: scale the initial dot products (D = 256) to about unit spread.
    config.model.similarity.temperature = 16.0
    config.freeze, config.l2 = (), None
    config.data.captions_per_image = 2
    # Captions say where things are, so keep the cells of the last map separate.
    encoder = {"name": "convnet", "channels": (24, 48, 96, 128), "units": (1, 1, 1, 1)}
    config.model.image = base.tower(encoder, "flatten", width=256)
    text, sizes = config.model.text, {"width": 128, "heads": 4, "mlp_dim": 256}
    text.encoder.update(sizes)
    text.head.update(sizes | {"depth": 1})
    text.projection.width = 256
    config.data.text.max_length = 24
    # Flipping would make "left of" wrong, and captions describe colors.
    crops = {"area": (0.85, 1.0), "aspect": (0.9, 1.1), "flip": False, "color": False}
    config.data.image = base.pixels(48, crops)
    config.optimizer.learning_rate = 3e-3
    config.optimizer.schedule = {"name": "cosine", "warmup_steps": "up to 40"}
    config.evals.shapes.every = 160
    config.checkpoint = {"every": 80, "keep_last": 5}
    return config


def image_text(config: ConfigDict) -> ConfigDict:
    """Only images against captions."""
    del config.tasks.t2t
    return config


def text_text(config: ConfigDict) -> ConfigDict:
    """Only captions against captions."""
    del config.tasks.i2t
    config.model.image = config.data.image = None
    return config


def classify(config: ConfigDict) -> ConfigDict:
    """Also classifies the images of one object by shape and color, with and without training."""
    shared = {"data": {"config": "objects"}, "every": config.evals.shapes.every}
    on_background = ("only a {}", "a {} on a white background", "a {} and nothing else")
    colored = tuple(f"only a {{}} {name}" for name in ("circle", "square", "star", "heart"))
    for label, templates in (("shape", on_background), ("color", colored)):
        section = shared | {"labels": label}
        config.evals[label] = section | {"type": "zero_shot", "templates": templates}
        config.evals[f"{label}_knn"] = section | {"type": "knn", "k": 20}
        config.evals[f"{label}_probe"] = section | {"type": "linear_probe"}
    return config


def use_cnn(config: ConfigDict, **options: str) -> None:
    """Starts another experiment from the CNN of `runs/quickstart`."""
    config.model.image.encoder = multitask().model.image.encoder.to_dict() | options
    config.init_from.run, config.init_from.include = "runs/quickstart", ("image/encoder/",)
    config.init_from.optimizer, config.optimizer.plateau = False, None


def quick(config: ConfigDict) -> ConfigDict:
    """A few steps of the same experiment."""
    config.total_steps, config.log_every = 50, 10
    config.optimizer.schedule.warmup_steps = "up to 10"
    for section in config.evals.values():
        section.every, section.bootstrap_samples = 25, 100
    config.checkpoint.every = 25
    return config


def image_text_matching(config: ConfigDict) -> ConfigDict:
    """Images against captions, and BLIP's matching head, which ranks the best 10 again."""
    config = image_text(config)
    sizes = {"width": 128, "depth": 2, "heads": 4, "mlp_dim": 256, "dropout": 0.0}
    config.model.cross_encoder = {"name": "matching_head", "score": "log_odds", **sizes}
    config.tasks.matching = base.pair_task("matching")
    config.evals.reranked = config.evals.shapes.copy_and_resolve_references()
    config.evals.reranked.reranker = {"name": "cross_encoder", "top": 10, "first_stage_weight": 0.0}
    return config


def matching_quick(config: ConfigDict) -> ConfigDict:
    """A few steps of `matching`, with smaller batches."""
    config = quick(image_text_matching(config))
    config.batch_size = 64
    return config
