"""Evaluations on different labels are not compared."""

import json

import pytest

from xmodal.apps.analysis.agree import compare
from xmodal.apps.analysis.agreement.same_labels import check_labels
from xmodal.core.errors import UserError


def evaluate(folder, hashes):
    """A folder as written by an evaluation; `hashes`: board -> label hash."""
    folder.mkdir()
    metrics = {f"{board}/t2t/{m}": len(folder.name) for board in hashes for m in ("r", "s")}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    boards = {board: {"definition": "d", "label_hash": it} for board, it in hashes.items()}
    (folder / "boards.json").write_text(json.dumps(boards))
    return str(folder)


def test_boards_that_two_folders_share_must_have_the_same_labels(tmp_path):
    whole = evaluate(tmp_path / "whole", {"coco5k": "1111", "cxc": "2222"})
    other = evaluate(tmp_path / "other", {"cxc": "2222"})
    part = evaluate(tmp_path / "part", {"shapes": "4444", "cxc": "3333"})
    assert check_labels([whole, other]) == ()
    message = "board cxc differ: 2222 in .*whole against 3333 in .*part; evaluate both"
    with pytest.raises(UserError, match=message):
        check_labels([whole, other, part])
    with pytest.raises(UserError, match=message):
        compare([whole, part], str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
    compare([whole, other], str(tmp_path / "out"))


def test_tables_have_no_labels_and_old_folders_say_none(tmp_path):
    table = tmp_path / "table.json"
    table.write_text(json.dumps({"paper": {"cxc/t2t/r": 1, "cxc/t2t/s": 3}}))
    ours = evaluate(tmp_path / "ours", {"cxc": "2222"})
    assert check_labels([str(table), ours]) == ()
    (tmp_path / "ours/boards.json").unlink()
    assert len(check_labels([ours])) == 1
    text = compare([str(table), ours], str(tmp_path / "out"))
    assert f"- Not known to rest on the same labels, without boards.json: {ours}.\n" in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "boards.json must have a JSON object"),
        ("{", "boards.json is not a readable JSON file"),
        ('{"cxc": "2222"}', "boards.json has no label_hash for board cxc: evaluate again"),
        ('{"cxc": {"definition": "d"}}', "boards.json has no label_hash for board cxc"),
    ],
)
def test_files_that_say_no_labels_are_refused(tmp_path, content, message):
    ours = evaluate(tmp_path / "ours", {"cxc": "2222"})
    (tmp_path / "ours/boards.json").write_text(content)
    with pytest.raises(UserError, match=message):
        check_labels([ours])
