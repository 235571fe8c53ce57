"""Your own pictures and captions, from a folder in any of the layouts of `captioned_images`.

    python -m xmodal.main --config=configs/custom_data.py --config.data.manual_dir=FOLDER

data_prep/captioned_images/README.md describes the folder. After `pip install "xmodal[pretrained]"`
the run starts from EfficientNet-Lite2 (ImageNet) and all-MiniLM-L6-v2, keeps both frozen, computes
their outputs once and trains only projections. Otherwise, and with `custom_data.py:small`, it
trains small towers from scratch. Both take minutes on a laptop CPU.

Other published towers, on one modality or both, are fine-tuned:

    python -m xmodal convert --tower=bert --source=FOLDER --output=weights/bert
    python -m xmodal.main --config=configs/custom_data.py --config.data.manual_dir=FOLDER \\
        --config.init_from.towers.text=weights/bert

`custom_data.py:frozen` trains only projections of any two published towers. Stop there with a few
hundred pictures: on 600, training the text tower afterwards was no clear gain, nor was the last
stage of the image tower (configs/results.md has the commands and numbers).

After pictures were added to the folder, this continues from the weights of an earlier run, in
another workdir; without `:frozen` if it was `small`:

    python -m xmodal.main --config=configs/custom_data.py:frozen --config.data.manual_dir=FOLDER \\
        --config.init_from.run=RUN --config.init_from.optimizer=False --workdir=ANOTHER

The batch size, the length of the run and the steps between evaluations depend on the number of
training images ("auto", see `xmodal/train/optimization/run_lengths.py`); any number may replace it.
"""

from typing import Any

from absl import logging
from ml_collections import ConfigDict

from configs import base, cxc
from xmodal.pretrained import packaged_towers
from xmodal.train.tree import matches

DIMENSION = 256
PACKAGED = {"image": "efficientnet_lite2", "text": "minilm"}
_UNSET = {"head": (None,), "size": (0, None)}  # Elsewhere, None is a choice, as of no `augment`.


def get_config(argument: str = "") -> ConfigDict:
    """`frozen` trains only projections of two published towers, `small` uses none."""
    return base.choose(trained(), argument, frozen=frozen, small=lambda config: config)


def trained() -> ConfigDict:
    """Leaves settings that depend on the towers unset, see `complete`."""
    config = base.base("custom_data")
    config.total_steps = config.batch_size = config.checkpoint.every = "auto"
    config.log_every = 10
    config.data = base.dataset("captioned_images")
    config.data.image = base.pixels(0, {})
    config.data.text = base.any_text()
    config.model.similarity.temperature = 0.07
    config.tasks = {"i2t": cxc.image_text()}
    config.optimizer = base.adamw(3e-3, decay=0.05, warmup="up to 3 epochs", clip_norm=1.0)
    for modality in PACKAGED:
        config.model[modality] = base.tower({"name": ""}, None, width=DIMENSION)
        config.optimizer.groups[f"{modality}_tower"] = {"pattern": f"{modality}/encoder/"}
    # The maps of 512 pictures would fill the memory of a laptop.
    config.evals = {"own": base.benchmarks("auto", batch_size=64)}
    return config


def complete(config: ConfigDict, argument: str = "") -> ConfigDict:
    """Fills in what depends on `init_from`, wherever the command line has left it unset.

    If nothing is named, towers of installed packages are used, frozen. Otherwise, a modality that
    starts from weights is trained gently, and any other gets a small tower.
    """
    if argument == "" and names_nothing(config):
        missing = [name for name in PACKAGED.values() if not packaged_towers.is_installed(name)]
        if missing:
            absent, remedy = " and ".join(missing), packaged_towers.INSTALL
            logging.info("%s: not installed, so small towers are trained: %s.", absent, remedy)
        else:
            start_from_packages(config)
            argument = "frozen"
    if argument != "frozen":
        for modality, tower in (("image", small_image_tower()), ("text", small_text_tower())):
            if config.model[modality] is not None and config.data[modality] is not None:
                has_weights = starts_from_weights(config.init_from, modality)
                _fill(config, published_tower(modality) if has_weights else tower)
            # A group that matches nothing that is trained is an error.
            groups, name = config.optimizer.groups, f"{modality}_tower"
            if name in groups and matches(config.freeze, f"{modality}/encoder/"):
                del groups[name]
    return config


def names_nothing(config: ConfigDict) -> bool:
    """Whether a config has both modalities and names neither an encoder nor weights."""
    source = config.init_from
    weights = (source.run, source.model, *source.towers.values())
    modalities = [(config.model[modality], config.data[modality]) for modality in PACKAGED]
    return not any(weights) and all(
        model is not None and inputs is not None and not model.encoder.name
        for model, inputs in modalities
    )


def start_from_packages(config: ConfigDict) -> None:
    """Changes the values that differ between `trained` and `frozen`, unless they were set."""
    names = {modality: f"pip:{name}" for modality, name in PACKAGED.items()}
    logging.info(
        "Installed pretrained towers, frozen: %s. custom_data.py:small trains small ones instead.",
        " and ".join(names.values()),
    )
    config.init_from.towers.update(names)
    _change(config, trained(), frozen(trained()))


def _change(section: ConfigDict, before: ConfigDict, after: ConfigDict) -> None:
    for key, value in after.items():
        both = isinstance(value, ConfigDict) and isinstance(before.get(key), ConfigDict)
        if both and isinstance(section.get(key), ConfigDict) and value:
            _change(section[key], before[key], value)
        elif section.get(key) == before.get(key) != value:
            with section.ignore_type():
                section[key] = value


def starts_from_weights(init_from: ConfigDict, modality: str) -> bool:
    """Whether the encoder of a modality comes from a tower, a model or another run."""
    if init_from.towers[modality] or init_from.model:
        return True
    return bool(init_from.run) and matches(init_from.include, f"{modality}/encoder/")


def _fill(section: ConfigDict, defaults: dict[str, Any]) -> None:
    """Sets the values that a section leaves unset, unless it names another part."""
    if "name" in defaults and section.get("name") not in (None, "", defaults["name"]):
        return
    for key, value in defaults.items():
        if isinstance(section.get(key), ConfigDict):
            _fill(section[key], value)
        elif key not in section or section[key] in _UNSET.get(key, ("",)):
            section[key] = value


def frozen(config: ConfigDict) -> ConfigDict:
    """Keeps the published towers frozen; their outputs are computed once and stored."""
    config.name += "_frozen"
    config.freeze = ("image/encoder/", "text/encoder/")
    config.frozen_features.modalities = ("image", "text")
    config.data.image.augment, config.data.text.min_count = None, 1
    config.optimizer.learning_rate, config.optimizer.groups = 1e-3, {}
    # Projections are soon trained, and fit the training captions from then on.
    config.total_steps, config.checkpoint.every = "auto/3", "auto/5"
    config.evals.own.every = "auto/5"
    return config


def published_tower(modality: str) -> dict[str, Any]:
    """Settings that do not come with the weights of a modality."""
    inputs = {"image": {"augment": cxc.crops(area=(0.5, 1.0))}, "text": {"min_count": 1}}
    return {
        "data": {modality: inputs[modality]},
        "optimizer": {"groups": {f"{modality}_tower": {"rate": 0.1}}},
    }


def small_image_tower() -> dict[str, Any]:
    """A small EfficientNet on small pictures."""
    # Few pictures mean few steps, so the running statistics have to adapt quickly.
    encoder = base.small_convnet(width=0.35, momentum=0.9)
    # The little that can be learned from few pictures is in their colors.
    augment = cxc.crops(area=(0.3, 1.0), color=False, erase=0.3)
    return {
        "model": {"image": {"encoder": encoder, "head": {"name": "mean"}}},
        "data": {"image": {"size": 32, "augment": augment}},
        "optimizer": {"groups": {"image_tower": {"rate": 1.0}}},
    }


def small_text_tower() -> dict[str, Any]:
    """The mean of trained word vectors: with few captions, a larger model would only memorize."""
    words = {"name": "words", "vocab_size": 0, "width": DIMENSION, "dropout": 0.2}
    return {
        "model": {"text": {"encoder": words, "head": {"name": "mean"}}},
        "data": {"text": base.words("nltk", min_count=2, max_length=64)},
        "optimizer": {"groups": {"text_tower": {"rate": 1.0}}},
    }
