r"""Searches for the best values of a config by Optuna: at random, or by its TPE sampler.

    python -m xmodal sweep --config=configs/vete.py --trials=100 --select=sts/avg2016
    python -m xmodal sweep --config=configs/flickr8k.py --trials=20 \
        --space=optimizer.learning_rate:log:1e-4:1e-2 --space=batch_size:choice:64,128,256
    python -m xmodal sweep --config=configs/vete.py --trials=100 \
        --study=tasks.i2t.loss.name=pearson,covariance

The search space comes from the function `get_space` of the config file and from --space. Values set
by --config.PATH are fixed. The name of another entry, as in optimizer.name, comes with the defaults
of that entry instead of the options in the config.

--study compares values of one parameter over the same draws of all others (VETE's algorithm 2). The
values may be whole sections, each with its own keys. A drawn parameter of the studied section is
left out of the values that do not have it:

    --study="tasks.i2t.loss={'name': 'pearson'},{'name': 'soft_kendall', 'options': {'alpha': 5.0}}"

A draw depends only on its number, --draw_seed and the order of the space. So searches of several
configs share the draws of the parameters with which their spaces begin.

--sampler=tpe draws near the best trials so far, and --pruner=median (or halving, hyperband) ends
trials whose evaluations are worse than those of others.

The folder of the sweep has a run per trial in `trials`, Optuna's study `sweep` in `optuna.db`, and
at the end `report.md`, its tables in `report.tex`, `results.csv`, and without --study
`metrics.json` of the best trial; optuna-dashboard draws `optuna.db`. The same command resumes a
sweep that was stopped or killed; a killed trial resumes after a minute without heartbeat.
Several may run concurrently, on one or several machines that share the folder and its file locks. A
higher --trials adds trials. Exit codes are those of xmodal.main.
"""

import os
import pathlib
import sys
from typing import TYPE_CHECKING, Any

from absl import flags

from xmodal.apps import config_flag, training_flags, trials_flag
from xmodal.apps.arguments import require_extra
from xmodal.apps.training_flags import DRY_RUN, WORKDIR
from xmodal.apps.trials_flag import TRIALS
from xmodal.core.errors import UserError
from xmodal.core.files import is_in_object_store
from xmodal.core.progress import STOPPED
from xmodal.core.text_table import format_table

if TYPE_CHECKING:
    from xmodal.apps.sweep.plan import Space

flags.adopt_module_key_flags(config_flag)
flags.adopt_module_key_flags(training_flags)
flags.adopt_module_key_flags(trials_flag)
SELECT = flags.DEFINE_string(
    "select",
    None,
    "Tag of the metric by which checkpoints and trials are compared, such as sts/avg2016; by "
    "default that of config.best_checkpoint.",
)
SPACE = flags.DEFINE_multi_string(
    "space",
    [],
    "A parameter to draw, instead of those of the config file: PATH:log:LOW:HIGH, "
    "PATH:uniform:LOW:HIGH, PATH:int:LOW:HIGH or PATH:choice:VALUE,VALUE.",
)
STUDY = flags.DEFINE_string(
    "study", None, "Compares PATH=VALUE,VALUE: every draw is run with every value."
)
SAMPLER = flags.DEFINE_enum("sampler", "random", ["random", "tpe"], "How Optuna draws values.")
PRUNER = flags.DEFINE_enum(
    "pruner",
    "none",
    ["none", "median", "halving", "hyperband"],
    "Which of Optuna's pruners ends poor trials early.",
)
DRAW_SEED = flags.DEFINE_integer("draw_seed", 0, "Seed of the draws.")
RETRY_FAILED = flags.DEFINE_bool("retry_failed", False, "Run failed trials again.")
KEEP_CHECKPOINTS = flags.DEFINE_enum(
    "keep_checkpoints", "best", ["best", "all"], "Trials whose weights are kept on disk."
)


def main(argv: list[str]) -> None:
    """Reads the flags and starts the search."""
    del argv
    config = config_flag.read_config()
    # Imported here so that --help and errors in flags or file names appear immediately.
    from xmodal.core.compilation_cache import use_compilation_cache

    require_extra("sweep", "optuna")
    draws = TRIALS.value or 100
    space, studied = _read_parameters(draws)
    folder = WORKDIR.value or os.path.join("sweeps", config.name)
    if is_in_object_store(folder):
        raise UserError(f"--workdir={folder} must be a folder that this machine mounts.")
    from xmodal.apps.sweep import trials  # This takes seconds.
    from xmodal.apps.sweep.plan import Plan, make_plan

    use_compilation_cache()
    plan = Plan(config, space, studied, DRAW_SEED.value, "", "", SAMPLER.value, PRUNER.value)
    plan = make_plan(plan, SELECT.value)
    if DRY_RUN.value:
        rows = [[f"{number:04d}", *(str(values.get(path, "-")) for path in plan.parameters)]
                for number, values in enumerate(plan.preview(draws))]  # fmt: skip
        print(format_table([["trial", *plan.parameters], *rows]))
        print(f"\n{len(rows)} trials, compared by {plan.select}.")
        return
    is_done = trials.search(
        plan,
        pathlib.Path(folder),
        draws=draws,
        retry_failed=RETRY_FAILED.value,
        keep_all=KEEP_CHECKPOINTS.value == "all",
    )
    if not is_done:
        sys.exit(STOPPED)


def _read_parameters(draws: int) -> tuple["Space", tuple[str, tuple[Any, ...]] | None]:
    """Returns the search space, and the studied parameter with its values."""
    from xmodal.apps.sweep.plan import check_distribution, is_in, parse_space

    given, studied = dict(map(parse_space, SPACE.value)), None
    if STUDY.value:
        path, (_, *each) = parse_space(STUDY.value.replace("=", ":choice:", 1))
        studied = path, tuple(each)
    fixed = config_flag.overrides()
    own = {
        path: check_distribution(f"get_space()[{path!r}]", *each)
        for path, each in (config_flag.call_config_file("get_space") or {}).items()
        if not any(is_in(path, x) for x in fixed)
    }
    space = own | given
    for path in [*space, *([studied[0]] if studied else [])]:
        if lost := [x for x in fixed if is_in(path, x) or is_in(x, path)]:
            raise UserError(
                f"--config.{lost[0]} fixes a value that --space, --study or get_space draws as "
                f"{path}: leave one out, or set the fixed value in a copy of the config file."
            )
    if studied:
        space.pop(studied[0], None)
    if not space and (studied is None or draws > 1):
        raise UserError(
            "There is nothing to draw: the config file has no function get_space. Use "
            "--space=PATH:log:LOW:HIGH or --space=PATH:choice:VALUE,VALUE; or --study with "
            "--trials=1."
        )
    return space, studied


if __name__ == "__main__":
    flags.mark_flag_as_required("config")
    config_flag.run(main)
