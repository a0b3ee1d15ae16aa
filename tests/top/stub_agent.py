"""An agent that says what it is told to say: a stored snapshot, an error, or nothing."""

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SNAPSHOTS = Path(__file__).parents[1] / "agent" / "snapshots" / "1.1"
TAG = 'W/"1-1"'


def stored(name: str) -> dict[str, Any]:
    """What the agent once made of a ready-made node."""
    document: dict[str, Any] = json.loads((SNAPSHOTS / f"{name}.json").read_text())
    return document


class StubAgent:
    """`body` and `status` may be changed while it serves; `seen` are the If-None-Match of requests."""

    def __init__(self, document: object, url: str = "") -> None:
        self.url = url
        self.status = 200
        self.body = json.dumps(document).encode()
        self.age = "1.0"
        self.only: str | None = None  # the path that it knows; None: all
        self.seen: list[str | None] = []


@contextmanager
def stub_agent(document: object) -> Iterator[StubAgent]:
    agent = StubAgent(document)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            tag = self.headers.get("If-None-Match")
            agent.seen.append(tag)
            found = agent.only in (None, self.path)
            known = found and agent.status == 200 and tag == TAG
            body = agent.body if found and not known else b""
            self.send_response(404 if not found else 304 if known else agent.status)
            if not known:
                self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", TAG)
            self.send_header("X-AccelScope-Age", agent.age)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        agent.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield agent
        finally:
            server.shutdown()
            thread.join()
