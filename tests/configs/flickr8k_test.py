"""The pretrained variants of flickr8k.py go together: one follows the other's run."""

import re

import pytest

from configs import flickr8k
from xmodal import mesh as mesh_lib
from xmodal.training import preflight, state


def shapes(argument):
    """Path -> shape of every parameter, and the config."""
    config = flickr8k.get_config(argument)
    parts = preflight.build(config, mesh_lib.make_mesh())
    initial = state.abstract_state(preflight.state_init(parts), parts.mesh, config.sharding)
    params = state.flatten(initial.all_params())
    return {path: leaf.shape for path, leaf in params.items()}, config


def test_images_take_from_the_run_before_all_but_the_image_tower():
    before, _ = shapes("pretrained")
    after, config = shapes("pretrained_images")
    taken = {p for p in after if any(re.match(i, p) for i in config.init_from.include)}
    assert {path: after[path] for path in taken} == before
    assert {path.split("/")[0] for path in set(after) - taken} == {"image"}
    # What the run does not bring the converted folder does.
    assert config.init_from.towers.image
    assert not config.init_from.towers.text


def test_i2t_differs_in_its_tasks_alone():
    both, alone = (flickr8k.get_config(f"pretrained{end}").to_dict() for end in ("", "_i2t"))
    assert both["tasks"].pop("t2t")["weight"] > 0
    assert both["data"].pop("captions_per_image") == 2
    assert alone["data"].pop("captions_per_image") == 1
    assert both.pop("name") != alone.pop("name")
    assert both == alone


@pytest.mark.parametrize("argument", ["pretrained", "pretrained_i2t"])
def test_one_layer_of_the_encoder_trains(argument):
    config = flickr8k.get_config(argument)
    parts = preflight.build(config, mesh_lib.make_mesh())
    initial = state.abstract_state(preflight.state_init(parts), parts.mesh, config.sharding)
    trained = state.flatten(initial.params)
    layers = {leaf.shape[0] for path, leaf in trained.items() if path.startswith("text/bert/")}
    assert layers == {1}
    assert {p for p in trained if not p.startswith("text/bert/layers/")} == {
        f"{tower}/projection/{leaf}" for tower in ("image", "text") for leaf in ("kernel", "bias")
    }
