"""Features in SCAN's layout: one or five rows per image, ids or none, regions and maps."""

import numpy as np
import pytest

from data_prep.region_features import scan_files
from data_prep.region_features.region_features_dataset_builder import Builder
from tests.data_prep.builds import build

_IMAGES = {"train": 4, "dev": 2, "test": 1}


def _features(split, shape=(36, 2048)):
    generator = np.random.default_rng(len(split))
    return generator.random((_IMAGES[split], *shape), np.float32) * 30


def _write(folder, shape=(36, 2048), copies=1):
    for split, images in _IMAGES.items():
        np.save(folder / f"{split}_ims.npy", np.repeat(_features(split, shape), copies, axis=0))
        lines = [f"a naïve caption {n} of {split} .\n" for n in range(5 * images)]
        (folder / f"{split}_caps.txt").write_text("".join(lines), encoding="utf-8")


def _examples(builder, split):
    return {int(e["image_id"]): e for e in builder.as_data_source(split)}


def test_regions_five_times_per_image_without_ids(tmp_path):
    _write(tmp_path, copies=5)
    builder = build(Builder, tmp_path, "regions")
    assert list(builder.info.splits) == ["train", "validation", "test"]
    expected = _features("train").astype(np.float16)
    examples = _examples(builder, "train")
    assert sorted(examples) == [0, 1, 2, 3]
    for number, example in examples.items():
        np.testing.assert_array_equal(example["image"], expected[number])
        captions = [caption.decode() for caption in example["captions"]]
        assert captions == [f"a naïve caption {5 * number + k} of train ." for k in range(5)]
        assert list(example["caption_ids"]) == [5 * number + k for k in range(5)]
    validation = _examples(builder, "validation")
    assert sorted(validation) == [10_000_000, 10_000_001]
    assert list(validation[10_000_001]["caption_ids"]) == list(range(10_000_005, 10_000_010))


def test_published_ids_and_the_split_testall(tmp_path):
    _write(tmp_path)
    for kind in ("ims.npy", "caps.txt"):
        (tmp_path / f"testall_{kind}").write_bytes((tmp_path / f"dev_{kind}").read_bytes())
    (tmp_path / "train_ids.txt").write_text("57870\n384029\n222016\n520950\n")
    (tmp_path / "testall_ids.txt").write_text("391895\n" * 5 + "60623\n" * 5)
    capids = [770337, 771687, 772707, 776154, 781998, 681330, 681333, 681336, 681339, 681342]
    (tmp_path / "testall_capids.txt").write_text("".join(f"{n}\n" for n in capids))
    builder = build(Builder, tmp_path, "regions")
    assert sorted(_examples(builder, "train")) == [57870, 222016, 384029, 520950]
    testall = _examples(builder, "testall")
    assert sorted(testall) == [60623, 391895]
    assert list(testall[60623]["caption_ids"]) == capids[5:]


@pytest.mark.parametrize("shape", [(7, 7, 2048), (2048, 7, 7), (49, 2048)])
def test_maps_become_rows_of_channels(tmp_path, shape):
    _write(tmp_path, shape)
    _, examples = scan_files.open_split(tmp_path, "train", (49, 2048), 0)
    features = _features("train", shape)[2]
    rows = np.moveaxis(features, 0, -1) if shape[0] == 2048 else features
    expected = rows.reshape(49, 2048).astype(np.float16)
    np.testing.assert_array_equal(list(examples)[2][1]["image"], expected)
