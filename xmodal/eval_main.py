r"""Evaluates the checkpoints of a run, published towers, or the files of any other model.

    xmodal evaluate run runs/quickstart
    xmodal evaluate run runs/A,runs/B --output=OUT
    xmodal evaluate towers --config=configs/baselines.py:bow --config.init_from.towers.text=DIR \
        --config.data.manual_dir=DIR --config.data.ratings_dir=DIR --output=OUT
    xmodal evaluate towers --config=configs/baselines.py:use --text=savedmodel:DIR \
        --config.data.manual_dir=DIR --config.data.ratings_dir=DIR --output=OUT
    xmodal evaluate files --embeddings=FILE.npz --annotations=DIR --similarity=cosine \
        --benchmarks=coco5k,coco1k,cxc,eccv,pmrp --output=OUT
    xmodal evaluate files --embeddings=FILE.npz --config=configs/sts.py --similarity=cosine \
        --config.data.manual_dir=DIR --output=OUT

`python -m xmodal.eval_main --run=RUN`, `--embeddings=FILE` and `--config=CONFIG` do the same
without the name of the command.

Prints the tables and writes to --output: `metrics.json`, `report.md`, the same report as a web page
in `report.html`, `benchmarks.json`, `ranks.npz` and TensorBoard scalars. `--compare=OUT1` adds
`comparison.md` and `comparison.json`; with a config or a run, `examples.html` is a page of example
queries, and a leaderboard shows those in `queries.json`.

A run, published towers, and a file with a config are evaluated by every evaluator of
`config.evals`. Each has its own folder in --output; `metrics.json` has the numbers of all,
EVALUATOR/BENCHMARK/DIRECTION/METRIC, for a run those of the last evaluated checkpoint, and
`steps/STEP.json` those of each checkpoint. --output defaults to RUN/SPLIT for the best checkpoint,
whose results in RUN/test are those that training wrote, and to RUN/step_STEP/SPLIT for another
--step. `--interpolate=0,0.5,1` evaluates averages of the checkpoint and the weights that its run
started from, into RUN/interpolation/SPLIT: `steps/PERCENT.json`, and `curve.md`, a table
with intervals. `--config.init_from.model=A,B` evaluates the mean of the scores of two
converted models.
"""

import argparse
import contextlib
import os
from typing import TYPE_CHECKING

from ml_collections import ConfigDict

from xmodal.apps import config_flag, eval_arguments
from xmodal.core.errors import UserError
from xmodal.core.files import split_folders

if TYPE_CHECKING:
    from xmodal.train.evaluation.run_evaluation import RunEvaluation
    from xmodal.train.evaluation.subjects import Opened


def main(args: argparse.Namespace) -> None:
    """Evaluates a run, published towers, or the files of a model."""
    # Everything else is imported where it is needed, so that --help and flag errors appear at once.
    from xmodal.core import processes
    from xmodal.core.compilation_cache import use_compilation_cache
    from xmodal.core.progress import stoppable

    config = None
    if args.command == "towers" or (args.command == "files" and not args.annotations):
        config = config_flag.read_config(has_model=args.command == "towers" and not args.text)
    settings = {f"--{name}": value for name, value in vars(args).items()}
    settings |= {"--config": config.to_dict()} if config else {}
    use_compilation_cache()
    with processes.connected(settings), stoppable("the same command evaluates again"):
        if args.command == "files" and config is None:
            _evaluate_on_annotations(args)
        elif args.command == "files":
            _evaluate(args, _open_file(args, config), args.output)
        elif args.command == "towers":
            _evaluate(args, _open_towers(args, config), args.output)
        else:
            _evaluate(args, *_open_run(args))


def _evaluate(args: argparse.Namespace, opened: "Opened", output: str) -> None:
    """Evaluates models by the evaluators of a config."""
    from xmodal.core import processes
    from xmodal.core.files import check_writable
    from xmodal.evals.reports.evaluate import EXAMPLES
    from xmodal.train.evaluation import subjects
    from xmodal.train.evaluation.suite import Request
    from xmodal.train.folder import folder_lock

    processes.first_does(f"check {output}", lambda: check_writable(output))
    follows, weights = getattr(args, "follow", False), getattr(args, "interpolate", None)
    paths = {name: getattr(args, name, None) for name in eval_arguments.SAVED}
    saved = {name.removeprefix("save_"): path for name, path in paths.items() if path}
    default = 0 if follows or weights else EXAMPLES
    examples = default if args.examples is None else args.examples
    request = Request(args.split, args.compare, examples, saved)
    # A folder given by the user may hold the results of another split; a run's averages of weights
    # do not name the checkpoint.
    keep_others = not args.output and not weights
    # A follower writes for hours.
    with folder_lock.hold(output) if follows else contextlib.nullcontext():
        evaluations = subjects.evaluate_subjects(
            opened, output, request, keep_others=keep_others, follows=follows
        )
    if weights:
        from xmodal.train.evaluation.run_subjects import write_curve

        print(write_curve(output, weights))
    else:
        subjects.print_pages(evaluations, output)


def _open_file(args: argparse.Namespace, config: ConfigDict | None) -> "Opened":
    from xmodal.train.evaluation.subjects import open_file

    kind = _kind_of_file(args)
    given = {key: getattr(args, key) for key in ("ids", "similarity", "name")}
    return open_file(getattr(args, kind), config, kind=kind, names=args.evaluators, **given)


def _kind_of_file(args: argparse.Namespace) -> str:
    return next(each for each in ("embeddings", "scores", "rankings") if getattr(args, each))


def _open_towers(args: argparse.Namespace, config: ConfigDict) -> "Opened":
    if args.text:
        return _open_text_encoder(args, config)
    from xmodal.train.published_towers import open_towers

    if len(split_folders(config.init_from.model)) > 1:
        _refuse_to_save(args, "model", "--config.init_from.model")
    return open_towers(config, args.evaluators, args.split)


def _open_text_encoder(args: argparse.Namespace, config: ConfigDict) -> "Opened":
    """Returns the function that --text names, in place of the model of the config."""
    from xmodal.api.evaluating import FunctionAdapter
    from xmodal.train.evaluation.subjects import open_adapter
    from xmodal.train.evaluation.suite import Subject

    adapter = FunctionAdapter({"text": args.text}, config.model.similarity.name)
    subject = Subject(config.name, adapter, lambda _: [f"Text encoder: {args.text}, as it is."])
    return open_adapter(subject, config, ["text"], names=args.evaluators)


def _open_run(args: argparse.Namespace) -> tuple["Opened", str]:
    """Returns the models of runs, and the folder for their results."""
    from xmodal.train.evaluation import run_subjects
    from xmodal.train.folder import run_folder

    if args.follow:
        config = run_subjects.wait_for_run(args.run, timeout=args.timeout)
        evaluation, output = _evaluation_of(args, config), _output_in_run(args, "follow")
        steps = run_subjects.follow(
            args.run, output, timeout=args.timeout, overwrite=args.overwrite
        )
        return run_subjects.open_run(evaluation, args.run, steps), output
    folders = split_folders(args.run)
    if len(folders) > 1:
        return _open_ensemble(args, folders), args.output
    config = run_folder.load_run(args.run)
    # Resolved once: a training run may save a later checkpoint at any time.
    step = run_folder.resolve_step(args.run, args.step)
    evaluation = _evaluation_of(args, config)
    if args.interpolate:
        output = _output_in_run(args, "interpolation")
        opened = run_subjects.open_interpolation(evaluation, args.run, step, args.interpolate)
        return opened, output
    # RUN/test has the run's own results, which are those of its best checkpoint.
    is_best = args.step == "best"
    output = _output_in_run(args, "" if is_best else f"step_{step}")
    return run_subjects.open_run(evaluation, args.run, [step]), output


def _open_ensemble(args: argparse.Namespace, folders: list[str]) -> "Opened":
    """Returns the runs whose scores are averaged."""
    from xmodal.train.evaluation import run_subjects
    from xmodal.train.folder import run_folder

    _refuse_to_save(args, "run", "--run")
    if not args.output:
        raise UserError("--run names several runs, whose results belong to none: set --output.")
    members = {}
    for folder in folders:
        evaluation = _evaluation_of(args, run_folder.load_run(folder))
        steps = [run_folder.resolve_step(folder, args.step)]
        members[folder] = run_subjects.open_run(evaluation, folder, steps)
    return run_subjects.open_ensemble(members, args.split)


def _refuse_to_save(args: argparse.Namespace, kind: str, several: str) -> None:
    for name in eval_arguments.SAVED:
        if getattr(args, name):
            raise UserError(f"--{name} takes one {kind}; {several} names several.")


def _evaluate_on_annotations(args: argparse.Namespace) -> None:
    """Evaluates embeddings, scores or rankings on the released label files."""
    from xmodal.api import evaluating
    from xmodal.core import mesh as mesh_lib
    from xmodal.core import processes
    from xmodal.core.files import check_writable
    from xmodal.evals.reports.evaluation import find_ranks
    from xmodal.train.evaluation import subjects
    from xmodal.train.tensorboard import TensorBoardConfig, Views

    kind = _kind_of_file(args)
    processes.first_does(f"check {args.output}", lambda: check_writable(args.output))
    # Read first, since it may be unreadable.
    other = find_ranks(args.compare) if args.compare else None
    names = ("ids", "annotations", "benchmarks", "metrics", "similarity", "partial")
    names += ("name", "save_rankings")
    evaluation = evaluating.evaluate(
        **{name: getattr(args, name) for name in (kind, *names)},
        split=args.split or "test",
        bootstrap_samples=args.bootstrap_samples or 1000,
        seed=args.seed or 0,
        precision=args.precision or "float32",
        mesh=mesh_lib.make_mesh(),
        other=other,
    )
    others = {"": other} if other is not None else {}
    with subjects.event_writer(args.output) as writer:
        views = Views(writer, TensorBoardConfig(), 0)
        subjects.write_all([evaluation], args.output, others, views)
    subjects.print_pages([evaluation], args.output)


def _output_in_run(args: argparse.Namespace, place: str) -> str:
    """Returns --output, or its default within the run."""
    from xmodal.core.files import FINAL

    return args.output or os.path.join(args.run, place, args.split or FINAL)


def _evaluation_of(args: argparse.Namespace, config: ConfigDict) -> "RunEvaluation":
    """Returns the evaluation of the run of a config."""
    from xmodal.core import mesh as mesh_lib
    from xmodal.train.evaluation.run_evaluation import RunEvaluation
    from xmodal.train.resolve import build_run

    for name in ("manual_dir", "data_dir", "ratings_dir"):  # Where they are now.
        if getattr(args, name) is not None:
            config.data[name] = getattr(args, name)
    if args.annotations:
        add_annotations(config, args.annotations)
    parts = build_run(config, mesh_lib.make_mesh())
    return RunEvaluation(parts, names=args.evaluators, trains=False)


def add_annotations(config: ConfigDict, folder: str) -> None:
    """Sets the labels of all evaluators that read them: of MS-COCO, else of the run's dataset."""
    sections: dict[str, list[ConfigDict]] = {}
    for section in config.evals.values():
        dataset = (section.get("data") or {}).get("dataset", config.data.dataset)
        if section.type in ("benchmarks", "ambiguity"):
            sections.setdefault(dataset, []).append(section)
    found = sections.get("coco_captions") or sections.get(config.data.dataset)
    if not found:
        raise UserError(
            f"--annotations={folder} has labels, but no evaluator of config.evals uses benchmarks "
            f"of {config.data.dataset} or coco_captions."
        )
    for section in found:
        section.annotations = folder


if __name__ == "__main__":
    config_flag.run(main, lambda words: eval_arguments.parse(words, __doc__))
