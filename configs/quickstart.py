"""The multitask dual encoder on the embedded dataset, small enough for a laptop CPU.

python -m xmodal.main --config=configs/quickstart.py[:i2t|:t2t]
"""

from ml_collections import ConfigDict

from configs import common


def get_config(argument: str = "") -> ConfigDict:
    """`i2t` and `t2t` train the single-task models on the same data."""
    i2t, t2t = common.image_text(), common.text_text()
    # Nothing is pretrained here: dot products of D = 256 are brought near unit spread first.
    i2t["options"]["temperature"] = t2t["options"]["temperature"] = 16.0
    tasks = {"": {"i2t": i2t, "t2t": t2t}, "i2t": {"i2t": i2t}, "t2t": {"t2t": t2t}}
    if argument not in tasks:
        raise ValueError(f"Unknown argument {argument!r} of quickstart.py; known: i2t, t2t, none.")
    config = common.quick(common.experiment("quickstart"))
    config.name = f"quickstart_{argument}" if argument else "quickstart"
    config.total_steps, config.batch_size, config.log_every = 400, 128, 50
    config.tasks = tasks[argument]
    config.freeze = []
    config.l2 = None
    config.data.captions_per_image = 2
    config.model.image = {
        "name": "efficientnet",
        "width": 0.35,
        "depth": 0.25,
        "batch_norm": "global",
        "drop_connect": 0.0,
        "projection": 256,
    }
    config.model.text.width, config.model.text.heads, config.model.text.mlp_dim = 128, 4, 256
    config.model.text.adapter.width, config.model.text.adapter.heads = 128, 4
    config.model.text.adapter.mlp_dim, config.model.text.adapter.depth = 256, 1
    config.model.text.projection = 256
    config.data.image.size = 48
    config.data.image.augment.area = (0.85, 1.0)
    config.data.image.augment.aspect = (0.9, 1.1)
    # Flipping would turn "left of" into a lie, and colours are what captions speak of.
    config.data.image.augment.flip = config.data.image.augment.colour = False
    config.data.image.eval_crop = 1.0
    config.optimizer.learning_rate = 2e-3
    config.optimizer.schedule = {"name": "cosine", "warmup_steps": 50}
    config.evaluation.every, config.checkpoint.every = 200, 100
    config.checkpoint.keep_last = 5
    if argument == "t2t":
        config.model.image = config.data.image = None
    return config
