"""A run's complete config, read once."""

import dataclasses
from collections.abc import Mapping

import ml_collections

from xmodal.evals import read_options
from xmodal.evals.evaluators import Options
from xmodal.runs.config.run_config import RunConfig, read_settings
from xmodal.runs.folder.run_folder import Records


@dataclasses.dataclass(frozen=True)
class Spec:
    """A run's complete config.

    Attributes:
      config: the config; nothing in it depends on the dataset or on other weights any more. It is
        saved as the run's config.json.
      settings: the same config as a dataclass.
      evals: options of the evaluators, by name.
      records: hash and number of the training records, see `DatasetFacts`; empty if the dataset is
        not known, or not needed.
      missing: why the dataset is not known: sizes that depend on it are then arbitrary; "" if it
        is known, or not needed.
    """

    config: ml_collections.ConfigDict
    settings: RunConfig
    evals: Mapping[str, Options]
    records: Records = dataclasses.field(default_factory=dict)
    missing: str = ""


def read_spec(config: ml_collections.ConfigDict) -> Spec:
    """Returns a config that leaves nothing open, such as that of a saved run, as its `Spec`.

    Raises:
      UserError: a key or name is unknown or missing, or a value is out of range.
    """
    settings = read_settings(config)
    return Spec(config, settings, read_options(settings.evals))
