"""Runs the server of a study."""

import ipaddress
import socket
import sys
import urllib.parse

import uvicorn

from xmodal.apps.annotate.pages import make_app
from xmodal.apps.annotate.study_file import StudyFile
from xmodal.base.config import UserError


def serve(study: StudyFile, host: str, port: int, url: str = "") -> None:
    """Serves a study until it is interrupted.

    Args:
      study: study to show.
      host: address to listen at.
      port: port to listen at; 0 for any free one.
      url: address at which browsers reach the server, if there is a proxy.

    Raises:
      UserError: the address is in use or not this machine's, or the URL is not valid.
    """
    parts = _split(url)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise UserError(f"Cannot listen at {host}:{port}: {error}.") from error
    port = listening.getsockname()[1]
    if not url and not _is_loopback(host):
        print(
            f"Warning: {host} is reached from other machines, without encryption. Put a server "
            "with https in front of it and set --url to its address.",
            file=sys.stderr,
        )
    hosts = {"localhost", "127.0.0.1", "[::1]", *([parts.hostname] if parts.hostname else [])}
    if host in ("0.0.0.0", "::") and not url:
        hosts = {"*"}
    app = make_app(study, hosts=sorted(hosts | {host}), secure=parts.scheme == "https")
    # No log of requests, since it would contain the tokens of links.
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, lifespan="off"
    )
    print(f"{study.path} is served at {url or address(host, port)}", flush=True)
    with study.keeping():
        uvicorn.Server(config).run(sockets=[listening])


def _split(url: str) -> urllib.parse.SplitResult:
    """The parts of an address, "" for none."""
    try:
        parts = urllib.parse.urlsplit(url)
        if not url or (parts.scheme in ("http", "https") and parts.hostname):
            return parts
    except ValueError:  # The host is in brackets, but not an address.
        pass
    raise UserError(f"--url={url} is not an address such as https://rate.example.org.")


def address(host: str, port: int) -> str:
    """Returns the URL of a server."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
