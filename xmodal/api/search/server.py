"""An index behind HTTP: a page for people, and JSON for programs.

GET /                             the page
GET /search?text=a+dog&top=5      hits of a text
POST /search?top=5                hits of the picture in the body
GET /search?...&find=caption      captions of an index that also has images
GET /similar/image/7?top=5        hits of the image at row 7 of the index, without itself
GET /image/7, /thumbnail/7        this image, as it is and as a small JPEG

Hits are the JSON of `formats.as_json`, and failures are `{"error": ...}` with status 400 to 413, or
500 if the index fails, whose error is logged. Requests for other host names or from other sites are
refused. The server has neither encryption nor users, and waits for slow clients: for other
machines, put one in front of it that has encryption, users and time limits.
"""

import functools
import json
import pathlib
import secrets
import threading
from collections.abc import Mapping
from typing import Annotated, Any

import jinja2
import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route

from xmodal.api import web_server
from xmodal.api.search import KINDS
from xmodal.api.search.formats import as_json
from xmodal.api.search.index import Index
from xmodal.api.search.pictures import ItemPictures, for_browsers, open_upright
from xmodal.core import page
from xmodal.core.config import Bounds, check_value, lookup
from xmodal.core.errors import UserError

_LARGEST = 20 * 2**20  # Bytes of a picture.
_THUMBNAIL = 480  # Pixels of the longer side.
_SAMPLES = 30  # Items on the page before the first search.
_OPTIONS = {"text": str, "find": str, "top": Annotated[int, Bounds(at_least=1, at_most=1000)]}
_HERE, _CORE = pathlib.Path(__file__).parent, pathlib.Path(page.__file__).parent
_STATIC = (_CORE / "colors.css", _HERE / "server.css", _HERE / "server.js")


def make_app(index: Index, name: str, host: str, url: str = "") -> Starlette:
    """Returns the application that answers queries one by one; see `guard` for `host` and `url`."""
    lock, start = threading.Lock(), _render_page(index, name)

    def find(query: dict[str, Any], shown: str) -> Response:
        with lock:
            return _answer(as_json(shown, index.query(**query), index.notes(query.get("text"))))

    async def search(request: Request) -> Response:
        query = _read_options(request.query_params)
        if request.method == "POST":
            query["image"] = await request.body()
        return await run_in_threadpool(find, query, query.get("text", "picture"))

    def similar(request: Request) -> Response:
        kind, row = request.path_params["kind"], request.path_params["row"]
        item = _name_of(index, kind, row)
        return find(_read_options(request.query_params) | {"like": (kind, row)}, item)

    routes = [
        Route("/", lambda request: HTMLResponse(start)),
        Route("/search", search, methods=["GET", "POST"]),
        Route("/similar/{kind}/{row:int}", similar),
        *(Route(f"/static/{path.name}", functools.partial(_send, path)) for path in _STATIC),
    ]
    if index.shows_pictures:
        pictures = ItemPictures(index.galleries["image"])

        def show(request: Request) -> Response:
            row = request.path_params["row"]
            source = pictures.find(row)
            if source is None:
                raise HTTPException(404)
            return _show(source, is_small=request.url.path.startswith("/thumbnail/"))

        routes += [Route(f"/{size}/{{row:int}}", show) for size in ("image", "thumbnail")]
    return Starlette(
        routes=routes,
        middleware=[web_server.guard(host, url, _refuse, _LARGEST)],
        exception_handlers={
            UserError: lambda request, error: _refuse(str(error), 400),
            HTTPException: lambda request, error: _refuse(
                "there is no such page or item; searches are /search, for GET and POST",
                error.status_code,
            ),
            # uvicorn logs the error. The next query may succeed, such as after a lack of memory.
            Exception: lambda *_: _refuse("the query failed; see the server's log", 500),
        },
    )


def _send(path: pathlib.Path, request: Request) -> Response:
    return FileResponse(path)


def _render_page(index: Index, name: str) -> str:
    """The page, with what its script has to know about the index."""
    gallery = next(index.galleries[kind] for kind in KINDS if kind in index.galleries)
    rows = np.unique(np.linspace(0, len(gallery.names) - 1, _SAMPLES, dtype=int)).tolist()
    facts = {
        "kinds": {kind: len(each.names) for kind, each in index.galleries.items()},
        "sameKind": index.compares_same_kind,
        "pictures": index.shows_pictures,
        "words": "text" in index.model.modalities,
        # Pictures of another index at the same address are not taken from the browser's cache.
        "version": secrets.token_hex(4),
        "samples": [{"row": row, "item": gallery.names[row]} for row in rows],
    }
    images = index.model.images
    takes_pictures = bool(images and images.size) and (
        index.compares_same_kind or "caption" in index.galleries
    )
    template = jinja2.Template((_HERE / "server.html").read_text(), autoescape=True)
    return template.render(
        name=pathlib.Path(name).name,
        facts=json.dumps(facts),
        takes_words=facts["words"],
        takes_pictures=takes_pictures,
    )


def _name_of(index: Index, kind: str, row: int) -> str:
    """The name of an item; raises an error if there is none."""
    names = index.galleries[kind].names if kind in index.galleries else ()
    if row >= len(names):
        raise HTTPException(404)
    return names[row]


def _show(source: pathlib.Path | bytes, *, is_small: bool) -> Response:
    if is_small:
        kind = "image/jpeg"
        content = page.encode_jpeg(open_upright(source, _THUMBNAIL), _THUMBNAIL)
    else:
        kind, content = for_browsers(source)
    return Response(content, media_type=kind, headers={"cache-control": "private, max-age=86400"})


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
