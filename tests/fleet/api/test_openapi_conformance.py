"""The server conforms to its OpenAPI document: schemathesis sends valid and invalid requests."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks
from tests.fleet.api.serving import recorded, serving

from accelscope.fleet.api.openapi import openapi
from accelscope.fleet.api.problem import DEFAULT_LIMITS
from accelscope.fleet.api.routes import ROUTES
from accelscope.rate_limit import Rate

EXAMPLES = 8
UNHURRIED = replace(DEFAULT_LIMITS, requests=Rate(per_second=1e6, burst=1_000_000))

# Rejected although the document allows them: the document describes neither valid cursors, nor clusters with
# GPUs, nor allowed combinations of parameters.
_KNOWN_TO_THE_SERVER_ONLY = (
    "urn:accelscope:problem:bad-cursor",
    "urn:accelscope:problem:no-gpu-capability",
    "urn:accelscope:problem:incomplete-question",
)
_DOCUMENTED_503 = "urn:accelscope:problem:cluster-never-reached"

load_all_checks()
_HELD = CHECKS.get_by_names(
    [
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
        "unsupported_method",
    ]
)
_ASKED = [route for route in ROUTES if route.stream is None]
# Routes without parameters accept every request.
_QUESTIONS = [
    *((route.method, route.path, GenerationMode.POSITIVE) for route in _ASKED),
    *(
        (route.method, route.path, GenerationMode.NEGATIVE)
        for route in _ASKED
        if any(parameter.where == "query" for parameter in route.parameters)
    ),
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    started: list[str] = []
    ready, ended = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with serving(limits=UNHURRIED, history=await recorded()) as client:
            started.append(client.base)
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert ready.wait(20)
    yield started[0]
    loop.call_soon_threadsafe(ended.set)
    thread.join(20)
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


@pytest.fixture(scope="module")
def schema(address: str) -> Any:
    document = schemathesis.openapi.from_dict(openapi(ROUTES, guarded=False))
    document.config.update(base_url=address)
    return document


@pytest.mark.parametrize(("method", "path", "mode"), _QUESTIONS)
def test_responses_conform_to_the_openapi_document(
    schema: Any, method: str, path: str, mode: GenerationMode
) -> None:
    operation = schema[path][method]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    def holds(case: Any) -> None:
        answer = case.call(timeout=10)
        case.validate_response(answer, checks=_HELD)
        problem = answer.json()["type"] if answer.status_code >= 400 else None
        if answer.status_code >= 500:
            assert problem == _DOCUMENTED_503
        if mode is GenerationMode.POSITIVE and answer.status_code == 400:
            assert problem in _KNOWN_TO_THE_SERVER_ONLY

    holds()


_THERE = {
    "cluster": "berlin",
    "node": "alpha",
    "device": "nvidia:GPU-0",
    "namespace": "team-a",
    "pod": "train-0",
}


@pytest.mark.parametrize(
    ("method", "path"), [(route.method, route.path) for route in _ASKED if "{" in route.path]
)
def test_responses_for_existing_objects_conform_to_the_openapi_document(
    schema: Any, method: str, path: str
) -> None:
    operation = schema[path][method]
    named = {name: value for name, value in _THERE.items() if f"{{{name}}}" in path}
    query = {} if "{cluster}" in path else {"cluster_id": "berlin"}
    case = operation.Case(path_parameters=named, query=query)
    answer = case.call(timeout=10)
    assert answer.status_code == 200
    case.validate_response(answer, checks=_HELD)


def test_the_document_contains_every_route_once() -> None:
    document = openapi(ROUTES)
    named = [
        (method.upper(), path) for path, operations in document["paths"].items() for method in operations
    ]
    assert sorted(named) == sorted((route.method, route.path) for route in ROUTES)
    ids = [operation["operationId"] for path in document["paths"].values() for operation in path.values()]
    assert len(ids) == len(set(ids))
