"""Every experiment builds at its real size, and trains if it has a small version."""

import functools
import importlib
import json
import math
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ml_collections import ConfigDict

from configs import base, baselines
from tests.integration.papers_test import PAPERS, shrink
from xmodal import data
from xmodal.core import mesh as mesh_lib
from xmodal.core.tree_paths import leaves_by_path
from xmodal.models import make_tower
from xmodal.models.tower import Tower
from xmodal.train import loop
from xmodal.train.folder import run_folder
from xmodal.train.resolve import build_run
from xmodal.train.run_config import fill
from xmodal.train.tree import Tree, matches

FOLDER = pathlib.Path(__file__).parents[2] / "configs"
VOCABULARY = 300  # Entries of the vocabularies that are learned from the data.
# Parameters that are trained and frozen, and numbers of the state, such as running statistics: the
# published encoders as keras.applications, torchvision and Google's BERT-Base count them, heads and
# losses as the papers define them, and CLIP's by OpenAI.
COUNTS = {
    "blip": (223_743_491, 0, 224_923_136),
    "blip:large": (446_127_875, 0, 442_588_928),
    "clip:vit_b32": (126_134_017, 0, 0),
    "clip:siglip_b16": (178_810_370, 0, 0),
    "cc_pretrain": (39_009_384, 108_891_648, 125_200),
    "cxc_image_text": (39_009_384, 108_891_648, 125_200),
    "cxc_image_text:resnet152,small_batch": (79_801_440, 108_891_648, 151_424),
    # A value projection per layer, without an input layer and scales of queries.
    "cxc_image_text:as_printed": (40_190_280, 108_891_648, 125_200),
    "cxc_multitask": (39_009_384, 108_891_648, 125_200),
    "cxc_text_text": (20_082_720, 108_891_648, 0),
    "vsepp": (6_261_648, 58_143_808, 151_424),
    "vse0": (6_261_648, 58_143_808, 151_424),
    "order": (6_261_648, 58_143_808, 151_424),
    "vse_infinity": (113_378_112, 0, 1_024),
    "vsrn": (116_491_852, 0, 16_384),
    "sgraf": (15_063_006, 0, 2_120),
    "scan": (10_335_120, 0, 0),
    "cvse": (20_102_104, 0, 370_612),
    "vilt": (111_596_546, 0, 0),
    "vinvl": (111_063_554, 0, 0),
    "vit": (933_792, 0, 0),
    "vete": (300_544, 21_768_352, 34_432),
    "cmcm_clue": (28_135_222, 0, 58_416),
    "pcme": (18_301_118, 58_233_808, 151_424),
    "pvse": (9_153_780, 58_233_808, 151_424),
    "aoq": (116_491_852, 0, 16_384),
}
# Shared settings, and configs that train nothing.
OTHERS = {"base", "cmcm", "cxc", "itm", "baselines", "finetune", "custom_data", "released", "sts"}
NAMES = sorted({path.stem for path in FOLDER.glob("*.py")} - OTHERS)
ARGUMENTS = {
    "blip": ["", "large", "flickr8k", "quick"],
    "clip": ["vit_b32", "siglip_b16", "quick", "quick_sigmoid"],
    "clip_finetune": [f"{task}quick" for task in ("", "multitask,", "t2t,", "locked,", "sigmoid,")],
    "cmcm_cite": ["", "q5", "captions"],
    "cmcm_clue": ["", "no_attn", "quick", "quick,story", "quick,captions", "shapes"],
    "cvse": ["", "flickr30k", "quick"],
    "cxc_image_text": ["", "resnet152,small_batch", "as_printed", "quick"],
    "cxc_multitask": ["", "quick", "as_printed,quick"],
    "cxc_text_text": ["", "minilm", "quick"],
    "flickr8k": ["", "pretrained", "pretrained_i2t", "pretrained_images", "vit"],
    "flickr8k_itm": ["vsepp", "pvse_k2", "pcme", "vse_infinity"],
    "order": ["", "order0", "quick"],
    "pcme": ["", "finetuned", "clipped", "shapes", "quick"],
    "pvse": ["", "k1", "none", "semi_hard", "shapes", "quick"],
    "quickstart": ["", "i2t", "t2t", "classify,quick", "matching", "matching_quick"],
    "scan": ["", "t2i_mean", "i2t_lse", "i2t_mean", "i2t_lse_flickr30k", "quick"],
    "sgraf": ["", "sgr", "saf_flickr30k", "sgr_flickr30k", "quick", "sgr_quick"],
    "vete": [
        "",
        "gru",
        "cnn,rank",
        "quick",
        "cnn,rank,quick",
        "word_level,flickr8k",
        "pin_model,quick",
    ],
    "vse0": ["", "finetuned", "quick"],
    "vse_infinity": ["", "regions_gru", "grids", "wsl", "quick", "quick_grids"],
    "vinvl": ["", "large", "quick"],
    "vsepp": ["", "finetuned", "quick"],
    "vsrn": ["", "flickr30k", "quick"],
    "aoq": ["", "flickr30k", "quick"],
}
VARIANTS = [(name, argument) for name in NAMES for argument in ARGUMENTS.get(name, ["", "quick"])]
# `papers_test` trains these.
PAPERS_TRAINED = {name if ":" in name else f"{name}:quick" for name in PAPERS}
# Their towers and losses are trained by other configs; it is enough that these build.
ONLY_BUILT = {
    "cc_pretrain:quick", "cxc_image_text:quick", "clip:quick", "clip_finetune:quick",
    "clip_finetune:t2t,quick", "clip_finetune:locked,quick", "clip_finetune:sigmoid,quick",
    "cmcm_clue:quick,captions", "cmcm_clue:quick,story", "order:quick", "sgraf:sgr_quick",
    "vit:quick", "vse0:quick", "vse_infinity:quick_grids", "vsrn:quick",
}  # fmt: skip
ON_SHAPES = [
    (name, argument)
    for name, argument in VARIANTS
    if "quick" in argument and f"{name}:{argument}" not in PAPERS_TRAINED | ONLY_BUILT
]
# A run builds, too.
BUILT = [
    each for each in VARIANTS if each not in ON_SHAPES and ":".join(each) not in PAPERS_TRAINED
]
FAST = [("quickstart", ""), ("flickr8k", "")]
# Shapes of the parameters and the state of towers, by their modules and inputs.
TOWERS: dict[str, tuple[Tree, Tree]] = {}
init_tower = Tower.init


def get_config(name, argument=""):
    return importlib.import_module(f"configs.{name}").get_config(*filter(None, [argument]))


def count(tree):
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))


def build(name, argument=""):
    """Builds the parts and shapes of the first state on eight devices, without data."""
    assert jax.device_count() == 8
    # Lengths in epochs depend on the dataset, as 0 depends on the vocabulary, and "" on weights.
    settings = get_config(name, argument).to_dict()
    if (image := settings["model"]["image"]) is not None and not image["encoder"]["name"]:
        image["encoder"] = {"name": "mobilenet_v2", "folded": True}
        settings["data"]["image"]["size"] = settings["data"]["image"]["size"] or 224
    if settings["model"]["text"] is not None:
        encoder = settings["model"]["text"]["encoder"]
        encoder["vocab_size"] = encoder.get("vocab_size") or VOCABULARY
    for task in settings["tasks"].values():
        if task["loss"]["module"].get("vocab_size") == 0:
            task["loss"]["module"]["vocab_size"] = VOCABULARY
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tower, "init", init_once)
        parts = build_run(fill(ConfigDict(settings, type_safe=False)), mesh_lib.make_mesh())
    return parts, parts.state_shapes


def init_once(tower, key, inputs):
    """Like `Tower.init`, but for values: many variants have towers that take a second to trace."""
    shapes = {name: (column.shape, column.dtype) for name, column in inputs.items()}
    text = f"{tower.module} {shapes}"
    if text not in TOWERS:
        shapes = jax.eval_shape(functools.partial(init_tower, tower), key, inputs)
        # The module lives on, so that no other function of a tower gets an address in this text.
        TOWERS[text] = tower.module, shapes
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), TOWERS[text][1])


@pytest.mark.parametrize(
    ("name", "argument"),
    [pytest.param(*each, marks=() if each in FAST else pytest.mark.slow) for each in BUILT],
)
def test_builds_for_eight_devices_without_data(name, argument):
    parts, shapes = build(name, argument)
    # Trained parameters have two moments each (three with AMSGrad), frozen ones none.
    moments = 3 if parts.settings.optimizer.options.get("amsgrad") else 2
    trained = count(shapes.params)
    assert 0 < moments * trained <= count(shapes.opt_state) < moments * trained + 100
    for pattern in parts.settings.init_from.published:
        paths = leaves_by_path(shapes.all_params())
        assert any(matches([pattern], path) for path in paths), pattern
    config = ":".join(filter(None, (name, argument)))
    found = count(shapes.params), count(shapes.frozen), count(shapes.model_state)
    assert found == COUNTS.get(config, found)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "argument"), ON_SHAPES)
@pytest.mark.usefixtures("fast_compilation", "quick_draws")
def test_small_variant_trains_two_steps(name, argument, few_shapes, tmp_path, capsys):
    config = get_config(name, argument)
    config.total_steps, config.log_every, config.data.data_dir = 2, 1, few_shapes
    config.batch_size = 8  # The sizes of the config take longer and show no more.
    shrink(config)
    config.tensorboard.update(queries=0, projector=0)
    for evaluator in config.evals.values():
        if "bootstrap_samples" in evaluator:
            evaluator.bootstrap_samples = 10
        evaluator.every = 0 if config.optimizer.plateau is None else 2  # only at the end
        if evaluator.get("data") is not None:
            evaluator.data.data_dir = few_shapes
    loop.train(config, str(tmp_path))
    assert run_folder.steps(str(tmp_path)) == [0, 2]
    metrics = json.loads((tmp_path / "test/metrics.json").read_text())
    assert config.best_checkpoint.metric in metrics
    # Every evaluator has results.
    assert {tag.split("/")[0] for tag in metrics if tag != "step"} == set(config.evals)
    if "shapes" in config.evals:
        task = "t2t" if config.model.image is None else "i2t"
        assert 0 <= metrics[f"shapes/{task}/recall@10"] <= 100
        assert f"| {config.name} step " in capsys.readouterr().out


def test_l2_of_efficientnet_is_that_of_tf_hub():
    """Its code has no regularizer for depthwise kernels and norms, the other parameters."""
    tower = make_tower("image", base.tower(base.small_convnet()))
    inputs = {"image": np.zeros((1, 32, 32, 3), np.uint8)}
    params, _ = jax.eval_shape(functools.partial(tower.init, inputs=inputs), jax.random.key(0))
    image = {f"image/{path}" for path in leaves_by_path(params)}
    decayed = {path for path in image if matches([get_config("cc_pretrain").l2.pattern], path)}
    others = {path for path in image if path.endswith("/depthwise") or "_norm/" in path}
    assert decayed == image - others
    # Expand, project, squeeze and excite of 7 blocks, of which 1 has no expand; stem and head.
    assert len(decayed) == 6 * 4 + 3 + 2 + 7 * 2
    assert len(others) == 7 + 2 * (6 * 3 + 2 + 2)


def test_variants_of_cxc_follow_the_paper():
    for name in ("cc_pretrain", "cxc_image_text", "cxc_multitask", "cxc_text_text"):
        config = get_config(name, "as_printed")
        assert config.optimizer.clip_norm is config.optimizer.skip_outliers is None
        assert config.data.config.endswith("_without_restval") == (name != "cc_pretrain")
    small = get_config("cc_pretrain", "resnet152,small_batch")
    assert (small.batch_size, small.data.image.size) == (128, 224)
    assert small.model.image.encoder.statistics == "global"
    towers = get_config("cxc_image_text", "no_pretraining").init_from.towers
    assert all(towers.values())


def test_unknown_argument_lists_the_known():
    with pytest.raises(ValueError, match="'slow' of pvse; known: k1, k1_none, k1_semi_hard, none"):
        get_config("pvse", "slow")


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        *(("baselines", name) for name in baselines.NAMES),
        *(("released", name) for name in ("", "clue", "cite", "regions", "blip", "vilt", "vinvl")),
        *(("custom_data", name) for name in ("", "small", "frozen")),
        *(("finetune", ""), ("sts", "")),
    ],
)
def test_configs_of_published_towers_and_own_pictures(name, argument):
    config = get_config(name, argument)
    assert config.evals
    assert data.parse(config.data).dataset == config.data.dataset
