"""The lines printed after a run has finished."""

from configs import quickstart
from xmodal.core.folders import hash_files
from xmodal.train.folder.finished import finished_reports, mark_finished


def test_a_finished_run_answers_until_its_config_or_a_file_changes(tmp_path):
    config, folder, run_dir = quickstart.get_config(), tmp_path / "files", str(tmp_path / "run")
    (folder / "deep").mkdir(parents=True)
    (folder / "deep/a.jpg").write_bytes(b"picture")
    for name in config.evals:
        report = tmp_path / f"run/test/{name}/report.md"
        report.parent.mkdir(parents=True)
        report.write_text("")
    mark_finished(config, run_dir, {str(folder): hash_files(folder)})
    assert finished_reports(config, run_dir)
    changed = quickstart.get_config()
    changed.best_checkpoint.mode = "last"
    assert not finished_reports(changed, run_dir)
    (folder / "deep/b.jpg").write_bytes(b"another")
    assert not finished_reports(config, run_dir)
    (folder / "deep/b.jpg").unlink()
    assert finished_reports(config, run_dir)
    folder.rename(tmp_path / "moved")
    assert not finished_reports(config, run_dir)
