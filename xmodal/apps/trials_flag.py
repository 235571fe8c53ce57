"""The flag of the commands that search."""

from absl import flags

TRIALS = flags.DEFINE_integer(
    "trials",
    None,
    "Total number of draws, including earlier ones; a space of few combinations has no more. By "
    "default 100 for a sweep, and no search for word2vec.",
    1,
)
