"""An index behind HTTP.

GET /search?text=a+dog&top=5      hits of a text
POST /search?top=5                hits of the picture in the body
GET /search?...&find=caption      captions of an index that also has images
GET /search?...&rerank=50         the best 50 in the order of the cross-encoder; with
                                  &first_stage_weight=1, see `Index.query`

The answer is the JSON of `formats.as_json`, or `{"error": ...}` with status 400 to 413; 500 if the
index fails, whose error is logged. Requests for other host names or from other sites are refused.
The server has neither encryption nor users, and waits for slow clients: for other machines, put one
in front of it that has encryption, users and time limits.
"""

import json
import threading
from collections.abc import Collection, Sequence
from typing import Any

from absl import logging
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from xmodal.api.search.formats import as_json
from xmodal.api.search.index import Index
from xmodal.core import web_server
from xmodal.core.config import suggest
from xmodal.core.errors import UserError

_PATH = "/search"
_LARGEST = 20 * 2**20  # Bytes of a picture.
_MOST = 1000  # Hits of a query.
_NUMBERS = {"top": 1, "rerank": 0}  # The smallest values.
_WEIGHT = "first_stage_weight"
_OPTIONS = ("text", "find", *_NUMBERS, _WEIGHT)


def serve(index: Index, name: str, host: str, port: int, url: str = "") -> None:
    """Answers queries until it is interrupted.

    Args:
      index: answers queries one by one.
      name: name of the index in the first line that is printed.
      host: address to listen at.
      port: port to listen at; 0 for any free one.
      url: address at which browsers reach the server, if there is a proxy.

    Raises:
      UserError: the address is in use or not this machine's, or the URL is not valid.
    """
    scheme = web_server.split_url(url).scheme or "http"
    app = make_app(index, web_server.host_names(host, url), scheme)
    listening = web_server.listen(host, port)
    shown = url.rstrip("/") or web_server.address(host, listening.getsockname()[1])
    print(f"{name} is served at {shown}{_PATH}?text=a+dog", flush=True)
    web_server.make_server(app).run(sockets=[listening])


def make_app(index: Index, hosts: Collection[str], scheme: str = "http") -> Starlette:
    """Returns the application that answers queries one by one; see `Guard` for its arguments."""
    lock = threading.Lock()

    def find(query: dict[str, Any]) -> str:
        shown = query.get("text", "picture")
        with lock:
            return as_json(shown, index.query(**query), index.describe_query(query.get("text")))

    async def search(request: Request) -> Response:
        body = await request.body()
        try:
            query = _read_options(request.query_params.multi_items())
            if request.method == "POST":
                query["image"] = body
            elif "text" not in query:
                raise UserError(f"text is missing: ask for {_PATH}?text=a+dog")
            return _answer(await run_in_threadpool(find, query))
        except UserError as error:
            return _refuse(str(error), 400)
        except Exception:  # The next query may succeed, such as after a lack of memory.
            logging.exception("A query failed.")
            return _refuse("the query failed; see the server's log", 500)

    def refuse_address(request: Request, error: Any) -> Response:
        return _refuse(f"there is only {_PATH}, for GET and POST", error.status_code)

    return Starlette(
        routes=[Route(_PATH, search, methods=["GET", "POST"])],
        middleware=[
            Middleware(
                web_server.Guard,
                hosts=hosts,
                refuse=_refuse,
                scheme=scheme,
                longest_body=_LARGEST,
                needs_origin=False,
            )
        ],
        exception_handlers={HTTPException: refuse_address},
    )


def _refuse(why: str, status: int) -> Response:
    return _answer(json.dumps({"error": why}) + "\n", status)


def _answer(text: str, status: int = 200) -> Response:
    # Names of files need not be UTF-8; their bytes are escaped.
    content = text.encode(errors="backslashreplace")
    return Response(content, status, media_type="application/json; charset=utf-8")


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
        if not (value.isdecimal() and len(value) < 5 and least <= int(value) <= _MOST):
            raise UserError(f"{name}={value:.20} must be from {least} to {_MOST}")
        if name in given:
            found[name] = int(value)
    if _WEIGHT in given:
        try:
            found[_WEIGHT] = float(given[_WEIGHT])
        except ValueError:
            raise UserError(f"{_WEIGHT}={given[_WEIGHT]:.20} must be a number") from None
    return found
