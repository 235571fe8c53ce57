"""The size of tiles, against a search over all sizes."""

import pytest

from xmodal.similarity.tiles import choose_size


@pytest.mark.parametrize(
    ("items", "most", "size"), [(5, 8, 5), (128, 49, 32), (34, 11, 7), (53, 11, 9), (7, 1, 1)]
)
def test_tiles_need_the_least_padding(items, most, size):
    assert choose_size(items, most) == size
    padded = {each: -(-items // each) * each for each in range(most // 2 + 1, most + 1)}
    assert items <= most or padded[size] == min(padded.values())
