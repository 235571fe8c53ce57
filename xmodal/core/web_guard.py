"""Checks of every request to a web server, and headers of every response."""

import urllib.parse
from collections.abc import Callable, Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
    """Refuses other host names, other sites and long requests; adds headers to every response."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Collection[str],
        refuse: Callable[[str, int], Response],
        scheme: str = "http",
        longest_body: int = 4096,
        needs_origin: bool = True,
    ) -> None:
        """Wraps an ASGI application.

        Args:
          app: the application.
          hosts: host names that browsers may use besides the address of the connection; "*" for
            any. Other names are refused, since an attacker's DNS server can point the attacker's
            own name to this machine, whose pages could then read the answers (DNS rebinding).
          refuse: returns a response with an explanation and a status.
          scheme: "http" or "https", by which browsers reach the server.
          longest_body: largest size of the body of a request, in bytes.
          needs_origin: whether requests other than GET and HEAD must have an `Origin` header, as
            those of browsers have.
        """
        self._app, self._hosts, self._refuse = app, {each.lower() for each in hosts}, refuse
        self._longest_body, self._scheme, self._needs_origin = longest_body, scheme, needs_origin

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

        app, headers = self._app, Headers(scope=scope)
        if len(scope["path"]) > _LONGEST_PATH:
            app = self._refuse("There is no such page.", 404)
        elif not self._is_own_name(headers.get("host", ""), scope):
            app = self._refuse("Unknown host name: set --url to the address of this server.", 400)
        elif not self._is_from_here(headers, scope["method"]):
            app = self._refuse("This request comes from another site.", 403)
        elif scope["method"] not in _SAFE:
            try:
                if (body := await self._read(receive)) is None:
                    app = self._refuse(f"More than {self._longest_body:,} bytes.", 413)
                else:
                    receive = _replay(body)
            except ClientDisconnect:  # What came so far may be another answer, such as 4 of 4.75.
                return
        await app(scope, receive, send_with_headers)

    def _is_own_name(self, host: str, scope: Scope) -> bool:
        try:
            name = urllib.parse.urlsplit(f"//{host}").hostname
        except ValueError:  # The host is in brackets, but is not an address.
            return False
        return "*" in self._hosts or name in {*self._hosts, scope["server"][0]}

    def _is_from_here(self, headers: Headers, method: str) -> bool:
        """Whether a request came from a page of this server, or from a program."""
        origin = headers.get("origin")
        if origin is None:
            return method in _SAFE or not self._needs_origin
        return origin == f"{self._scheme}://{headers['host']}"

    async def _read(self, receive: Receive) -> bytes | None:
        """The body of a request; None if it is too long.

        Raises:
          ClientDisconnect: the connection ended before the body did.
        """
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self._longest_body:
                return None
        return bytes(body)


def _replay(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
