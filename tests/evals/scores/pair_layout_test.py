"""Single pairs in small products: every pair is found once, and no product is too large."""

import numpy as np
import pytest

from xmodal.evals.scores.pair_layout import lay_out


@pytest.mark.parametrize(("height", "width"), [(4, 8), (16, 64), (3, 1)])
@pytest.mark.parametrize("queries", [1, 7, 500])
def test_every_pair_is_at_its_place(height, width, queries):
    generator = np.random.default_rng(0)
    rows = np.sort(generator.integers(queries, size=301))
    columns = generator.integers(99, size=301)
    layout = lay_out(rows, columns, height, width)
    blocks = len(layout.left)
    assert layout.left.shape == (blocks, height)
    assert layout.right.shape == layout.row.shape == (blocks, width)
    at = layout.block, layout.column
    np.testing.assert_array_equal(layout.left[layout.block, layout.row[at]], rows)
    np.testing.assert_array_equal(layout.right[at], columns)
    assert len(np.unique(np.stack(at), axis=1).T) == len(rows)


def test_a_query_with_many_partners_fills_products_and_few_partners_share_one():
    many = lay_out(np.zeros(65, int), np.arange(65), 16, 64)
    assert len(many.left) == 2
    several = lay_out(np.arange(16).repeat(4), np.arange(64), 16, 64)
    assert len(several.left) == 1
