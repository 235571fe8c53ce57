"""Pickles of plain data in every protocol, and one that asks for more."""

import collections
import io
import pickle

import numpy as np
import pytest

from xmodal.core.untrusted.pickles import Inert, load, loads


@pytest.mark.parametrize("protocol", range(6))
def test_plain_data_is_that_of_the_standard_unpickler(protocol):
    numbers = np.arange(6).reshape(2, 3)
    arrays = [
        numbers.astype(kind).copy(order=order)
        for kind in ("<f4", ">f8", "i2", "?", "c8", "u1", "S3", "U2")
        for order in "CF"
    ]
    arrays += [np.zeros((0, 3)), np.float32(2), np.bool_(True), np.array(["a", 1], object)]
    tree = {"a": [1, 2.5, None, True, "ü", b"\xff"], ("x", 1): (10**30, {})}
    tree |= {"ordered": collections.OrderedDict(b=1), "sets": ({1, 2}, bytearray(b"c"))}
    found = load(io.BytesIO(pickle.dumps([tree, arrays], protocol)))
    assert found[0] == tree
    for left, right in zip(found[1], arrays, strict=True):
        assert (left.dtype.name, left.shape) == (right.dtype.name, right.shape)
        np.testing.assert_array_equal(left, right)


def test_other_classes_and_functions_are_inert(capfd):
    found = loads(b"\x80\x02cos\nsystem\n(U\x09echo hurttR}U\x01aK\x01sb.")
    assert isinstance(found, Inert)
    assert (found.kind, found.state) == ("os.system", {"a": 1})
    assert not capfd.readouterr().out
