"""The relation classification loss against its slow loop."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.losses import references
from xmodal.core.errors import UserError
from xmodal.losses.module_outputs import relation_bce

RNG = np.random.default_rng(0)
LOGITS = (10 * RNG.normal(size=(7, 3))).astype(np.float32)
LABELS = RNG.integers(2, size=(7, 3)).astype(np.int32)


def make_batch(make_context, labels=LABELS):
    return make_context(np.arange(7), columns={"relations": labels}, outputs={"logits": LOGITS})


@pytest.mark.parametrize("weights", [None, (0.5, 7.0, 2.0)])
def test_equals_the_slow_loop(make_context, weights):
    loss, scalars = relation_bce(None, None, make_batch(make_context), pos_weight=weights)
    expected = references.relation_bce(LOGITS, LABELS, weights or (1, 1, 1))
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    np.testing.assert_allclose(scalars["accuracy"], np.mean((LOGITS > 0) == LABELS), rtol=1e-6)


def test_missing_labels_and_sizes_that_differ(make_context):
    with pytest.raises(UserError, match="inputs=.'relations',."):
        relation_bce(None, None, make_context(np.arange(7), outputs={"logits": LOGITS}))
    with pytest.raises(UserError, match=r"labels for \(2,\) relations, logits for \(3,\)"):
        relation_bce(None, None, make_batch(make_context, LABELS[:, :2]))
    with pytest.raises(UserError, match=r"\(2,\) pos_weight"):
        relation_bce(None, None, make_batch(make_context), pos_weight=(1.0, 2.0))


def test_some_relations_of_the_dataset_are_selected(make_context):
    more = np.concatenate([1 - LABELS[:, :2], LABELS[:, ::-1]], axis=1)
    loss, _ = relation_bce(None, None, make_batch(make_context, more), select=(4, 3, 2))
    expected = references.relation_bce(LOGITS, LABELS, (1, 1, 1))
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_a_position_beyond_the_relations_is_refused(make_context):
    with pytest.raises(UserError, match=r"select=\(0, 1, 3\), but the dataset has 3 relations"):
        relation_bce(None, None, make_batch(make_context, jnp.asarray(LABELS)), select=(0, 1, 3))
