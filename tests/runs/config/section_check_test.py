"""Values in place of a config section give errors."""

import pytest

from configs import quickstart
from xmodal.base.config import UserError
from xmodal.runs.config.inheritance import inherit


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("model", None),
        ("model.image", 3),
        ("model.image.encoder", "resnet"),
        ("model.text.encoder", None),
        ("model.text.head", "mean"),
        ("tasks.i2t", "softmax"),
        ("tasks.i2t.loss", None),
        ("tasks.t2t.loss.module", 0),
    ],
)
def test_a_value_in_the_place_of_a_section(path, value):
    config = quickstart.get_config()
    with config.unlocked(), config.ignore_type():
        *parents, key = path.split(".")
        section = config
        for parent in parents:
            section = section[parent]
        section[key] = value
    with pytest.raises(UserError) as raised:
        inherit(config)
    assert str(raised.value) == f"config.{path} is {value!r}; it must be a section."


@pytest.mark.parametrize(
    ("section", "key", "message"),
    [
        ("model.text", "encoder", r"config\.model\.text lacks 'encoder'; it has \['head', 'proj"),
        ("tasks.t2t", "loss", r"config\.tasks\.t2t lacks 'loss'; it has \['negatives', 'simil"),
    ],
)
def test_a_section_that_is_missing(section, key, message):
    config = quickstart.get_config()
    *parents, name = section.split(".")
    with config.unlocked():
        del config[parents[0]][name][key]
    with pytest.raises(UserError, match=message):
        inherit(config)


def test_a_side_that_is_missing():
    config = quickstart.get_config()
    with config.unlocked():
        del config.model.text
    with pytest.raises(UserError, match=r"config\.model\.text is missing; set it to None for a"):
        inherit(config)
