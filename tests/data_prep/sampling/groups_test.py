"""Groups of captions."""

import numpy as np
import pytest

from data_prep.sampling.groups import make_groups
from xmodal.core.errors import UnexpectedFilesError


def test_captions_are_brought_together_in_the_order_of_ids():
    groups = make_groups(np.array([7, 4, 9, 1, 3]), np.array([20, 10, 20, 30, 10]), "here")
    assert groups.image_ids.tolist() == [10, 20, 30]
    assert groups.caption_ids.tolist() == [3, 4, 7, 9, 1]
    assert groups.sizes.tolist() == [2, 2, 1]
    assert groups.owners.tolist() == [0, 0, 1, 1, 2]
    assert groups.places.tolist() == [0, 1, 0, 1, 0]
    vectors = np.array([[1.0], [3.0], [10.0], [20.0], [5.0]])
    assert groups.means(vectors).tolist() == [[2.0], [15.0], [5.0]]
    fewer = groups.take(np.array([True, False, True]))
    assert (fewer.image_ids.tolist(), fewer.caption_ids.tolist()) == ([10, 30], [3, 4, 1])


@pytest.mark.parametrize(
    ("captions", "message"),
    [([], "lists no captions"), ([1, 2, 1], "caption 1 2 times")],
)
def test_captions_must_be_there_once(captions, message):
    with pytest.raises(UnexpectedFilesError, match=message):
        make_groups(np.array(captions, int), np.arange(len(captions)), "labels.csv")
