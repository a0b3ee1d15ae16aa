"""A Node as an API server keeps it: merge patches and server-side apply of its metadata, faults on demand.

What server-side apply does here is its rule for one manager at a time: what it applied before and does not
apply now is removed, unless another owns it.
"""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.kube.kube_server import Asked, KubeServer, Peer, Step
from tests.waiting import PATIENCE_SECONDS

from accelscope.kube.client import Client
from accelscope.kube.endpoint import Endpoint

Fault = Callable[[Peer, Asked], None]


class NodeApi:
    """`faults` are taken first, one a request; then requests are answered as they should be."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.annotations: dict[str, str] = {"other.example/note": "stays"}
        self.labels: dict[str, str] = {"kubernetes.io/arch": "amd64"}
        self.patches: list[Asked] = []
        self.token: str | None = None  # None: any
        self._owned: dict[str, set[str]] = {}
        self._faults: list[Step] = []
        self._lock = threading.Lock()
        self._clients: list[Client] = []
        self._server = KubeServer()
        self._answer_always()

    @property
    def url(self) -> str:
        return self._server.url

    def client(self, token_file: Path | None = None) -> Client:
        """Ends with the server."""
        endpoint = Endpoint(self.url, str(token_file) if token_file else None)
        self._clients.append(Client(endpoint, timeout_seconds=PATIENCE_SECONDS))
        return self._clients[-1]

    def give_up_after(self, seconds: float) -> None:
        """What clients wait for an answer."""
        for client in self._clients:
            client.timeout_seconds = seconds

    def fail(self, *faults: Step) -> None:
        with self._lock:
            self._faults.extend(faults)

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self._server.close()

    def _answer_always(self) -> None:
        def step(peer: Peer, asked: Asked) -> None:
            self._server.then(step)
            with self._lock:
                fault = self._faults.pop(0) if self._faults else None
            if fault is not None:
                fault(peer, asked)
            else:
                self.answer(peer, asked)

        self._server.then(*[step] * 8)  # as many as may be under way at once

    def answer(self, peer: Peer, asked: Asked) -> None:
        """As it should be."""
        if self.token is not None and asked.headers.get("authorization") != f"Bearer {self.token}":
            peer.document(401, {"kind": "Status", "message": "Unauthorized"})
        elif asked.method != "PATCH" or asked.path != f"/api/v1/nodes/{self.name}":
            peer.document(404, {"kind": "Status", "message": f'nodes "{asked.path[14:]}" not found'})
        else:
            with self._lock:
                self.patches.append(asked)
                if asked.query.get("dryRun") != "All":
                    self._take(asked, json.loads(asked.body)["metadata"])
                metadata = {"name": self.name, "annotations": self.annotations, "labels": self.labels}
            peer.document(200, {"kind": "PartialObjectMetadata", "metadata": metadata})

    def _take(self, asked: Asked, metadata: dict[str, Any]) -> None:
        if asked.headers["content-type"] == "application/merge-patch+json":
            for name, value in metadata["annotations"].items():
                if value is None:
                    self.annotations.pop(name, None)
                else:
                    self.annotations[name] = value
            return
        assert asked.headers["content-type"] == "application/apply-patch+yaml"
        assert asked.query["force"] == "true"
        manager = asked.query["fieldManager"]
        wanted = metadata["labels"]
        for name in self._owned.get(manager, set()) - wanted.keys():
            del self.labels[name]
        self.labels.update(wanted)
        self._owned[manager] = set(wanted)
