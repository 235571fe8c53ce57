"""Values out of range give a clear error message before any dataset is needed."""

import pytest

TEXT = "quickstart.py:t2t"
BOTH = "quickstart.py"

# Config, override, message.
ROWS = [
    (TEXT, "seed=-1", "config.seed is -1; it must be at least 0."),
    (TEXT, f"seed={2**63}", f"config.seed is {2**63}; it must be less than {2**63}."),
    (TEXT, "seed=True", "config.seed is True; it must be an integer."),
    (TEXT, "total_steps=1e9", "config.total_steps is 1000000000.0; it must be an integer."),
    (TEXT, "freeze=['(']", "config.freeze is '(', not a valid regular expression: "),
    (TEXT, "freeze=text/", "it must be a list such as ['a', 'b']; for one entry, write ['text/']."),
    (TEXT, "sharding=[('.*',)]", "config.sharding is (('.*',),); it must be a list"),
    (TEXT, "init_from.run=runs/nowhere", "'runs/nowhere' is not a run of xmodal.main"),
    (
        TEXT,
        "best_checkpoint.metric=shape/x",
        "'shape' in config.best_checkpoint.metric='shape/x'; known: ",
    ),
    (TEXT, "model.similarity.temperature=0", "temperature is 0.0; it must be more than 0"),
    (
        BOTH,
        "model.image.projection.width=128",
        "128-dimensional embeddings and config.model.text 256-dimensional ones, and config.tasks.",
    ),
    (
        BOTH,
        "model.image.encoder.remat=2",
        "config.model.image.encoder.remat is 2; it must be True or ",
    ),
    (
        TEXT,
        "model.text.encoder.heads=3",
        "config.model has width=128, not a multiple of its heads=3.",
    ),
    (TEXT, "model.text.head=3", "config.model.text.head is 3; it must be a section."),
    (TEXT, "model.text.head={}", "config.model.text.head lacks 'name'; known: "),
    (
        TEXT,
        "tasks.t2t.weight={'schedule': 'linear', 'from': 1, 'to': -1, 'end': 10}",
        "config.tasks.t2t.weight is -1.0; it must be at least 0.",
    ),
    (
        TEXT,
        "tasks.t2t.loss.options.chunk_size={'schedule': 'linear', 'from': 1, 'to': 9, 'end': 9}",
        "config.tasks.t2t.loss.options.chunk_size is a schedule of the step; this option must be",
    ),
    (
        TEXT,
        "tasks.t2t.loss={'name': 'relation_bce', 'options': {'pos_weight': [1, -1]}}",
        "config.tasks.t2t.loss.options.pos_weight is -1; it must be at least 0.",
    ),
    (TEXT, "optimizer.learning_rate=1e999", "learning_rate is inf; it must be a finite number."),
    (TEXT, "optimizer.schedule.warmup_steps=400", "warmup_steps=400 leaves nothing of"),
    (TEXT, "data.dataset=cocoa", "Unknown name 'cocoa' in config.data.dataset; known: "),
    (TEXT, "data.text.vocabulary=nowhere.txt", "nowhere.txt"),
    (BOTH, "data.image.augment.area=[0.9, 0.5]", "image.augment.area is (0.9, 0.5); the lower end"),
    (
        TEXT,
        "evals.shapes.data={'datset': 'x'}",
        "Unknown key(s) ['datset'] in config.evals.shapes.data; known: ",
    ),
]


@pytest.mark.parametrize(("config", "override", "message"), ROWS, ids=[row[1] for row in ROWS])
def test_a_value_out_of_range_is_one_sentence(command, tmp_path, config, override, message):
    code, said = command(
        f"--config=configs/{config}",
        # A dataset that does not exist; looking for it would end the command first.
        "--config.data.dataset=coco_captions",
        "--config.best_checkpoint.metric=",
        f"--config.data.data_dir={tmp_path / 'none'}",
        f"--config.{override}",
        f"--workdir={tmp_path / 'run'}",
    )
    assert code == 1
    assert message in said
    assert "Traceback" not in said
    assert not list(tmp_path.iterdir())


def test_the_values_of_the_experiment_itself_pass(command, tmp_path):
    code, said = command(
        f"--config=configs/{TEXT}",
        "--config.data.dataset=coco_captions",
        "--config.best_checkpoint.metric=",
        f"--config.data.data_dir={tmp_path / 'none'}",
    )
    assert code == 1
    assert "python -m data_prep.build --dataset=coco_captions" in said
