"""The pages of a study, as an ASGI application of Starlette, and their server."""

import pathlib
import sqlite3
import sys
import urllib.parse
from collections.abc import Collection
from typing import Any

import jinja2
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from xmodal.apps.annotate.hand_out import HandedPage, HandOut, NotAssignedError, Place, Rest
from xmodal.apps.annotate.questions import KINDS, BadAnswer
from xmodal.apps.annotate.raters import Rater, find_rater
from xmodal.apps.annotate.study_file import StudyFile
from xmodal.core import web_server

_HERE = pathlib.Path(__file__).parent
_TOO_LARGE = 2**63  # SQLite cannot hold numbers from here on.
_NAMES = {"caption": "Caption", "image": "Picture"}
_ORDERS = {False: ("First", "Second"), True: ("Left", "Right")}
_ENDS = {
    Rest.FINISHED: ("Thank you, that was all", "There is nothing left for you in this study."),
    Rest.WAITING: (
        "Nothing to do right now",
        "Other raters hold the last questions. Some may come back: look again later.",
    ),
    Rest.ENDED: ("Your part has ended", "Thank you for your answers; they are kept."),
    Rest.CLOSED: ("This study is closed", "Thank you for your answers; they are kept."),
    Rest.UNQUALIFIED: (
        "Thank you for trying",
        "Your answers to the first questions differ too much from the known ones, so you get no "
        "others in this study.",
    ),
}


def serve(study: StudyFile, host: str, port: int, url: str = "") -> None:
    """Serves a study until it is interrupted.

    Args:
      study: study to show.
      host: address to listen at.
      port: port to listen at; 0 for any free one.
      url: address at which browsers reach the server, if there is a proxy.
    """
    hosts = web_server.host_names(host, url)
    if host in ("0.0.0.0", "::") and not url:
        hosts = {"*"}
    listening = web_server.listen(host, port)
    port = listening.getsockname()[1]
    if not url and host not in ("localhost", "127.0.0.1", "::1"):
        print(
            f"Warning: {host} is reached from other machines, without encryption. Put a server "
            "with https in front of it and set --url to its address.",
            file=sys.stderr,
        )
    app = make_app(study, hosts=hosts, secure=web_server.split_url(url).scheme == "https")
    print(f"{study.path} is served at {url or web_server.address(host, port)}", flush=True)
    web_server.make_server(app).run(sockets=[listening])


def make_app(study: StudyFile, *, hosts: Collection[str], secure: bool = False) -> Starlette:
    """Returns the application that shows a study to its raters.

    Args:
      study: study to show.
      hosts: host names that browsers may use for the server; other requests are refused.
      secure: whether browsers reach it only through https.
    """
    pages = _Pages(study, secure)
    return Starlette(
        routes=[
            Route("/join/{token}", pages.join),
            Route("/", pages.welcome),
            Route("/rate", pages.rate),
            Route("/item/{unit:int}/{number:int}", pages.item),
            Route("/item/{unit:int}/{number:int}", pages.answer, methods=["POST"]),
            Route("/end", pages.end),
            Route("/image/{id:int}", pages.image),
            Mount("/static", StaticFiles(directory=_HERE / "static")),
        ],
        middleware=[
            Middleware(
                web_server.Guard,
                hosts=hosts,
                refuse=PlainTextResponse,
                scheme="https" if secure else "http",
            ),
        ],
        exception_handlers={
            HTTPException: pages.refuse,
            NotAssignedError: pages.refuse,
            BadAnswer: pages.refuse,
            sqlite3.OperationalError: pages.refuse,
        },
    )


class _Pages:
    """Answers to requests."""

    def __init__(self, study: StudyFile, secure: bool) -> None:
        self._study, self._hand_out, self._secure = study, HandOut(study), secure
        self._cookie = f"xmodal_{study.settings.id}"
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        with study.reading() as connection:
            rows = connection.execute(
                "SELECT q.kind, min(u.stage) AS stage FROM questions q JOIN units u "
                "ON u.id = q.unit GROUP BY q.kind ORDER BY stage, q.kind"
            ).fetchall()
        self._kinds = [KINDS[row["kind"]] for row in rows]

    def join(self, request: Request) -> Response:
        """Moves the token of a link to a cookie, so that it is not shown or in the history."""
        token = request.path_params["token"]
        if find_rater(self._study, token) is None:
            raise _unknown_link()
        response = RedirectResponse("/", 303)
        response.set_cookie(
            self._cookie,
            token,
            max_age=180 * 24 * 3600,
            secure=self._secure,
            httponly=True,
            samesite="lax",
        )
        return response

    def welcome(self, request: Request) -> Response:
        """Shows the instructions."""
        self._rater(request)
        return self._render("welcome.html", kinds=self._kinds)

    def rate(self, request: Request) -> Response:
        """Redirects to the next question, or to the end."""
        found = self._hand_out.next(self._rater(request))
        place = f"/item/{found.unit}/{found.number}" if isinstance(found, Place) else "/end"
        return RedirectResponse(place, 303)

    def item(self, request: Request) -> Response:
        """Shows a question."""
        page = self._hand_out.page(self._rater(request), _place(request))
        return self._render("item.html", **self._describe(page))

    async def answer(self, request: Request) -> Response:
        """Stores an answer and redirects to the next page."""
        fields = urllib.parse.parse_qs((await request.body()).decode("latin-1"))
        answers = fields.get("answer", [])
        answer = answers[0] if len(answers) == 1 else ""  # Of two, neither is the answer.

        def save() -> None:
            self._hand_out.save(self._rater(request), _place(request), answer)

        await run_in_threadpool(save)
        return RedirectResponse("/rate", 303)

    def end(self, request: Request) -> Response:
        """Explains why there is nothing to do; redirects back if there is."""
        found = self._hand_out.next(self._rater(request))
        if isinstance(found, Place):
            return RedirectResponse("/rate", 303)
        title, text = _ENDS[found]
        return self._render(
            "message.html", title=title, text=text, again=found is Rest.WAITING, link="Look again"
        )

    def image(self, request: Request) -> Response:
        """Returns a picture of the study by its id; file names are never used."""
        self._rater(request)
        with self._study.reading() as connection:
            row = connection.execute(
                "SELECT type, data FROM images WHERE id = ?", (_number(request, "id"),)
            ).fetchone()
        if row is None:
            raise HTTPException(404, "This study has no such picture.")
        headers = {"cache-control": "private, max-age=86400"}
        return Response(row["data"], media_type=row["type"], headers=headers)

    def refuse(self, request: Request, error: Exception) -> Response:
        """Shows a page that explains why a request was refused."""
        status, title, text = _explain(error)
        return self._render(
            "message.html",
            status=status,
            title=title,
            text=text,
            again=self._cookie in request.cookies,
            link="Go on",
        )

    def _rater(self, request: Request) -> Rater:
        rater = find_rater(self._study, request.cookies.get(self._cookie, ""))
        if rater is None:
            raise _unknown_link()
        return rater

    def _describe(self, page: HandedPage) -> dict[str, Any]:
        """Values for the template of a question."""
        question, kind = page.question, KINDS[page.question.kind]
        ends = (question.left, question.right)
        with self._study.reading() as connection:
            rows = connection.execute(
                "SELECT id, text FROM captions WHERE id IN (?, ?, ?)", (*ends, question.about)
            ).fetchall()
        texts, items = {row["id"]: row["text"] for row in rows}, []
        for side, each, order in zip(kind.sides, ends, _ORDERS[kind.about], strict=True):
            name = _NAMES[side]
            if kind.sides[0] == kind.sides[1]:
                name = f"{order} {name.lower()}"
            items.append({"side": side, "id": each, "text": texts.get(each), "name": name})
        return {
            "page": page,
            "kind": kind,
            "items": items,
            "about": texts.get(question.about),
            "total": (page.finished + page.remaining) * page.questions,
            "answered": page.finished * page.questions + page.place.number,
        }

    def _render(self, name: str, status: int = 200, **values: Any) -> HTMLResponse:
        return HTMLResponse(self._templates.get_template(name).render(**values), status)


def _place(request: Request) -> Place:
    return Place(_number(request, "unit"), _number(request, "number"))


def _number(request: Request, name: str) -> int:
    number = request.path_params[name]
    if number >= _TOO_LARGE:
        raise HTTPException(404)
    return number


def _unknown_link() -> HTTPException:
    return HTTPException(
        403,
        "Open the link that you were given for this study. If you did, ask for a new one: it may "
        "be cut off, or belong to another study.",
    )


def _explain(error: Exception) -> tuple[int, str, str]:
    """Status, title and text of a refusal."""
    if isinstance(error, BadAnswer):
        return 422, "This is not an answer", str(error)
    if isinstance(error, NotAssignedError):
        return 403, "Not this question", str(error)
    if isinstance(error, HTTPException):
        titles = {403: "This link opens nothing", 404: "There is no such page"}
        # Starlette's own details are just status names.
        text = error.detail if error.detail.endswith(".") else "Check the address."
        return error.status_code, titles.get(error.status_code, "This cannot be done"), text
    text = "The server could not write to its disk, or was too busy. Go back and send it again."
    return 503, "Your answer was not stored", text
