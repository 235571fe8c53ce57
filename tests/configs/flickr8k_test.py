"""The pretrained variants of flickr8k.py, one of which starts from a run of the other."""

import re

import pytest

from configs import flickr8k
from xmodal.core import mesh as mesh_lib
from xmodal.train.resolve import build_run, fill
from xmodal.train.tree import flatten


def shapes(argument):
    """Path -> shape of every parameter, and the config."""
    config = flickr8k.get_config(argument)
    parts = build_run(fill(config), mesh_lib.make_mesh())
    return {path: leaf.shape for path, leaf in flatten(parts.shapes[0]).items()}, config


def test_images_take_from_the_run_before_all_but_the_image_encoder():
    before, _ = shapes("pretrained")
    after, config = shapes("pretrained_images")
    taken = {p for p in after if any(re.match(i, p) for i in config.init_from.include)}
    assert {path: after[path] for path in taken} == before
    assert {"/".join(path.split("/")[:2]) for path in set(after) - taken} == {"image/encoder"}
    # The converted folder provides the weights that the run lacks.
    assert config.init_from.towers.image
    assert not config.init_from.towers.text


@pytest.mark.parametrize("argument", ["pretrained", "pretrained_i2t"])
def test_one_layer_of_the_encoder_trains(argument):
    parts = build_run(fill(flickr8k.get_config(argument)), mesh_lib.make_mesh())
    trained = flatten(parts.state_shapes.params)
    layers = {leaf.shape[0] for path, leaf in trained.items() if path.startswith("text/encoder/")}
    assert layers == {1}
    assert {p for p in trained if not p.startswith("text/encoder/layers/")} == {
        f"{side}/projection/{leaf}" for side in ("image", "text") for leaf in ("kernel", "bias")
    }
