import dataclasses

import ml_dtypes
import numpy as np
import pytest

from xmodal.core.errors import UserError
from xmodal.pretrained import layer_rules, torch_models
from xmodal.pretrained.conversion_report import Mapper, Report, Taken


def convert(**changes):
    rng = np.random.default_rng(0)
    shapes = {"a.weight": (3, 2), "a0.bias": (2,), "a1.bias": (2,), "pooler.bias": (2,), "step": ()}
    arrays = {name: rng.normal(size=shape) for name, shape in (shapes | changes).items() if shape}
    mapper = Mapper(arrays | {"step": np.int64(3)})
    mapper.take("params/a/kernel", Taken("a.weight", np.transpose, "transposed"), (2, 3))
    mapper.take("params/a/bias", Taken(("a0.bias", "a1.bias")), (2, 2))
    mapper.take("batch_stats/a/mean", Taken("a.mean"), (2,))
    return arrays, *mapper.result(ignored=("step",))


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


def test_one_absent_layer_is_missing():
    _, flat, report = convert(**{"a1.bias": None})
    assert report.missing["params/a/bias"] == ("a1.bias",)
    assert "params/a/bias" not in flat
    assert "a0.bias" in report.unexpected


def test_what_is_not_expected_is_an_error():
    _, _, report = convert()
    report.check(expected_missing=["batch_stats/"], expected_unexpected=[r"pooler\."])
    with pytest.raises(UserError, match="1 array.s. are not expected:\n  pooler.bias") as error:
        report.check(expected_missing=["batch_stats/"])
    assert "a.mean" not in str(error.value)
    with pytest.raises(UserError, match=r"are missing:\n  batch_stats/a/mean \(from a.mean\)"):
        report.check(expected_missing=["a"], expected_unexpected=["pooler"])


@pytest.mark.parametrize("shape", [(2, 3), (6,), (3, 2, 1)])
def test_another_shape_is_named(shape):
    with pytest.raises(UserError, match=r"a.weight has the shape \[.*\], which does not give \[2"):
        convert(**{"a.weight": shape})


@pytest.mark.parametrize(
    ("rule", "leaf", "shape", "wanted"),
    [
        (layer_rules.by_part({}, "attn.qkv."), "key/bias", (4,), (4,)),  # Of one part alone.
        (
            torch_models.convolution("attn.qkv"),
            "kernel",
            (4, 2, 3),
            (2, 4),
        ),  # Of several positions.
    ],
)
def test_an_array_that_cannot_be_changed_is_not_taken_as_it_is(rule, leaf, shape, wanted):
    taken = rule(leaf)
    with pytest.raises(UserError, match="which does not give"):
        Mapper({taken.name: np.ones(shape)}).take("params/w", taken, wanted)


def test_numbers_that_are_no_weights():
    def take(array):
        mapper = Mapper({"w": array})
        mapper.take("params/w", Taken("w"), array.shape)
        return mapper.result()[0]["params/w"]

    for array, message in (
        (np.ones(3, np.int8), "w has numbers of the type int8, which may be quantized"),
        (np.ones(3, np.complex64), "w has numbers of the type complex64"),
        (np.array(["a"]), "w has numbers of the type <U1"),
        (np.array([1e39]), "w has numbers that are not finite in float32"),
    ):
        with pytest.raises(UserError, match=message):
            take(array)
    halves = np.array([1.5, -2], ml_dtypes.bfloat16)
    for array in (halves, halves.astype(np.float16)):
        np.testing.assert_array_equal(take(array), np.float32([1.5, -2]))
