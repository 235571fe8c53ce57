"""Keys of `config.data`: what is unknown or contradictory is refused with the remedy."""

import ml_collections
import pytest

from xmodal.data.config import AugmentConfig, DataConfig, ImageConfig, TextConfig, parse


def test_nested_sections_are_read_and_the_rest_keeps_its_default():
    config = ml_collections.ConfigDict(
        {
            "dataset": "flickr8k",
            "image": {"size": 64, "augment": {"aspect": (0.5, 2.0), "flip": False}},
            "text": {"max_length": 7},
        }
    )
    assert parse(config) == DataConfig(
        dataset="flickr8k",
        image=ImageConfig(size=64, augment=AugmentConfig(aspect=(0.5, 2.0), flip=False)),
        text=TextConfig(max_length=7),
    )
    assert parse(parse(config)) == parse(config)
    assert parse({"dataset": "flickr8k", "image": None}).image is None


@pytest.mark.parametrize(
    ("config", "section", "known"),
    [
        ({"datset": 1}, "config.data", "dataset"),
        ({"image": {"crop": 1}}, "config.data.image", "eval_crop"),
        ({"image": {"augment": {"color": True}}}, "config.data.image.augment", "colour"),
        ({"text": {"length": 1}}, "config.data.text", "max_length"),
    ],
)
def test_unknown_keys_list_the_known_ones(config, section, known):
    with pytest.raises(ValueError, match=rf"in {section}; known: .*{known}"):
        parse({"dataset": "flickr8k"} | config)


def test_values_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="lacks the key dataset"):
        parse({"config": "images"})
    with pytest.raises(ValueError, match=r"data\.examples is 'captions'; known: images, pairs"):
        parse({"dataset": "flickr8k", "examples": "captions"})
    with pytest.raises(ValueError, match=r"text\.tokenizer is 'word'; known: wordpiece, words"):
        parse({"dataset": "flickr8k", "text": {"tokenizer": "word"}})
    with pytest.raises(ValueError, match=r"image\.eval_recipe is 'vgg'; known: cxc, simclr"):
        parse({"dataset": "flickr8k", "image": {"eval_recipe": "vgg"}})
    with pytest.raises(ValueError, match=r"captions_per_image is 2; set it to 1"):
        parse({"dataset": "flickr8k", "examples": "pairs", "captions_per_image": 2})
    with pytest.raises(ValueError, match="captions_per_image is 0"):
        parse({"dataset": "flickr8k", "captions_per_image": 0})
