import jax
import numpy as np
import pytest

from xmodal.models import precomputed


def _norm(x, name):
    if name == "l2":
        return x / np.linalg.norm(x, axis=-1, keepdims=True)
    if name == "layer_norm":
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
    return x


@pytest.mark.parametrize("input_norm", precomputed.INPUT_NORMS)
@pytest.mark.parametrize("regions", [None, 5])
def test_equals_the_formula(input_norm, regions, random_variables):
    tower = precomputed.make_tower(
        features=7, hidden=(11, 3), dropout=0.5, input_norm=input_norm, projection=4
    )
    shape = (6, 7) if regions is None else (6, regions, 7)
    features = np.random.default_rng(0).random(shape).astype(np.float16)
    params, state = random_variables(tower, features, scale=0.5)
    vector = tower.apply(params, state, features)[0].vector
    x = _norm(features.astype(np.float64), input_norm)
    x = x if regions is None else x.mean(1)
    for name in ("hidden1", "hidden2"):
        x = np.maximum(x @ params[name]["kernel"] + params[name]["bias"], 0)
    expected = x @ params["projection"]["kernel"] + params["projection"]["bias"]
    assert vector.dtype == np.float32
    np.testing.assert_allclose(vector, expected, rtol=1e-4, atol=1e-5)


def test_no_layers_at_all():
    tower = precomputed.make_tower(features=3)
    features = np.float16([[1, 2, 3]])
    assert tower.init(jax.random.key(0), features) == ({}, {})
    np.testing.assert_array_equal(tower.apply({}, {}, features)[0].vector, features)


def test_zero_features_have_a_finite_gradient():
    tower = precomputed.make_tower(features=3, input_norm="l2")
    gradient = jax.grad(lambda x: tower.apply({}, {}, x)[0].vector.sum())(np.zeros((2, 3)))
    assert np.all(np.isfinite(gradient))


def test_dropout_in_training_only(random_variables):
    tower = precomputed.make_tower(features=3, hidden=(64,), dropout=0.5)
    features = np.ones((2, 3), np.float32)
    params, state = random_variables(tower, features)
    whole = tower.apply(params, state, features)[0].vector
    kwargs = {"train": True, "key": jax.random.key(0)}
    dropped = tower.apply(params, state, features, **kwargs)[0].vector
    kept = dropped != 0
    np.testing.assert_allclose(dropped[kept], 2 * whole[kept], rtol=1e-6)
    assert 0 < kept.sum() < (whole != 0).sum()


def test_errors_name_the_remedy():
    tower = precomputed.make_tower(features=3)
    with pytest.raises(ValueError, match=r"features=3 takes .* float32 \[2, 4\]"):
        tower.init(jax.random.key(0), np.zeros((2, 4), np.float32))
    with pytest.raises(ValueError, match="known: .'l2', 'layer_norm', 'none'"):
        precomputed.make_tower(features=3, input_norm="batch")


def test_the_shape_of_region_sets_stands_in_the_config():
    tower = precomputed.make_tower(features=(7, 3), projection=2)
    assert tower.init(jax.random.key(0), np.zeros((1, 7, 3), np.float16))[0]["projection"][
        "kernel"
    ].shape == (3, 2)
