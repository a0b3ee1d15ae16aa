from collections.abc import Iterator

import pytest
from tests.sinks.node_api import NodeApi


@pytest.fixture
def node_api() -> Iterator[NodeApi]:
    api = NodeApi("node-1")
    yield api
    api.close()
