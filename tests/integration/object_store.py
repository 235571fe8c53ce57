"""An in-memory object store with the part of Google's JSON API that clients use in the tests.

TensorStore, gcsfs and ArrayRecord take its address from the environment. Writes are atomic, objects
have generations, and a write may be conditional on one.
"""

import contextlib
import dataclasses
import email
import http.server
import itertools
import json
import re
import threading
import time
import urllib.parse

_API = re.compile(r"(?:/(?:upload|download))?/storage/v1/b/([^/]+)(?:/o(?:/([^/]+)(?:/(.+))?)?)?")


@dataclasses.dataclass(frozen=True)
class Store:
    """A store, and the environment of processes that use it.

    Attributes:
      variables: environment variables.
      objects: name -> content and description.
      bucket: name of the only bucket.
    """

    variables: dict
    objects: dict
    bucket: str = "gs://runs"

    def read(self, name):
        """Returns the content of an object."""
        return self.objects[name][0]

    def put(self, folder, name):
        """Copies the files of a folder to the store under a name."""
        for path in folder.rglob("*"):
            if path.is_file():
                place = f"{name}/{path.relative_to(folder).as_posix()}"
                self.objects[place] = path.read_bytes(), _describe(place, path.stat().st_size, "1")


@contextlib.contextmanager
def serving():
    """Yields a `Store`."""
    server = http.server.ThreadingHTTPServer(("localhost", 0), _Handler)
    server.objects, server.uploads, server.generations = {}, {}, itertools.count(1)
    server.lock = threading.Lock()
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = f"http://localhost:{server.server_port}"
    variables = {
        "STORAGE_EMULATOR_HOST": address,
        "TENSORSTORE_GCS_HTTP_URL": address,
        "CLOUD_STORAGE_EMULATOR_ENDPOINT": address,  # of ArrayRecord's reader
        # Makes epath use gcsfs; the address of tensorflow's own client cannot be changed.
        "EPATH_USE_TF": "0",
        # Without looking for credentials.
        "GOOGLE_AUTH_TOKEN_FOR_TESTING": "none",
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
    }
    yield Store(variables, server.objects)
    server.shutdown()
    thread.join()
    server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # Headers and content in one packet, since clients would wait for a second one.

    def log_message(self, *_):
        pass

    def do_GET(self):
        with self.server.lock:
            self._answer(*self._get(self.path))

    def do_POST(self):
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.server.lock:
            self._answer(*self._post(content))

    def do_DELETE(self):
        with self.server.lock:
            self._answer(self._delete(self.path))

    def _answer(self, status, content=b"", headers=None):
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if status not in (204, 304):
            self.wfile.write(body)

    def _parse(self, path):
        url = urllib.parse.urlsplit(path)
        found = _API.fullmatch(url.path)
        assert found, path
        query = {k: v[-1] for k, v in urllib.parse.parse_qs(url.query).items()}
        name = urllib.parse.unquote(found[2]) if found[2] else query.get("name", "")
        return name, found[3], query, "/o" in url.path

    def _get(self, path):
        name, _, query, of_objects = self._parse(path)
        if not of_objects:
            return 200, {"kind": "storage#bucket", "name": "runs"}
        if not name:
            return 200, self._list(query)
        if name not in self.server.objects:
            return 404, {"error": {"code": 404, "message": "Not Found"}}
        content, about = self.server.objects[name]
        generation = about["generation"]
        if query.get("ifGenerationNotMatch") == generation:
            return (304,)
        if query.get("ifGenerationMatch", generation) != generation:
            return (412,)
        if query.get("alt") != "media":
            return 200, about
        headers, status = {"X-Goog-Generation": generation, "ETag": generation}, 200
        if given := self.headers.get("Range"):
            first, _, last = given.removeprefix("bytes=").partition("-")
            start = int(first) if first else max(len(content) - int(last), 0)
            stop = min(int(last) + 1, len(content)) if first and last else len(content)
            if start >= len(content):
                return (416,)
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(content)}"
            content, status = content[start:stop], 206
        return status, content, headers

    def _list(self, query):
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        items, prefixes = [], set()
        for name, (_, about) in sorted(self.server.objects.items()):
            if not name.startswith(prefix) or name < query.get("startOffset", ""):
                continue
            if query.get("endOffset") and name >= query["endOffset"]:
                continue
            head, found, _ = name[len(prefix) :].partition(delimiter or "\0")
            if delimiter and found:
                prefixes.add(prefix + head + delimiter)
            else:
                items.append(about)
        return {"kind": "storage#objects", "items": items, "prefixes": sorted(prefixes)}

    def _post(self, content):
        if self.path.startswith("/batch"):
            return self._batch(content)
        name, action, query, _ = self._parse(self.path)
        if action:
            verb, _, target = action.partition("/")
            if name not in self.server.objects:
                return 404, {"error": {"code": 404}}
            moved, _ = self.server.objects[name]
            about = self._write(urllib.parse.unquote(target.rpartition("/")[2]), moved)
            if verb == "moveTo":
                del self.server.objects[name]
            done = {"kind": "storage#rewriteResponse", "done": True, "resource": about}
            return 200, done if verb == "rewriteTo" else about
        if query.get("uploadType") == "resumable":
            upload = str(next(self.server.generations))
            self.server.uploads[upload] = name, b""
            place = f"http://{self.headers['Host']}/upload/storage/v1/b/runs/o?upload_id={upload}"
            return 200, b"", {"Location": place}
        if "upload_id" in query:
            name, before = self.server.uploads[query["upload_id"]]
            content = before + content
            if self.headers["Content-Range"].endswith("/*"):  # More data follows.
                self.server.uploads[query["upload_id"]] = name, content
                return 308, b"", {"Range": f"bytes=0-{len(content) - 1}"}
        if query.get("uploadType") == "multipart":
            about, content = _parts(self.headers["Content-Type"], content)
            name = json.loads(about)["name"]
        wanted = query.get("ifGenerationMatch")
        _, known = self.server.objects.get(name, (b"", {"generation": "0"}))
        if wanted is not None and wanted != known["generation"]:
            return 412, {"error": {"code": 412, "message": "conditionNotMet"}}
        return 200, self._write(name, content)

    def _batch(self, content):
        """Several requests in one, all of which are deletions."""
        kind, answer = self.headers["Content-Type"], []
        for number, part in enumerate(_parts(kind, content)):
            method, path, _ = part.decode().split(" ", 2)
            assert method == "DELETE"
            status = self._delete(urllib.parse.urlsplit(path).path)
            answer.append(
                f"--part\r\nContent-Type: application/http\r\nContent-ID: <response-{number}>\r\n"
                f"\r\nHTTP/1.1 {status} Done\r\nContent-Length: 0\r\n\r\n\r\n"
            )
        body = "".join([*answer, "--part--\r\n"]).encode()
        return 200, body, {"Content-Type": "multipart/mixed; boundary=part"}

    def _delete(self, path):
        name, _, query, _ = self._parse(path)
        if name not in self.server.objects:
            return 404
        known = self.server.objects[name][1]["generation"]
        if query.get("ifGenerationMatch", known) != known:
            return 412
        del self.server.objects[name]
        return 204

    def _write(self, name, content):
        about = _describe(name, len(content), str(next(self.server.generations)))
        self.server.objects[name] = content, about
        return about


def _describe(name, size, generation):
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    return {
        "kind": "storage#object",
        "name": name,
        "bucket": "runs",
        "id": f"runs/{name}/{generation}",
        "generation": generation,
        "metageneration": "1",
        "etag": generation,
        "size": str(size),
        "contentType": "application/octet-stream",
        "timeCreated": now,
        "updated": now,
    }


def _parts(kind, content):
    """The contents of the parts of a message."""
    boundary = email.message_from_string(f"Content-Type: {kind}\n\n").get_param("boundary")
    parts = content.split(b"--" + boundary.encode())[1:-1]
    bodies = (part.partition(b"\r\n\r\n")[2] or part.partition(b"\n\n")[2] for part in parts)
    return [body.removesuffix(b"\r\n").removesuffix(b"\n") for body in bodies]
