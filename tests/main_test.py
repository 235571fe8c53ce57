"""The command line of the training binary, in this process."""

import re

import pytest

QUICKSTART = "--config=configs/quickstart.py"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--config"),
        (["--config=configs/none.py"], "--config: No such file or directory: 'configs/none.py'"),
        (
            [QUICKSTART + ":t2i"],
            "--config: Unknown variant 't2i' of quickstart; known: classify, ",
        ),
        ([QUICKSTART, "--config.optmizer.name=sgd"], 'Did you mean "optimizer"'),
        ([QUICKSTART, "--config.dataset.x=1"], "Unknown key in --config.dataset.x: 'dataset'"),
        (
            ["--config=configs/cxc_multitask.py", "--config.optimizer.name=sgd"],
            'set all at once: --config.optimizer.options="{}".',
        ),
        ([QUICKSTART, "extra"], "extra"),
        (
            [QUICKSTART, "--config.batch_size=12"],
            "is not a multiple of the 8 devices; use 8 or 16.",
        ),
    ],
)
def test_mistakes_end_with_a_message(command, tmp_path, arguments, message):
    workdir = tmp_path / "run"
    code, said = command(*arguments, f"--workdir={workdir}")
    assert code == 1
    assert message in said
    assert "Traceback" not in said
    assert not workdir.exists()


def test_a_label_column_that_the_dataset_lacks(command, few_shapes, tmp_path):
    workdir = tmp_path / "run"
    data = f"--config.data.data_dir={few_shapes}"
    pairs = "--config.evals.shapes.type=pairs"
    code, said = command(QUICKSTART, pairs, data, f"--workdir={workdir}")
    assert code == 1
    assert "config.evals.shapes needs the label column 'score', which" in said
    assert "Traceback" not in said
    assert not workdir.exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a[x]", "a[x] has [ and ] in its path, which the folder of a run cannot have; rename it"),
    ],
)
def test_folders_that_cannot_have_checkpoints(command, tmp_path, name, message):
    code, said = command(QUICKSTART, f"--workdir={tmp_path}/{name}")
    assert code == 1
    assert message in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("is_done", "exit_code"), [(True, 0), (False, 143)])
def test_hands_config_and_flags_to_the_loop(command, monkeypatch, is_done, exit_code):
    called = []

    def train(*args, **kwargs):
        called.append((args, kwargs))
        return is_done

    monkeypatch.setattr("xmodal.train.loop.train", train)
    changes = "--allow_changes=optimizer.learning_rate,records"
    code, _ = command(QUICKSTART + ":t2t", "--config.seed=3", changes)
    assert code == exit_code
    ((config, workdir), options) = called[0]
    assert config.seed == 3
    assert re.fullmatch(r"runs.quickstart_t2t", workdir)
    assert options == {"allow_changes": ["optimizer.learning_rate", "records"]}


def test_a_dry_run_goes_to_the_preflight(command, monkeypatch):
    called = []
    monkeypatch.setattr(
        "xmodal.train.preflight.check",
        lambda *args, **kwargs: called.append((args, kwargs)),
    )
    flags = ["--dry_run", "--topology=v3:4x4", "--output=cost.json", "--workdir=there"]
    assert command(QUICKSTART + ":t2t", "--config.seed=3", *flags)[0] == 0
    (((config, workdir), options),) = called
    assert (config.seed, workdir) == (3, "there")
    assert options == {"topology": "v3:4x4", "output": "cost.json", "allow_changes": []}


def test_flags_of_a_dry_run_alone(command):
    code, said = command(QUICKSTART, "--output=cost.json")
    assert (code, said) == (
        1,
        "Error: --output works only with --dry_run.",
    )
