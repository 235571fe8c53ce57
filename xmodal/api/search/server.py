"""An index behind HTTP.

GET /search?text=a+dog&top=5      hits of a text
POST /search?top=5                hits of the picture in the body
GET /search?...&find=caption      captions of an index that also has images

The answer is the JSON of `formats.as_json`, or `{"error": ...}` with status 400 to 413; 500 if the
index fails, whose error is logged. Requests for other host names or from other sites are refused.
The server has neither encryption nor users, and waits for slow clients: for other machines, put one
in front of it that has encryption, users and time limits.
"""

import json
import threading
from collections.abc import Collection, Mapping
from typing import Annotated, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from xmodal.api import web_server
from xmodal.api.search.formats import as_json
from xmodal.api.search.index import Index
from xmodal.core.config import Bounds, check_value, lookup
from xmodal.core.errors import UserError

_PATH = "/search"
_LARGEST = 20 * 2**20  # Bytes of a picture.
_OPTIONS = {"text": str, "find": str, "top": Annotated[int, Bounds(at_least=1, at_most=1000)]}


def serve(index: Index, name: str, host: str, port: int, url: str = "") -> None:
    """Answers queries until it is interrupted.

    Args:
      index: answers queries one by one.
      name: name of the index in the first line that is printed.
      host: address to listen at.
      port: port to listen at; 0 for any free one.
      url: address at which browsers reach the server, if there is a proxy.
    """
    app = make_app(index, web_server.host_names(host, url))
    web_server.serve(app, name, host, port, url, f"{_PATH}?text=a+dog")


def make_app(index: Index, hosts: Collection[str]) -> Starlette:
    """Returns the application that answers queries one by one; see `guard` for `hosts`."""
    lock = threading.Lock()

    def find(query: dict[str, Any]) -> str:
        shown = query.get("text", "picture")
        with lock:
            return as_json(shown, index.query(**query), index.describe_query(query.get("text")))

    async def search(request: Request) -> Response:
        body, query = await request.body(), _read_options(request.query_params)
        if request.method == "POST":
            query["image"] = body
        return _answer(await run_in_threadpool(find, query))

    return Starlette(
        routes=[Route(_PATH, search, methods=["GET", "POST"])],
        middleware=[web_server.guard(hosts, _refuse, _LARGEST)],
        exception_handlers={
            UserError: lambda request, error: _refuse(str(error), 400),
            HTTPException: lambda request, error: _refuse(
                f"there is only {_PATH}, for GET and POST", error.status_code
            ),
            # uvicorn logs the error. The next query may succeed, such as after a lack of memory.
            Exception: lambda *_: _refuse("the query failed; see the server's log", 500),
        },
    )


def _refuse(why: str, status: int) -> Response:
    return _answer(json.dumps({"error": why}) + "\n", status)


def _answer(text: str, status: int = 200) -> Response:
    # Names of files need not be UTF-8; their bytes are escaped.
    content = text.encode(errors="backslashreplace")
    return Response(content, status, media_type="application/json; charset=utf-8")


def _read_options(given: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of `Index.query` in an address."""
    hints = {name: lookup("the address", name, _OPTIONS) for name in given}
    return {name: check_value(name, hint, given[name]) for name, hint in hints.items()}
