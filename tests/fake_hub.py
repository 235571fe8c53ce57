"""A small Hub on this machine: what huggingface_hub asks of the real one, for a few files."""

import base64
import contextlib
import hashlib
import http.server
import json
import re
import threading

import pytest
from huggingface_hub import constants

from xmodal.core import hub

_REPO = r"(?P<repo>[^/]+/[^/]+)"


class FakeHub:
    """Repositories by name: file -> content. `requests` has the method and path of each one."""

    def __init__(self):
        self.repositories, self.requests, self.downloads, self.commits = {}, [], [], []

    def sha(self, repo):
        """A commit hash that changes with the files."""
        return hashlib.sha1(repr(sorted(self.repositories[repo].items())).encode()).hexdigest()

    def answer(self, method, path, body, endpoint):
        """Returns status, headers and content."""
        files = None
        if matched := re.search(rf"/{_REPO}/resolve/[^/]+/(?P<file>.+)", path):
            files = self.repositories.get(matched["repo"], {})
            if matched["file"] not in files:
                return 404, {"X-Error-Code": "EntryNotFound"}, b""
            content = files[matched["file"]]
            etag = f'"{hashlib.sha1(content).hexdigest()}"'
            if method == "GET":
                self.downloads.append(matched["file"])
            return 200, {"ETag": etag, "X-Repo-Commit": self.sha(matched["repo"])}, content
        if path == "/api/validate-yaml":
            return 200, {}, {"warnings": [], "errors": []}
        if path == "/api/repos/create":
            given = json.loads(body)
            repo = f"{given['organization']}/{given['name']}"
            self.repositories.setdefault(repo, {})
            return 200, {}, {"url": f"{endpoint}/{repo}"}
        matched = re.search(rf"/api/(models|datasets)/{_REPO}(/(?P<rest>[^/?]+))?", path)
        if not matched or matched["repo"] not in self.repositories:
            return 404, {"X-Error-Code": "RepoNotFound"}, b""
        repo, rest = matched["repo"], matched["rest"]
        files = self.repositories[repo]
        if rest in (None, "revision"):
            return 200, {}, {"id": repo, "sha": self.sha(repo), "siblings": []}
        if rest == "tree":
            oid = "0" * 40
            items = [
                {"type": "file", "path": name, "size": len(content), "oid": oid}
                for name, content in files.items()
            ]
            return 200, {}, items
        if rest == "preupload":
            names = [each["path"] for each in json.loads(body)["files"]]
            modes = {"uploadMode": "regular", "shouldIgnore": False}
            return 200, {}, {"files": [{"path": name, **modes} for name in names]}
        lines = [json.loads(line) for line in body.splitlines()]
        added = {
            each["value"]["path"]: base64.b64decode(each["value"]["content"])
            for each in lines
            if each["key"] == "file"
        }
        self.commits.append((lines[0]["value"]["summary"], sorted(added)))
        files |= added
        oid = self.sha(repo)
        return 200, {}, {"commitUrl": f"{endpoint}/{repo}/commit/{oid}", "commitOid": oid}


@contextlib.contextmanager
def serve(monkeypatch, cache):
    """Starts a Hub that huggingface_hub uses; its cache is the folder `cache`."""
    fake = FakeHub()

    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fake.requests.append((self.command, self.path))
            status, headers, content = fake.answer(self.command, self.path, body, endpoint)
            if not isinstance(content, bytes):
                content, headers = json.dumps(content).encode(), {"Content-Type": "text/json"}
            self.send_response(status)
            for name, value in {**headers, "Content-Length": len(content)}.items():
                self.send_header(name, str(value))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_HEAD = do_POST = _answer

        def log_message(self, *args):
            """Prints nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    endpoint = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"{endpoint}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    for name, value in {
        "ENDPOINT": endpoint,
        "HUGGINGFACE_CO_URL_TEMPLATE": url,
        "HF_HUB_CACHE": str(cache),
        "HF_HUB_DISABLE_XET": True,
    }.items():
        monkeypatch.setattr(constants, name, value)
    hub.locate.cache_clear()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        hub.locate.cache_clear()


@pytest.fixture
def fake_hub(tmp_path, monkeypatch):
    """A Hub, empty at first."""
    with serve(monkeypatch, tmp_path / "hub_cache") as fake:
        yield fake
