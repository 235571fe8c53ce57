"""The metric that selects a checkpoint where the config names none."""

from tests.saved_run import make_config
from xmodal.evals import read_options
from xmodal.train.fill import fill_metrics

ACCURACIES = {"type": "knn", "every": 2}


def selected(tmp_path, evals):
    config = make_config(str(tmp_path))
    config.select.metric = ""
    config.evals = evals
    fill_metrics(config, read_options(config.evals.to_dict()))
    return config.select.metric


def test_boards_come_before_accuracies(tmp_path):
    boards = make_config(str(tmp_path)).evals.shapes
    found = selected(tmp_path, {"animals": ACCURACIES, "shapes": boards})
    assert found.startswith("shapes/")
    assert selected(tmp_path, {"animals": ACCURACIES}) == "animals/accuracy@1"
