"""Settings that would change the outputs of frozen encoders are errors, before the data is read."""

import pytest

from tests.frozen_runs import changed, make_text_config, start_run
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
        ({"model.text.encoder.dropout": 0.1}, "config.model.text.encoder.dropout=0.1; change"),
        ({"data.text.augment": {"delete": 0.1}}, "config.data.text.augment is set"),
        (
            {"frozen_features.modalities": ["image"]},
            "'image' in config.frozen_features.modalities",
        ),
    ],
)
@pytest.mark.usefixtures("without_data")
def test_features_that_would_change_are_refused_without_data(config, changes, message):
    with pytest.raises(UserError, match=message):
        start_run(changed(config, changes))
