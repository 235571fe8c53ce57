"""A run's complete config, read once."""

import dataclasses
from collections.abc import Mapping

from ml_collections import ConfigDict

from xmodal.evals import read_options
from xmodal.evals.evaluators import Options
from xmodal.runs.config.run_config import RunConfig, read_settings
from xmodal.runs.folder.run_folder import Records
from xmodal.training.optimization.run_lengths import choose_warmup


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

    config: ConfigDict
    settings: RunConfig
    evals: Mapping[str, Options]
    records: Records = dataclasses.field(default_factory=dict)
    missing: str = ""


def read_spec(config: ConfigDict) -> Spec:
    """Returns a config that leaves nothing open, such as that of a saved run, as its `Spec`.

    Raises:
      UserError: a key or name is unknown or missing, or a value is out of range.
    """
    config = with_warmup(config)
    settings = read_settings(config)
    return Spec(config, settings, read_options(settings.evals))


def with_warmup(config: ConfigDict) -> ConfigDict:
    """Returns a config whose warm-up, without epochs, is a number.

    A default "up to 40" may be shorter in a short run, see `choose_warmup`.
    """
    section = config.get("optimizer")
    schedule = section.get("schedule") if isinstance(section, ConfigDict) else None
    # Another value is an error where the section is read.
    before = schedule.get("warmup_steps") if isinstance(schedule, ConfigDict) else None
    warmup = choose_warmup(before, config.get("total_steps", RunConfig.total_steps))
    if warmup == before:
        return config
    config = config.copy_and_resolve_references()
    with config.unlocked(), config.ignore_type():
        config.optimizer.schedule.warmup_steps = warmup
    return config
