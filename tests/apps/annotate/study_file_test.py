"""Creating and opening studies."""

import sqlite3

import pytest

from tests.apps.annotate.small_studies import make_study, sts_units
from xmodal.apps.annotate.study_file import StudyFile, check_new_file
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
    # Its log may stay while it is open.
    assert {path.name.split("-")[0] for path in tmp_path.iterdir()} == {"study"}


def test_other_files_are_no_studies(tmp_path):
    with pytest.raises(UserError, match="There is no study"):
        StudyFile(tmp_path / "none")
    (tmp_path / "text").write_text("a text that is long enough to be no database at all" * 9)
    with pytest.raises(UserError, match="cannot be read as a study"):
        StudyFile(tmp_path / "text")
    connection = sqlite3.connect(tmp_path / "other")
    connection.execute("CREATE TABLE study (settings)")
    connection.commit()
    connection.close()
    with pytest.raises(UserError, match="is not a study of this version"):
        StudyFile(tmp_path / "other")
