"""Receives Alertmanager's notifications over HTTP."""

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Alert:
    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    firing: bool


@dataclass(frozen=True, slots=True)
class Notification:
    """One message to one receiver."""

    seconds: float  # since the receiver was entered
    path: str  # such as /pager
    alerts: tuple[Alert, ...]

    @property
    def firing(self) -> bool:
        return any(alert.firing for alert in self.alerts)


def _alert(document: Mapping[str, Any]) -> Alert:
    labels = document["labels"]
    return Alert(labels["alertname"], labels, document["annotations"], document["status"] == "firing")


class Receiver:
    """Leaving the context ends it."""

    def __init__(self, port: int) -> None:
        self.received: list[Notification] = []
        began = time.monotonic()
        received = self.received

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                alerts = tuple(_alert(each) for each in body["alerts"])
                received.append(Notification(time.monotonic() - began, self.path, alerts))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
