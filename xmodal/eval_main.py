r"""Evaluates the checkpoints of a run, published towers, or the files of any other model.

    python -m xmodal.eval_main --run=runs/quickstart
    python -m xmodal.eval_main --run=runs/A,runs/B --output=OUT
    python -m xmodal.eval_main --config=configs/baselines.py:bow \
        --config.init_from.towers.text=DIR --config.data.manual_dir=DIR \
        --config.data.ratings_dir=DIR --output=OUT
    python -m xmodal.eval_main --embeddings=FILE.npz --annotations=DIR --similarity=cosine \
        --boards=coco5k,coco1k,cxc,eccv,pmrp --split=test --output=OUT
    python -m xmodal.eval_main --embeddings=FILE.npz --config=configs/sts.py --similarity=cosine \
        --config.data.manual_dir=DIR --output=OUT

Prints the tables and writes to --output: `metrics.json`, `report.md`, the same report as a web page
in `report.html`, `boards.json`, `ranks.npz` and TensorBoard scalars. `--compare=OUT1` adds
`comparison.md` and `comparison.json`; with a config or a run, `--examples=N` adds `examples.html`,
a page of example queries.

A run, published towers, and a file with a config are evaluated by every evaluator of
`config.evals`. Each has its own folder in --output; `metrics.json` has the numbers of all,
EVALUATOR/BOARD/DIRECTION/METRIC, for a run those of the last evaluated checkpoint, and
`steps/STEP.json` those of each checkpoint. --output defaults to RUN/SPLIT for the best checkpoint,
whose results in RUN/test are those that training wrote, and to RUN/step_STEP/SPLIT for another
--step.
`--manual_dir`, `--data_dir` and `--ratings_dir` say where the folders of a run's `config.data` are
now, if they were moved.
`--interpolate=0,0.5,1` evaluates averages of the checkpoint and the weights that its run started
from, into RUN/interpolation/SPLIT: `steps/PERCENT.json`, and `curve.md` and `curve.tex`, a table
with intervals.
`--run=A,B` evaluates the mean of the scores of two runs, `--config.init_from.model=A,B` that of two
converted models. `--save_embeddings=FILE.npz` writes the file that `--embeddings` reads,
`--save_scores=FILE.npz` that of a reranker's scores, which `--scores` reads.
"""

from xmodal.core import interrupts

if __name__ == "__main__":
    interrupts.end_at_once()  # Before the other imports, which take seconds.

import contextlib
import os
from typing import TYPE_CHECKING

from absl import flags
from etils import epath
from ml_collections import ConfigDict

from xmodal.apps import config_flag, eval_flags
from xmodal.apps.eval_flags import (
    ANNOTATIONS,
    BOARDS,
    COMPARE,
    EVALUATORS,
    EXAMPLES,
    FOLLOW,
    IDS,
    INTERPOLATE,
    NAME,
    OVERWRITE,
    PARTIAL,
    PLACES,
    PRECISION,
    RUN,
    SAMPLES,
    SAVE_EMBEDDINGS,
    SAVE_SCORES,
    SEED,
    SIMILARITY,
    SPLIT,
    STEP,
    TIMEOUT,
    check_flags,
    values_of,
)
from xmodal.apps.output_flag import OUTPUT
from xmodal.core.buckets import split_folders
from xmodal.core.errors import UserError
from xmodal.core.progress import stoppable

if TYPE_CHECKING:
    from xmodal.train.evaluation.run_evaluation import RunEvaluation
    from xmodal.train.evaluation.subjects import Opened

flags.adopt_module_key_flags(eval_flags)


def main(argv: list[str]) -> None:
    """Evaluates a run, published towers, or the files of a model."""
    del argv
    source = check_flags()
    # Everything else is imported where it is needed, so that --help and flag errors appear at once.
    from xmodal.core import processes
    from xmodal.core.compilation_cache import use_compilation_cache

    config = None
    if "config" in source:
        config = config_flag.read_config(has_model=source == ("config",))
    settings = values_of(source) | ({"--config": config.to_dict()} if config else {})
    use_compilation_cache()
    with processes.connected(settings), _stoppable():
        if config or RUN.value:
            _evaluate(*_open(source, config))
        else:
            _run_on_annotations(*source)


def _stoppable() -> contextlib.AbstractContextManager:
    """Answers SIGTERM at the next block of work, the same one in all processes."""
    from xmodal.core import processes

    agree = processes.agree_to_stop if processes.count() > 1 else None
    return stoppable("the same command evaluates again", agree)


def _evaluate(opened: "Opened", output: str) -> None:
    """Evaluates models by the evaluators of a config."""
    from xmodal.train.evaluation import evaluation_files, subjects
    from xmodal.train.evaluation.suite import Request
    from xmodal.train.folder import folder_lock

    evaluation_files.check_output(output, opened.identity, overwrite=OVERWRITE.value)
    saved = SAVE_EMBEDDINGS.value, SAVE_SCORES.value
    request = Request(SPLIT.value, COMPARE.value, EXAMPLES.value, *saved)
    # A folder given by the user may hold the results of another split; a run's averages of weights
    # do not name the checkpoint.
    keep_others = not OUTPUT.value and not INTERPOLATE.value
    # A follower writes for hours.
    with folder_lock.hold(output) if FOLLOW.value else contextlib.nullcontext():
        evaluations = subjects.evaluate_subjects(
            opened, output, request, keep_others=keep_others, follows=FOLLOW.value
        )
    if INTERPOLATE.value:
        from xmodal.train import interpolation

        print(interpolation.write_curve(output, interpolation.read_weights(INTERPOLATE.value)))
    else:
        evaluation_files.print_pages(evaluations, output)


def _open(source: tuple[str, ...], config: ConfigDict | None) -> tuple["Opened", str]:
    """Returns the models of the source with their evaluators, and the folder of the results."""
    if RUN.value:
        if FOLLOW.value:
            return _open_followed()
        if INTERPOLATE.value:
            return _open_interpolation()
        folders = split_folders(RUN.value)
        return _open_run() if len(folders) == 1 else (_open_ensemble(folders), OUTPUT.value)
    assert config is not None
    if source == ("config",):
        from xmodal.train.published_towers import models_of, open_towers

        if len(models_of(config)) > 1:
            _refuse_to_save("model", "--config.init_from.model")
        return open_towers(config, EVALUATORS.value, SPLIT.value), OUTPUT.value
    from xmodal.train.evaluation.subjects import open_file

    kind = source[0]
    opened = open_file(
        flags.FLAGS[kind].value,
        config,
        kind=kind,
        ids=IDS.value,
        names=EVALUATORS.value,
        similarity=SIMILARITY.value,
        name=NAME.value,
    )
    return opened, OUTPUT.value


def _open_run() -> tuple["Opened", str]:
    """Returns the checkpoint of a run, and the folder for its results."""
    from xmodal.train.evaluation import run_subjects
    from xmodal.train.folder import run_folder

    config = run_folder.load_run(RUN.value)
    # Resolved once: a training run may save a later checkpoint at any time.
    step = run_folder.resolve_step(RUN.value, STEP.value)
    # RUN/test has the run's own results, which are those of its best checkpoint.
    is_best = STEP.value == "best"
    output = _output_in_run("" if is_best else f"step_{step}")
    opened = run_subjects.open_run(_evaluation_of(config), RUN.value, [step], is_best=is_best)
    return opened, output


def _open_followed() -> tuple["Opened", str]:
    """Returns the checkpoints of a run as they appear."""
    import jax

    from xmodal.train.evaluation import run_subjects
    from xmodal.train.folder.following import follow, wait_for_run

    folders = split_folders(RUN.value)
    if len(folders) > 1 and any(epath.Path(each).exists() for each in folders):
        raise UserError("--follow takes one run; --run names several.")
    if jax.process_count() > 1:
        raise UserError("--follow runs in one process: hosts could see different checkpoints.")
    folder, timeout = RUN.value, TIMEOUT.value
    config, output = wait_for_run(folder, timeout=timeout), _output_in_run("follow")
    steps = follow(folder, output, timeout=timeout, overwrite=OVERWRITE.value)
    return run_subjects.open_run(_evaluation_of(config), folder, steps, follows=True), output


def _open_interpolation() -> tuple["Opened", str]:
    """Returns averages of a checkpoint and the weights that its run started from."""
    from xmodal.train import interpolation
    from xmodal.train.folder import run_folder

    weights = interpolation.read_weights(INTERPOLATE.value)
    config = run_folder.load_run(RUN.value)
    step, output = run_folder.resolve_step(RUN.value, STEP.value), _output_in_run("interpolation")
    evaluation = _evaluation_of(config)
    return interpolation.open_interpolation(evaluation, RUN.value, step, weights), output


def _open_ensemble(folders: list[str]) -> "Opened":
    """Returns the runs whose scores are averaged."""
    from xmodal.train.evaluation import run_subjects
    from xmodal.train.folder import run_folder

    if missing := [each for each in folders if not epath.Path(each).exists()]:
        raise UserError(f"--run={RUN.value} names folders that do not exist: {missing}.")
    _refuse_to_save("run", "--run")
    if not OUTPUT.value:
        raise UserError("--run names several runs, whose results belong to none: set --output.")
    if len(set(folders)) < 2:
        raise UserError(f"--run={RUN.value} names one run; remove the comma, or name several runs.")
    configs = [run_folder.load_run(folder) for folder in folders]
    for config in configs:
        _add_flags(config)
    return run_subjects.open_runs(
        folders, configs, split=SPLIT.value, step=STEP.value, names=EVALUATORS.value
    )


def _refuse_to_save(kind: str, several: str) -> None:
    for flag in (SAVE_EMBEDDINGS, SAVE_SCORES):
        if flag.value:
            raise UserError(f"--{flag.name} takes one {kind}; {several} names several.")


def _run_on_annotations(kind: str) -> None:
    """Evaluates the embeddings, scores or rankings in the flag of this name."""
    from xmodal.api import evaluating
    from xmodal.core import mesh as mesh_lib
    from xmodal.evals.reports.store import find_evaluations, load_ranks
    from xmodal.train.evaluation import evaluation_files as files
    from xmodal.train.evaluation.model_identity import ModelIdentity
    from xmodal.train.tensorboard.example_views import TensorBoardConfig, Views

    model = ModelIdentity.of_file(flags.FLAGS[kind].value, SIMILARITY.value, IDS.value)
    files.check_output(OUTPUT.value, model, overwrite=OVERWRITE.value)
    # Read first, since it may be unreadable.
    other = None
    if COMPARE.value:
        found = list(find_evaluations(COMPARE.value).values())
        other = load_ranks(found[0] if len(found) == 1 else COMPARE.value)
    evaluation = evaluating.evaluate(
        **{kind: flags.FLAGS[kind].value},
        ids=IDS.value,
        annotations=ANNOTATIONS.value,
        split=SPLIT.value or "test",
        boards=BOARDS.value,
        similarity=SIMILARITY.value,
        partial=PARTIAL.value,
        name=NAME.value,
        bootstrap_samples=SAMPLES.value,
        seed=SEED.value,
        precision=PRECISION.value,
        mesh=mesh_lib.make_mesh(),
        other=other,
    )
    others = {"": other} if other is not None else {}
    with files.event_writer(OUTPUT.value) as writer:
        views = Views(writer, TensorBoardConfig(), 0)
        files.write_all([evaluation], OUTPUT.value, model, others, views)
    files.print_pages([evaluation], OUTPUT.value)


def _output_in_run(place: str) -> str:
    """Returns --output, or its default within the run; keeps results out of the run's own."""
    from xmodal.core.result_files import FINAL

    output = OUTPUT.value or os.path.join(RUN.value, place, SPLIT.value or FINAL)
    own = os.path.join(RUN.value, FINAL)
    is_other = place or SPLIT.value not in (None, FINAL)
    if is_other and not OVERWRITE.value and os.path.realpath(output) == os.path.realpath(own):
        raise UserError(
            f"--output={output} is for results of the best checkpoint, which a finished run prints "
            "as its own; use another folder, leave out --output, or replace them with --overwrite."
        )
    return output


def _evaluation_of(config: ConfigDict) -> "RunEvaluation":
    """Returns the evaluation of the run of a config."""
    from xmodal.core import mesh as mesh_lib
    from xmodal.train.evaluation.run_evaluation import RunEvaluation
    from xmodal.train.resolve import build_run

    _add_flags(config)
    parts = build_run(config, mesh_lib.make_mesh())
    return RunEvaluation(parts, names=EVALUATORS.value, trains=False)


def _add_flags(config: ConfigDict) -> None:
    """Sets what flags say of the dataset of a run: its labels, and where its folders are now."""
    for place in PLACES:
        if place.value is not None:
            config.data[place.name] = place.value
    if ANNOTATIONS.value:
        add_annotations(config, ANNOTATIONS.value)


def add_annotations(config: ConfigDict, folder: str) -> None:
    """Sets the folder of labels of all evaluators of boards of MS-COCO.

    Raises:
      UserError: there is no such evaluator.
    """
    found = False
    for section in config.evals.values():
        dataset = (section.get("data") or {}).get("dataset", config.data.dataset)
        if section.type == "boards" and dataset == "coco_captions":
            section.annotations, found = folder, True
    if not found:
        raise UserError(
            f"--annotations={folder} has labels of MS-COCO, but no evaluator of config.evals uses "
            "boards of coco_captions."
        )


if __name__ == "__main__":
    config_flag.run(main)
