"""A run of a tiny text model on a tiny dataset."""

import pytest

from configs import base, cxc
from tests import tiny_encoder as tiny
from xmodal.train import loop, reporting, start
from xmodal.train.resolve import resolve

TINY = "tiny_captions"
# The benchmark bears the evaluator's name.
BEST = f"{TINY}/mean_recall@10"
TOTAL_STEPS = 30


def make_config(data_dir):
    # Captions of this dataset are random words, so a caption can only retrieve itself.
    same = cxc.text_text() | {"views": ["caption_0", "caption_0"]}
    same["similarity"] = {"name": "cosine", "temperature": 0.1, "learned_temperature": True}
    config = tiny.make_config(
        tasks={"same": same}, total_steps=TOTAL_STEPS, batch_size=16, log_every=5
    )
    config.model.image = config.data.image = None
    # Traced and compiled in half the time of a transformer's layer.
    config.model.text.encoder = {"name": "words", "vocab_size": 0, "width": 8, "dropout": 0.1}
    config.model.text.head = {"name": "mean"}
    # Running statistics, which a run must also keep.
    config.model.text.projection.batch_norm = True
    config.optimizer = cxc.skipping_adam(0.01)
    config.data.dataset, config.data.data_dir = TINY, data_dir
    config.data.captions_per_image = 1
    config.data.text.vocabulary_size, config.data.text.max_length = 200, 12
    config.evals = {TINY: base.benchmarks(every=20) | {"batch_size": 32, "bootstrap_samples": 20}}
    config.best_checkpoint.metric, config.checkpoint.every = BEST, 20
    return config


def train(config, folder):
    """The training loss by step of an undisturbed run."""
    losses, record = {}, reporting.Reporter.record

    def recording(self, step, scalars, *others):
        losses[step] = float(scalars["train/loss"])
        record(self, step, scalars, *others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reporting.Reporter, "record", recording)
        loop.train(config, str(folder))
    return losses


def load_state(config, folder):
    """The state from which a run continues."""
    parts = resolve(config, str(folder))
    return start.starting_state(parts, str(folder))
