"""Flags of the commands that train."""

from absl import flags

WORKDIR = flags.DEFINE_string(
    "workdir",
    None,
    "Folder of the run, local or gs://, by default runs/NAME of the config; or of the sweep, by "
    "default sweeps/NAME.",
)
DRY_RUN = flags.DEFINE_bool(
    "dry_run",
    False,
    "Check everything, compile, print parameters, memory, FLOPs and the time of a step, and run "
    "two steps and one evaluation; or print the draws of a sweep; then exit.",
)
