"""Does what several commands do, so that processes import the libraries and connect once."""

import functools
import json
import runpy
import sys

import jax

from xmodal import main
from xmodal.apps import config_flag, search
from xmodal.core import mesh as mesh_lib
from xmodal.train import loop

make_mesh = mesh_lib.make_mesh


def begin(*arguments):
    """The training command, which connects the processes."""
    sys.argv = ["main", *arguments]
    try:
        config_flag.run(main.main)
    except SystemExit as ended:
        if ended.code:
            raise


def train(file, folder, changes):
    config = runpy.run_path(file)["get_config"]()
    config.update_from_flattened_dict(changes)
    assert loop.train(config, folder)


def evaluate(run, output):
    from tests import saved_run

    saved_run.evaluate(run=run, output=output)


def build(*arguments):
    sys.argv = ["search", "build", *arguments]
    search.main()


def run(jobs):
    """Runs functions of this module, each on so many devices of every process."""
    for count, name, *arguments in jobs:
        mesh_lib.make_mesh = functools.partial(make_mesh_of, count)
        globals()[name](*arguments)


def make_mesh_of(count, devices=None, fsdp=1):
    processes = range(jax.process_count())
    first = [each for index in processes for each in jax.local_devices(index)[:count]]
    return make_mesh(devices or first, fsdp)


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
