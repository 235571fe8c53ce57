"""The server of an index in a thread."""

import contextlib
import threading

from xmodal.api import web_server
from xmodal.api.search import server


@contextlib.contextmanager
def serving(index, *, url=""):
    """Yields host and port."""
    app = server.make_app(index, "photos", "127.0.0.1", url)
    running = web_server.make_server(app)
    listening = web_server.listen("127.0.0.1", 0)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield listening.getsockname()
    finally:
        running.should_exit = True
        thread.join()
