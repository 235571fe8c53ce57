"""What both binaries share: --config, a readable log, and errors that are for the user."""

import logging as log
import sys
from collections.abc import Callable

from absl import app, flags, logging
from ml_collections import ConfigDict, config_flags

from xmodal.config import UserError

CONFIG = config_flags.DEFINE_config_file(
    "config", None, "Experiment file, optionally with an argument: FILE.py:ARGUMENT."
)


def run(main: Callable[[list[str]], None]) -> None:
    """Runs `main` with flags parsed; a `UserError` is printed alone and ends with exit code 1."""
    logging.set_verbosity(logging.INFO)
    logging.get_absl_handler().addFilter(_is_for_users)

    def main_for_users(argv: list[str]) -> None:
        if len(argv) > 1:
            raise app.UsageError(f"Unknown arguments {argv[1:]}; everything is a flag.")
        try:
            main(argv)
        except UserError as error:
            sys.exit(f"\nError: {error}")

    app.run(main_for_users, flags_parser=_parse_flags)


def read_config() -> ConfigDict:
    """The config that --config names.

    Raises:
      UserError: the file cannot be opened.
    """
    config = CONFIG.value
    try:
        config.keys()  # The flag keeps a file it could not open to itself until the first use.
        return config
    except OSError as error:
        raise UserError(f"--config: {str(error).splitlines()[-1].strip()}") from error


def _parse_flags(argv: list[str]) -> list[str]:
    try:
        return flags.FLAGS(argv)
    except flags.Error as error:
        text = str(error)
        # A config file refuses its argument by a ValueError, which comes with a whole stack trace.
        *trace, last = text.splitlines()
        if trace and last.strip().startswith("ValueError: "):
            text = f"--config: {last.strip().removeprefix('ValueError: ')}"
        sys.exit(f"\nError: {text}\nPass --helpshort to see the flags.")
    except (AttributeError, KeyError) as error:
        # How a config flag says that an override such as --config.bach_size=8 names no key.
        message: object = error
        while isinstance(message, Exception):
            message = message.args[0]
        sys.exit(f"\nError: Unknown key in --config: {' '.join(str(message).split())}")


def _is_for_users(record: log.LogRecord) -> bool:
    # Orbax and TFDS speak of every file they touch; when something fails they raise.
    chatty = "orbax" in record.pathname or "tensorflow_datasets" in record.pathname
    return record.levelno >= log.ERROR or not chatty
