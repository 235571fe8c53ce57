import dataclasses

import numpy as np
import pytest

from xmodal.core.errors import UserError
from xmodal.models.encoders import efficientnet, resnet
from xmodal.pretrained import cmcm, cvse, pvse, vsepp
from xmodal.pretrained.conversion_report import Report, Taken, take_all
from xmodal.pretrained.variants import CONVERTERS


def convert(**changes):
    rng = np.random.default_rng(0)
    shapes = {"a.weight": (3, 2), "a0.bias": (2,), "a1.bias": (2,), "pooler.bias": (2,)}
    arrays = {name: rng.normal(size=shape) for name, shape in (shapes | changes).items()}
    wanted = {
        "params/a/kernel": (Taken("a.weight", np.transpose, "transposed"), (2, 3)),
        "params/a/bias": (Taken(("a0.bias", "a1.bias")), (2, 2)),
        "batch_stats/a/mean": (Taken("a.mean"), (2,)),
    }
    return arrays, *take_all(arrays | {"global_step": np.int64(3)}, wanted)


def test_every_array_is_accounted_for_by_name():
    arrays, flat, report = convert()
    assert set(flat) == {"params/a/kernel", "params/a/bias"}
    assert {array.dtype for array in flat.values()} == {np.dtype(np.float32)}
    np.testing.assert_array_equal(flat["params/a/kernel"], arrays["a.weight"].T.astype(np.float32))
    np.testing.assert_array_equal(flat["params/a/bias"][1], arrays["a1.bias"].astype(np.float32))
    assert report == Report(
        loaded={"params/a/kernel": ("a.weight",), "params/a/bias": ("a0.bias", "a1.bias")},
        missing={"batch_stats/a/mean": ("a.mean",)},
        unexpected=["pooler.bias"],
        reshaped={"params/a/kernel": "transposed", "params/a/bias": "2 stacked"},
    )
    assert report.text().splitlines() == [
        "loaded: 2",
        "  params/a/bias <- a0.bias, a1.bias",
        "  params/a/kernel <- a.weight",
        "missing: 1",
        "  batch_stats/a/mean <- a.mean",
        "unexpected: 1",
        "  pooler.bias",
        "reshaped: 2",
        "  params/a/bias: 2 stacked",
        "  params/a/kernel: transposed",
    ]
    noted = dataclasses.replace(report, notes=["a size is assumed"])
    assert noted.text() == f"{report.text()}note: a size is assumed\n"
    assert report.summary() == (
        "2 arrays loaded, 2 of them reshaped; 1 missing (batch_stats/a/mean); "
        "1 unexpected (pooler.bias)"
    )


def test_what_is_not_expected_is_an_error():
    _, _, report = convert()
    report.check(expected_missing=["batch_stats/"], expected_unexpected=[r"pooler\."])
    with pytest.raises(UserError, match="1 array.s. are not expected:\n  pooler.bias") as error:
        report.check(expected_missing=["batch_stats/"])
    assert "a.mean" not in str(error.value)
    with pytest.raises(UserError, match=r"are missing:\n  batch_stats/a/mean \(from a.mean\)"):
        report.check(expected_missing=["a"], expected_unexpected=["pooler"])


@pytest.mark.parametrize("shape", [(2, 3), (6,)])
def test_another_shape_is_named(shape):
    with pytest.raises(UserError, match=r"a.weight has the shape \[.*\], which does not give \[2"):
        convert(**{"a.weight": shape})


def test_the_names_of_variants_are_those_that_converters_read():
    for name, module in {"efficientnet": efficientnet, "resnet": resnet}.items():
        assert CONVERTERS[name].variants == tuple(module.VARIANTS)
    for name, module in {"cmcm": cmcm, "cvse": cvse, "pvse": pvse, "vsepp": vsepp}.items():
        assert CONVERTERS[name].variants == tuple(module.VARIANTS)
