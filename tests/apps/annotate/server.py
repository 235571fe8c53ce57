"""The real server of a study in a separate process."""

import contextlib
import os
import pathlib
import subprocess
import sys

from xmodal.apps.annotate.raters import invite

ROOT = pathlib.Path(__file__).parents[3]


class Server:
    """A running server; `kill` sends SIGKILL, `start` restarts it at the same address."""

    def __init__(self, path):
        self.path, self._port = path, 0
        self.start()

    def start(self):
        command = [
            "-m",
            "xmodal",
            "annotate",
            "serve",
            f"--study={self.path}",
            f"--port={self._port}",
        ]
        self._process = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        said = self._process.stdout.readline()
        assert "is served at" in said, said
        self.address = said.split()[-1]
        self._port = int(self.address.rpartition(":")[2])

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


@contextlib.contextmanager
def serving(study):
    server = Server(study.path)
    try:
        yield server
    finally:
        server.kill()


def links(study, server, count):
    return {name: f"{server.address}/join/{token}" for name, token in invite(study, count).items()}
