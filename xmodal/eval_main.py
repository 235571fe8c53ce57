r"""Evaluates the checkpoints of a run, published towers, or what any other model handed over.

    python -m xmodal.eval_main --run=runs/quickstart
    python -m xmodal.eval_main --config=configs/baselines.py:bow --config.towers.text=DIR \
        --config.data.manual_dir=DIR --config.data.ratings_dir=DIR --split=test --output=OUT
    python -m xmodal.eval_main --embeddings=FILE.npz --annotations=DIR --similarity=cosine \
        --boards=coco5k,coco1k,cxc,eccv,pmrp --split=test --output=OUT
    python -m xmodal.eval_main --models=OUT1,OUT2,OUT3 --output=AGREEMENT

Prints the tables and writes to --output: `metrics.json`, `report.md`, `boards.json`, `ranks.npz`
and TensorBoard scalars; of a run those of the checkpoint evaluated last, and `steps/STEP.json` of
every one. `--compare=OUT1` adds `comparison.md` and `comparison.json`.
"""

import contextlib
import os
from typing import TYPE_CHECKING

from absl import flags, logging

from xmodal import binary
from xmodal.config import UserError

if TYPE_CHECKING:
    from xmodal.evals.reports.store import StoredResults

flags.adopt_module_key_flags(binary)  # --config
RUN = flags.DEFINE_string("run", None, "Folder of the run, as printed by xmodal.main.")
STEP = flags.DEFINE_string("step", "best", "Checkpoint to evaluate: its step, 'best' or 'latest'.")
SPLIT = flags.DEFINE_string("split", "test", "Split of the dataset.")
OUTPUT = flags.DEFINE_string("output", None, "Folder for the results; RUN/SPLIT for a run.")
FOLLOW = flags.DEFINE_bool(
    "follow", False, "Evaluate every checkpoint as it appears, until the run's last step."
)
TIMEOUT = flags.DEFINE_float("timeout", 3600.0, "With --follow: seconds without a new checkpoint.")

EMBEDDINGS = flags.DEFINE_string(
    "embeddings", None, "npz: image_ids, image_embeddings, caption_ids, caption_embeddings."
)
SCORES = flags.DEFINE_string("scores", None, "npy or npz of scores, images by captions.")
IDS = flags.DEFINE_string("ids", None, "With --scores=FILE.npy: npz of image_ids and caption_ids.")
RANKINGS = flags.DEFINE_string("rankings", None, "JSON of ranked lists, as eccv_caption takes.")
ANNOTATIONS = flags.DEFINE_string("annotations", None, "Folder of the released label files.")
BOARDS = flags.DEFINE_list("boards", None, "Boards to compute, by default all.")
SIMILARITY = flags.DEFINE_string(
    "similarity", None, "Of embeddings: dot, cosine, max_cosine or match_probability."
)
PARTIAL = flags.DEFINE_bool("partial", False, "Evaluate on those items of the split that exist.")
NAME = flags.DEFINE_string("name", None, "Of the model's row; by default the file's.")
COMPARE = flags.DEFINE_string(
    "compare", None, "Results of another model to compare with: folder or ranks.npz."
)
SAMPLES = flags.DEFINE_integer("bootstrap_samples", 1000, "Of every interval.", lower_bound=1)
SEED = flags.DEFINE_integer("seed", 0, "Of the bootstrap.", lower_bound=0)

MODELS = flags.DEFINE_list("models", None, "Result folders or a JSON table: do metrics agree?")
METRICS = flags.DEFINE_list("metrics", None, "With --models: tags to compare.")

# What is evaluated -> the flags that say more about it.
_LABELLED = {"annotations", "boards", "split", "output", "name", "compare", "bootstrap_samples"}
_LABELLED |= {"seed"}
_MODES = {
    "run": {"step", "split", "output", "follow", "timeout", "compare"},
    "config": {"split", "output", "compare"},
    "embeddings": _LABELLED | {"similarity", "partial"},
    "scores": _LABELLED | {"ids", "partial"},
    "rankings": _LABELLED,
    "models": {"output", "metrics"},
}
_NEEDED = ("annotations", "output")


def main(argv: list[str]) -> None:
    """Evaluates a run, published towers, what another model handed over, or metrics themselves."""
    del argv
    mode = _check_flags()
    # All else is imported where it is needed, so that --help and a mistyped flag answer at once.
    if mode == "run":
        evaluate_run()
    elif mode == "config":
        evaluate_config()
    elif mode == "models":
        from xmodal.evals import meta
        from xmodal.evals.reports.files import check_writable

        check_writable(OUTPUT.value)
        print(meta.run(MODELS.value, OUTPUT.value, METRICS.value), flush=True)
    else:
        evaluate_files(mode)


def evaluate_run() -> None:
    """Evaluates one checkpoint, or every one as it appears."""
    import jax

    from xmodal import mesh as mesh_lib
    from xmodal.training import checkpoints, reporting
    from xmodal.training.evaluation import RunEvaluator, evaluate_checkpoint
    from xmodal.training.following import follow
    from xmodal.training.results import check_output

    mesh_lib.initialize_processes()
    run_dir, split = RUN.value, SPLIT.value
    output = OUTPUT.value or os.path.join(run_dir, split)
    last_step = checkpoints.load_run(run_dir).total_steps
    other = _load_other()
    check_output(output)
    if FOLLOW.value:
        if jax.process_count() > 1:
            raise UserError("--follow runs in one process: hosts could see different checkpoints.")
        steps = follow(run_dir, output, last_step=last_step, timeout=TIMEOUT.value)
    else:
        steps = iter([checkpoints.resolve_step(run_dir, STEP.value)])
    evaluator = RunEvaluator.of_run(run_dir)
    evaluator.prepare(split, other)
    with contextlib.closing(reporting.make_writer(output, log=False)) as writer:
        for step in steps:
            try:
                evaluate_checkpoint(evaluator, run_dir, step, split, output, writer, other)
            except (FileNotFoundError, ValueError):
                if step in checkpoints.steps(run_dir):
                    raise
                # A run keeps its last few checkpoints only.
                logging.warning("Checkpoint %d made room for newer ones while it was read.", step)


def evaluate_config() -> None:
    """Evaluates published towers on the dataset that --config names."""
    config = binary.read_config()
    from xmodal import mesh as mesh_lib
    from xmodal.training.baseline import evaluate_baseline
    from xmodal.training.results import check_output, write_results

    mesh_lib.initialize_processes()
    other = _load_other()
    check_output(OUTPUT.value)
    evaluation = evaluate_baseline(config, SPLIT.value, other)
    write_results(evaluation, OUTPUT.value, other=other)


def evaluate_files(kind: str) -> None:
    """Evaluates the embeddings, scores or rankings that the flag of this name gives."""
    from xmodal import mesh as mesh_lib
    from xmodal.evals.from_files import evaluate
    from xmodal.training.results import check_output, write_results

    mesh_lib.initialize_processes()
    other = _load_other()
    check_output(OUTPUT.value)
    evaluation = evaluate(
        **{kind: flags.FLAGS[kind].value},
        ids=IDS.value,
        annotations=ANNOTATIONS.value,
        split=SPLIT.value,
        boards=BOARDS.value,
        similarity=SIMILARITY.value,
        partial=PARTIAL.value,
        name=NAME.value,
        bootstrap_samples=SAMPLES.value,
        seed=SEED.value,
        mesh=mesh_lib.make_mesh(),
        other=other,
    )
    write_results(evaluation, OUTPUT.value, other=other)


def _load_other() -> "StoredResults | None":
    """The model to compare with; read before any work, since it may be unreadable."""
    from xmodal.evals.reports.store import load_ranks

    return load_ranks(COMPARE.value) if COMPARE.value else None


def _check_flags() -> str:
    """What is evaluated, after making sure that all flags belong to it."""
    ours = flags.FLAGS
    modes = [mode for mode in _MODES if ours[mode].value is not None]
    if len(modes) != 1:
        wanted = ", ".join(f"--{mode}" for mode in _MODES)
        given = " and ".join(f"--{mode}" for mode in modes) or "none"
        raise UserError(f"Give one of {wanted}; given: {given}.")
    (mode,) = modes
    given = {name for name in set().union(*_MODES.values()) if not ours[name].using_default_value}
    if strange := sorted(f"--{name}" for name in given - _MODES[mode]):
        raise UserError(f"{', '.join(strange)} cannot be given with --{mode}.")
    for name in _NEEDED:
        if mode != "run" and name in _MODES[mode] and not ours[name].value:
            raise UserError(f"--{mode} needs --{name}: {ours[name].help}")
    return mode


if __name__ == "__main__":
    binary.run(main)
