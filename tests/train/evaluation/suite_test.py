"""The splits that the evaluators of a config use."""

from tests.saved_run import make_config
from xmodal.core import mesh as mesh_lib
from xmodal.train.evaluation.suite import EvalSuite, Request


def test_an_evaluator_with_its_own_dataset_says_which_split_it_uses(few_shapes, caplog):
    config = make_config(few_shapes).to_dict()
    config["evals"] = {
        "here": {"type": "boards"},
        "elsewhere": {"type": "boards", "data": {"captions_per_image": 1}},
    }
    suite = EvalSuite(config, ["text"], mesh_lib.make_mesh())
    suite.load_others(Request("validation"))
    splits = {name: suite.split_of(name, "validation") for name in config["evals"]}
    assert splits == {"here": "validation", "elsewhere": "test"}
    (said,) = [record.getMessage() for record in caplog.records if "--split" in record.message]
    assert said.startswith("config.evals.elsewhere has a dataset of its own")
    assert "evaluates its final_split test, not --split=validation" in said
    caplog.clear()
    for split in (None, "test"):
        suite.load_others(Request(split))
    assert not caplog.records
