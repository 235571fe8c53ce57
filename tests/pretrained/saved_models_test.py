"""Text encoders that were published as SavedModels."""

import numpy as np
import pytest

from tests.pretrained import tiny_saved_models
from xmodal.core.errors import UserError
from xmodal.pretrained.saved_models import open_text_encoder


@pytest.mark.parametrize("layout", ["callable", "signature", "module"])
def test_every_layout_embeds_as_its_function(layout, tmp_path):
    folder = str(tmp_path / "model")
    getattr(tiny_saved_models, f"save_{layout}")(folder)
    texts = ["a red circle", "circle", "straße 東京 " * 1000]
    found = open_text_encoder(f"savedmodel:{folder}")(texts)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, tiny_saved_models.embed(texts), rtol=1e-4, atol=1e-5)


def test_mistakes_are_named(tmp_path):
    with pytest.raises(UserError, match="There is no SavedModel at 'savedmodel:/none': write"):
        open_text_encoder("savedmodel:/none")
    (tmp_path / "saved_model.pb").write_bytes(b"not a graph")
    with pytest.raises(UserError, match="cannot be loaded: "):
        open_text_encoder(f"savedmodel:{tmp_path}")
