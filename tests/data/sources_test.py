"""Prepared datasets: found, built, missing; interrupted builds and racing processes."""

import errno

import numpy as np
import pytest
import tiny_captions_dataset_builder as tiny

import data_prep
from xmodal import data
from xmodal.config import UserError
from xmodal.data import sources
from xmodal.data.config import parse


def test_records_are_read_by_number_in_any_order(tiny_config):
    source = sources.Source(parse(tiny_config), "train")
    assert len(source) == 37
    ids = source.parse(source.read(np.arange(37)), image=False)["image_id"].numpy()
    assert set(ids.tolist()) == set(range(37))
    some = np.array([30, 2, 2, 17])
    picked = source.parse(source.read(some), image=False)
    np.testing.assert_array_equal(picked["image_id"], ids[some])
    for image_id, captions in zip(ids[some].tolist(), picked["captions"], strict=True):
        expected = [caption.encode() for caption in tiny.captions(image_id).values()]
        assert captions.numpy().tolist() == expected


def test_caption_counts_are_found_once(tiny_config, monkeypatch):
    config = parse(tiny_config)
    source = sources.Source(config, "validation")
    ids = source.parse(source.read(np.arange(len(source))), image=False)["image_id"].numpy()
    expected = [len(tiny.captions(image_id)) for image_id in ids.tolist()]
    assert source.caption_counts().tolist() == expected
    monkeypatch.setattr(sources.Source, "walk", None)
    assert sources.Source(config, "validation").caption_counts().tolist() == expected


def test_a_missing_dataset_says_what_to_put_where_and_what_to_run(
    tiny_config, tmp_path, monkeypatch
):
    monkeypatch.setattr(tiny.Builder, "MANUAL_DOWNLOAD_INSTRUCTIONS", "Put photos.zip there.")
    config = tiny_config | {"data_dir": str(tmp_path)}
    with pytest.raises(data.DatasetMissingError) as error:
        data.prepare(config)
    assert error.match(r"Put photos\.zip there\.")
    command = f"--dataset=tiny_captions --config=images --data_dir={tmp_path} --manual_dir="
    assert error.match(rf"python -m data_prep\.build {command}")
    assert error.match(r"data\.manual_dir")


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


def test_ratings_are_prepared_and_checked_before_a_run(tiny_config, tmp_path):
    data.prepare(tiny_config | {"data_dir": str(tmp_path)})
    assert (tmp_path / tiny_config["dataset"] / "ratings" / "1.0.0").exists()
    with pytest.raises(ValueError, match=r"sts_val\.csv"):
        data.prepare(tiny_config | {"ratings_dir": str(tmp_path)})


def test_unknown_names_list_the_known_ones(tiny_config):
    with pytest.raises(ValueError, match=r"'coco' in config.data.dataset; known.*coco_captions"):
        data.prepare(tiny_config | {"dataset": "coco"})
    with pytest.raises(ValueError, match="'pixels'; known: images, features, ratings"):
        data.prepare(tiny_config | {"config": "pixels"})


def test_of_two_processes_that_build_at_once_both_go_on(tiny_config, tmp_path, monkeypatch):
    config = tiny_config | {"data_dir": str(tmp_path)}
    generate = tiny.Builder._generate_examples

    def overtaken(self, first, count):
        yield from generate(self, first, count)
        monkeypatch.setattr(tiny.Builder, "_generate_examples", generate)
        data.prepare(config)  # another process finishes the same build first

    monkeypatch.setattr(tiny.Builder, "_generate_examples", overtaken)
    data.prepare(config)
    assert len(sources.Source(parse(config), "train")) == 37
    assert not list(tmp_path.rglob("*incomplete*"))


def test_a_killed_build_is_started_again(tiny_config, tmp_path, monkeypatch):
    config = tiny_config | {"data_dir": str(tmp_path)}
    generate = tiny.Builder._generate_examples

    def killed(self, first, count):
        yield next(generate(self, first, count))
        raise KeyboardInterrupt

    monkeypatch.setattr(tiny.Builder, "_generate_examples", killed)
    with pytest.raises(KeyboardInterrupt):
        data.prepare(config)
    # SIGKILL would leave the half-written folder behind as well.
    left_over = tmp_path / tiny_config["dataset"] / "images" / "incomplete.ABCDEF_1.0.0"
    left_over.mkdir(parents=True)
    (left_over / "tiny_captions-train.array_record-00000-of-00001").write_bytes(b"half")
    monkeypatch.setattr(tiny.Builder, "_generate_examples", generate)
    data.prepare(config)
    assert len(sources.Source(parse(config), "train")) == 37


def test_files_are_replaced_whole_or_not_at_all(tmp_path):
    path = sources.epath.Path(tmp_path) / "counts.npy"
    path.write_text("old")

    def fail_half_way():
        with sources.replacing(path) as file:
            file.write(b"half of the new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert path.read_text() == "old"
    with sources.replacing(path) as file:
        file.write(b"new")
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["counts.npy"]


def test_every_known_builder_can_be_imported():
    for name in data_prep.BUILDERS:
        builder = data_prep.builder_class(name)
        assert builder.name == name
        assert builder.builder_configs


def test_the_hash_of_a_split_is_that_of_its_build(tiny_config):
    config = parse(tiny_config)
    builder = sources.open_builder(config, config.config)
    digits = builder.info.metadata["split_hashes"]["validation"]
    assert len(digits) == 64
    name = "tiny_captions/images/1.0.0 validation"
    assert sources.Source(config, "validation[:3]").hashes == {name: digits}
    assert data.split_hashes(tiny_config, "validation") == {name: digits}
    assert data.eval_set(tiny_config, split="validation").hashes == {name: digits}
    with_ratings = data.eval_set(tiny_config, split="test").hashes
    assert list(with_ratings) == [
        "tiny_captions/images/1.0.0 test",
        "tiny_captions/ratings/1.0.0 test",
    ]
    assert len(set(with_ratings.values())) == 2


def test_a_dataset_that_was_prepared_before_hashes_were_kept_says_so(tiny_config, monkeypatch):
    config = parse(tiny_config)
    builder = sources.open_builder(config, config.config)
    monkeypatch.setitem(builder.info.metadata, "split_hashes", {})
    assert list(sources.hashes_of(builder, "test").values()) == [data.UNKNOWN_HASH]


def test_a_full_disk_is_an_error_of_one_sentence(tiny_config, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sources, "build", full)
    config = parse(tiny_config | {"data_dir": str(tmp_path)})
    with pytest.raises(UserError, match=f"{tmp_path}.*cannot be written: .*No space left"):
        sources.open_builder(config, "images")
