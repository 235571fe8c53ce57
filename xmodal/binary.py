"""What both binaries do around their `main`: a readable log, and errors that are for the user."""

import sys
from collections.abc import Callable

from absl import app, logging

from xmodal.options import UserError


def run(main: Callable[[list[str]], None]) -> None:
    """Runs `main` with flags parsed; a `UserError` is printed alone and ends with exit code 2."""
    logging.set_verbosity(logging.INFO)
    # Orbax and TFDS tell every step of their work; what they warn of is still shown.
    logging.get_absl_handler().addFilter(
        lambda record: (
            record.levelno > logging.converter.ABSL_TO_STANDARD[logging.INFO]
            or "orbax" not in record.pathname
        )
    )

    def main_for_users(argv: list[str]) -> None:
        if len(argv) > 1:
            raise app.UsageError(f"Unknown arguments {argv[1:]}; everything is a flag.")
        try:
            main(argv)
        except UserError as error:
            sys.exit(f"\nError: {error}")

    app.run(main_for_users)
