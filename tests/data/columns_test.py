import io

import numpy as np
import tensorflow_datasets as tfds

from xmodal.data import columns

FEATURES = tfds.features.FeaturesDict(
    {
        "text": tfds.features.Text(),
        "texts": tfds.features.Sequence(tfds.features.Text()),
        "ids": tfds.features.Sequence(np.int32),
        "score": np.float32,
        "flag": np.bool_,
        "box": tfds.features.Tensor(shape=(2, 2), dtype=np.float32),
        "points": tfds.features.Tensor(shape=(None, 2), dtype=np.int64),
        "raw": tfds.features.Tensor(shape=(3,), dtype=np.float16, encoding="bytes"),
        "regions": tfds.features.Tensor(shape=(None, 2), dtype=np.float16, encoding="bytes"),
        "image": tfds.features.Image(shape=(None, None, 3)),
        "label": tfds.features.ClassLabel(names=["cat", "dog"]),
    }
)


def make_record(rng, count):
    return FEATURES.serialize_example(
        {
            "text": f"größe {count}",
            "texts": [f"caption {i}" for i in range(count)],
            "ids": rng.integers(-(2**31), 2**31, count, np.int32),
            "score": rng.normal(),
            "flag": bool(count % 2),
            "box": rng.normal(size=(2, 2)).astype(np.float32),
            "points": rng.integers(-(2**63), 2**63 - 1, (count + 1, 2), np.int64),
            "raw": rng.normal(size=3).astype(np.float16),
            "regions": rng.normal(size=(count, 2)).astype(np.float16),
            "image": io.BytesIO(rng.bytes(20)),
            "label": "dog",
        }
    )


def test_columns_have_the_values_that_tfds_reads():
    rng = np.random.default_rng(0)
    records = [make_record(rng, count) for count in (2, 0, 3)]
    described = columns.describe(FEATURES)
    assert {name for name, each in described.items() if each.is_raw} == {"raw", "regions"}
    stored = columns.parse(records, described)
    found = {name: column.decode(*stored[name]) for name, column in described.items()}
    skipped = {"image": tfds.decode.SkipDecoding()}
    expected = [FEATURES.deserialize_example_np(each, decoders=skipped) for each in records]
    for name, column in found.items():
        dtype = np.dtype(FEATURES[name].np_dtype)
        if isinstance(column, columns.RaggedColumn):
            rows = np.split(column.values, column.starts[1:])
            dtypes = {column.values.dtype}
        else:
            rows, dtypes = list(column), {column.dtype}
        assert len(rows) == 3
        assert dtypes == ({columns.STRING} if name == "image" else {dtype})
        for row, each in zip(rows, expected, strict=True):
            np.testing.assert_array_equal(row, each[name], strict=name == "box")
