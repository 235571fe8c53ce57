import numpy as np
import pytest

from xmodal.core.errors import UserError
from xmodal.models.encoders import efficientnet, resnet
from xmodal.pretrained import cnn_models, cvse
from xmodal.pretrained.conversion_report import Report, take_all
from xmodal.pretrained.layer_rules import Taken
from xmodal.pretrained.variants import CONVERTERS

SHAPES = {"a.weight": (3, 2), "a0.bias": (1, 2), "a1.bias": (1, 2), "pooler.bias": (2,)}


def convert(**changes):
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=shape) for name, shape in (SHAPES | changes).items()}
    wanted = {
        "params/a/kernel": (Taken("a.weight", np.transpose), (2, 3)),
        "params/a/bias": (Taken("a{}.bias"), (2, 2)),
        "batch_stats/a/mean": (Taken("a.mean"), (2,)),
    }
    return arrays, *take_all(arrays | {"global_step": np.int64(3)}, wanted, ["a size is assumed"])


def test_every_array_is_accounted_for_by_name():
    arrays, flat, report = convert()
    assert {array.dtype for array in flat.values()} == {np.dtype(np.float32)}
    np.testing.assert_array_equal(flat["params/a/kernel"], arrays["a.weight"].T.astype(np.float32))
    np.testing.assert_array_equal(flat["params/a/bias"][1:], arrays["a1.bias"].astype(np.float32))
    assert report == Report(
        loaded={"params/a/kernel": ["a.weight"], "params/a/bias": ["a0.bias", "a1.bias"]},
        missing={"batch_stats/a/mean": ["a.mean"]},
        unexpected=["pooler.bias"],
        notes=["a size is assumed"],
    )
    assert report.text().splitlines()[-5:] == [
        "missing: 1",
        "  batch_stats/a/mean <- a.mean",
        "unexpected: 1",
        "  pooler.bias",
        "note: a size is assumed",
    ]


@pytest.mark.parametrize("shape", [(2, 3), (6,)])
def test_another_shape_is_named(shape):
    with pytest.raises(UserError, match=r"a.weight has the shape \[.*\], which does not give \[2"):
        convert(**{"a.weight": shape})


def test_the_names_of_variants_are_those_that_converters_read():
    wanted = {
        "efficientnet": efficientnet.VARIANTS,
        "resnet": resnet.VARIANTS,
        "cmcm": cnn_models.CMCM_VARIANTS,
        "cvse": cvse.VARIANTS,
        "pvse": cnn_models.PVSE_VARIANTS,
        "vsepp": cnn_models.VSEPP_VARIANTS,
    }
    assert {name: CONVERTERS[name].variants for name in wanted} == {
        name: tuple(variants) for name, variants in wanted.items()
    }
