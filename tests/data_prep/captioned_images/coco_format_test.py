"""Captions in the JSON of COCO and of Karpathy."""

import json

import pytest

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.find_layout import find_layout
from data_prep.captioned_images.options import ReadingOptions
from tests.data_prep.captioned_images import own_folders as folders
from xmodal.core.errors import UnexpectedFilesError


def test_captions_in_the_format_of_coco(tmp_path):
    folders.write_images(tmp_path, [*folders.FEW, 3, 4])
    for name in ("captions_val2017.json", "my own.json"):
        path = tmp_path / name
        path.write_text(json.dumps(folders.coco()))
        found, left_out = folders.read_layout(tmp_path)
        assert found == folders.captions_at("images/") | {"images/p003.png": []}
        assert left_out == {
            f"{name} annotation 3": "no image",
            f"{name} image 3": "empty caption",
            "images/p004.png": "in no row of a table",
        }
        path.unlink()
    twice = folders.coco()
    twice["images"][1]["id"] = 10
    path.write_text(json.dumps(twice))
    with pytest.raises(UnexpectedFilesError, match=r"'p001.png' has the id 10 of 'p000.png'"):
        find_layout(tmp_path, ReadingOptions())
    path.write_text(
        json.dumps(folders.coco()).replace('"caption":', '"caption": "", "caption":', 1)
    )
    said = "the key 'caption' occurs twice in the object {'caption': "
    with pytest.raises(UnexpectedFilesError, match=said):
        find_layout(tmp_path, ReadingOptions())


def test_images_of_coco_may_have_splits(tmp_path):
    folders.write_images(tmp_path, [*folders.FEW, 3])
    content = folders.coco()
    for image, split in zip(content["images"], ["train", "dev", "test", "train"], strict=True):
        image["split"] = split
    path = tmp_path / "captions.json"
    path.write_text(json.dumps(content))

    def splits(**options):
        items = find_layout(tmp_path, ReadingOptions(**options)).pictures()
        return [item.split for item in items if not isinstance(item, LeftOut)]

    assert splits() == ["train", "validation", "test", "train"]
    assert splits(split="none") == [""] * 4
    content["images"][0]["split"] = "fold 1"
    path.write_text(json.dumps(content))
    with pytest.raises(UnexpectedFilesError, match="the split 'fold 1' is not known"):
        splits()


@pytest.mark.parametrize("spell", [str, float, int])
@pytest.mark.parametrize("place", ["images", "annotations"])
def test_ids_of_another_type_are_the_same_ids(tmp_path, spell, place):
    folders.write_images(tmp_path, [*folders.FEW, 3])
    content = folders.coco()
    key = {"images": "id", "annotations": "image_id"}[place]
    for each in content[place]:
        each[key] = spell(each[key])
    (tmp_path / "all.json").write_text(json.dumps(content))
    found, _ = folders.read_layout(tmp_path)
    assert found == folders.captions_at("images/") | {"images/p003.png": []}
    content["images"][0]["id"], content["images"][1]["id"] = 10, "10"
    (tmp_path / "all.json").write_text(json.dumps(content))
    with pytest.raises(UnexpectedFilesError, match=r"'p001.png' has the id '10' of 'p000.png'"):
        folders.read_layout(tmp_path)


def test_an_id_without_an_image_is_shown_beside_one_with(tmp_path):
    folders.write_images(tmp_path, folders.FEW)
    content = folders.coco()
    for each in content["annotations"]:
        each["image_id"] = f"{each['image_id']:06d}"
    (tmp_path / "all.json").write_text(json.dumps(content))
    said = "first is all.json annotation 0 .no image has the id '000010'; the first id is '10'"
    with pytest.raises(UnexpectedFilesError, match=said):
        folders.prepare(tmp_path)


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (
            {"_via_settings": {}, "_via_img_metadata": {}},
            "'_via_settings', '_via_img_metadata'; an",
        ),
        (
            {f"p{n:03d}.png1234": {"filename": f"p{n:03d}.png"} for n in range(5)},
            "'p000.png1234', ",
        ),
        ({"data": [], "version": 3}, "'data', 'version'; an object is read if its keys are"),
    ],
)
def test_an_object_in_another_format_is_shown_by_its_keys(tmp_path, content, shown):
    folders.write_images(tmp_path, folders.FEW)
    (tmp_path / "all.json").write_text(json.dumps(content))
    with pytest.raises(UnexpectedFilesError, match=rf"all.json is an object with the keys {shown}"):
        folders.read_layout(tmp_path)


def test_files_of_coco_are_its_splits(tmp_path):
    (tmp_path / "annotations").mkdir()
    for number, split in enumerate(("train2017", "val2017", "test2017")):
        folders.write_images(tmp_path, [number], split)
        content = folders.coco()
        content["images"] = content["images"][number : number + 1]
        content["annotations"] = content["annotations"][number : number + 1]
        path = tmp_path / "annotations" / f"captions_{split}.json"
        path.write_text(json.dumps(content))
        boxes = content | {"annotations": [{"image_id": 10 + number, "bbox": [0, 0, 1, 1]}]}
        path.with_name(f"instances_{split}.json").write_text(json.dumps(boxes))
    items = list(find_layout(tmp_path, ReadingOptions()).pictures())
    splits = [item.split for item in items if not isinstance(item, LeftOut)]
    assert sorted(splits) == ["test", "train", "validation"]
    left_out = [item.where for item in items if isinstance(item, LeftOut)]
    assert len(left_out) == 3
    assert all(place.startswith("annotations/instances_") for place in left_out)


def test_karpathys_format_is_known_by_its_form(tmp_path):
    folders.write_images(tmp_path, [*folders.FEW, 3])
    images = [
        {"filename": folders.name(n), "imgid": n, "split": "train"}
        | {"sentences": [{"sentid": n, "raw": f"caption {n}"}]}
        for n in folders.FEW
    ]
    (tmp_path / "dataset_mine.json").write_text(json.dumps({"images": images}))
    found = folders.read_layout(tmp_path)
    assert found == (folders.captions_at("images/"), {"images/p003.png": "in no row of a table"})
    assert folders.read_layout(tmp_path, table="dataset_mine.json") == found
    for image in images:  # Pictures and captions of your own are counted.
        del image["imgid"], image["sentences"][0]["sentid"]
    (tmp_path / "dataset_mine.json").write_text(json.dumps({"images": images}))
    assert folders.read_layout(tmp_path) == found
    del images[1]["sentences"][0]["raw"]
    (tmp_path / "dataset_mine.json").write_text(json.dumps({"images": images}))
    with pytest.raises(UnexpectedFilesError, match=r"image 1 .*KeyError: 'raw'"):
        folders.read_layout(tmp_path)


def test_karpathys_folders_count_unless_all_images_are_in_another(tmp_path):
    """Cat 0 is lost, and dog 0 has no caption; then cats and dogs are put into one folder."""
    folders.write_images(tmp_path, folders.FEW[1:], "cats")
    folders.write_images(tmp_path, [0], "dogs")
    images = [
        {"filepath": "cats", "filename": folders.name(n), "imgid": n}
        | {"sentences": [{"sentid": n, "raw": f"cat {n}"}]}
        for n in folders.FEW
    ]
    (tmp_path / "dataset.json").write_text(json.dumps({"images": images}))
    found, left_out = folders.read_layout(tmp_path)
    assert found == {f"cats/{folders.name(n)}": [f"cat {n}"] for n in folders.FEW}
    assert left_out == {"dogs/p000.png": "in no row of a table"}
    (tmp_path / "cats").rename(tmp_path / "pets")
    (tmp_path / "dogs" / "p000.png").rename(tmp_path / "pets" / "p000.png")
    assert folders.read_layout(tmp_path) == (
        {f"pets/{folders.name(n)}": [f"cat {n}"] for n in folders.FEW},
        {},
    )


def test_karpathys_format_may_have_an_entry_for_every_caption(tmp_path):
    folders.write_images(tmp_path, folders.FEW)
    path = tmp_path / "dataset.json"
    images = [
        {"filename": folders.name(n), "imgid": 2 * n + part, "split": "train"}
        | {"sentences": [{"sentid": 2 * n + part, "raw": f"{part} of {n}"}]}
        for part in range(2)
        for n in folders.FEW
    ]
    path.write_text(json.dumps({"images": images}))
    expected = {f"images/{folders.name(n)}": [f"0 of {n}", f"1 of {n}"] for n in folders.FEW}
    assert folders.read_layout(tmp_path) == (expected, {})
    images[-1]["split"] = "val"
    path.write_text(json.dumps({"images": images}))
    with pytest.raises(UnexpectedFilesError, match="p002.png is in the split 'validation', but in"):
        folders.read_layout(tmp_path)
