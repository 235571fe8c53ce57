"""Mistakes in a config are reported before any dataset is needed."""

import numpy as np
import pytest

from configs import cxc, vsrn
from xmodal import data
from xmodal.core.errors import UserError
from xmodal.train import resolve as resolve_lib
from xmodal.train.evaluation.suite import EvalSuite
from xmodal.train.resolve import resolve

COCO = {"dataset": "coco_captions"}


class AskedForDataError(Exception):
    """The config was accepted."""


@pytest.fixture
def text_config():
    """A config without images, since their model takes long to trace."""
    config = cxc.quick(cxc.experiment("tiny"))
    config.model.image = config.data.image = config.l2 = None
    config.data.captions_per_image = 2
    config.tasks = {"t2t": cxc.text_text()}
    return config


@pytest.fixture
def without_data(monkeypatch):
    def prepare(*args, **kwargs):
        raise AskedForDataError

    monkeypatch.setattr(data, "prepare", prepare)
    monkeypatch.setattr(data, "is_prepared", lambda config: False)


def change(config, where, value):
    *parents, last = where.split(".")
    section = config
    for parent in parents:
        section = section[parent]
    with section.unlocked():
        setattr(section, last, value)


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        ("seeds", 1, r"\['seeds'\] in config; known: .* Did you mean 'seed'"),
        ("init_from.run", "runs/none", "'runs/none' is not a run of xmodal.main"),
        ("data.text.max_length", 600, "Texts have 600 tokens.*lower config.data.text.max_length"),
        ("best_checkpoint.mode", "min", "'min' selects the worst checkpoint .* set it to 'max'"),
        ("tasks.t2t.loss.inputs", ["relation"], r"columns \['relation'\].*config.data.labels"),
        ("data.captions_per_image", 1, "caption_1, but config.data.captions_per_image=1"),
    ],
)
@pytest.mark.usefixtures("without_data")
def test_mistakes_are_found_without_any_data(text_config, where, value, message):
    change(text_config, where, value)
    with pytest.raises(UserError, match=message):
        resolve(text_config)


def test_lengths_in_epochs_become_steps(text_config, few_shapes):
    config, epoch = text_config, 750 // 16
    config.data.data_dir, config.batch_size = few_shapes, 16
    config.data.examples, config.tasks.t2t.views = "pairs", ["caption_0", "caption_0"]
    config.data.captions_per_image = 1
    config.total_steps, config.checkpoint.every = "3 epochs", "1 epoch"
    config.optimizer.schedule = {"name": "cosine", "warmup_steps": "1 epochs"}
    config.optimizer.groups = {"head": {"pattern": "text/head/", "frozen_until": "2 epochs"}}
    config.evals.shapes.every = "1 epochs"
    config.tasks.t2t.weight = {
        "schedule": "linear", "from": 0.0, "to": 1.0, "start": 0, "end": "2 epochs"
    }  # fmt: skip
    parts = resolve(config)
    assert parts.settings.total_steps == parts.config.total_steps == 3 * epoch
    assert parts.settings.checkpoint.every == epoch
    assert parts.config.evals.shapes.every == epoch
    assert parts.settings.optimizer.schedule["warmup_steps"] == epoch
    assert parts.settings.optimizer.groups["head"]["frozen_until"] == 2 * epoch
    assert parts.tasks[0].config.weight["end"] == 2 * epoch
    assert set(parts.state_shapes.opt_state["moments"]) == {"from_0", f"from_{2 * epoch}"}
    assert config.total_steps == "3 epochs"  # The caller's config is unchanged.


@pytest.mark.slow
def test_words_are_learned_from_the_training_split_alone(few_shapes):
    """The rest of a split may be the test split of the run, as on CITE."""
    config = vsrn.get_config("quick")
    config.data.data_dir, config.train_split = few_shapes, "train[:20]"
    config.data.text.update({"tokenizer": "spaces", "min_count": 1})
    config.batch_size = 16
    parts = resolve(config)
    known = data.load_vocabulary(config.data, "train[:20]")
    assert len(known) < data.vocabulary_size(config.data)
    assert len(known) < parts.config.model.text.encoder.vocab_size == 512
    items = EvalSuite(
        parts.evals, parts.settings.data, ["text"], parts.mesh, train_split="train[:20]"
    ).items("shapes", "test")
    (batch,) = items.captions(1000)
    expected, _ = data.load_tokenizer(config.data, "train[:20]").encode(items.caption_texts)
    np.testing.assert_array_equal(batch["text_ids"], expected)


def test_everything_else_is_checked_before_a_dataset_is_built(text_config, few_shapes, monkeypatch):
    text_config.data.data_dir = few_shapes
    checked, found, prepare, check_start = [], [], data.prepare, resolve_lib.check_start

    def build(*args, **kwargs):
        found.append(len(checked))
        prepare(*args, **kwargs)

    monkeypatch.setattr(data, "is_prepared", lambda config: False)
    monkeypatch.setattr(data, "prepare", build)
    monkeypatch.setattr(resolve_lib, "check_start", lambda run: checked.append(check_start(run)))
    resolve(text_config)
    assert (found, len(checked)) == ([1], 2)
