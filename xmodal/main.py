"""Trains a dual encoder: `python -m xmodal.main --config=configs/quickstart.py`.

The same command resumes a run that was stopped or killed. Exit code: 0 for a finished run, 143 for
one that SIGTERM stopped, saved if it had begun to train; 75, or an abort by JAX, for one whose
other process is gone: the same command in all processes resumes it; 1 for an error.
"""

import os
import sys

from absl import flags, logging

from xmodal.apps import config_flag, training_flags
from xmodal.apps.training_flags import DRY_RUN, WORKDIR
from xmodal.core.errors import UserError
from xmodal.core.progress import STOPPED

flags.adopt_module_key_flags(config_flag)
flags.adopt_module_key_flags(training_flags)
TOPOLOGY = flags.DEFINE_string(
    "topology",
    "",
    "With --dry_run: compile for a TPU slice that this machine does not have, such as v3:4x4 (the "
    "paper's 32 cores) or v5e:4x8. Requires the extra tpu.",
)
ALLOW_CHANGES = flags.DEFINE_list(
    "allow_changes",
    [],
    "Paths of the config (optimizer.learning_rate,data.image) in which a resumed run may "
    "differ from its start; 'records' for the records of its training split, 'devices' for the "
    "number of devices, if batch normalization depends on it.",
)


def main(argv: list[str]) -> None:
    """Connects the processes and starts the training loop."""
    del argv
    config = config_flag.read_config()
    if TOPOLOGY.value and not DRY_RUN.value:
        raise UserError("--topology works only with --dry_run.")
    # Imported here so that --help and errors in flags or file names appear immediately.
    from xmodal.core import processes
    from xmodal.core.compilation_cache import use_compilation_cache
    from xmodal.core.reused_memory import compute_in_caller
    from xmodal.train.folder.finished import finished_reports, next_steps

    workdir = WORKDIR.value or os.path.join("runs", config.name)
    if not DRY_RUN.value and (reports := finished_reports(config, workdir)):
        print(*(report.read_text() for report in reports), sep="\n")
        print(next_steps(workdir, config))
        return
    from xmodal.train import loop, preflight

    if not TOPOLOGY.value:  # Functions compiled for absent devices cannot be read back.
        use_compilation_cache()
    compute_in_caller()
    flag_values = {f"--{each.name}": each.value for each in (DRY_RUN, TOPOLOGY, ALLOW_CHANGES)}
    settings = {"config": config.to_dict(), "--workdir": workdir, **flag_values}
    with processes.connected(settings):
        logging.info("Workdir: %s", workdir)
        if DRY_RUN.value:
            preflight.check(
                config, workdir, topology=TOPOLOGY.value, allow_changes=ALLOW_CHANGES.value
            )
            return
        is_done = loop.train(config, workdir, allow_changes=ALLOW_CHANGES.value)
    if not is_done:
        sys.exit(STOPPED)


if __name__ == "__main__":
    flags.mark_flag_as_required("config")
    config_flag.run(main)
