"""Captioned images of the library `datasets` equal the same data in a folder of one's own."""

import io
import json

import numpy as np
import PIL.Image
import pyarrow
import pyarrow.parquet
import pytest

import xmodal
from tests.fake_hub import fake_hub as fake_hub
from xmodal import data

datasets = pytest.importorskip("datasets", reason="datasets comes with the extra 'hub'")

COUNTS = {"train": 24, "validation": 6, "test": 8}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "hf"))


def rows(split):
    """Encoded images of a split, with two captions each."""
    first = 100 * list(COUNTS).index(split)
    found = []
    for number in range(first, first + COUNTS[split]):
        grid = np.random.default_rng(number).integers(0, 256, (40, 40, 3), np.uint8)
        file = io.BytesIO()
        PIL.Image.fromarray(grid).save(file, "PNG")
        captions = [f"picture {number} of a child", f"number {number} again"]
        found.append({"image": {"bytes": file.getvalue(), "path": None}, "caption": captions})
    return found


def make_splits(**renamed):
    """The dataset, with other names of columns."""
    splits = {split: datasets.Dataset.from_list(rows(split)) for split in COUNTS}
    named = datasets.DatasetDict(splits).cast_column("image", datasets.Image())
    return named.rename_columns(renamed) if renamed else named


def own_folder(folder):
    """The same in the documented layout."""
    folder.mkdir()
    for split in COUNTS:
        table = pyarrow.Table.from_pylist(rows(split))
        pyarrow.parquet.write_table(table, folder / f"{split}.parquet")
    return folder


def embed_images(images):
    return np.stack([np.asarray(each.resize((2, 2))).ravel() for each in images]).astype(np.float32)


def embed_texts(texts):
    return np.array([np.random.default_rng(len(x)).normal(size=12) for x in texts], np.float32)


def evaluate(tmp_path, **where):
    functions = {"embed_images": embed_images, "embed_texts": embed_texts}
    given = {**functions, **where, "data_dir": tmp_path / "tfds", "similarity": "cosine"}
    return xmodal.evaluate(**given, bootstrap_samples=10, examples=0).metrics


def two_steps(tmp_path, name, **where):
    """The loss and the parameters after two steps."""
    from configs import custom_data
    from xmodal.train import loop
    from xmodal.train.folder import checkpoints

    config = custom_data.get_config("small")
    config.data.update({**where, "data_dir": str(tmp_path / "tfds")})
    config.batch_size, config.total_steps, config.checkpoint.every = 8, 2, 2
    custom_data.complete(config, "small")
    small = {"patch": 16, "width": 8, "depth": 1, "heads": 2, "mlp_dim": 8}
    config.model.image.encoder = {"name": "vit", **small}
    config.data.image.size = 32
    config.evals.own.bootstrap_samples = 10
    loop.train(config, str(tmp_path / name))
    return checkpoints.read_model(str(tmp_path / name), 2)


@pytest.mark.slow
@pytest.mark.usefixtures("fast_compilation", "quick_draws")
def test_a_dataset_equals_a_folder(tmp_path):
    make_splits().save_to_disk(tmp_path / "saved")
    own = own_folder(tmp_path / "own")
    hub = f"hf:{tmp_path / 'saved'}"
    expected = evaluate(tmp_path, dataset="captioned_images", manual_dir=own)
    assert evaluate(tmp_path, dataset=hub) == expected
    assert expected["captioned_images/t2i/queries"] == 2 * COUNTS["test"]
    weights = two_steps(tmp_path, "hub", dataset=hub)
    others = two_steps(tmp_path, "own_run", dataset="captioned_images", manual_dir=str(own))
    jax = pytest.importorskip("jax")
    jax.tree.map(np.testing.assert_array_equal, weights, others)


def read(tmp_path, dataset, split="train"):
    section = {"dataset": dataset, "data_dir": str(tmp_path / "tfds"), "image": None}
    data.prepare(section, splits=[split])
    return data.eval_split(section, split=split).caption_texts


def test_other_columns_are_named(tmp_path):
    make_splits(image="photo", caption="alt").save_to_disk(tmp_path / "saved")
    place, expected = (
        f"hf:{tmp_path / 'saved'}",
        [x for row in rows("train") for x in row["caption"]],
    )
    with pytest.raises(ValueError, match=r"'photo', 'alt'.*hf:NAME\?image=COLUMN&captions=COLUMN,"):
        read(tmp_path, place)
    assert sorted(read(tmp_path, f"{place}?image=photo&captions=alt")) == sorted(expected)


def test_a_column_has_the_splits(tmp_path):
    named = ("train", "val", "test")
    one = make_splits()["train"].map(lambda _, n: {"part": named[n % 3]}, with_indices=True)
    one.save_to_disk(tmp_path / "one")
    assert len(read(tmp_path, f"hf:{tmp_path / 'one'}?split=part", "test")) == 2 * 8


def test_a_folder_of_images_and_a_repository(tmp_path, fake_hub):
    folder = tmp_path / "images"
    (folder / "train").mkdir(parents=True)
    lines = []
    for number, row in enumerate(rows("train")):
        (folder / "train" / f"{number}.png").write_bytes(row["image"]["bytes"])
        lines.append(json.dumps({"file_name": f"{number}.png", "caption": row["caption"][0]}))
    (folder / "train" / "metadata.jsonl").write_text("\n".join(lines))
    found = [*read(tmp_path, f"hf:{folder}"), *read(tmp_path, f"hf:{folder}", "test")]
    found += read(tmp_path, f"hf:{folder}", "validation")
    assert sorted(found) == sorted(row["caption"][0] for row in rows("train"))

    own = own_folder(tmp_path / "own")
    fake_hub.repositories["lab/photos"] = {x.name: x.read_bytes() for x in own.iterdir()}
    section = {"dataset": "captioned_images", "data_dir": str(tmp_path / "tfds"), "image": None}
    data.prepare(section | {"manual_dir": "hf://lab/photos"}, splits=["test"])
    split = data.eval_split(section | {"manual_dir": "hf://lab/photos"}, split="test")
    assert len(split.caption_texts) == 2 * COUNTS["test"]
