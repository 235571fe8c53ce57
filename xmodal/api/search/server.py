"""An index behind HTTP, with the standard library alone.

GET /search?text=a+dog&top=5      hits of a text
POST /search?top=5                hits of the picture in the body
GET /search?...&find=caption      captions of an index that also has images
GET /search?...&rerank=50         the best 50 in the order of the pair scorer; with
                                  &first_stage_weight=1, see `Index.query`

The answer is the JSON of `formats.as_json`, or `{"error": ...}` with status 400 to 413; 500 if the
index fails, whose error is logged. The server has neither encryption nor users: for other machines,
put one that has them in front of it.
"""

import http.server
import json
import sys
import threading
import urllib.parse
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from absl import logging

from xmodal.api.search.formats import as_json
from xmodal.api.search.index import Index
from xmodal.base.config import UserError, suggest

_PATH = "/search"
_LARGEST = 20 * 2**20  # Bytes of a picture.
_MOST = 1000  # Hits of a query.
_NUMBERS = {"top": 1, "rerank": 0}  # The smallest values.
_WEIGHT = "first_stage_weight"
_OPTIONS = ("text", "find", *_NUMBERS, _WEIGHT)
_DIGITS = 18  # Of a number; Python refuses to read very long ones.
_SECONDS = 30  # A client that is silent for longer is disconnected.


def make_server(index: Index, host: str, port: int) -> http.server.ThreadingHTTPServer:
    """Returns a server at an address; its `serve_forever` answers until it is interrupted.

    Args:
      index: answers queries one by one.
      host: address to listen at.
      port: port to listen at; 0 for any free one, see `server_address`.

    Raises:
      UserError: the address is in use or not this machine's.
    """
    lock = threading.Lock()

    class Handler(_Handler):
        def find(self, query: dict[str, Any]) -> str:
            shown = query.get("text", "picture")
            with lock:
                return as_json(shown, index.query(**query))

    try:
        return _Server((host, port), Handler)
    except (OSError, OverflowError) as error:
        raise UserError(f"Cannot listen at {host}:{port}: {error}.") from error


class _Server(http.server.ThreadingHTTPServer):
    """Answers every request in a thread."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Prints the error of a request, unless its client has hung up."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(http.server.BaseHTTPRequestHandler):
    """One request."""

    timeout = _SECONDS

    def find(self, query: dict[str, Any]) -> str:
        """Returns the answer to a query, the arguments of `Index.query`, as JSON."""
        raise NotImplementedError

    def do_GET(self) -> None:
        """Answers a text."""
        query = self._read_query()
        if query is not None and not query.get("text"):
            self._refuse(HTTPStatus.BAD_REQUEST, "text is missing: ask for /search?text=a+dog")
        elif query is not None:
            self._answer(query)

    def do_POST(self) -> None:
        """Answers a picture."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "Content-Length is missing")
        elif len(length) > _DIGITS or int(length) > _LARGEST:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {_LARGEST:,} bytes")
        else:
            picture, query = self.rfile.read(int(length)), self._read_query()
            if query is not None:
                self._answer({**query, "image": picture})

    def _read_query(self) -> dict[str, Any] | None:
        """Returns the options of the address; answers None if they are wrong."""
        try:
            address = urllib.parse.urlsplit(self.path)
        except ValueError:  # It names a host that is not one.
            address = None
        if address is None or address.path != _PATH:
            self._refuse(HTTPStatus.NOT_FOUND, f"there is only {_PATH}")
            return None
        try:
            return _read_options(urllib.parse.parse_qsl(address.query, keep_blank_values=True))
        except UserError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
            return None

    def _answer(self, query: dict[str, Any]) -> None:
        try:
            answer = self.find(query)
        except UserError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        except Exception:  # The next query may succeed, such as after a lack of memory.
            logging.exception("A query failed.")
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "the query failed; see the server's log")
        else:
            self._send(HTTPStatus.OK, answer)

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self.close_connection = True  # A body that was not read would be the next request.
        self._send(status, json.dumps({"error": why}) + "\n")

    def _send(self, status: HTTPStatus, text: str) -> None:
        # Names of files need not be UTF-8; their bytes are escaped.
        content = text.encode(errors="backslashreplace")
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing: queries are people's own."""


def _read_options(pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The arguments of `Index.query` in an address."""
    given = dict(pairs)
    if len(given) < len(pairs):
        names = [name for name, _ in pairs]
        raise UserError(f"{max(names, key=names.count)} occurs twice")
    if unknown := sorted(set(given) - set(_OPTIONS)):
        raise UserError(f"unknown: {unknown}; {suggest(unknown, _OPTIONS)}")
    found: dict[str, Any] = dict(given)
    for name, least in _NUMBERS.items():
        value = given.get(name, "1")
        if not (value.isdecimal() and len(value) <= _DIGITS and least <= int(value) <= _MOST):
            raise UserError(f"{name}={value:.20} must be from {least} to {_MOST}")
        if name in given:
            found[name] = int(value)
    if _WEIGHT in given:
        try:
            found[_WEIGHT] = float(given[_WEIGHT])
        except ValueError:
            raise UserError(f"{_WEIGHT}={given[_WEIGHT]:.20} must be a number") from None
    return found
