"""Unknown and contradictory keys of `config.data` give errors with suggestions."""

import ml_collections
import pytest

from xmodal.core.errors import UserError
from xmodal.data.data_config import DataConfig, parse
from xmodal.data.pixels.augment import AugmentConfig
from xmodal.data.pixels.images import ImageConfig
from xmodal.data.text.text_config import TextConfig, TokenAugmentConfig


def test_nested_sections_are_read_and_the_rest_keeps_its_default():
    config = ml_collections.ConfigDict(
        {
            "dataset": "flickr8k",
            "image": {"size": 64, "augment": {"aspect": (0.5, 2.0), "flip": False}},
            "text": {"max_length": 7, "augment": {"unknown": 0.1}},
            "labels": ("relations",),
        }
    )
    assert parse(config) == DataConfig(
        dataset="flickr8k",
        image=ImageConfig(size=64, augment=AugmentConfig(aspect=(0.5, 2.0), flip=False)),
        text=TextConfig(max_length=7, augment=TokenAugmentConfig(unknown=0.1)),
        labels=("relations",),
    )
    assert parse(parse(config)) == parse(config)
    assert parse({"dataset": "flickr8k", "image": None, "text": None}).text is None


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"image": {"tags": True}, "text": {"tokenizer": "words"}}, "image.tags needs ids of word"),
        ({"text": {"tokenizer": "word"}}, r"'word' in config\.data\.text\.tokenizer.*Did you mean"),
        ({"image": {"size": -1}}, r"image\.size is -1; it must be at least 0"),
        ({"examples": "pairs", "captions_per_image": 2}, "set captions_per_image to 1"),
    ],
)
def test_values_out_of_range_are_refused(config, message):
    with pytest.raises(UserError, match=message):
        parse({"dataset": "flickr8k"} | config)
