"""Finding, building and missing datasets; interrupted builds and concurrent processes."""

import shutil

import numpy as np
import pytest
import tiny_captions_dataset_builder as tiny
from etils import epath

from xmodal import data
from xmodal.core.errors import UserError
from xmodal.data import columns, datasets
from xmodal.data.data_config import parse

ALL = ["image_id", "captions", "caption_ids", "image"]


def test_records_are_read_by_number_in_any_order(tiny_config):
    source = datasets.Source(parse(tiny_config), "train")
    assert len(source) == 37
    ids = source.get(["image_id"])["image_id"]
    assert sorted(ids.tolist()) == list(range(37))
    rows = np.array([30, 2, 2, 17])
    # Without images, the columns are read from a separate file.
    for names in (ALL, ALL[:3]):
        picked = source.get(names, rows)
        assert picked["image_id"].tolist() == ids[rows].tolist()
        assert picked["caption_ids"].values.dtype == np.int32
        texts = [tiny.captions(image_id) for image_id in ids[rows].tolist()]
        assert picked["captions"].lengths.tolist() == [len(each) for each in texts]
        flat = [text.encode() for each in texts for text in each.values()]
        assert picked["captions"].values.tolist() == flat
        assert picked["caption_ids"].values.tolist() == [key for each in texts for key in each]
    assert source.get(["captions"], rows[:0])["captions"].lengths.shape == (0,)


@pytest.mark.parametrize("damage", ["changed", "torn"])
def test_a_damaged_file_is_named_with_its_remedy(tiny_config, tmp_path, damage):
    folder = tmp_path / "data"
    shutil.copytree(tiny_config["data_dir"], folder)
    source = datasets.Source(parse(tiny_config | {"data_dir": str(folder)}), "train")
    (file,) = source.folder.glob("*train.array_record*")
    content = bytearray(file.read_bytes())
    middle = len(content) // 4
    content[middle : middle + 200] = bytes(200)
    file.write_bytes(content if damage == "changed" else content[:middle])
    with pytest.raises(UserError, match="is damaged .*: delete the folder to make it") as raised:
        source.read(np.arange(37))
    assert f"A record of {file.parent} is damaged" in str(raised.value)


def test_columns_of_every_kind_are_the_same_from_both_files(tiny_config):
    source = datasets.Source(parse(tiny_config | {"config": "regions"}), "train")
    rows = np.array([5, 0, 36])
    names = [name for name in source.columns if name != "image"]
    assert {"relations", "categories"} < set(names)
    small, whole = source.get(names, rows), source.get([*names, "image"], rows)
    for name in names:
        for left, right in zip(*map(_parts, (small[name], whole[name])), strict=True):
            assert left.dtype == right.dtype, name
            np.testing.assert_array_equal(left, right, err_msg=name)
    ids = small["image_id"].tolist()
    assert small["relations"].tolist() == [tiny.relations(image_id) for image_id in ids]
    regions = np.split(whole["image"].values, whole["image"].starts[1:])
    for image_id, found in zip(ids, regions, strict=True):
        np.testing.assert_array_equal(found, tiny.regions(image_id))


def _parts(column):
    return column if isinstance(column, tuple) else (column,)


def test_a_dataset_without_a_column_is_refused_before_it_is_prepared(tiny_config, tmp_path):
    config = tiny_config | {"data_dir": str(tmp_path), "labels": ("relations",)}
    with pytest.raises(UserError, match=r"tiny_captions .*has no relations; its columns are"):
        data.batch_spec(config, 4)
    assert not list(tmp_path.iterdir())


def test_a_dataset_with_files_at_hand_is_built(tiny_config, tmp_path, monkeypatch):
    monkeypatch.setattr(tiny.Builder, "MANUAL_DOWNLOAD_INSTRUCTIONS", "Put photos.zip there.")
    (tmp_path / "photos.zip").touch()
    config = tiny_config | {"data_dir": str(tmp_path), "manual_dir": str(tmp_path)}
    data.prepare(config)
    data.prepare(tiny_config | {"data_dir": str(tmp_path)})

    def incomplete(self, dl_manager):
        raise FileNotFoundError("there is no photos.zip")

    monkeypatch.setattr(tiny.Builder, "_split_generators", incomplete)
    with pytest.raises(data.DatasetMissingError, match=r"no photos\.zip(.|\n)*Put photos\.zip"):
        data.prepare(config | {"config": "features"})


def test_the_hash_of_a_split_is_that_of_its_build(tiny_config):
    config = parse(tiny_config)
    builder = datasets.open_builder(config)
    digits = builder.info.metadata["split_hashes"]["validation"]
    assert len(digits) == 64
    name = "tiny_captions/images/1.0.0 validation"
    assert datasets.Source(config, "validation[:3]").hashes == {name: digits}
    assert data.split_hashes(tiny_config, "validation") == {name: digits}
    assert data.eval_split(tiny_config, split="validation").hashes == {name: digits}
    with_ratings = data.eval_split(tiny_config, split="test").hashes
    assert [name.split("/")[1] for name in with_ratings] == ["images", "ratings"]


def test_a_damaged_file_of_columns_is_written_again(tmp_path):
    path = epath.Path(tmp_path / "values.parquet")
    blocks = [{"image_id": (np.arange(5000, dtype=np.int32), np.ones(5000, np.int64))}]
    whole, content = columns.load_table(path, blocks), path.read_bytes()
    path.write_bytes(content[:9000] + bytes([content[9000] ^ 1]) + content[9001:])
    assert columns.load_table(path, blocks) == whole
    assert path.read_bytes() == content


def test_a_sum_of_splits_is_read_as_one(tiny_config):
    config = parse(tiny_config)
    parts = [datasets.Source(config, split) for split in ("train", "validation")]
    both = datasets.Source(config, "train+validation")
    ids = [part.get(["image_id"])["image_id"].tolist() for part in parts]
    assert both.get(["image_id"])["image_id"].tolist() == ids[0] + ids[1]
    assert both.hashes == parts[0].hashes | parts[1].hashes
    with pytest.raises(UserError, match=r"no split 'train\+dev'; known: train, "):
        datasets.Source(config, "train+dev")
