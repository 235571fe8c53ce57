"""Web servers on this machine, and the checks of every request to them."""

import socket
import urllib.parse
from collections.abc import Callable, Collection
from typing import Any

import uvicorn
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp

from xmodal.core.errors import UserError

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


class Guard(BaseHTTPMiddleware):
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
        super().__init__(app)
        self._hosts, self._refuse, self._scheme = {each.lower() for each in hosts}, refuse, scheme
        self._longest_body, self._needs_origin = longest_body, needs_origin

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        """Answers a request."""
        try:
            problem = self._find_problem(request)
            response = self._refuse(*problem) if problem else await call_next(request)
        except ClientDisconnect:
            return Response(status_code=400)
        # Browsers revalidate styles and scripts, which are sent only if they changed.
        is_static = request.url.path.startswith("/static/")
        response.headers.update(_HEADERS)
        response.headers.setdefault("cache-control", "no-cache" if is_static else "no-store")
        return response

    def _find_problem(self, request: Request) -> tuple[str, int] | None:
        """Returns why a request is refused, and the status; None if it is answered."""
        headers, is_safe = request.headers, request.method in ("GET", "HEAD")
        hosts = {*self._hosts, request.scope["server"][0]}
        if not hosts & {"*", request.url.hostname}:
            return "Unknown host name: set --url to the address of this server.", 400
        missing = None if is_safe or not self._needs_origin else ""
        origin = headers.get("origin", missing)
        if origin not in (None, f"{self._scheme}://{headers.get('host')}"):
            return "This request comes from another site.", 403
        length = int(headers.get("content-length", self._longest_body + 1))
        if not is_safe and length > self._longest_body:
            return f"More than {self._longest_body:,} bytes.", 413
        return None


def host_names(host: str, url: str) -> set[str]:
    """Returns the names under which browsers reach a server, see `Guard`.

    Args:
      host: address that it listens at.
      url: address of its proxy; "" for none.
    """
    proxy = urllib.parse.urlsplit(url).hostname
    names = {"localhost", "127.0.0.1", "::1", socket.gethostname(), host, proxy}
    return {name for name in names if name}


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket that listens at an address; port 0 is any free one."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise UserError(f"Cannot listen at {host}:{port}: {error}.") from error


def address(host: str, port: int) -> str:
    """Returns the URL of a server."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def make_server(app: Callable[..., Any]) -> uvicorn.Server:
    """Returns a server of an ASGI application; its `run(sockets=[...])` ends with a signal."""
    # No log of requests, since it would contain people's queries, and the tokens of links.
    config = uvicorn.Config(
        app, ws="none", log_level="warning", access_log=False, server_header=False, lifespan="off"
    )
    return uvicorn.Server(config)
