"""Runs the server of a study."""

import sys

from xmodal.apps.annotate.pages import make_app
from xmodal.apps.annotate.study_file import StudyFile
from xmodal.core import web_server


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
    with study.keeping():
        web_server.make_server(app).run(sockets=[listening])
