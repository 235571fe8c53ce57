"""Trains a dual encoder: `python -m xmodal.main --config=configs/quickstart.py`.

The same command continues a run that was stopped or killed.
"""

import os

from absl import flags, logging
from ml_collections import config_flags

from xmodal import binary
from xmodal.options import UserError

CONFIG = config_flags.DEFINE_config_file(
    "config", None, "Experiment file, optionally with an argument: FILE.py:ARGUMENT."
)
WORKDIR = flags.DEFINE_string(
    "workdir", None, "Folder of the run, local or gs://; by default runs/NAME of the config."
)
DRY_RUN = flags.DEFINE_bool(
    "dry_run", False, "Check everything, compile, print parameters, memory and FLOPs, then stop."
)


def main(argv: list[str]) -> None:
    """Connects the processes and hands over to the loop."""
    del argv
    try:
        config, name = CONFIG.value, CONFIG.value.name
    except OSError as error:
        # The flag keeps a file it could not open to itself until the first use.
        raise UserError(f"--config: {str(error).splitlines()[-1].strip()}") from error
    # Imported here so that --help and a mistyped flag or file answer at once.
    from xmodal.training import loop, sharding

    sharding.initialize_processes()
    workdir = WORKDIR.value or os.path.join("runs", name)
    logging.info("Workdir: %s", workdir)
    loop.train(config, workdir, dry_run=DRY_RUN.value)


if __name__ == "__main__":
    flags.mark_flag_as_required("config")
    binary.run(main)
