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
a page of queries worth a look.

A run, published towers, and embeddings with a config are evaluated by every evaluator of
`config.evals`. Each has its own folder in --output; `metrics.json` has the numbers of all,
EVALUATOR/BOARD/DIRECTION/METRIC, for a run those of the last evaluated checkpoint, and
`steps/STEP.json` those of each checkpoint. --output defaults to RUN/SPLIT for the best checkpoint,
whose results in RUN/test are those that training wrote, and to RUN/step_STEP/SPLIT for another
--step.
`--save_embeddings=FILE.npz` writes the file that `--embeddings` reads.
"""

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from absl import flags
from ml_collections import ConfigDict

from xmodal.base.config import UserError
from xmodal.base.console import quietly
from xmodal.cli import config_flag, eval_flags
from xmodal.cli.eval_flags import (
    ANNOTATIONS,
    BOARDS,
    COMPARE,
    EMBEDDINGS,
    EVALUATORS,
    EXAMPLES,
    FOLLOW,
    IDS,
    NAME,
    OVERWRITE,
    PARTIAL,
    RUN,
    SAMPLES,
    SAVE_EMBEDDINGS,
    SEED,
    SIMILARITY,
    SPLIT,
    STEP,
    TIMEOUT,
    check_flags,
    values_of,
)
from xmodal.cli.output_flag import OUTPUT

if TYPE_CHECKING:
    from xmodal.runs.evaluation.model_identity import ModelIdentity
    from xmodal.runs.evaluation.suite import Request

flags.adopt_module_key_flags(eval_flags)


def main(argv: list[str]) -> None:
    """Evaluates a run, published towers, or the files of a model."""
    del argv
    source = check_flags()
    # Everything else is imported where it is needed, so that --help and flag errors appear at once.
    from xmodal.base import processes
    from xmodal.base.compilation_cache import use_compilation_cache

    config = config_flag.read_config() if "config" in source else None
    settings = values_of(source) | ({"--config": config.to_dict()} if config else {})
    use_compilation_cache()
    if config or RUN.value:
        with quietly():
            import xmodal.runs.evaluation.run_evaluation  # noqa: F401
    with processes.connected(settings):
        if FOLLOW.value:
            follow_run()
        elif RUN.value and "," in RUN.value:
            evaluate_ensemble()
        elif RUN.value:
            evaluate_run()
        elif source == ("config",):
            evaluate_config(config)
        elif source == ("embeddings", "config"):
            evaluate_embeddings(config)
        else:
            evaluate_files(*source)


def evaluate_run() -> None:
    """Evaluates one checkpoint of a run."""
    from xmodal.runs.folder import run_folder

    folder = RUN.value
    config = run_folder.load_run(folder)
    # Resolved once: a training run may save a later checkpoint at any time.
    step = run_folder.resolve_step(folder, STEP.value)
    # RUN/test has the run's own results, which are those of its best checkpoint.
    place = "" if STEP.value == "best" else f"step_{step}"
    output = _output_in_run(place)
    _check_run_output(output, config)
    _evaluate_checkpoints(config, [step], output)


def follow_run() -> None:
    """Evaluates the checkpoints of a run as they appear."""
    import jax

    from xmodal.runs.folder import folder_lock
    from xmodal.runs.folder.following import follow, wait_for_run

    if "," in RUN.value:
        raise UserError("--follow takes one run; --run names several.")
    if jax.process_count() > 1:
        raise UserError("--follow runs in one process: hosts could see different checkpoints.")
    folder, timeout = RUN.value, TIMEOUT.value
    config, output = wait_for_run(folder, timeout=timeout), _output_in_run("follow")
    _check_run_output(output, config)
    with folder_lock.hold(output) as check_lock:  # A follower writes for hours.
        steps = follow(folder, output, timeout=timeout, anew=OVERWRITE.value)
        _evaluate_checkpoints(config, steps, output, check_lock)


def _output_in_run(place: str) -> str:
    """Returns --output, or its default within the run; keeps results out of the run's own."""
    from xmodal.runs.folder.finished import FINAL

    output = OUTPUT.value or os.path.join(RUN.value, place, SPLIT.value or FINAL)
    if place or SPLIT.value not in (None, FINAL):
        _check_is_elsewhere(output, os.path.join(RUN.value, FINAL))
    return output


def _check_run_output(output: str, config: ConfigDict) -> None:
    from xmodal.runs.evaluation.model_identity import ModelIdentity
    from xmodal.runs.folder.run_records import training_hashes

    _check_output(output, ModelIdentity.of_config(config, training_hashes(RUN.value)))


def _evaluate_checkpoints(
    config: ConfigDict,
    steps: Iterable[int],
    output: str,
    check_lock: Callable[[], None] | None = None,
) -> None:
    """Evaluates checkpoints of --run; `check_lock` raises if a follower has lost `output`."""
    from xmodal.base import mesh as mesh_lib
    from xmodal.runs import run
    from xmodal.runs.evaluation.checkpoint_evaluation import evaluate_checkpoints
    from xmodal.runs.evaluation.evaluation_files import print_pages
    from xmodal.runs.evaluation.run_evaluation import RunEvaluation

    if ANNOTATIONS.value:
        add_annotations(config, ANNOTATIONS.value)
    parts = run.build(config, mesh_lib.make_mesh())
    evaluations = evaluate_checkpoints(
        RunEvaluation(parts, names=EVALUATORS.value, trains=False),
        RUN.value,
        steps,
        output,
        _request(),
        # A folder given by the user may hold the results of another split.
        keep_others=not OUTPUT.value,
        check_lock=check_lock,
    )
    print_pages(evaluations, output)


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


def evaluate_ensemble() -> None:
    """Evaluates the mean of the scores of several runs."""
    from xmodal.runs.evaluation.evaluation_files import print_pages
    from xmodal.runs.evaluation.run_ensemble import evaluate_runs, identity
    from xmodal.runs.folder import run_folder

    if SAVE_EMBEDDINGS.value:
        raise UserError("--save_embeddings takes one run; --run names several.")
    if not OUTPUT.value:
        raise UserError("--run names several runs, whose results belong to none: set --output.")
    folders = [folder.strip() for folder in RUN.value.split(",") if folder.strip()]
    if len(set(folders)) < 2:
        raise UserError(f"--run={RUN.value} names one run; remove the comma, or name several runs.")
    configs = [run_folder.load_run(folder) for folder in folders]
    _check_output(OUTPUT.value, identity(folders, configs))
    if ANNOTATIONS.value:
        for config in configs:
            add_annotations(config, ANNOTATIONS.value)
    evaluations = evaluate_runs(
        folders,
        configs,
        OUTPUT.value,
        _request(),
        step=STEP.value,
        names=EVALUATORS.value,
    )
    print_pages(evaluations, OUTPUT.value)


def evaluate_config(config: ConfigDict) -> None:
    """Evaluates published towers on the datasets of `config.evals`."""
    from xmodal.runs.evaluation.evaluation_files import event_writer, print_pages, write_all
    from xmodal.runs.evaluation.model_identity import ModelIdentity
    from xmodal.runs.evaluation.run_evaluation import RunEvaluation
    from xmodal.runs.published_towers import build_untrained, describe, load_weights
    from xmodal.runs.tensorboard.example_views import Views

    model = ModelIdentity.of_config(config)
    _check_output(OUTPUT.value, model)
    parts = build_untrained(config)
    params, model_state = load_weights(parts)
    evaluation = RunEvaluation(parts, names=EVALUATORS.value, trains=False)
    request = _request()
    others = evaluation.suite.load_others(request)
    with event_writer(OUTPUT.value, config.to_dict()) as writer:
        views = Views(writer, parts.settings.tensorboard, 0)
        evaluations = evaluation.evaluate(
            params,
            model_state,
            name=config.name,
            request=request,
            notes=lambda split: describe(parts, split),
            others=others,
            view=views,
        )
        write_all(evaluations, OUTPUT.value, model, others, views)
    print_pages(evaluations, OUTPUT.value)


def evaluate_embeddings(config: ConfigDict) -> None:
    """Evaluates a file of embeddings on the datasets of `config.evals`."""
    from xmodal.runs.evaluation.evaluation_files import event_writer, print_pages, write_all
    from xmodal.runs.evaluation.file_evaluation import evaluate_file
    from xmodal.runs.evaluation.model_identity import ModelIdentity
    from xmodal.runs.tensorboard.example_views import Views, read_config

    model = ModelIdentity.of_file(EMBEDDINGS.value, SIMILARITY.value)
    _check_output(OUTPUT.value, model)
    with event_writer(OUTPUT.value) as writer:
        views = Views(writer, read_config(config), 0)
        evaluations, others = evaluate_file(
            EMBEDDINGS.value,
            config,
            _request(),
            names=EVALUATORS.value,
            similarity=SIMILARITY.value,
            name=NAME.value,
            view=views,
        )
        write_all(evaluations, OUTPUT.value, model, others, views)
    print_pages(evaluations, OUTPUT.value)


def evaluate_files(kind: str) -> None:
    """Evaluates the embeddings, scores or rankings in the flag of this name."""
    from xmodal.base import mesh as mesh_lib
    from xmodal.evals.from_files import evaluate_files
    from xmodal.evals.reports.store import load_ranks
    from xmodal.runs.evaluation.evaluation_files import event_writer, print_pages, write_results
    from xmodal.runs.evaluation.model_identity import ModelIdentity

    model = ModelIdentity.of_file(flags.FLAGS[kind].value, SIMILARITY.value, IDS.value)
    _check_output(OUTPUT.value, model)
    # Read first, since it may be unreadable.
    other = load_ranks(COMPARE.value) if COMPARE.value else None
    evaluation = evaluate_files(
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
        mesh=mesh_lib.make_mesh(),
        other=other,
    )
    with event_writer(OUTPUT.value) as writer:
        write_results(evaluation, OUTPUT.value, model, other=other, writer=writer)
    print_pages([evaluation], OUTPUT.value)


def _request() -> "Request":
    from xmodal.runs.evaluation.suite import Request

    return Request(SPLIT.value, COMPARE.value, EXAMPLES.value, SAVE_EMBEDDINGS.value)


def _check_is_elsewhere(output: str, own: str) -> None:
    """Keeps results of another checkpoint or split out of the folder of a run's own results."""
    if not OVERWRITE.value and os.path.realpath(output) == os.path.realpath(own):
        raise UserError(
            f"--output={output} is for results of the best checkpoint, which a finished run prints "
            "as its own; use another folder, leave out --output, or replace them with --overwrite."
        )


def _check_output(output: str, model: "ModelIdentity") -> None:
    from xmodal.runs.evaluation.evaluation_files import check_output

    check_output(output, model, overwrite=OVERWRITE.value)


if __name__ == "__main__":
    config_flag.run(main)
