"""Runs a command that embeds a block in a second, so that a signal meets one.

python -m tests.integration.slow_blocks MODULE [FLAGS]
"""

import runpy
import sys
import time

from xmodal.core import progress

if __name__ == "__main__":
    check_stop = progress.check_stop

    def check_late(what, **options):
        if what.startswith("Embedding"):
            print(f"Block of {what}", flush=True)
            time.sleep(1)
        check_stop(what, **options)

    progress.check_stop = check_late
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
