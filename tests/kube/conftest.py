from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.kube.kube_server import KubeServer


@pytest.fixture
def serve() -> Iterator[Callable[..., KubeServer]]:
    """Makes servers that end with the test."""
    servers: list[KubeServer] = []

    def start(*steps: Any, **options: Any) -> KubeServer:
        servers.append(KubeServer(*steps, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
