"""Unknown and contradictory keys of `config.data` give errors with suggestions."""

import pytest

from xmodal.core.errors import UserError
from xmodal.data.data_config import parse


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
