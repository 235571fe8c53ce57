"""The pages of a study, as an ASGI application of Starlette, and their server."""

import pathlib
import sqlite3
import urllib.parse
from typing import Any

import jinja2
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from xmodal.api import web_server
from xmodal.apps.annotate.assignment_queue import AssignmentQueue, Place, Remarks, Rest
from xmodal.apps.annotate.questions import KINDS, BadAnswer
from xmodal.apps.annotate.raters import Rater, find_rater
from xmodal.apps.annotate.study_file import StudyFile
from xmodal.core.errors import UserError
from xmodal.core.page import TEMPLATES

_HERE = pathlib.Path(__file__).parent
_ENDS = {
    Rest.FINISHED: ("Thank you, that was all", "There is nothing left for you in this study."),
    Rest.WAITING: (
        "Nothing to do right now",
        "Other raters hold the last questions. Some may come back: look again later.",
    ),
    Rest.ENDED: ("Your part has ended", "Thank you for your answers; they are kept."),
    Rest.UNQUALIFIED: (
        "Thank you for trying",
        "Your answers to the first questions differ too much from the known ones, so you get no "
        "others in this study.",
    ),
}


def make_app(study: StudyFile, host: str, url: str = "") -> Starlette:
    """Returns the application that shows a study to its raters.

    Args:
      study: study to show.
      host: address that the server listens at.
      url: address at which browsers reach it, if there is a proxy.
    """
    pages = _Pages(study, secure=url.startswith("https"))
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
        middleware=[web_server.guard(host, url, PlainTextResponse)],
        exception_handlers=dict.fromkeys(
            (HTTPException, UserError, sqlite3.OperationalError), pages.refuse
        ),
    )


class _Pages:
    """Answers to requests."""

    def __init__(self, study: StudyFile, secure: bool) -> None:
        self._study, self._queue, self._secure = study, AssignmentQueue(study), secure
        self._cookie = f"xmodal_{study.settings.id}"
        loader = jinja2.FileSystemLoader(_HERE / "templates")
        self._templates = TEMPLATES.overlay(loader=loader)

    def join(self, request: Request) -> Response:
        """Moves the token of a link to a cookie, so that it is not shown or in the history."""
        token = request.path_params["token"]
        self._find_rater(token)
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
        rows = self._study.rows(
            "SELECT q.kind, min(u.stage) AS stage FROM questions q JOIN units u ON u.id = q.unit "
            "GROUP BY q.kind ORDER BY stage, q.kind"
        )
        return self._render("welcome.html", kinds=[KINDS[row["kind"]] for row in rows])

    def rate(self, request: Request) -> Response:
        """Redirects to the next question, or to the end."""
        found = self._queue.next(self._rater(request))
        place = f"/item/{found.unit}/{found.number}" if isinstance(found, Place) else "/end"
        return RedirectResponse(place, 303)

    def item(self, request: Request) -> Response:
        """Shows a question."""
        page = self._queue.page(self._rater(request), Place(**request.path_params))
        question, kind = page.question, KINDS[page.question.kind]
        ends = (question.left, question.right)
        sql = "SELECT id, text FROM captions WHERE id IN (?, ?, ?)"
        texts = {row["id"]: row["text"] for row in self._study.rows(sql, *ends, question.about)}
        return self._render(
            "item.html",
            page=page,
            kind=kind,
            items=list(zip(kind.sides, kind.names, ends, strict=True)),
            texts=texts,
            about=texts.get(question.about),
            total=(page.finished + page.remaining) * page.questions,
            answered=page.finished * page.questions + page.place.number,
        )

    async def answer(self, request: Request) -> Response:
        """Stores an answer and redirects to the next page."""
        fields = urllib.parse.parse_qs((await request.body()).decode("latin-1"))
        answers = fields.get("answer", [])
        answer = answers[0] if len(answers) == 1 else ""  # With two, none is selected.
        because = fields.get("because", [""])[0].strip()
        remarks = Remarks("wrong_caption" in fields, because)

        def save() -> None:
            self._queue.save(self._rater(request), Place(**request.path_params), answer, remarks)

        await run_in_threadpool(save)
        return RedirectResponse("/rate", 303)

    def end(self, request: Request) -> Response:
        """Explains why there is nothing to do; redirects back if there is."""
        found = self._queue.next(self._rater(request))
        if isinstance(found, Place):
            return RedirectResponse("/rate", 303)
        title, text = _ENDS[found]
        again = found is Rest.WAITING
        return self._render("message.html", title=title, text=text, again=again, link="Look again")

    def image(self, request: Request) -> Response:
        """Returns a picture of the study by its id; file names are never used."""
        self._rater(request)
        sql = "SELECT type, data FROM images WHERE id = ?"
        for row in self._study.rows(sql, request.path_params["id"]):
            headers = {"cache-control": "private, max-age=86400"}
            return Response(row["data"], media_type=row["type"], headers=headers)
        raise HTTPException(404, "This study has no such picture.")

    def refuse(self, request: Request, error: Exception) -> Response:
        """Shows a page that explains why a request was refused."""
        if isinstance(error, UserError):
            status, text = 422 if isinstance(error, BadAnswer) else 403, str(error)
        elif isinstance(error, HTTPException):
            # Starlette's own details are just status names.
            text = error.detail if error.detail.endswith(".") else "Check the address."
            status = error.status_code
        else:
            status, text = 503, "Your answer was not stored. Go back and send it again."
        again = self._cookie in request.cookies
        values = {"title": "This cannot be done", "text": text, "again": again, "link": "Go on"}
        return self._render("message.html", status, **values)

    def _rater(self, request: Request) -> Rater:
        return self._find_rater(request.cookies.get(self._cookie, ""))

    def _find_rater(self, token: str) -> Rater:
        if (rater := find_rater(self._study, token)) is None:
            raise HTTPException(
                403,
                "Open the link that you were given for this study. If you did, ask for a new one: "
                "it may be cut off, or belong to another study.",
            )
        return rater

    def _render(self, name: str, status: int = 200, **values: Any) -> HTMLResponse:
        values["numbers"] = self._study.settings.numbers
        return HTMLResponse(self._templates.get_template(name).render(**values), status)
