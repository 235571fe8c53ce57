"""Checks of every request to a web server, and headers of every response."""

import contextlib
import urllib.parse
from collections.abc import Callable, Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                # Browsers revalidate styles and scripts, which are sent only if they changed.
                is_static = scope["path"].startswith("/static/")
                headers.setdefault("cache-control", "no-cache" if is_static else "no-store")
            await send(message)

        problem = self._find_problem(scope, Headers(scope=scope))
        app = self._refuse(*problem) if problem else self._app
        with contextlib.suppress(ClientDisconnect):  # The body may be cut, such as 4 of 4.75.
            await app(scope, receive, send_with_headers)

    def _find_problem(self, scope: Scope, headers: Headers) -> tuple[str, int] | None:
        """Returns why a request is refused, and the status; None if it is answered."""
        host, origin = headers.get("host", ""), headers.get("origin")
        is_safe = scope["method"] in ("GET", "HEAD")
        if not {"*", _host_name(host)} & {*self._hosts, scope["server"][0]}:
            return "Unknown host name: set --url to the address of this server.", 400
        if origin is None and not is_safe and self._needs_origin:
            return "This request comes from another site.", 403
        if origin not in (None, f"{self._scheme}://{host}"):
            return "This request comes from another site.", 403
        if not is_safe and "transfer-encoding" in headers:
            return "The length of the request is missing.", 411
        if not is_safe and int(headers.get("content-length", "0")) > self._longest_body:
            return f"More than {self._longest_body:,} bytes.", 413
        return None


def _host_name(host: str) -> str | None:
    try:
        return urllib.parse.urlsplit(f"//{host}").hostname
    except ValueError:  # The host is in brackets, but is not an address.
        return None
