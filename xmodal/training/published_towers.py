"""Published towers as a model of their own: their weights and a config, and no training."""

import jax
import ml_collections
from etils import epath

from xmodal import data
from xmodal import mesh as mesh_lib
from xmodal.config import UserError
from xmodal.evals.embed import Items
from xmodal.preprocessing import TextConfig, read_vocabulary
from xmodal.preprocessing.words import find_row, split_words
from xmodal.pretrained.folder import Description, read_description
from xmodal.pretrained.model_folder import read_model
from xmodal.training import from_towers, schedules
from xmodal.training.run import Parts, make_model, read_settings
from xmodal.training.state import TrainState
from xmodal.training.tree import Tree, flatten


def build_untrained(config: ml_collections.ConfigDict) -> Parts:
    """Builds the parts of a config without tasks, on towers that `init_from.towers` names.

    Args:
      config: with the sections of a run. Keywords of an encoder and its head that the config
        leaves out come from the folder of the tower; those that it has must agree. The vocabulary
        is that of the text tower where `data.text.vocabulary` is "". Where `init_from.model` names
        a model and both sides of `model` are None, the whole section and the preprocessing in
        `data` are the folder's.

    Raises:
      UserError: an unknown key or name, no folder of a tower, or weights of another tower or
        another vocabulary; all of this before the dataset is read.
    """
    config = config.copy_and_resolve_references()
    config = ml_collections.ConfigDict(schedules.resolve_epochs(config.to_dict(), 1))
    source = read_settings(config).init_from
    if source.model and config.model.image is None and config.model.text is None:
        _fill_model(config, source.model)
    folders = from_towers.named_folders(source)
    for side in ("image", "text"):
        if config.model[side] is None:
            if side in folders:
                raise UserError(
                    f"config.init_from.towers.{side}={folders[side]!r}, but config.model.{side} is "
                    "None."
                )
            continue
        if side not in folders:
            raise UserError(
                f"config.init_from.towers.{side} is empty: name the folder that "
                "xmodal.convert_weights made of the published weights of the encoder "
                f"{config.model[side].encoder.name!r}."
            )
        description = read_description(folders[side])
        with config.unlocked():
            _fill_side(config.model[side], folders[side], description, f"config.model.{side}")
        if side == "text":
            _choose_vocabulary(config.data.text, folders[side], description)
    settings = read_settings(config)
    from_towers.check_towers(settings.init_from, config.model)
    if "text" in folders:
        description = read_description(folders["text"])
        from_towers.check_vocabulary(folders["text"], description, settings.data.text)
        _check_text(settings.data.text, folders["text"], description)
    for side, section in (("image", settings.data.image), ("text", settings.data.text)):
        if (config.model[side] is None) != (section is None):
            raise UserError(
                f"One of config.model.{side} and config.data.{side} is None; set both or none."
            )
    mesh = mesh_lib.make_mesh()
    model = make_model(settings.model, mesh)
    return Parts(
        config, settings, mesh, model, (), data.batch_spec(settings.data, settings.batch_size)
    )


def load_weights(parts: Parts) -> tuple[Tree, Tree]:
    """Returns `(params, model_state)` from the folders of the towers, on every device.

    Raises:
      UserError: the model has parameters that no folder holds.
    """
    replicated = mesh_lib.replicated(parts.mesh)
    params, model_state = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=replicated),
        parts.shapes,
    )
    state = TrainState(step=0, params=params, frozen={}, model_state=model_state, opt_state=())
    weights = from_towers.load_towers(state, parts.settings.init_from)
    if fresh := sorted(set(flatten(params)) - set(weights.params)):
        raise UserError(
            f"No published weights have {fresh[0]} ({len(fresh)} such arrays); without training "
            "the model can have no parameters of its own."
        )
    state = from_towers.place(state, weights)
    return state.params, state.model_state


def describe(parts: Parts, split: Items) -> list[str]:
    """Returns notes on the towers, and how many words of the captions have a vector."""
    folders = from_towers.named_folders(parts.settings.init_from)
    notes = [
        f"{side.capitalize()} tower: {folder}, not trained." for side, folder in folders.items()
    ]
    text = parts.settings.data.text
    if "text" in folders and text.tokenizer == "words":
        rows = {token: row for row, token in enumerate(read_vocabulary(text.vocabulary))}
        find = find_row if text.lower_case else dict.get
        words = [split_words(caption) for caption in split.caption_texts]
        known = [sum(find(rows, word) is not None for word in each) for each in words]
        count = sum(map(len, words))
        notes.append(
            f"{sum(known):,} of {count:,} words ({sum(known) / max(count, 1):.1%}) have a vector; "
            f"{known.count(0):,} of {len(known):,} captions are without any."
        )
    return notes


def _fill_model(config: ml_collections.ConfigDict, folder: str) -> None:
    """Takes the model and the preprocessing of its inputs from a folder."""
    description = read_model(folder)
    with config.unlocked():
        config.model = description.model()
        for side, tower in description.sides.items():
            if config.data[side] is not None:
                config.data[side].update(tower.preprocessing)


def _fill_side(
    section: ml_collections.ConfigDict, folder: str, description: Description, where: str
) -> None:
    """Adds the keywords of the folder to a side; those of the config must not differ."""
    published = description.side()
    for key, value in published["encoder"].items():
        given = section.encoder.get(key)
        # 0 stands for the size of the vocabulary, "" for any text.
        if given not in (None, "", 0, value):
            raise UserError(
                f"{folder} holds an encoder with {key}={value!r}, but {where}.encoder.{key} is "
                f"{given!r}."
            )
        section.encoder[key] = value
    if section.head is None:
        section.head = published["head"]


def _choose_vocabulary(
    text: ml_collections.ConfigDict | None, folder: str, description: Description
) -> None:
    """Names the tower's own vocabulary where none is named."""
    if text is None or text.vocabulary:
        return
    if "vocab.txt" not in description.files:
        raise UserError(
            f"{folder} has no vocab.txt: set config.data.text.vocabulary to the one that was "
            "published with the weights."
        )
    text.vocabulary = str(epath.Path(folder) / "vocab.txt")


def _check_text(text: TextConfig, folder: str, description: Description) -> None:
    """Refuses a vocabulary of another size than the tower's, and texts that are too long."""
    tokens, rows = read_vocabulary(text.vocabulary), description.encoder["vocab_size"]
    if len(tokens) != rows:
        raise UserError(
            f"config.data.text.vocabulary={text.vocabulary!r} has {len(tokens):,} tokens, but the "
            f"tower of {folder} has {rows:,} rows."
        )
    longest = description.preprocessing.get("max_length", text.max_length)
    if text.max_length > longest:
        raise UserError(
            f"config.data.text.max_length={text.max_length}, but the tower of {folder} takes "
            f"{longest} tokens at most."
        )
