"""Short runs on the tiny dataset with stored features of frozen encoders."""

from configs import base, cxc
from tests import tiny_encoder as tiny
from xmodal.train import start
from xmodal.train.resolve import resolve

TINY = "tiny_captions"
TOTAL_STEPS = 8
LOWER = "text/encoder/(?!layers)"


def on_tiny(config, data_dir, folder):
    """A short run on the tiny dataset with stored features in a folder."""
    config.total_steps, config.batch_size, config.log_every = TOTAL_STEPS, 16, 4
    config.data.dataset, config.data.data_dir = TINY, data_dir
    config.data.text.vocabulary_size, config.data.text.max_length = 200, 12
    config.evals = {TINY: base.benchmarks(every=0) | {"batch_size": 24, "bootstrap_samples": 10}}
    config.checkpoint.every, config.best_checkpoint.metric = 0, f"{TINY}/mean_recall@10"
    config.frozen_features.folder = str(folder)
    config.optimizer.learning_rate = 0.05
    return config


def make_text_config(data_dir, folder):
    """Two tasks over two captions per image, one frozen layer and one trained layer."""
    same = cxc.text_text() | {"views": ["caption_0", "caption_0"]}
    config = tiny.make_config(tasks={"same": same, "t2t": cxc.text_text(0.5)})
    config.model.image = config.data.image = None
    text = config.model.text
    text.encoder.update({"vocab_size": 0, "max_positions": 20, "depth": 2, "lower_depth": 1})
    # Fresh layers hardly mix tokens: [CLS] would be the same for every caption.
    text.head = {"name": "mean"}
    config.model.similarity = {"name": "cosine", "temperature": 0.05}
    config.freeze, config.frozen_features.modalities = [LOWER], ["text"]
    return on_tiny(config, data_dir, folder)


def make_image_config(kind, data_dir, folder):
    """A frozen image encoder with a trained projection, against captions.

    It is a small CNN over "pictures", or a layer over "features" of three, or of one to five,
    "regions".
    """
    if kind == "pictures":
        encoder = {"name": "efficientnet", "width": 0.25, "depth": 0.25, "drop_connect": 0.5}
    else:
        shape = (3, 4) if kind == "features" else (5, 4)
        encoder = {"name": "precomputed", "features": shape, "hidden": (8,), "dtype": "bfloat16"}
    config = tiny.make_config(tasks={"i2t": cxc.image_text()})
    config.model.image.encoder = encoder
    # The text tower only needs to be there; this one compiles fastest.
    config.model.text.encoder = {"name": "words", "vocab_size": 0, "width": 8}
    config.model.text.head = {"name": "mean"}
    config.model.similarity = {"name": "cosine", "temperature": 0.05}
    config.freeze, config.frozen_features.modalities = ["image/encoder/"], ["image"]
    size, regions = 24 if kind == "pictures" else 0, 5 if kind == "regions" else 0
    config.data.config = "images" if kind == "pictures" else kind
    config.data.image.size, config.data.image.max_regions = size, regions
    config.data.captions_per_image = 1
    return on_tiny(config, data_dir, folder)


def start_run(config):
    parts = resolve(config)
    return parts, start.starting_state(parts, "/no/such/run")


def changed(config, changes):
    config = config.copy_and_resolve_references()
    for path, value in changes.items():
        *parents, last = path.split(".")
        section = config
        for parent in parents:
            section = section[parent]
        section[last] = value
    return config
