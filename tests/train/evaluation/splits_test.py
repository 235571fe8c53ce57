"""The dataset of an evaluator: `config.data` of the run with the evaluator's changes."""

from xmodal.evals import read_options
from xmodal.train.evaluation.suite import read_datasets

IMAGE = {"size": 64, "eval_crop": 1.0, "eval_transform": "torchvision"}
TEXT = {"tokenizer": "nltk", "unknown": "token", "max_length": 77}
RUN = {"data": {"dataset": "crisscrossed_shapes", "image": IMAGE, "text": TEXT}}


def open_source(**changes):
    options = read_options({"x": {"type": "benchmarks", "data": changes}})
    return read_datasets(RUN["data"], options)["x"]


def test_what_an_evaluator_leaves_out_is_that_of_the_run():
    own = open_source(image={"eval_crop": 0.875}, text={"prompt": "a photo of {}"})
    assert (own.image.size, own.image.eval_transform, own.image.eval_crop) == (
        64,
        "torchvision",
        0.875,
    )
    assert (own.text.tokenizer, own.text.max_length, own.text.prompt) == (
        "nltk",
        77,
        "a photo of {}",
    )
    assert open_source(image=None).image is None
