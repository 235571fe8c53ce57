"""The step compiled for several lengths of texts."""

import jax
import numpy as np
import pytest

from tests import tiny_encoder as tiny
from xmodal import data
from xmodal.train.compiled_step import compile_step

LENGTHS = (3, 4)


def make_parts(lengths=()):
    config = tiny.make_config()
    config.data.text_lengths = lengths
    return tiny.make_parts(config, devices=2)


@pytest.mark.slow
def test_a_batch_of_short_texts_makes_the_same_step():
    batch = tiny.make_batch()
    for name in ("text_ids", "text_mask"):
        batch[name][:, :, 3:] = 0
    results, flops = [], []
    for lengths in ((), LENGTHS[:1]):
        parts = make_parts(lengths)
        compiled = compile_step(parts, tiny.start(parts))
        cut = data.cut_texts(batch, 3) if lengths else batch
        rows = {name: cut[name] for name in parts.batch}
        flops.append(compiled.flops(rows))
        results.append(tiny.copy(compiled(tiny.start(parts), rows, 0)))
    (padded, scalars), (short, short_scalars) = results
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
        (padded.params, scalars),
        (short.params, short_scalars),
    )
    assert flops[1] < 0.8 * flops[0]
