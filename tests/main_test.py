"""The command line of the training binary, in this process."""

import re

import pytest

QUICKSTART = "--config=configs/quickstart.py"
OTHER_NAME = 'set all at once: --config.tasks.i2t.loss.options="{...}".'
# Override of the quickstart -> message: one of each kind.
OVERRIDES = {
    "seed=-1": "config.seed is -1; it must be at least 0.",
    "total_steps=many": "config.total_steps is 'many'; it must be int",
    "batch_size=12": "is not a multiple of the 8 devices; the next multiple is 16.",
    "freeze=['(']": "config.freeze is '('; it must be a valid regular expression",
    "freeze=text/": "it must be tuple[str, ...]; for one entry, write ['text/'].",
    "optmizer.name=sgd": 'Did you mean "optimizer"',
    "optimizer.name=sdg": "known: ['adam', 'adamp', 'adamw', 'sgd']. Did you mean 'sgd'?",
    "optimizer.learning_rate=1e999": "learning_rate is inf; it must be a finite number.",
    "optimizer.schedule.warmup_steps=400": "warmup_steps=400 leaves nothing of",
    "tasks.i2t.loss.name=triplet": OTHER_NAME,
    "model.text.encoder.heads=3": "config.model has width=128, not a multiple of its heads=3.",
    "init_from.run=runs/nowhere": "'runs/nowhere' is not a run of xmodal.main",
    "data.text.vocabulary=nowhere.txt": "nowhere.txt",
    "data.image.augment.area=[0.9, 0.5]": "area starts with its upper end 0.9",
    "evals={}": "config.best_checkpoint.metric",
}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--config"),
        (["--config=configs/none.py"], "--config: No such file or directory: 'configs/none.py'"),
        ([QUICKSTART + ":t2i"], "--config: Unknown variant 't2i' of quickstart; known: classify, "),
        ([QUICKSTART, "extra"], "extra"),
        *[([QUICKSTART, f"--config.{name}"], said) for name, said in OVERRIDES.items()],
    ],
)
def test_mistakes_end_with_a_message(command, tmp_path, arguments, message):
    workdir = tmp_path / "run"
    code, said = command(*arguments, f"--workdir={workdir}")
    assert code == 1
    assert message in said
    assert "Traceback" not in said
    assert not workdir.exists()


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
    flags = ["--dry_run", "--topology=v3:4x4", "--workdir=there"]
    assert command(QUICKSTART + ":t2t", "--config.seed=3", *flags)[0] == 0
    (((config, workdir), options),) = called
    assert (config.seed, workdir) == (3, "there")
    assert options == {"topology": "v3:4x4", "allow_changes": []}
