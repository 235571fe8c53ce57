import jax
import numpy as np

from xmodal.models import Embedding, make_task_module


def test_equals_one_layer_on_the_joined_vectors():
    rng = np.random.default_rng(0)
    module = make_task_module("loss.module", "relation_classifier", {"relations": 3})
    left, right = (rng.normal(size=(5, width)).astype(np.float32) for width in (4, 6))
    pair = Embedding(left), Embedding(right)
    params, state = module.init(jax.random.key(0), *pair, {}, {})
    assert state == {}
    outputs, new_state = module.apply(
        params, state, *pair, {}, {}, train=True, key=jax.random.key(1)
    )
    assert new_state == {}
    kernel = np.concatenate([params["left"], params["right"]])
    assert 0.5 * 10**-0.5 < np.abs(kernel).max() <= 10**-0.5
    logits = np.concatenate([left, right], axis=1) @ kernel + params["bias"]
    np.testing.assert_allclose(outputs["logits"], logits, rtol=1e-5, atol=1e-6)

    predictions = module.predict(params, left[:2], right)
    assert predictions.shape == (2, 5, 3)
    for i in range(2):
        for j in range(5):
            logits = np.concatenate([left[i], right[j]]) @ kernel + params["bias"]
            np.testing.assert_allclose(predictions[i, j], 1 / (1 + np.exp(-logits)), rtol=1e-5)
