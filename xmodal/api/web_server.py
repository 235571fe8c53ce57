"""Web servers on this machine, and the checks of every request to them."""

import socket
import urllib.parse
import webbrowser
from collections.abc import Callable

import uvicorn
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from xmodal.core.errors import UserError

_HEADERS = {
    # Everything comes from this server; texts of a study can be neither scripts nor styles.
    "content-security-policy": (
        "default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "cross-origin-resource-policy": "same-origin",
    # A link with a token stays within the study. With `no-referrer`, browsers would hide the
    # origin of a form, which is checked here.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}


def guard(
    host: str, url: str, refuse: Callable[[str, int], Response], longest_body: int = 4096
) -> Middleware:
    """Refuses other host names, other sites and long requests; adds headers to every response.

    Args:
      host: address that the server listens at. Browsers may use it, the names of this machine, and
        the address of the connection. Other names are refused, since an attacker's DNS server can
        point the attacker's own name to this machine, whose pages could then read the answers (DNS
        rebinding).
      url: address of its proxy, whose name may be used as well; "" for none.
      refuse: returns a response with an explanation and a status.
      longest_body: largest size of the body of a request, in bytes.
    """
    proxy = urllib.parse.urlsplit(url).hostname or host
    hosts = {"localhost", "127.0.0.1", "::1", socket.gethostname().lower(), host.lower(), proxy}

    def find_problem(request: Request) -> tuple[str, int] | None:
        headers = request.headers
        if request.url.hostname not in {*hosts, request.scope["server"][0]}:
            return "Unknown host name: set --url to the address of this server.", 400
        # Browsers send `Origin` with every form.
        if (origin := headers.get("origin")) and not origin.endswith(f"://{headers.get('host')}"):
            return "This request comes from another site.", 403
        if "transfer-encoding" in headers:
            return "Send a Content-Length instead of chunks.", 411
        if int(headers.get("content-length", 0)) > longest_body:
            return f"More than {longest_body:,} bytes.", 413
        return None

    async def dispatch(request: Request, call_next: RequestResponseEndpoint) -> Response:
        problem = find_problem(request)
        response = refuse(*problem) if problem else await call_next(request)
        # Browsers revalidate styles and scripts, which are sent only if they changed.
        is_static = request.url.path.startswith("/static/")
        response.headers.update(_HEADERS)
        response.headers.setdefault("cache-control", "no-cache" if is_static else "no-store")
        return response

    return Middleware(BaseHTTPMiddleware, dispatch=dispatch)


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket that listens at an address; port 0 is any free one."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise UserError(f"Cannot listen at {host}:{port}: {error}.") from error


def serve(
    app: ASGIApp, name: str, host: str, port: int, url: str = "", *, browse: bool = False
) -> None:
    """Prints where an application is served, and serves it until a signal.

    Args:
      app: ASGI application.
      name: what is served, for the printed line.
      host: address to listen at.
      port: port to listen at; 0 for any free one.
      url: address of its proxy; "" for none.
      browse: whether to open it in this machine's browser.
    """
    listening = listen(host, port)
    own = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
    address = url.rstrip("/") or own
    print(f"{name} is served at {address}", flush=True)
    if browse:  # It waits for the answer: the socket listens already.
        webbrowser.open(address)
    make_server(app).run(sockets=[listening])


def make_server(app: ASGIApp) -> uvicorn.Server:
    """Returns a server of an ASGI application; its `run(sockets=[...])` ends with a signal."""
    # No log of requests, since it would contain people's queries, and the tokens of links.
    config = uvicorn.Config(
        app, ws="none", log_level="warning", access_log=False, server_header=False, lifespan="off"
    )
    return uvicorn.Server(config)
