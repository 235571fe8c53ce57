"""Pickles that ask for more than data, and those of plain data in every protocol."""

import collections
import contextlib
import io
import pickle
import struct
import tracemalloc

import numpy as np
import pytest

from xmodal.core.untrusted.pickles import ERRORS, Inert, Resolver, Unpickler
from xmodal.core.untrusted.plain_pickles import DAMAGE, load_plain

_DTYPE = b"cnumpy\ndtype\n(U\x02%sK\x00K\x01tR"
_RAW = b"U\x08AAAAAAAA"


def _load(content, **options):
    return Unpickler(io.BytesIO(content), **options).load()


@pytest.mark.parametrize("protocol", range(6))
def test_plain_data_is_that_of_the_standard_unpickler(protocol):
    numbers = np.arange(6).reshape(2, 3)
    arrays = [
        numbers.astype(kind).copy(order=order)
        for kind in ("<f4", ">f8", "i2", "?", "c8", "u1", "S3", "U2")
        for order in "CF"
    ]
    arrays += [np.zeros((0, 3)), np.float32(2), np.bool_(True), np.int64(-1)]
    tree = {"a": [1, 2.5, None, True, "ü", b"\xff"], ("x", 1): (10**30, {})}
    tree["ordered"] = collections.OrderedDict(b=1, a=2)
    if protocol == 5:  # Older ones call Python's own set and bytearray.
        tree |= {"sets": ({1, 2}, frozenset({"b"})), "bytes": bytearray(b"c")}
    content = pickle.dumps([tree, arrays], protocol)
    found, expected = load_plain(io.BytesIO(content)), pickle.loads(content)
    assert found[0] == tree
    for left, right in zip(found[1], expected[1], strict=True):
        assert (left.dtype, left.shape) == (right.dtype.newbyteorder("="), right.shape)
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(
    "content",
    [
        # An array of objects out of raw bytes: by a call, by its state, as a scalar.
        b"\x80\x02cnumpy\nndarray\n(K\x01\x85" + _DTYPE % b"O8" + _RAW + b"tR.",
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR"
        b"(K\x01K\x01\x85" + _DTYPE % b"O8" + b"\x89" + _RAW + b"tb.",
        b"\x80\x02cnumpy.core.multiarray\nscalar\n(" + _DTYPE % b"O8" + _RAW + b"tR.",
        b"\x80\x02cnumpy._core.numeric\n_frombuffer\n("
        + _RAW
        + _DTYPE % b"O8"
        + b"K\x01\x85U\x01CtR.",
        # Fewer bytes than numbers, negative and absurd shapes, records.
        b"\x80\x02cnumpy._core.numeric\n_frombuffer\n("
        + _RAW
        + _DTYPE % b"f8"
        + b"J\xff\xff\xff\x7f\x85U\x01CtR.",
        b"\x80\x02cnumpy._core.numeric\n_frombuffer\n("
        + _RAW
        + _DTYPE % b"f8"
        + b"J\xff\xff\xff\xff\x85U\x01CtR.",
        b"\x80\x02cnumpy\ndtype\n(U\x05f8,O8K\x00K\x01tR.",
        _DTYPE % b"f8" + b"(K\x03U\x01<(K\x01]tNNtb.",
        # The state of a function, an array or a list; functions that are not data.
        b"\x80\x02cnumpy\ndtype\n(N}U\x0c__defaults__)sTb.",
        b"\x80\x02cnumpy\nndarray\n}U\x01ans\x62.",
        b"cos\nsystem\n(U\x04truetR.",
        b"cnumpy.core.multiarray\nfromfile\n(U\x0b/etc/passwdtR.",
        # Keys whose hash overflows the stack, or takes forever.
        b"\x80\x02}N" + b"\x85" * 300_000 + b"Ns.",
        b"\x80\x02}(N" + b"\x85" * 300_000 + b"Nu.",
        b"\x80\x02(N" + b"\x85" * 300_000 + b"Nd.",
        b"\x80\x04(N" + b"\x85" * 300_000 + b"\x91.",
        b"\x80\x02ccollections\nOrderedDict\n]]((N" + b"\x85" * 99 + b"ete\x85R.",
        b"\x80\x02]q\x00" + b"h\x00a.",  # A list in itself.
        b"\x80\x02" + b"]" * 50_000 + b"a" * 49_999 + b".",
    ],
)
def test_what_is_not_plain_data_is_refused(content, capfd):
    with pytest.raises(DAMAGE):
        load_plain(io.BytesIO(content))
    assert not capfd.readouterr().out


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02]r\xff\xff\xff\x0f.",  # An object numbered 268 million.
        b"]p4000000000\n.",
        b"\x80\x05\x96\x00\x00\x00\x00\x04\x00\x00\x00a.",  # 17 GB of bytes that do not follow.
        b"\x80\x04\x8e\x00\x00\x00\x00\x04\x00\x00\x00a.",
        b"\x80\x04\x95\x00\x00\x00\x00\x04\x00\x00\x00N.",
    ],
)
def test_a_claimed_size_reserves_no_memory(content):
    tracemalloc.start()
    try:
        with contextlib.suppress(*ERRORS):
            _load(content)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_other_classes_are_inert():
    found = _load(b"\x80\x02cos\nsystem\n(U\x04truetR}U\x01aK\x01sb.")
    assert isinstance(found, Inert)
    assert (found.kind, found.state) == ("os.system", {"a": 1})
    # Functions of the caller and classes cannot be changed for later files.
    for name in (b"ccollections\nOrderedDict\n", b"ccollections\ndefaultdict\n", b"cos\nsystem\n"):
        with pytest.raises(ERRORS):
            _load(b"\x80\x02" + name + b"N}U\x04kindU\x01xs\x86b.")


def test_a_list_that_is_referred_to_twice_is_one_list():
    lists = b"".join(b"]q" + struct.pack("B", i + 1) + b"(" + (b"h" + struct.pack("B", i)) * 10
                     + b"e" for i in range(60))  # fmt: skip
    found = Resolver().resolve(_load(b"\x80\x02]q\x00" + lists + b"."))
    assert len(found) == 10
    assert all(each is found[0] for each in found)


@pytest.mark.parametrize(
    "once",
    [
        # One text or list that every call copies, one buffer whose bytes every array swaps.
        b"c_codecs\nencode\nq\x01X\x10\x27\x00\x00" + b"a" * 10_000 + b"\x85q\x02",
        b"ccollections\nOrderedDict\nq\x01]((K\x01K\x02l" + b"(K\x03K\x04l" * 999 + b"e\x85q\x02",
        b"cnumpy._core.numeric\n_frombuffer\nq\x01(B\x10\x27\x00\x00" + bytes(10_000)
        + b"cnumpy\ndtype\n(U\x02f4K\x00K\x01tR(K\x03U\x01>NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK"
        b"\x00tbM\xc4\x09\x85U\x01Ctq\x02",
    ],
)  # fmt: skip
def test_calls_copy_no_more_than_the_file_holds(once):
    def pickled(calls):
        return io.BytesIO(b"\x80\x03](" + once + b"0" * 2 + b"h\x01h\x02R" * calls + b"e.")

    assert len(load_plain(pickled(1))) == 1
    with pytest.raises(DAMAGE, match="copies more than it holds|more bytes than the file"):
        load_plain(pickled(5_000))
