"""Groups of captions from a table."""

from xmodal.apps.analysis.sampling.group_files import read_groups


def test_all_names_of_a_split_are_the_split(tmp_path):
    table = tmp_path / "groups.csv"
    rows = ["1,10,train", "2,10,restval", "3,11, Training", "4,12,val", "5,13,dev", "6,14,fold2"]
    table.write_text("\n".join(["caption_id,image_id,split", *rows]))
    found = {split: read_groups(table, split) for split in ("train", "validation", "fold2")}
    assert {split: groups.caption_ids.tolist() for split, groups in found.items()} == {
        "train": [1, 2, 3],
        "validation": [4, 5],
        "fold2": [6],
    }
    assert found["train"].sizes.tolist() == [2, 1]
