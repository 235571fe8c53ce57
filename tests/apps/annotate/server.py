"""The real server of a study in a separate process."""

import contextlib
import http.client
import os
import pathlib
import subprocess
import sys
import urllib.parse

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


class Client:
    """A minimal browser: keeps cookies and follows no redirects."""

    def __init__(self, address):
        self._host = urllib.parse.urlsplit(address).netloc
        self.cookie = ""

    def send(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(self._host, timeout=30)
        given = {"cookie": self.cookie} | (headers or {})
        connection.request(method, path, body, given)
        response = connection.getresponse()
        text = response.read().decode("latin-1")
        connection.close()
        if cookie := response.getheader("set-cookie"):
            self.cookie = cookie.partition(";")[0]
        return response, text

    def get(self, path, **headers):
        return self.send("GET", path, headers=headers)

    def post(self, path, body="answer=3", **headers):
        headers = {"origin": f"http://{self._host}"} | headers
        form = {"content-type": "application/x-www-form-urlencoded"}
        return self.send("POST", path, body, form | headers)

    def join(self, link):
        response, _ = self.get(urllib.parse.urlsplit(link).path)
        assert (response.status, response.getheader("location")) == (303, "/")
        return self

    def place(self):
        """The path of the rater's next question, or of the end."""
        response, _ = self.get("/rate")
        assert response.status == 303
        return response.getheader("location")
