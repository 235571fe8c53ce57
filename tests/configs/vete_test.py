"""VETE: its datasets on small folders in the builders' layout, and the space of its search."""

import json

import pytest
from ml_collections import ConfigDict

from configs import base, vete
from tests.data_prep import img2dataset
from tests.data_prep.coco_captions.coco_im2txt_test import manual_dir as coco  # noqa: F401
from tests.data_prep.img2dataset import jpeg
from tests.data_prep.pinterest.pinterest_dataset_builder_test import _pin
from tests.data_prep.pinterest.pinterest_dataset_builder_test import manual_dir as pins  # noqa: F401
from tests.data_prep.sbu.sbu_dataset_builder_test import _URLS
from tests.data_prep.sbu.sbu_dataset_builder_test import manual_dir as sbu  # noqa: F401
from xmodal.apps.sweep.plan import Plan
from xmodal.train import loop


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sbu", "pinterest"])
@pytest.mark.usefixtures("fast_compilation", "sbu", "coco", "pins")
def test_datasets_train_and_are_evaluated_by_all_three_sets(
    name, few_shapes, tmp_path, monkeypatch
):
    monkeypatch.setattr("data_prep.caption_pairs.PAIRS", 2)
    pictures = {"sbu": [(url, "x", jpeg(8)) for url in _URLS]}
    everyone = [_pin(file, place) for file in range(4) for place in range(4)]
    pictures["pinterest"] = [(each["url"], "", jpeg(8)) for each in everyone]
    img2dataset.write(tmp_path / "images", pictures[name], "webdataset", 10)
    config = vete.get_config(name)
    assert config.total_steps == {"sbu": "10 epochs", "pinterest": "5 epochs"}[name]
    config.total_steps, config.batch_size, config.checkpoint.every = 2, 4, 2
    config.model.image.encoder, config.init_from.published = base.small_convnet(), ()
    config.data.image.size, config.data.text.min_count = 32, 1
    folders = {"data_dir": str(tmp_path / "tfds"), "manual_dir": str(tmp_path)}
    config.data.update(folders)
    for key, evaluator in config.evals.items():
        evaluator.every = 0
        # Those of the run are not set.
        if key != name and "manual_dir" in evaluator.data:
            evaluator.data.update(folders)
    config.evals.sts.split = "validation"
    own = {"dataset": "crisscrossed_shapes", "config": "rated_captions", "data_dir": few_shapes}
    config.evals.sts.data.update(own)
    config.best_checkpoint.metric = "sts/c2c_isim/pearson"
    loop.train(config, str(tmp_path / "run"))
    metrics = json.loads((tmp_path / "run/test/metrics.json").read_text())
    assert {f"{name}/i2t/recall@1", "coco_test/pearson", "pin_test/pearson"} <= set(metrics)
    assert metrics["coco_test/pairs"] == metrics["pin_test/pairs"] == 4


@pytest.mark.parametrize("dataset", ["sbu", "pinterest"])
def test_the_benchmark_is_that_of_the_dataset_and_language_models_have_none(dataset):
    names = {"coco_test", "pin_test", "sts"}
    assert set(vete.get_config(f"{dataset},lstm").evals) == {*names, dataset}
    for argument in (f"{dataset},pin_model", f"pin_model,{dataset}"):
        assert set(vete.get_config(argument).evals) == names


def test_encoders_and_losses_share_their_draws():
    """The same values of what all have, in the same trials."""
    drawn = {}
    for argument in ("", "covariance", "rank", "lstm", "cnn,rank", "sbu"):
        plan = Plan(ConfigDict(), vete.get_space(argument), None, 0, "sts/avg2016/pearson", "max")
        drawn[argument] = list(plan.preview(5))
    common = drawn.pop("")
    for argument, draws in drawn.items():
        for shared, own in zip(common, draws, strict=True):
            assert shared.items() <= own.items(), argument
    assert "tasks.i2t.loss.options.margin" in drawn["rank"][0]
    assert {each["model.text.encoder.maps"] for each in drawn["cnn,rank"]} <= {50, 100, 200}
    # A hidden layer of another width than the images' has a linear map.
    assert {each["model.text.encoder.width"] for each in drawn["lstm"]} - {128}
    assert drawn["lstm"][0]["model.text.projection"] == {"width": 128, "bias": False}
