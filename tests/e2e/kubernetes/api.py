"""The API server, or another HTTPS server of the cluster, as a test asks it: one request, one answer."""

import http.client
import json
import ssl
from pathlib import Path
from typing import Any, NamedTuple

from tests.waiting import PATIENCE_SECONDS


class Reply(NamedTuple):
    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Api:
    def __init__(self, port: int, ca_file: Path, token: str) -> None:
        """At 127.0.0.1, which the server's certificate names."""
        self._port = port
        self._trust = ssl.create_default_context(cafile=str(ca_file))
        self._token = token

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = None,
        content_type: str = "application/json",
    ) -> Reply:
        """As the administrator, or as whoever the token belongs to. Where no answer comes, raises OSError or
        http.client.HTTPException."""
        headers = {"Authorization": f"Bearer {token or self._token}", "Accept": "application/json"}
        content = None
        if body is not None:
            headers["Content-Type"] = content_type
            content = json.dumps(body).encode()
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self._port, timeout=PATIENCE_SECONDS, context=self._trust
        )
        try:
            connection.request(method, path, content, headers)
            response = connection.getresponse()
            return Reply(response.status, response.read())
        finally:
            connection.close()

    def answers(self, path: str) -> bool:
        """Whether there is an answer that is a success, now."""
        try:
            return self.request("GET", path).status == 200
        except (OSError, http.client.HTTPException):
            return False
