"""Checks of every request, and headers of every response."""

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LONGEST_BODY = 4096  # In bytes; an answer has a few dozen.
_LONGEST_PATH = 200  # Python reads no numbers of thousands of digits.
_SAFE = ("GET", "HEAD")
_HEADERS = {
    # Everything comes from this server; texts of a study can be neither scripts nor styles.
    "content-security-policy": (
        "default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "cross-origin-resource-policy": "same-origin",
    # A link with a token stays within the study. With `no-referrer`, browsers would hide the
    # origin of a form, which is checked here.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}


class Guard:
    """Refuses posts from other sites and long requests, and adds headers to every response."""

    def __init__(self, app: ASGIApp, scheme: str) -> None:
        """Wraps an ASGI application, which browsers reach through "http" or "https"."""
        self._app, self._scheme = app, scheme

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                # Browsers revalidate styles and scripts, which are sent only if they changed.
                is_static = scope["path"].startswith("/static/")
                headers.setdefault("cache-control", "no-cache" if is_static else "no-store")
            await send(message)

        app: ASGIApp = self._app
        if len(scope["path"]) > _LONGEST_PATH:
            app = PlainTextResponse("There is no such page.", 404)
        elif scope["method"] not in _SAFE:
            try:
                if not self._is_from_here(Headers(scope=scope)):
                    app = PlainTextResponse("This form belongs to another site.", 403)
                elif (body := await _read(receive)) is None:
                    app = PlainTextResponse(f"More than {LONGEST_BODY} bytes.", 413)
                else:
                    receive = _replay(body)
            except ClientDisconnect:  # What came so far may be another answer, such as 4 of 4.75.
                return
        await app(scope, receive, send_with_headers)

    def _is_from_here(self, headers: Headers) -> bool:
        """Whether a form came from a page of this server; every browser sends a form's origin."""
        return headers.get("origin") == f"{self._scheme}://{headers.get('host')}"


async def _read(receive: Receive) -> bytes | None:
    """The body of a request; None if it is too long.

    Raises:
      ClientDisconnect: the connection ended before the body did.
    """
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > LONGEST_BODY:
            return None
    return body


def _replay(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
