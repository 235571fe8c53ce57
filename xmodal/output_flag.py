"""The flag of the commands that write results."""

from absl import flags

OUTPUT = flags.DEFINE_string(
    "output",
    None,
    "Folder of the results; by default RUN/SPLIT, of --follow RUN/follow/SPLIT, of a --step "
    "RUN/step_STEP/SPLIT. With --dry_run of xmodal.main, a JSON file.",
)
