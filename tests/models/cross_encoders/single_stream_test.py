"""A model without embeddings; its scores equal transformers' (`vilt_weights_test`)."""

import jax
import numpy as np
import pytest

from xmodal.core.errors import UserError
from xmodal.models import make_dual_encoder
from xmodal.models.basics import Mode
from xmodal.models.features import Features

MODEL = {
    "image": {
        "encoder": {"name": "patch_tokens", "patch": 4, "width": 8, "grid": 2},
        "head": {"name": "none"},
    },
    "text": {"encoder": {"name": "token_ids", "vocab_size": 9}, "head": {"name": "none"}},
    "cross_encoder": {"name": "single_stream", "width": 8, "depth": 1, "heads": 2, "mlp_dim": 8},
}


def test_only_the_cross_encoder_compares():
    assert not make_dual_encoder(MODEL).embeds


def test_tags_need_a_type_of_their_own():
    change = {"cross_encoder": MODEL["cross_encoder"] | {"types": 1}}
    module = make_dual_encoder(MODEL | change).cross_encoder.module
    image = Features(np.ones((1, 2, 8), np.float32), extras={"tags": np.zeros((1, 3), np.int32)})
    with pytest.raises(UserError, match="has types=1; set it to 2, or leave out the tags"):
        module.init(jax.random.key(0), image, Mode.EVALUATE, method="image")
