"""The flags of `xmodal.eval_main`, and which of them go together."""

from collections.abc import Iterable

from absl import flags

from xmodal.apps import config_flag, output_flag
from xmodal.core.errors import UserError

flags.adopt_module_key_flags(config_flag)  # --config
flags.adopt_module_key_flags(output_flag)
RUN = flags.DEFINE_string(
    "run", None, "Folder of the run, as printed by xmodal.main; A,B for the mean of their scores."
)
STEP = flags.DEFINE_string(
    "step",
    "best",
    "Checkpoint to evaluate: its step, 'best' or 'latest'. Results of any other than 'best' go to "
    "RUN/step_STEP/SPLIT.",
)
SPLIT = flags.DEFINE_string(
    "split",
    None,
    "Split of the run's dataset, which evaluators with another dataset ignore; by default test, or "
    "config.evals.NAME.final_split.",
)
EVALUATORS = flags.DEFINE_list("evaluators", None, "Some of config.evals; by default all.")
SAVE_EMBEDDINGS = flags.DEFINE_string(
    "save_embeddings", None, "npz file to write the embeddings to, as --embeddings reads it."
)
SAVE_SCORES = flags.DEFINE_string(
    "save_scores", None, "npz file to write the scores of a reranker to, as --scores reads it."
)
OVERWRITE = flags.DEFINE_bool("overwrite", False, "Replace results of another model in --output.")
FOLLOW = flags.DEFINE_bool(
    "follow",
    False,
    "Wait for the run and evaluate every checkpoint as it appears, until its last step.",
)
TIMEOUT = flags.DEFINE_float("timeout", 3600.0, "With --follow: seconds to wait for a checkpoint.")
INTERPOLATE = flags.DEFINE_list(
    "interpolate",
    None,
    "Weights from 0 to 1, such as 0,0.25,0.5,0.75,1: averages the run's checkpoint with the "
    "weights that the run started from (WiSE-FT), 0 being the start, and evaluates each average.",
)
PLACES = [
    flags.DEFINE_string(f"{name}_dir", None, f"With --run: where {what} now, if moved.")
    for name, what in {
        "manual": "the files of its dataset are",
        "data": "its prepared datasets are",
        "ratings": "its ratings are",
    }.items()
]

EMBEDDINGS = flags.DEFINE_string(
    "embeddings",
    None,
    "npz: image_ids, image_embeddings, caption_ids, caption_embeddings; with --config also "
    "sentences, sentence_embeddings.",
)
SCORES = flags.DEFINE_string(
    "scores",
    None,
    "npy or npz of scores, images by captions; or npz of every query's candidates and scores: with "
    "--annotations or --config, as --embeddings and --rankings.",
)
IDS = flags.DEFINE_string("ids", None, "With --scores=FILE.npy: npz of image_ids and caption_ids.")
RANKINGS = flags.DEFINE_string("rankings", None, "JSON of ranked lists, in eccv_caption's format.")
ANNOTATIONS = flags.DEFINE_string(
    "annotations", None, "Folder of the released label files of MS-COCO; optional with --run."
)
BOARDS = flags.DEFINE_list("boards", None, "Boards to compute; by default all.")
SIMILARITY = flags.DEFINE_string(
    "similarity", None, "Similarity of embeddings, such as dot or cosine; by default the file's."
)
PARTIAL = flags.DEFINE_bool("partial", False, "Evaluate on the items of the split that exist.")
NAME = flags.DEFINE_string("name", None, "Name of the model's row; by default the file's.")
COMPARE = flags.DEFINE_string(
    "compare",
    None,
    "Results of another model to compare with: its run, the --output of an evaluation, or "
    "ranks.npz.",
)
EXAMPLES = flags.DEFINE_integer(
    "examples",
    0,
    "Number of queries per rule (worst rank, changed against --compare, right by one board and "
    "wrong by another, tied) on the page examples.html.",
    lower_bound=0,
)
SAMPLES = flags.DEFINE_integer("bootstrap_samples", 1000, "Samples per interval.", lower_bound=1)
SEED = flags.DEFINE_integer("seed", 0, "Seed of the bootstrap.", lower_bound=0)
PRECISION = flags.DEFINE_enum(
    "precision", "float32", ["float32", "float64"], "Type of the scores of embeddings."
)

_WRITTEN = {"split", "output", "overwrite", "compare"}
_LABELED = _WRITTEN | {"annotations", "boards", "name", "bootstrap_samples", "seed", "precision"}
_SAVED = {"save_embeddings", "save_scores"}
_CONFIGURED = _WRITTEN | _SAVED | {"evaluators", "examples"}
_OF_RUN = _CONFIGURED | {"annotations", *(place.name for place in PLACES)}
# Flags that together name the source -> the flags that go with them.
SOURCES: dict[tuple[str, ...], set[str]] = {
    ("run",): _OF_RUN | {"step"},
    ("run", "follow"): _OF_RUN - _SAVED | {"timeout"},
    ("run", "interpolate"): _OF_RUN - _SAVED | {"step"},
    ("config",): _CONFIGURED,
    ("embeddings", "config"): _WRITTEN | {"evaluators", "examples", "name", "similarity"},
    ("scores", "config"): _WRITTEN | {"evaluators", "examples", "name", "ids"},
    ("rankings", "config"): _WRITTEN | {"evaluators", "name"},
    ("embeddings",): _LABELED | {"similarity", "partial"},
    ("scores",): _LABELED | {"ids", "partial"},
    ("rankings",): _LABELED,
}
_NEEDED = {
    "annotations": "the folder of the released label files",
    "output": "a folder for the results",
}


def check_flags() -> tuple[str, ...]:
    """Returns the source, a key of `SOURCES`; checks that all other flags fit it.

    Raises:
      UserError: no source is given, or too many; a flag does not fit it, or is missing.
    """
    names = dict.fromkeys(name for source in SOURCES for name in source)
    given = [name for name in names if flags.FLAGS[name].value not in (None, False)]
    source = next((each for each in SOURCES if set(each) == set(given)), None)
    if source is None:
        wanted = ", ".join(f"--{each[0]}" for each in SOURCES if len(each) == 1)
        raise UserError(f"Give one of {wanted}; given: {_listed(given) or 'none'}.")
    _check_others(source)
    return source


def values_of(source: tuple[str, ...]) -> dict[str, object]:
    """Returns the values of a source and of all flags that go with it, except the config."""
    names = sorted({*source, *SOURCES[source]} - {"config"})
    return {f"--{name}": flags.FLAGS[name].value for name in names}


def _check_others(source: tuple[str, ...]) -> None:
    """Checks that the flags beside the source fit it and that none is missing."""
    allowed, others = SOURCES[source], set[str]().union(*SOURCES.values())
    unexpected = {name for name in others if not flags.FLAGS[name].using_default_value} - allowed
    if "examples" in unexpected and "config" not in source:
        raise UserError(
            f"--examples shows captions and pictures, which {_listed(source)} with --annotations "
            "lacks: use --embeddings or --scores with the --config of their dataset."
        )
    if unexpected:
        listed = ", ".join(f"--{name}" for name in sorted(unexpected))
        raise UserError(f"{listed} cannot be used with {_listed(source)}.")
    for name, what in _NEEDED.items():
        if "run" not in source and name in allowed and not flags.FLAGS[name].value:
            other = ", or --config, whose dataset is read" if name == "annotations" else ""
            raise UserError(f"--{name}, {what}, is required with {_listed(source)}{other}.")


def _listed(names: Iterable[str]) -> str:
    return " and ".join(f"--{name}" for name in names)
