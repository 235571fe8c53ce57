"""Synthetic lists of links with img2dataset's output, and the datasets built from them."""

import io

import numpy as np
import PIL.Image
import tensorflow as tf
from array_record.python.array_record_data_source import ArrayRecordDataSource

from data_prep.conceptual_captions.conceptual_captions_dataset_builder import Builder
from tests.data_prep import img2dataset

TWO_WORKERS = "runner=FnApiRunner,direct_running_mode=multi_processing,direct_num_workers=2"


def write(folder, train, validation, per_shard):
    """Writes Conceptual Captions with valid, dead, broken, repeated and odd rows.

    Returns:
      The counts required in `Builder.EXPECTED`.
    """
    lists = {"train": ("Train_GCC-training.tsv", "training", train, "webdataset")}
    lists["validation"] = (
        "Validation_GCC-1.1.0-Validation.tsv",
        "validation",
        validation,
        "parquet",
    )
    for split, (name, images, count, output_format) in lists.items():
        rows = [_row(split, number) for number in range(count)]
        lines = [b"%s\t%s\n" % (caption, url.encode()) for url, caption, _ in rows]
        (folder / name).write_bytes(b"".join(lines))
        fetched = [(url, "of the shard", image) for url, _, image in rows]
        # A shard that was fetched twice, the second time with different pictures.
        fetched += [(url, "again", _picture(10**6 + n)) for n, (url, _, _) in enumerate(rows[:3])]
        img2dataset.write(folder / images, fetched, output_format, per_shard)
    shards = sorted((folder / "training").glob("*.tar"))
    cut = shards[len(shards) // 2]
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    return {"train": train, "validation": validation}


def _row(split, number):
    image = _picture(number)
    caption = f"{split} {number}, naïve".encode()
    if number % 10 == 3:
        image = None
    elif number % 25 == 4:
        image = image[: len(image) // 2]
    elif number % 25 == 7:
        image = b"<html>404</html>"
    elif number % 25 == 9:
        caption = b"na\xefve"
    elif number % 50 == 12:
        image = _picture(number, "CMYK")
    # Every thirtieth row has the url of another one.
    return f"http://x/{split}/{number - 1 if number % 30 == 29 else number}", caption, image


def _picture(number, mode="RGB"):
    pixels = np.random.default_rng(number).integers(0, 256, (6, 8, 3)).astype(np.uint8)
    file = io.BytesIO()
    PIL.Image.fromarray(pixels).resize((32, 24)).convert(mode).save(file, "JPEG")
    return file.getvalue()


def expect(monkeypatch, counts):
    """Makes the builder expect these rows."""
    monkeypatch.setattr(Builder, "EXPECTED", counts)


def assert_equal(found, expected):
    """Compares two builds record by record, with their counts and lists of left-out records."""
    assert dict(found.info.metadata) == dict(expected.info.metadata)
    assert set(found.info.splits) == set(expected.info.splits)
    for split, info in expected.info.splits.items():
        assert found.info.splits[split].num_examples == info.num_examples
        assert found.info.splits[split].num_bytes == info.num_bytes
        records = zip(_records(found, split), _records(expected, split), strict=True)
        assert all(ours == theirs for ours, theirs in records), split
    lists = [builder.data_path / "left_out.csv" for builder in (found, expected)]
    assert len({path.exists() and path.read_bytes() for path in lists}) == 1
    names = {path.name for path in found.data_path.iterdir()}
    assert not [name for name in names if "parts" in name or "incomplete" in name]


def _records(builder, split):
    """Stored records by number. Their bytes contain the features in any order."""
    with ArrayRecordDataSource([str(p) for p in builder.info.splits[split].filepaths]) as source:
        for number in range(len(source)):
            yield tf.train.Example.FromString(source[number])
