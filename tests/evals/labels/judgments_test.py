"""Judgments in files, by id and by name, and the benchmarks that they make."""

import dataclasses
import json

import numpy as np
import pytest

from tests.evals.tiny_split import TinySplit
from xmodal.core.errors import UserError
from xmodal.evals.evaluators.benchmarks import labels_of_split
from xmodal.evals.labels.annotations import read_annotations
from xmodal.evals.labels.make import make_benchmarks

NAMES = ["a/40.jpg", "a/10.jpg", "30.jpg", "20.jpg"]
# Caption 9 is judged twice, caption 777 is of another split, and a grade of 0 is no positive.
QRELS = "9 0 40 1\n9 0 40 3\n9 0 10 0\n777 0 55 1\n\n2 Q0 30 1\n"
TABLE = "note,query,item,grade\nx,9,40,3\n,caption 2,30.jpg,1\n,caption 2,nowhere.jpg,0\n"


def own_split():
    labels = {"picture": np.array(NAMES, object)}
    return dataclasses.replace(TinySplit(), name="captioned_images", labels=labels)


def read(folder, name):
    labels = labels_of_split(own_split(), (), folder)
    return {each.name: each for each in make_benchmarks(labels)}[name]


def judged(benchmark, direction="t2i"):
    """(position of the query, position of the item) -> grade."""
    labels = benchmark.directions[direction]
    at, items = labels.positives.expand(np.arange(len(labels.positives.lengths)))
    pairs = zip(at.tolist(), items.tolist(), strict=True)
    return dict(zip(pairs, labels.grades.tolist(), strict=True))


def test_formats_and_names(tmp_path):
    files = {"mine_t2i.qrels": QRELS, "table_t2i.csv": TABLE, "tab_t2i.tsv": TABLE}
    files["tab_t2i.tsv"] = TABLE.replace(",", "\t")
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    made = [read(tmp_path, name) for name in ("mine", "table", "tab")]
    assert len({each.label_hash for each in made}) == 1
    for each in made:
        assert judged(each) == {(0, 0): 3, (7, 2): 1}
        assert set(each.directions) == {"t2i"}
        assert "ndcg@10" in each.directions["t2i"].metrics
    # One file, without a name of its own.
    (tmp_path / "pets").mkdir()
    (tmp_path / "pets" / "i2t.qrels").write_text("40 0 9 1\n40 0 2 1\n")
    one = read(tmp_path / "pets" / "i2t.qrels", "pets")
    assert judged(one, "i2t") == {(0, 0): 1, (0, 7): 1}
    assert (one.label_set, made[0].label_set) == ("pets", tmp_path.name)
    (tmp_path / "pets" / "t2t.tsv").write_text("query\titem\tgrade\n9\t9\t1\n9\t8\t0.5\n")
    assert judged(read(tmp_path / "pets", "pets"), "t2t") == {(0, 1): 0.5}


def test_rows_that_do_not_fit(tmp_path):
    for content, said in (
        ("9 0 somewhere.jpg 1\n", "row 1: 'somewhere.jpg' is neither the id of an item nor"),
        ("9 0 40 1\n9 0 40\n", "row 2: '9 40' is not a query, an item and a number"),
        ("9 0 40 high\n", "row 1: '9 40 high' is not a query, an item and a number"),
        ("9 0 55 1\n", "labels name images that are not among the 4 .* image id 55"),
    ):
        (tmp_path / "mine_t2i.qrels").write_text(content)
        with pytest.raises(UserError, match=said):
            read(tmp_path, "mine")
    (tmp_path / "mine_t2i.csv").write_text(TABLE)
    (tmp_path / "mine_t2i.qrels").write_text(QRELS)
    with pytest.raises(UserError, match="is the second file of mine_t2i; keep one"):
        read(tmp_path, "mine")


def test_labels_of_a_study_are_added_to_those_of_its_dataset(tmp_path):
    """Lists of several splits; ratings replace those of the dataset."""
    (tmp_path / "eccv_caption_to_image.json").write_text(json.dumps({"9": [40, 10], "777": [5]}))
    rows = "COCO_val2014:sentid:{},COCO_val2014_{:012}.jpg,{},any\n"
    rated = rows.format(9, 20, 4.0) + rows.format(8, 10, 1.0)
    (tmp_path / "sits_test.csv").write_text("caption,image,agg_score,sampling_method\n" + rated)
    labels = labels_of_split(own_split(), (), tmp_path)
    made = {each.name: each for each in make_benchmarks(labels)}
    assert list(made) == ["captioned_images", "eccv", "cxc"]
    assert judged(made["eccv"]) == {(0, 0): 1, (0, 1): 1}
    own, rated = (made[name].directions["t2i"].positives for name in ("captioned_images", "cxc"))
    assert rated.lengths.tolist() == [2, *own.lengths[1:]]
    assert made["cxc"].graded["sits"].scores.tolist() == [4.0, 1.0]
    assert set(made["captioned_images"].graded) == {"sts", "sis", "sits"}
    # Pairs of the dataset keep its name; here, its benchmark also has the ratings of the study.
    assert {each.label_set for each in made.values()} == {tmp_path.name}
    (tmp_path / "sits_test.csv").unlink()
    made = make_benchmarks(labels_of_split(own_split(), (), tmp_path))
    assert [each.label_set for each in made] == ["captioned_images", tmp_path.name]
    (tmp_path / "study.json").write_text('{"dataset": "flickr8k"}')
    with pytest.raises(UserError, match="has labels of flickr8k, not of captioned_images"):
        labels_of_split(own_split(), (), tmp_path)


def test_released_lists_as_judgments(real_data, tmp_path):
    """The same benchmark, hash and unreachable positives included, from qrels and tables."""
    source = real_data / "eccv_caption"
    for name in ("original_caption_to_image.json", "coco_test_ids.npy"):
        (tmp_path / name).write_bytes((source / name).read_bytes())
    for direction, name in (("i2t", "image_to_caption"), ("t2i", "caption_to_image")):
        content = json.loads((source / f"eccv_{name}.json").read_text())
        pairs = [(query, item) for query, items in content.items() for item in items]
        rows = [f"{query} 0 {item} 1" for query, item in pairs]
        (tmp_path / f"eccv_{direction}.qrels").write_text("\n".join(rows))
    (mine,), (released,) = (
        make_benchmarks(read_annotations(folder, "test"), ["eccv"]) for folder in (tmp_path, source)
    )
    assert mine.label_hash == released.label_hash == "3658cf91e3323425"
    assert mine.label_set == released.label_set == "eccv"
    for direction, labels in released.directions.items():
        own = mine.directions[direction]
        np.testing.assert_array_equal(own.positives.values, labels.positives.values)
        np.testing.assert_array_equal(own.positives.offsets, labels.positives.offsets)
        assert own.metrics == labels.metrics
