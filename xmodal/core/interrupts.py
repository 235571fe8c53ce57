"""Ctrl-C ends a command without a traceback while it imports its modules.

This module imports nothing else, since programs call it before their other imports.
"""

import signal


def end_at_once() -> None:
    """Lets Ctrl-C end the process, until `console.readable_errors` reports it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # A shell may ignore it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
