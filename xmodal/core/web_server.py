"""Runs web servers on this machine."""

import socket
import urllib.parse
from collections.abc import Callable
from typing import Any

import uvicorn

from xmodal.core.errors import UserError


def split_url(url: str) -> urllib.parse.SplitResult:
    """Returns the parts of `--url`, the address of a server in browsers; "" for none.

    Raises:
      UserError: it is not an address.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        if not url or (parts.scheme in ("http", "https") and parts.hostname):
            return parts
    except ValueError:  # The host is in brackets, but not an address.
        pass
    raise UserError(f"--url={url} is not an address such as https://rate.example.org.")


def host_names(host: str, url: str) -> set[str]:
    """Returns the names under which browsers reach a server, see `Guard`.

    Args:
      host: address that it listens at.
      url: address of its proxy; "" for none.
    """
    own = {"localhost", "127.0.0.1", "::1", socket.gethostname(), host}
    return own | ({parts.hostname} if (parts := split_url(url)).hostname else set())


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket that listens at an address; port 0 is any free one.

    Raises:
      UserError: the address is in use or not this machine's.
    """
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
