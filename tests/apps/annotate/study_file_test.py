"""Creating and opening studies."""

import sqlite3

import pytest

from tests.apps.annotate.small_studies import make_study, sts_units
from xmodal.apps.annotate.study_file import StudyFile, StudySettings, check_new_file
from xmodal.core.errors import UserError


def test_a_study_is_written_whole_or_not_at_all(tmp_path):
    def break_off():
        yield from sts_units(2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_study(tmp_path / "study", break_off())
    with pytest.raises(UserError, match="would have no questions"):
        make_study(tmp_path / "study", [])
    assert not list(tmp_path.iterdir())
    study = make_study(tmp_path / "study", sts_units(2), dataset="any", image_queries=(3, 4))
    assert study.settings.image_queries == (3, 4)
    with pytest.raises(UserError, match="exists"):
        make_study(tmp_path / "study", sts_units(2))
    with pytest.raises(UserError, match="exists"):
        check_new_file(tmp_path / "study")
    with pytest.raises(UserError, match="is not a folder"):
        check_new_file(tmp_path / "none" / "study")
    assert [path.name for path in tmp_path.iterdir()] == ["study"]


def test_other_files_are_no_studies(tmp_path):
    with pytest.raises(UserError, match="There is no study"):
        StudyFile(tmp_path / "none")
    (tmp_path / "text").write_text("a text that is long enough to be no database at all" * 9)
    with pytest.raises(UserError, match="cannot be read as a study"):
        StudyFile(tmp_path / "text")
    connection = sqlite3.connect(tmp_path / "other")
    connection.execute("CREATE TABLE study (settings)")
    connection.commit()
    with pytest.raises(UserError, match="but not a study"):
        StudyFile(tmp_path / "other")
    connection.execute(f"PRAGMA application_id = {0x786D6F64}")
    connection.execute("PRAGMA user_version = 99")
    connection.commit()
    connection.close()
    with pytest.raises(UserError, match="of version 99"):
        StudyFile(tmp_path / "other")


@pytest.mark.parametrize("text", ["[" * 5_000, "{", "3", '{"kind": 3}', b"\xff", None])
def test_settings_of_other_kinds_are_refused(tmp_path, text):
    path = make_study(tmp_path / "study", sts_units(2)).path
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM study")
    if text is not None:
        connection.execute("INSERT INTO study VALUES (?)", (text,))
    connection.commit()
    connection.close()
    with pytest.raises(UserError, match="study"):
        StudyFile(path)


def test_two_studies_have_ids_of_their_own():
    assert StudySettings().id != StudySettings().id
