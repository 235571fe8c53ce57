"""Every metric that a config waits for is one that its evaluators have."""

import types

import numpy as np
import pytest

from data_prep.cxc.rating_files import RELEASED
from data_prep.semeval_sts.rated_sets import SETS
from tests.configs.configs_test import VARIANTS, get_config
from tests.evals.tiny_split import TinySplit
from xmodal.evals import make_evaluator, read_options
from xmodal.evals.evaluators.boards import BoardsOptions
from xmodal.evals.labels.definitions import DIRECTIONS, RATING_SIDES, definitions_of
from xmodal.evals.reports.results import evaluator_tag
from xmodal.evals.reports.summary import list_tags
from xmodal.train.evaluation.suite import read_datasets
from xmodal.train.fill import fill, fill_metrics
from xmodal.train.run_config import read_settings

# Without the baselines, which are not trained and so select no checkpoint.
OTHERS = [
    *(("sts", argument) for argument in ("", "bow", "sentence_encoder")),
    *(("released", argument) for argument in ("", "regions", "clue", "cite")),
    ("finetune", ""),
    ("own_data", "frozen"),
]
# Sets of sentence pairs with the year of their average, by dataset.
SENTENCES = {
    "semeval_sts": [(f"{each.name}{each.year}", each.year) for each in SETS],
    "crisscrossed_shapes": [(method, 0) for method in RELEASED["sts"]["test"]],
}


def parse(config):
    """A config whose metrics are filled in, as a section and as its dataclass."""
    filled = fill(config, 1_000_000)
    fill_metrics(filled, read_options(filled.evals.to_dict()))
    return filled, read_settings(filled)


def sides_of(settings):
    sides = [side for side in ("image", "text") if settings.model[side] is not None]
    return sides or ["image", "text"]  # Those of a model or file that the user names.


def split_of(dataset):
    """One record per set of sentence pairs, each with an image and two captions."""
    sets, years = zip(*SENTENCES.get(dataset, [("", 0)]), strict=True)
    count = len(sets)
    labels = {
        "score": np.arange(count) % 5.0,
        "set": np.array(sets),
        "average": np.array(years),
        "relations": np.ones([count, 16], np.int32),
    }
    records = np.arange(count, dtype=np.int32)
    captions, owners = np.arange(2 * count, dtype=np.int32), records.repeat(2)
    return TinySplit(dataset, dataset, "test", records, captions, owners, ratings={}, labels=labels)


def possible_tags(options, dataset, sides):
    """Tags of the boards of a dataset that has all their labels."""
    known = definitions_of("coco_captions" if options.annotations else dataset)
    chosen = [
        each
        for name, each in known.items()
        if (not each.variant if options.boards is None else name in options.boards)
    ]
    found = []
    for each in chosen:
        compared = {name: DIRECTIONS[name] for name in each.directions}
        compared |= {rating: RATING_SIDES[rating][:2] for rating in each.correlations}
        metrics = dict.fromkeys(each.directions, types.SimpleNamespace(metrics=each.metrics))
        board = types.SimpleNamespace(name=each.name, directions=metrics, compared=compared)
        found += list_tags(board, sides)
    return found


def tags_of(name, options, dataset, sides):
    if isinstance(options, BoardsOptions):
        tags = possible_tags(options, dataset, sides)
    else:
        tags = make_evaluator(name, options, split_of(dataset), sides).tags(sides)
    return [evaluator_tag(name, tag) for tag in tags]


@pytest.mark.parametrize(("name", "argument"), [*VARIANTS, *OTHERS])
def test_awaited_metrics_exist(name, argument):
    config, settings = parse(get_config(name, argument))
    evals, sides = read_options(settings.evals), sides_of(settings)
    datasets = read_datasets(config.data.to_dict(), evals)
    for where, tag in settings.awaited_metrics.items():
        evaluator = tag.partition("/")[0]
        options, dataset = evals[evaluator], datasets[evaluator].dataset
        assert tag in tags_of(evaluator, options, dataset, sides), where
