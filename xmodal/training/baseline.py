"""Evaluates published towers as they are: their weights and a dataset, and no training."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
from etils import epath
from jax.sharding import Mesh

from xmodal import data as data_lib
from xmodal import mesh as mesh_lib
from xmodal.config import UserError, call, check_keys
from xmodal.evals import Evaluation, Evaluator
from xmodal.evals.boards.definitions import RETRIEVAL_TASKS
from xmodal.evals.boards.make import make_boards
from xmodal.evals.boards.types import Board
from xmodal.evals.evaluation import warn_of_part
from xmodal.evals.reports.compare import check_comparable, rated_tasks
from xmodal.evals.reports.store import StoredResults
from xmodal.losses.similarity import make_scorer
from xmodal.models import DualEncoder
from xmodal.models.tower import Tree
from xmodal.preprocessing import read_vocabulary
from xmodal.preprocessing.words import find_row, split_words
from xmodal.pretrained.folder import Description, read_description
from xmodal.training import init_towers, preflight
from xmodal.training.init_towers import FREE, SIDES
from xmodal.training.state import TrainState, flatten


@dataclasses.dataclass(frozen=True)
class Settings:
    """What `config.evaluation` of a baseline holds.

    Attributes:
      batch_size: items embedded per call, over all devices.
      bootstrap_samples: of every interval and correlation.
      seed: of the bootstrap.
    """

    batch_size: int
    bootstrap_samples: int
    seed: int


def evaluate_baseline(
    config: Mapping[str, Any], split: str, other: StoredResults | None = None
) -> Evaluation:
    """Embeds a split with published towers and evaluates the embeddings.

    Args:
      config: `name`, of the row; `model` and `data`, as of a run; `towers`, by side a folder that
        `data_prep.convert_weights` wrote; `evaluation`, see `Settings`. A tower's keywords come
        from its folder; those that the config has must agree, but for the pooling.
        `data.text.vocabulary` is the folder's where it is left empty.
      split: of the dataset.
      other: another model, which will be compared with this one.

    Raises:
      UserError: an unknown key or name, no weights, weights of another tower or another
        vocabulary; all of this is said before the dataset is read. Or the models cannot be
        compared, which is said before anything is embedded.
      data.DatasetMissingError: the dataset is not there; says how to get it.
    """
    return call("config", _evaluate, config, split=split, other=other)


def _evaluate(
    *,
    name: str,
    model: Mapping[str, Any],
    towers: Mapping[str, str],
    data: Mapping[str, Any],
    evaluation: Mapping[str, Any],
    split: str,
    other: StoredResults | None,
) -> Evaluation:
    settings = call("config.evaluation", Settings, evaluation)
    inputs = data_lib.parse(data)
    if (model.get("image") is None) != (inputs.image is None):
        raise UserError(
            "One of config.model.image and config.data.image is None; set both or none."
        )
    described = _read_descriptions(model, towers)
    model = dict(model.items()) | {
        side: _complete(f"config.model.{side}", model[side], towers[side], description)
        for side, description in described.items()
    }
    if "text" in described:
        inputs = _choose_vocabulary(inputs, towers["text"], described["text"])
    mesh = mesh_lib.make_mesh()
    encoder = preflight.make_model(model, mesh)
    make_scorer(encoder.similarity)
    params, model_state = _load(encoder, preflight.make_example_inputs(model, inputs), towers, mesh)
    data_lib.prepare(inputs, splits=[split])
    eval_set = data_lib.eval_set(inputs, split=split)
    boards = make_boards(eval_set)
    _check_answerable(eval_set.name, boards, encoder)
    if other is not None:
        draws = settings.bootstrap_samples, settings.seed
        check_comparable(other, boards, *draws, rated=rated_tasks(encoder.towers))
    notes = [f"{side.capitalize()} tower: {towers[side]}, not trained." for side in described]
    if "text" in described and inputs.text.tokenizer == "words":
        notes.append(_coverage(eval_set.caption_texts, inputs.text))
    evaluator = Evaluator(encoder, mesh=mesh, **dataclasses.asdict(settings))
    return Evaluation(
        name=name,
        title=f"{inputs.dataset}, {split} split",
        results=evaluator.results(params, model_state, eval_set),
        similarity=encoder.similarity,
        samples=settings.bootstrap_samples,
        seed=settings.seed,
        published=split == "test" and not eval_set.partial,
        warnings=warn_of_part(eval_set.partial, split),
        notes=notes,
        records=eval_set.hashes,
    )


def _read_descriptions(
    model: Mapping[str, Any], towers: Mapping[str, str]
) -> dict[str, Description]:
    """What the folders say of their towers, for every tower that the model has."""
    check_keys("config.towers", towers, SIDES)
    described = {}
    for side in SIDES:
        folder, tower = towers.get(side), model.get(side)
        if tower is None:
            if folder:
                raise UserError(
                    f"config.towers.{side}={folder!r}, but config.model.{side} is None."
                )
            continue
        if not folder:
            raise UserError(
                f"config.towers.{side} is empty: name the folder that data_prep.convert_weights "
                f"made of the published weights of the {tower['name']!r} tower."
            )
        described[side] = read_description(folder)
    return described


def _complete(
    where: str, tower: Mapping[str, Any], folder: str, description: Description
) -> dict[str, Any]:
    """A tower's keywords: the folder's, and those of the config, which must not differ."""
    # An empty text leaves a keyword to the folder.
    own = {key: value for key, value in tower.items() if value != ""}
    theirs = {"name": description.name, **description.keywords}
    for key, value in theirs.items():
        if key not in FREE and own.get(key, value) != value:
            raise UserError(
                f"{folder} holds a tower with {key}={value!r}, but {where}.{key} is {own[key]!r}."
            )
    return theirs | own


def _choose_vocabulary(
    inputs: data_lib.DataConfig, folder: str, description: Description
) -> data_lib.DataConfig:
    """Names the tower's own vocabulary where none is named, and compares them where one is."""
    text = inputs.text
    if not text.vocabulary:
        if "vocab.txt" not in description.files:
            raise UserError(
                f"{folder} has no vocab.txt: set config.data.text.vocabulary to the one that was "
                "published with the weights."
            )
        text = dataclasses.replace(text, vocabulary=str(epath.Path(folder) / "vocab.txt"))
    tokens = read_vocabulary(epath.Path(text.vocabulary))
    init_towers.check_vocabulary(
        folder, description, tokens, tokenizer=text.tokenizer, lower_case=text.lower_case
    )
    rows = description.keywords["vocab_size"]
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
    return dataclasses.replace(inputs, text=text)


def _load(
    encoder: DualEncoder, example_inputs: Mapping[str, Any], towers: Mapping[str, str], mesh: Mesh
) -> tuple[Tree, Tree]:
    """Parameters and model state from the folders, on every device."""
    home = mesh_lib.replicated(mesh)
    params, model_state = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=home),
        jax.eval_shape(lambda: encoder.init(jax.random.key(0), example_inputs)),
    )
    state = TrainState(step=0, params=params, frozen={}, model_state=model_state, opt_state=())
    weights = init_towers.load_towers(state, {"towers": towers, "run": ""})
    if fresh := sorted(set(flatten(params)) - set(weights.params)):
        raise UserError(
            f"No published weights have {fresh[0]} ({len(fresh)} such arrays): a baseline takes no "
            "adapter and no projection, since nothing is trained."
        )
    state = init_towers.place(state, weights)
    return state.params, state.model_state


def _check_answerable(dataset: str, boards: Sequence[Board], encoder: DualEncoder) -> None:
    """Refuses a dataset of which no board compares what the towers embed."""
    compared = {RETRIEVAL_TASKS[task] for board in boards for task in board.tasks}
    compared |= {pairs.modalities for board in boards for pairs in board.graded.values()}
    if not any(set(pair) <= set(encoder.towers) for pair in compared):
        given = " and ".join(encoder.towers)
        raise UserError(
            f"There is a tower for {given} alone, which no board of {dataset} compares: "
            f"{', '.join(board.name for board in boards) or 'it has none'}."
        )


def _coverage(texts: Sequence[bytes], settings: data_lib.config.TextConfig) -> str:
    """How many words of the captions have a vector, in a sentence."""
    tokens = read_vocabulary(epath.Path(settings.vocabulary))
    rows = {token: row for row, token in enumerate(tokens)}
    find = find_row if settings.lower_case else dict.get
    words = [split_words(text.decode("utf-8", "ignore")) for text in texts]
    known = [sum(find(rows, word) is not None for word in each) for each in words]
    count = sum(map(len, words))
    return (
        f"{sum(known):,} of {count:,} words ({sum(known) / max(count, 1):.1%}) have a vector; "
        f"{known.count(0):,} of {len(known):,} captions are without any."
    )
