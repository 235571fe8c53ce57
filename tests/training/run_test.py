"""What is wrong in a config is said before a dataset is asked for."""

import jax
import pytest

from configs import common
from xmodal import data
from xmodal import mesh as mesh_lib
from xmodal.config import UserError
from xmodal.training import preflight


@pytest.fixture
def config():
    config = common.quick(common.experiment("tiny"))
    config.data.captions_per_image = 2
    config.tasks = {"i2t": common.image_text(), "t2t": common.text_text()}
    return config


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        ("evaluation.evry", 1, r"\['evry'\] in config.evaluation; known: .*'every'"),
        ("checkpoint.keep", 1, r"\['keep'\] in config.checkpoint; known: .*'keep_last'"),
        ("init_from.stp", 1, r"\['stp'\] in config.init_from; known: .*'step'"),
        ("splits.val", "", r"\['val'\] in config.splits; known: .*'validation'"),
        ("data.imge", None, r"\['imge'\] in config.data; known: .*'image'"),
        ("model.similarity", "cosin", "'cosin' in config.model.similarity; known: .*'cosine'"),
        ("tasks.i2t.options.form", "print", "'print' in .*options.form; known: .*'printed'"),
        ("tasks.t2t.options.engine", "ring", "'ring' in .*options.engine; known: .*'chunked'"),
        ("data.image", None, "One of config.model.image and config.data.image is None"),
        ("data.captions_per_image", 1, "caption_1, but config.data.captions_per_image=1"),
        ("batch_size", 12, "config.batch_size=12 is not a multiple of the 8 devices"),
    ],
)
def test_mistakes_are_found_without_any_data(config, monkeypatch, where, value, message):
    monkeypatch.setattr(data, "prepare", lambda *args, **kwargs: pytest.fail("asked for data"))
    *parents, last = where.split(".")
    section = config
    for parent in parents:
        section = section[parent]
    with section.unlocked():
        setattr(section, last, value)
    with pytest.raises(UserError, match=message):
        preflight.assemble(config)


def test_missing_keys_are_named(config):
    del config.evaluation.every
    with pytest.raises(UserError, match=r"config.evaluation lacks \['every'\]"):
        preflight.assemble(config)
    del config.l2
    with pytest.raises(UserError, match=r"config lacks \['l2'\]"):
        preflight.assemble(config)


def test_a_batch_larger_than_the_split(config, few_shapes):
    config.data.data_dir, config.batch_size = few_shapes, 160
    with pytest.raises(UserError, match="160 is more than the 150 training examples"):
        preflight.assemble(config)


def test_evaluating_elsewhere_needs_no_divisible_batch(config):
    config.batch_size = 3
    assert preflight.build(config, mesh_lib.make_mesh()).mesh.size == jax.device_count() == 8
