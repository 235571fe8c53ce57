"""The arguments of `xmodal evaluate run|files|towers`."""

import argparse
from collections.abc import Sequence

from xmodal.apps.arguments import add_texts, make_parser, name_list, natural_int, positive_int
from xmodal.core.errors import UserError

SAVED = ("save_embeddings", "save_scores", "save_rankings")
# Arguments of `files` that need labels in --annotations, or the dataset of a --config.
_OF_LABELS = ("benchmarks", "metrics", "bootstrap_samples", "partial", "precision", "seed")
_OF_CONFIG = ("evaluators", "examples")
# File -> arguments that it does not read.
_UNUSED = {
    "embeddings": ("ids",),
    "scores": ("similarity",),
    "rankings": ("ids", "similarity", "partial", "examples"),
}


def parse(words: Sequence[str], description: str | None) -> tuple[argparse.Namespace, list[str]]:
    """Returns the arguments, and the words that are left: --config and its overrides.

    Without `run`, `files` or `towers`, the first one is taken that --run, a file or --config names.
    """
    parser = make_parser("evaluate", description)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, add, help in (
        ("run", _add_run, "checkpoints of a run"),
        ("files", _add_files, "embeddings, scores or rankings of any model"),
        ("towers", _add_towers, "published weights in the model of a --config"),
    ):
        command = commands.add_parser(name, help=help, description=help, allow_abbrev=False)
        add(command)
        _add_results(command)
    args, rest = parser.parse_known_args(_with_command(words))
    has_config = any(word.partition("=")[0] == "--config" for word in rest)
    if args.command == "run":
        if has_config:
            raise UserError("A run has its own config: leave out --config, or --run.")
        if any(getattr(args, name) for name in SAVED) and (args.follow or args.interpolate):
            raise UserError(f"--{', --'.join(SAVED)} take one checkpoint of a run.")
        return args, rest
    if not args.output:
        parser.error("--output is needed, a folder for the results")
    if args.command == "files":
        _check_files(args, has_config)
    return args, rest


def _with_command(words: Sequence[str]) -> list[str]:
    flags = {word.partition("=")[0] for word in words}
    if "--run" in flags:
        return ["run", *(word.removeprefix("--run=") for word in words if word != "--run")]
    if flags & {f"--{name}" for name in _UNUSED} and words[0] != "files":
        return ["files", *words]
    if "--config" in flags and words[0] not in ("files", "towers"):
        return ["towers", *words]
    return list(words)


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", help="folder of the run, as printed by xmodal.main; A,B for the mean of their scores"
    )
    parser.add_argument(
        "--step",
        default="best",
        help="checkpoint to evaluate: its step, best or latest. Results of any other than best go "
        "to RUN/step_STEP/SPLIT",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--follow",
        action="store_true",
        help="wait for the run and evaluate every checkpoint as it appears, until its last step",
    )
    how.add_argument(
        "--interpolate",
        type=_weights,
        help="weights from 0 to 1, such as 0,0.25,0.5,0.75,1: averages the run's checkpoint with "
        "the weights that the run started from (WiSE-FT), 0 being the start, and evaluates each",
    )
    parser.add_argument(
        "--timeout", type=float, default=3600.0, help="seconds to wait for a checkpoint"
    )
    add_texts(
        parser,
        manual_dir="where the files of its dataset are now, if moved",
        data_dir="where its prepared datasets are now, if moved",
        ratings_dir="where its ratings are now, if moved",
        annotations="labels of its dataset, see `files`",
    )
    _add_model(parser)


def _weights(text: str) -> list[float]:
    return sorted({round(float(weight), 2) for weight in text.split(",")})  # Filed by percent.


def _add_towers(parser: argparse.ArgumentParser) -> None:
    add_texts(parser, text="savedmodel:FOLDER: text encoder of TF-Hub instead of config.model")
    _add_model(parser)


def _add_model(parser: argparse.ArgumentParser) -> None:
    add_texts(
        parser,
        save_embeddings="npz file to write, as `files --embeddings` reads it",
        save_scores="npz file of the scores that rank, as `files --scores` reads it",
    )
    _add_evaluators(parser)


def _add_evaluators(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--evaluators", type=name_list, help="some of config.evals; default: all")
    parser.add_argument(
        "--examples",
        type=natural_int,
        help="queries per rule (worst rank, changed against --compare, tied) on the page "
        "examples.html; default: 3, with --follow and --interpolate 0, for no page",
    )


def _add_files(parser: argparse.ArgumentParser) -> None:
    add_texts(
        parser.add_mutually_exclusive_group(required=True),
        embeddings="npz: image_ids, image_embeddings, caption_ids, caption_embeddings",
        scores="npy or npz of scores, images by captions; or npz of candidates and their scores",
        rankings="JSON of ranked lists, in eccv_caption's format",
    )
    add_texts(
        parser,
        ids="of --scores=FILE.npy: npz of image_ids and caption_ids",
        similarity="of embeddings, such as cosine; default: the file's",
        name="name of the model's row; default: the file's",
        annotations="labels: a folder of released files, of `annotate aggregate` or of judgments; "
        "or use --config",
    )
    parser.add_argument("--benchmarks", type=name_list, help="benchmarks to compute; default: all")
    parser.add_argument("--metrics", type=name_list, help="of judgments, such as ndcg@100,map")
    parser.add_argument(
        "--partial", action="store_true", help="evaluate on the items of the split that exist"
    )
    parser.add_argument(
        "--bootstrap_samples", type=positive_int, help="samples per interval; default: 1000"
    )
    parser.add_argument("--seed", type=natural_int, help="seed of the bootstrap; default: 0")
    parser.add_argument(
        "--precision",
        choices=("float32", "float64"),
        help="type of the scores of embeddings; default: float32",
    )
    _add_evaluators(parser)


def _add_results(parser: argparse.ArgumentParser) -> None:
    add_texts(
        parser,
        split="split of the dataset, which evaluators with another dataset ignore; default: test, "
        "or config.evals.NAME.final_split",
        output="folder for the results; of a run by default RUN/SPLIT, RUN/follow/SPLIT with "
        "--follow, or RUN/step_STEP/SPLIT with --step",
        save_rankings="JSON file of every query's first 50 items, as `files --rankings` reads it",
        compare="results of another model: its run, the --output of an evaluation, or ranks.npz",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="with --follow, evaluate all checkpoints again"
    )


def _check_files(args: argparse.Namespace, has_config: bool) -> None:
    if has_config == bool(args.annotations):
        raise UserError(
            "Give either --annotations, the folder of the label files, or --config, whose dataset "
            "is read."
        )
    source = next(name for name in _UNUSED if getattr(args, name))
    unused = [*(_OF_LABELS if has_config else _OF_CONFIG), *_UNUSED[source]]
    if given := [f"--{name}" for name in dict.fromkeys(unused) if getattr(args, name)]:
        labels = "--config" if has_config else "--annotations"
        raise UserError(f"{', '.join(given)} cannot be used with --{source} and {labels}.")
