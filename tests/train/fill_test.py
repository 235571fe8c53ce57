"""Values that follow from the dataset: sizes, the rows of word tables, the metric to select by."""

import pytest

from configs import custom_data, vete, vsrn
from tests.saved_run import make_config
from xmodal.evals import read_options
from xmodal.train.optimization.run_lengths import resolve_sizes
from xmodal.train.resolve import fill_metrics
from xmodal.train.run_config import fill, read_settings


@pytest.mark.parametrize(
    ("examples", "batch_size", "epochs", "every"),
    [(31, 4, 60, 10), (1999, 32, 60, 10), (2000, 64, 30, 3), (50_000, 64, 10, 1)],
)
def test_auto_depends_on_the_examples(examples, batch_size, epochs, every):
    config = {
        "batch_size": "auto",
        "total_steps": "auto",
        "checkpoint": {"every": "auto", "keep_last": 3},
        "evals": {"a": {"every": "auto", "batch_size": 8}, "b": {"every": 5}, "c": "auto"},
    }
    before = repr(config)
    assert resolve_sizes(config, examples) == config | {
        "batch_size": batch_size,
        "total_steps": f"{epochs} epochs",
        "checkpoint": {"every": f"{every} epochs", "keep_last": 3},
        "evals": {
            "a": {"every": f"{every} epochs", "batch_size": 8},
            "b": {"every": 5},
            "c": "auto",
        },
    }
    assert repr(config) == before


def rows_of(config, entries, **text):
    config.data.text.update(text)
    filled = fill(config, 100, entries)
    return filled.model.text.encoder.vocab_size, filled


def own_config():
    return custom_data.complete(custom_data.get_config(), "small")


@pytest.mark.parametrize(("entries", "rows"), [(1, 512), (512, 512), (535, 1024)])
def test_tables_of_learned_vocabularies_come_in_few_sizes(entries, rows):
    assert rows_of(own_config(), entries)[0] == rows


def test_files_and_numbers_are_taken_as_they_are(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\na\n")
    assert rows_of(own_config(), 3, vocabulary=str(path))[0] == 3
    config = own_config()
    config.model.text.encoder.vocab_size = 700
    assert rows_of(config, 535)[0] == 700
    config = own_config()
    config.l2 = {"pattern": "text/", "scale": 1e-4}
    assert rows_of(config, 535)[0] == 535


def test_a_softmax_over_words_counts_no_other_rows():
    # A decoder has its own table and outputs; a language model shares the table of the encoder.
    rows, filled = rows_of(vsrn.get_config("quick"), 535)
    (module,) = [each.loss.module for each in filled.tasks.values() if each.loss.module]
    assert (rows, module.vocab_size) == (1024, 535)
    assert rows_of(vete.get_config("pin_model,quick"), 535)[0] == 535


def test_benchmarks_come_before_accuracies(tmp_path):
    def selected(evals):
        config = make_config(str(tmp_path))
        config.best_checkpoint.metric, config.evals = "", evals
        settings = read_settings(config)
        return fill_metrics(settings, read_options(settings.evals)).best_checkpoint.metric

    accuracies, benchmarks = {"type": "knn", "every": 2}, {"type": "benchmarks", "every": 2}
    assert selected({"animals": accuracies, "shapes": benchmarks}).startswith("shapes/")
    assert selected({"animals": accuracies}) == "animals/accuracy@1"


@pytest.mark.parametrize(
    ("warmup", "total_steps", "steps"),
    [
        ("up to 40", 320, 40),
        ("up to 40", 119, 39),
        ("up to 3 epochs", "6 epochs", 6),
        ("up to 0.01 epochs", 100, 0),
        (40, 10, 40),  # Set by the user: an error of the schedule.
    ],
)
def test_a_default_warmup_is_at_most_a_third_of_the_run(warmup, total_steps, steps):
    config = own_config()
    config.batch_size, config.total_steps = 32, total_steps
    config.optimizer.schedule = {"name": "cosine", "warmup_steps": warmup}
    assert fill(config, 100, 10).optimizer.schedule.warmup_steps == steps
