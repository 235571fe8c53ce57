"""Settings that would change the outputs of frozen encoders are errors, before the data is read."""

import pytest

from tests.frozen_runs import changed, make_image_config, make_text_config, start_run
from xmodal import data
from xmodal.core.errors import UserError


@pytest.fixture
def config(tiny_data_dir, tmp_path):
    return make_text_config(tiny_data_dir, tmp_path / "features")


@pytest.fixture
def without_data(monkeypatch):
    """As if the dataset were not built yet: the config alone is checked first."""
    monkeypatch.setattr(data, "is_prepared", lambda config: False)
    monkeypatch.setattr(data, "prepare", lambda *args, **kwargs: pytest.fail("asked for data"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"freeze": []}, r"'text', whose .*: text/encoder/\w+.* is trained; change"),
        ({"freeze": ["text/encoder/lower_layers"]}, "text/encoder/.*embeddings.* is trained"),
        ({"freeze": ["text/encoder/.*emb"]}, "text/encoder/lower_layers.* is trained"),
        ({"model.text.encoder.lower_depth": 0}, "text/encoder/layers/.* is trained"),
        ({"model.text.encoder.dropout": 0.1}, "config.model.text.encoder.dropout=0.1; change"),
        ({"data.text.augment": {"delete": 0.1}}, "config.data.text.augment is set"),
        ({"frozen_features.sides": ["image"]}, "'image', but config.model.image is None"),
        ({"frozen_features.folder": "gs://bucket/x"}, "'gs://bucket/x' is not on a file system"),
    ],
)
@pytest.mark.usefixtures("without_data")
def test_features_that_would_change_are_refused_without_data(config, changes, message):
    with pytest.raises(UserError, match=message):
        start_run(changed(config, changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"freeze": ["text/encoder/"]}, "'image', whose .*: image/encoder/.* is trained"),
        (
            {"model.image.encoder.batch_norm": "batch_frozen"},
            "config.model.image.encoder.batch_norm='batch_frozen'; change",
        ),
        ({"data.image.augment": {"flip": True}}, "config.data.image.augment is set"),
    ],
)
@pytest.mark.usefixtures("without_data", "few_stages")
def test_features_of_images_that_would_change_are_refused(tiny_data_dir, changes, message):
    image_config = make_image_config("pictures", tiny_data_dir, "features")
    with pytest.raises(UserError, match=message):
        start_run(changed(image_config, changes))


@pytest.mark.usefixtures("without_data")
def test_an_encoder_without_frozen_features_is_named(config):
    encoder = {"name": "words", "vocab_size": 0, "width": 8}
    config = changed(config, {"model.text.encoder": encoder, "freeze": ["text/encoder/"]})
    with pytest.raises(UserError, match="no frozen features"):
        start_run(config)
