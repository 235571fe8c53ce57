"""The flag of the commands that write results."""

from absl import flags

OUTPUT = flags.DEFINE_string(
    "output",
    None,
    "Folder for the results; of a run by default RUN/SPLIT, RUN/follow/SPLIT with --follow, or "
    "RUN/step_STEP/SPLIT with --step. For word2vec, the file of vectors; with --trials, a folder.",
)
