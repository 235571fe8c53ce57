"""The relation classification loss against its slow loop."""

import numpy as np
import pytest

from tests.losses import references
from xmodal.losses.module_outputs import relation_bce

RNG = np.random.default_rng(0)
LOGITS = (10 * RNG.normal(size=(7, 3))).astype(np.float32)
LABELS = RNG.integers(2, size=(7, 3)).astype(np.int32)


def make_batch(make_context, labels=LABELS):
    return make_context(np.arange(7), columns={"relations": labels}, outputs={"logits": LOGITS})


@pytest.mark.parametrize(
    ("weights", "both_terms"), [(None, False), ((0.5, 7.0, 2.0), False), ((1.5, 8.0, 3.0), True)]
)
def test_equals_the_slow_loop(make_context, weights, both_terms):
    batch = make_batch(make_context)
    loss, scalars = relation_bce(None, None, batch, pos_weight=weights, both_terms=both_terms)
    others = weights if both_terms else None
    expected = references.relation_bce(LOGITS, LABELS, weights or (1, 1, 1), others)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    np.testing.assert_allclose(scalars["accuracy"], np.mean((LOGITS > 0) == LABELS), rtol=1e-6)


def test_some_relations_of_the_dataset_are_selected(make_context):
    more = np.concatenate([1 - LABELS[:, :2], LABELS[:, ::-1]], axis=1)
    loss, _ = relation_bce(None, None, make_batch(make_context, more), select=(4, 3, 2))
    expected = references.relation_bce(LOGITS, LABELS, (1, 1, 1))
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
