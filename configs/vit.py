"""A Vision Transformer of 4 layers beside a small BERT, on the built-in dataset.

python -m xmodal.main --config=configs/vit.py[:quick]
"""

from ml_collections import ConfigDict

from configs import base, quickstart


def get_config(argument: str = "") -> ConfigDict:
    """Images against captions, as in `quickstart:i2t`, but with 36 patches and a class token."""
    config = quickstart.image_text(quickstart.multitask())
    config.name = "vit"
    sizes = {"patch": 8, "width": 128, "depth": 4, "heads": 4, "mlp_dim": 256}
    config.model.image = base.tower({"name": "vit", **sizes}, "cls", width=256)
    config.optimizer.learning_rate = 1e-3
    return base.variant(config, argument, quick=quick)


def quick(config: ConfigDict) -> ConfigDict:
    """A few steps, two evaluations and two checkpoints."""
    config = quickstart.quick(config)
    config.batch_size, config.optimizer.schedule.warmup_steps = 64, "up to 2"
    return config
