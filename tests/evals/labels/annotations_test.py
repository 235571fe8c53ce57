"""Label files of a tiny split: content, restriction to a part of it, errors."""

import json

import numpy as np
import pytest

from xmodal.core.errors import UserError
from xmodal.evals.evaluators.runner import compute_boards
from xmodal.evals.labels import annotations
from xmodal.evals.labels import make as boards
from xmodal.evals.scores.sources import ScoreMatrix

# Files of a tiny split: images 30, 10 and 20, two captions each.
CAPTIONS = {"8": [30], "5": [10], "7": [20], "6": [10], "3": [30], "4": [20]}
ORDER = [5, 6, 8, 3, 7, 4]


def image(image_id):
    return f"COCO_val2014_{image_id:012}.jpg"


def write_files(folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "original_caption_to_image.json").write_text(json.dumps(CAPTIONS))
    np.save(folder / "coco_test_ids.npy", np.array(ORDER))
    lists = {"image_to_caption": {"10": [5, 8], "20": [99]}, "caption_to_image": {"7": [30, 20]}}
    for side, content in lists.items():
        (folder / f"eccv_{side}.json").write_text(json.dumps(content))
    rows = [
        f"COCO_val2014:sentid:{c},{image(i)},{s},c2i_intrasim\n"
        for c, i, s in ((5, 30, 4), (8, 10, 1))
    ]
    header = "caption,image,agg_score,sampling_method\n"
    (folder / "sits_test.csv").write_text(header + "".join(rows))
    objects = [(10, 3), (10, 3), (10, 90), (20, 1), (999, 1)]
    content = {
        "images": [{"id": 10, "file_name": image(10)}],
        "categories": [{"id": each, "name": "x"} for each in (90, 1, 3)],
        "annotations": [
            {"image_id": i, "category_id": c, "iscrowd": 1, "segmentation": {"counts": [1, 2]}}
            for i, c in objects
        ],
    }
    (folder / "instances_val2014.json").write_text(json.dumps(content))
    return folder


def test_a_tiny_split(tmp_path):
    write_files(tmp_path / "somewhere" / "below")
    labels = annotations.read_annotations(str(tmp_path), "test")
    assert labels.caption_ids.tolist() == ORDER
    assert labels.caption_image_ids.tolist() == [10, 10, 30, 30, 20, 20]
    assert labels.image_ids.tolist() == [10, 30, 20]
    assert labels.categories.tolist() == [[0, 1, 1], [0, 0, 0], [1, 0, 0]]  # columns 1, 3, 90
    assert labels.caption_categories.tolist() == labels.categories.repeat(2, axis=0).tolist()
    assert labels.folds.tolist() == [0, 0, 0]
    assert labels.shortlist is None
    assert labels.ratings["sits"]["left_ids"].tolist() == [5, 8]
    assert [ids.tolist() for ids in labels.lists["eccv"]["i2t"]] == [[10, 10, 20], [5, 8, 99]]
    assert [ids.tolist() for ids in labels.lists["eccv"]["t2i"]] == [[7, 7], [30, 20]]
    assert labels.partial == ""
    assert labels.differences == (
        "sits_test.csv holds 2 pairs instead of 44,833",
        "original_caption_to_image.json holds 6 queries instead of 25,000 and 6 positives instead "
        "of 25,000",
        "coco_test_ids.npy holds 6 captions instead of 25,000",
        "instances_val2014.json holds 3 categories instead of 80 and 2 images instead of 4,952",
        "eccv_image_to_caption.json holds 2 queries instead of 1,261 and 3 positives instead of "
        "22,550",
        "eccv_caption_to_image.json holds 1 queries instead of 1,332 and 2 positives instead of "
        "11,279",
    )


def test_a_shortlist_ranks_its_own_images_and_captions(tmp_path):
    """Recalls equal those of a matrix that has nothing else; the lines are in any order."""
    (write_files(tmp_path) / "test_img_keys_1k.tsv").write_text("20\n10\n")
    labels = annotations.read_annotations(tmp_path, "test")
    assert labels.shortlist.tolist() == [True, False, True]
    assert "test_img_keys_1k.tsv holds 2 images instead of 1,000" in labels.differences
    assert annotations.restrict(labels, np.array([10, 20])).shortlist is None
    made = boards.make_boards(labels, ["vinvl_1k"])
    # Images 10, 30 and 20; captions 5 and 6, 8 and 3, 7 and 4. Image 30 and its captions win.
    scores = np.array([[1, 2, 9, 9, 3, 0], [9, 9, 9, 9, 9, 9], [5, 0, 9, 9, 6, 3]], np.float32)
    items = {"image_ids": labels.image_ids, "caption_ids": labels.caption_ids}
    source = ScoreMatrix(place="scores", matrix=scores, **items)
    (result,) = compute_boards(source, labels, made, bootstrap_samples=2, seed=0)
    found = {name: each.values["recall@1"].tolist() for name, each in result.directions.items()}
    assert found == {"i2t": [0, 100], "t2i": [0, 100, 100, 100]}
    assert [each.gallery for each in result.directions.values()] == [4, 2]
    assert [each.query_ids.tolist() for each in result.directions.values()] == [
        [10, 20], [5, 6, 7, 4],
    ]  # fmt: skip


def test_both_forms_of_the_categories_agree(tmp_path):
    from_json = annotations.read_annotations(write_files(tmp_path), "test")
    table = {"image_ids": np.array([20, 999, 10]), "labels": [[1, 0, 0], [1, 0, 0], [0, 1, 1]]}
    (tmp_path / "instances_val2014.json").unlink()
    np.savez(tmp_path / "val2014_categories.npz", **table)
    from_table = annotations.read_annotations(tmp_path, "test")
    np.testing.assert_array_equal(from_json.categories, from_table.categories)


def test_a_file_may_be_there_twice_but_not_in_two_versions(tmp_path):
    write_files(tmp_path / "a")
    write_files(tmp_path / "b")
    annotations.read_annotations(tmp_path, "test")
    np.save(tmp_path / "b" / "coco_test_ids.npy", np.array(ORDER[::-1]))
    with pytest.raises(ValueError, match=r"a/coco_test_ids\.npy and .*b/coco_test_ids\.npy differ"):
        annotations.read_annotations(tmp_path, "test")


def test_restricting_drops_missing_items(tmp_path):
    labels = annotations.read_annotations(write_files(tmp_path), "test")
    part = annotations.restrict(labels, np.array([20, 10, 77]), np.array([5, 7, 8]))
    assert part.partial == "2 of 3 images and 3 of 6 captions"
    assert part.image_ids.tolist() == [10, 20]
    assert part.caption_ids.tolist() == [5, 8, 7]
    assert part.caption_image_ids.tolist() == [10, 30, 20]  # caption 8 remains without its image
    assert part.categories.tolist() == [[0, 1, 1], [1, 0, 0]]
    assert part.caption_categories.tolist() == [[0, 1, 1], [0, 0, 0], [1, 0, 0]]
    assert part.folds is None
    assert part.ratings["sits"]["left_ids"].tolist() == [8]
    # Caption 99 was never in the split, so it still counts; image 30 is only missing here.
    assert [ids.tolist() for ids in part.lists["eccv"]["i2t"]] == [[10, 10, 20], [5, 8, 99]]
    assert [ids.tolist() for ids in part.lists["eccv"]["t2i"]] == [[7], [20]]
    made = {board.name: board for board in boards.make_boards(part)}
    # Nothing is left of cxc_sits_only: the only remaining rated pair is below 3.
    assert list(made) == ["coco5k", "eccv", "pmrp"]
    with pytest.raises(ValueError, match="Board cxc_sits_only .* 2 of 3 images and 3 of 6"):
        boards.make_boards(part, ["cxc_sits_only"])
    assert made["coco5k"].directions["t2i"].positives.lengths.tolist() == [1, 0, 1]
    assert set(made["coco5k"].directions) == {
        "i2t",
        "t2i",
    }  # no two captions of the same image are left
    assert made["eccv"].directions["i2t"].unreachable.tolist() == [0, 1]


def test_restricting_to_everything_changes_nothing(tmp_path):
    labels = annotations.read_annotations(write_files(tmp_path), "test")
    assert annotations.restrict(labels) is labels
    assert annotations.restrict(labels, np.array([30, 20, 10, 5])) is labels
    with pytest.raises(ValueError, match="None of the 2 caption ids are among the 6 .* test"):
        annotations.restrict(labels, None, np.array([1, 2]))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("eccv_image_to_caption.json", '{"10": [5', r"eccv_image.*cannot be read as JSON"),
        ("eccv_image_to_caption.json", b"\xff\xfe", r"eccv_image.*cannot be read as JSON"),
        ("eccv_image_to_caption.json", "[1, 2]", "is not an object of id lists"),
        ("eccv_image_to_caption.json", '{"10": ["cat"]}', "'cat' in the list of 10 is not an id"),
        ("eccv_image_to_caption.json", '{"10": [1e30]}', "1e.30 in the list of 10 is not an id"),
        ("eccv_image_to_caption.json", f'{{"10": [{10**30}]}}', "is not an object of id lists"),
        ("eccv_image_to_caption.json", '{"cat": [5]}', "is not an object of id lists.*cat"),
        ("sits_test.csv", "caption,image\n", "lacks the column agg_score"),
        ("sits_test.csv", b"\xff\xfe\x00", r"sits_test\.csv line 1: not UTF-8"),
        ("coco_test_ids.npy", "not npy", r"coco_test_ids\.npy cannot be read as npy"),
        ("coco_test_ids.npy", np.array([0.5]), "a list of integer ids: float64"),
        ("coco_test_ids.npy", np.array([[5, 6]]), r"integer ids: int64 \[1, 2\]"),
        ("coco_test_ids.npy", np.array([5, 5]), "lists an id twice"),
        ("coco_test_ids.npy", np.array([5, 6, 1]), "lists 3 captions .* 6, 2 of them the same"),
        ("coco_test_ids.npy", np.sort(ORDER), "row 1 is caption 4 of image 20 .*of image 30; the"),
        ("coco_test_ids.npy", np.array([5, 6, 8, 7, 3, 4]), "row 3 is caption 7 of image 20 .* 30"),
        ("coco_test_ids.npy", np.roll(ORDER, 1), "row 1 is caption 5 of image 10 .*of image 20"),
        ("coco_test_ids.npy", np.array([{}]), r"cannot be read as npy \(Object arrays"),
        ("test_img_keys_1k.tsv", "10\n77\n", "lists the image 77, which is not in the test split"),
        ("test_img_keys_1k.tsv", "10\tcat\n", "has not one image id per line .*cat"),
        ("instances_val2014.json", '{"annotations": []}', "is not a file of COCO instances"),
        ("instances_val2014.json", '{"annotations": [{"id": 1}]}', "COCO instances: it lacks"),
        (
            "instances_val2014.json",
            '{"annotations": [{"image_id": 10, "category_id": 2}], "categories": [{"id": 1}]}',
            "categories that it does not list",
        ),
        (
            "instances_val2014.json",
            '{"annotations": [{"image_id": 1, "category_id": 1}], "categories": [{"id": 1}]}',
            "names no image of this split",
        ),
        ("val2014_categories.npz", "not npz", r"val2014_categories\.npz lacks image_ids and"),
        (
            "val2014_categories.npz",
            {"labels": np.eye(3)},
            "lacks image_ids and .*'image_ids is not",
        ),
        (
            "val2014_categories.npz",
            {"image_ids": [1], "labels": [1]},
            r"image_ids \[1\] and .*\[1\]",
        ),
    ],
)
def test_damaged_files(tmp_path, name, content, message):
    path = write_files(tmp_path) / name
    if isinstance(content, np.ndarray):
        np.save(path, content)
    elif isinstance(content, dict):
        np.savez(path, **content)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message) as raised:
        annotations.read_annotations(tmp_path, "test")
    assert isinstance(raised.value, UserError)
    assert "again from https://" in str(raised.value)
    assert "load it unsafely" not in str(raised.value)  # NumPy's wording
    assert "\n" not in str(raised.value)


def test_missing_files_and_names(tmp_path):
    with pytest.raises(ValueError, match="nowhere does not exist"):
        annotations.read_annotations(tmp_path / "nowhere", "test")
    with pytest.raises(
        ValueError, match=r"no annotations; looked for .*eccv_image_to_caption\.json"
    ):
        annotations.read_annotations(tmp_path, "test")
    write_files(tmp_path)
    with pytest.raises(ValueError, match="Unknown split 'train'; known: validation, test"):
        annotations.read_annotations(tmp_path, "train")
    (tmp_path / "original_caption_to_image.json").unlink()
    (tmp_path / "sits_test.csv").unlink()
    with pytest.raises(ValueError, match=r"test split: add sits_test\.csv, or original_caption_to"):
        annotations.read_annotations(tmp_path, "test")
