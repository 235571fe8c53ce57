"""The lines printed after a run has finished."""

import shlex

from configs import own_data, quickstart, vilt
from xmodal.core.folders import hash_files
from xmodal.train.folder.finished import finished_reports, mark_finished, next_steps


def test_commands_can_be_pasted():
    folder = "my runs/it's one"
    commands = [
        shlex.split(line)
        for line in next_steps(folder, quickstart.get_config()).splitlines()
        if line.startswith("  ")
    ]
    assert commands[0] == ["tensorboard", "--logdir", folder]
    assert commands[1][4:] == [f"--model={folder}", f"--output={folder}/captions.html"]
    config = own_data.get_config()
    config.model.image = None
    for each in (config, vilt.get_config()):  # The second has no embeddings to find pictures by.
        lines = next_steps(folder, each).splitlines()
        assert shlex.split(lines[-1])[2:] == ["xmodal.eval_main", f"--run={folder}"]


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


def test_a_changed_file_that_the_config_names_is_a_change(tmp_path):
    config, templates = quickstart.get_config(), tmp_path / "templates.txt"
    templates.write_text("a {}\n")
    config.evals = {"classes": {"type": "zero_shot", "templates": [str(templates)]}}
    report = tmp_path / "test/classes/report.md"
    report.parent.mkdir(parents=True)
    report.write_text("")
    mark_finished(config, str(tmp_path))
    assert finished_reports(config, str(tmp_path)) == [report]
    templates.write_text("a {}\na photo of a {}\n")
    assert not finished_reports(config, str(tmp_path))
