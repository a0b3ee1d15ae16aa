"""Whatever an agent or a fleet answers, there is a view or an error that is shown: never an exception, and
never a line that steers the terminal."""

import copy
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.top.stub_agent import stored, stub_agent
from tests.top.views import StillSource
from tests.waiting import wait_until

from accelscope.cli.main import main
from accelscope.cli.top import document, page
from accelscope.kube.endpoint import KubeError, Reason
from accelscope.top.screen.board import SourceReader
from accelscope.top.sources.agents import AgentPoller
from accelscope.top.sources.fleet import FleetSource
from accelscope.top.sources.source import Credentials, JsonResponse, Query, decode_json, endpoint_of
from accelscope.top.view.frame import Choices, alert_lines, alerts, header
from accelscope.top.view.model import History, View, ViewKind
from accelscope.top.view.processes import Tree
from accelscope.top.view.table import RenderContext, plain
from accelscope.top.view.text import ASCII, UNICODE

ENDPOINT = endpoint_of("http://127.0.0.1:1", Credentials())

# Numbers that JSON can spell and that no counter, ratio or sum survives.
BAD_NUMBERS = ("1e400", "-1e400", "1" + "0" * 400, "-1" + "0" * 400, "NaN", "Infinity", "-Infinity", "1e300")

ROW = {
    "cluster": "oslo-1",
    "node": "node-1",
    "state": "fresh",
    "reason": None,
    "age_seconds": 1.5,
    "taken_at": 1.8e9,
    "simulated": True,
    "models": "NVIDIA H100 80GB HBM3",
    "nodes": 1,
    "devices": 1,
    "devices_lost": 0,
    "devices_unhealthy": 0,
    "devices_stale": 0,
    "devices_idle": 0,
    "processes": 1,
    "utilization_ratio": 0.5,
    "memory_used_bytes": 1 << 30,
    "memory_total_bytes": 80 << 30,
    "power_watts": 300.0,
    "temperature_max_celsius": 60.0,
}
DEVICE = {
    "cluster": "oslo-1",
    "node": "node-1",
    "id": "nvidia:GPU-1",
    "vendor": "nvidia",
    "index": 0,
    "model": "NVIDIA H100 80GB HBM3",
    "driver_version": "590.48.01",
    "state": "fresh",
    "taken_at": 1.8e9,
    "health": "warning",
    "health_reason": "warning: hot",
    "unusual": "power",
    "utilization_ratio": 0.5,
    "memory_used_bytes": 1 << 30,
    "memory_total_bytes": 80 << 30,
    "power_watts": 300.0,
    "power_limit_watts": 700.0,
    "temperature_celsius": 60.0,
    "temperature_slowdown_celsius": 89.0,
    "fan_speed_ratio": 0.5,
    "throttled": "hw_slowdown",
    "idle_seconds": 3.0,
}
PROCESS = {
    "device": "nvidia:GPU-1",
    "device_index": 0,
    "partition": None,
    "pid": 77,
    "name": "torchrun",
    "user": "alice",
    "type": "compute",
    "memory_bytes": 1 << 30,
    "utilization_ratio": 0.5,
    "cpu_ratio": 1.5,
    "resident_memory_bytes": 1 << 30,
    "started_at": 1.7e9,
    "namespace": "research",
    "pod": "train-0",
    "container": "torch",
    "owner_kind": "pod",
    "owner": None,
}
CLUSTER = {
    "id": "oslo-1",
    "nodes": 2,
    "devices": 1,
    "reachable": True,
    "reason": None,
    "text": None,
    "age_seconds": 1.0,
    "simulated": True,
    "sources": [{"kind": "agents", "up": False}],
}
ANSWERS: dict[str, Any] = {
    "/api/v1/summary": {"total": ROW, "groups": [ROW], "groups_total": 1, "next": None},
    "/api/v1/clusters": {"items": [CLUSTER]},
    "/api/v1/health": {
        "clusters": [CLUSTER],
        "devices": [DEVICE],
        "nodes": [{**ROW, "state": "unread"}],
        "devices_by_health": {"ok": 1, "warning": 1},
        "nodes_by_state": {"fresh": 1, "unread": 1},
    },
    "/api/v1/nodes": {"items": [ROW], "total": 2, "next": None},
    "/api/v1/nodes/oslo-1/node-1": {
        "node": ROW,
        "devices": [DEVICE],
        "pods": [{"device": "nvidia:GPU-1", "namespace": "research", "pod": "train-0"}],
        "processes": [PROCESS],
        "readers": [{"vendor": "nvidia", "found": True, "up": False, "reason": "no_permission"}],
        "attribution": [{"source": "pods", "up": False, "reason": "unreachable"}],
    },
}
SNAPSHOTS = {name: stored(name) for name in ("nvidia-mig", "nvidia-sick")}

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([10**400, -(10**400), 2**63, 2**64, 1e300, -1, 0]),
    st.text(max_size=8),
    st.sampled_from(["\x1b[31m", "\u202e", "\ud800", "lost", "1e9"]),
)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
changes = st.lists(st.tuples(st.integers(0, 10**6), documents), min_size=1, max_size=3)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Of everything in a document, itself included."""
    found = [path]
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            found += places(item, (*path, key))
    return found


def changed(value: Any, at: int, new: Any) -> Any:
    """With something else in one place."""
    known = places(value)
    path = known[at % len(known)]
    if not path:
        return new
    made = copy.deepcopy(value)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return made


class Told:
    """In place of a connection: what is answered, by path."""

    def __init__(self, answers: Mapping[str, bytes]) -> None:
        self._answers = answers

    def get(self, path: str, tag: str | None = None) -> JsonResponse:
        body = self._answers.get(urlsplit(path).path)
        if body is None:
            raise KubeError(Reason.NOT_FOUND, f"{ENDPOINT.url}: HTTP status 404", status=404)
        try:
            return JsonResponse({}, decode_json(body))
        except ValueError as error:
            raise KubeError(Reason.BAD_ANSWER, f"{ENDPOINT.url}: {error}") from None

    def close(self) -> None:
        pass


def shown(view: View) -> str:
    """All that is made of a view: it is drawn in every way, and each line is fit for a terminal."""
    texts = []
    for glyphs, trees in ((UNICODE, tuple(Tree)), (ASCII, (Tree.FLAT,))):
        history = History()
        history.note(view)
        context = RenderContext(glyphs, view.at, history)
        texts += [page(view, Choices(tree=tree), context, 100) for tree in trees]
        found = alerts(view, context)
        lines = [*header(view, found, context, 80, ""), *alert_lines(found, context, 80, 5)]
        texts += [plain(line) for line in lines]
    json.loads(json.dumps(document(view), allow_nan=False))
    for text in texts:
        assert all(line.isprintable() for line in text.split("\n")), text
    return texts[0]


def agent_view(body: bytes) -> View:
    poller = AgentPoller(ENDPOINT, 1.0)
    poller._client = Told({"/snapshot": body})  # type: ignore[assignment]
    poller.poll()
    return View(kind=ViewKind.AGENTS, title="agents", at=1.8e9, nodes=(poller.node(),))


def fleet_view(answers: Mapping[str, bytes], query: Query) -> View:
    source = FleetSource(ENDPOINT, timeout_seconds=1.0)
    source._client = Told(answers)  # type: ignore[assignment]
    return source.read(query)


def written(value: Any) -> bytes:
    return json.dumps(value).encode()


many = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@many
@given(documents)
def test_any_document_as_a_snapshot_is_an_error_that_is_shown(value: Any) -> None:
    view = agent_view(written(value))
    assert view.nodes[0].error
    shown(view)


@many
@given(st.sampled_from(sorted(SNAPSHOTS)), changes)
def test_a_snapshot_with_something_else_in_it_is_shown_or_refused(
    name: str, new: list[tuple[int, Any]]
) -> None:
    value: Any = SNAPSHOTS[name]
    for at, what in new:
        value = changed(value, at, what)
    shown(agent_view(written(value)))


@many
@given(st.sampled_from(sorted(ANSWERS)), documents)
def test_any_document_as_rows_of_a_fleet_is_shown_or_refused(path: str, value: Any) -> None:
    answers = {name: written(answer) for name, answer in ANSWERS.items()} | {path: written(value)}
    for query in (Query(), Query(node=("oslo-1", "node-1"))):
        shown(fleet_view(answers, query))


@many
@given(st.sampled_from(sorted(ANSWERS)), changes)
def test_rows_with_something_else_in_them_are_shown_or_refused(path: str, new: list[tuple[int, Any]]) -> None:
    value: Any = ANSWERS[path]
    for at, what in new:
        value = changed(value, at, what)
    answers = {name: written(answer) for name, answer in ANSWERS.items()} | {path: written(value)}
    for query in (Query(), Query(node=("oslo-1", "node-1"))):
        shown(fleet_view(answers, query))


def test_what_is_good_is_shown() -> None:
    """Else the tests above would prove nothing."""
    answers = {name: written(answer) for name, answer in ANSWERS.items()}
    whole = fleet_view(answers, Query())
    assert whole.error is None
    assert "oslo-1" in shown(whole)
    one = fleet_view(answers, Query(node=("oslo-1", "node-1")))
    assert one.error is None
    assert "torchrun" in shown(one)
    assert agent_view(written(SNAPSHOTS["nvidia-mig"])).nodes[0].error is None


@pytest.mark.parametrize("number", BAD_NUMBERS)
def test_number_that_cannot_be_is_refused_by_name(number: str) -> None:
    text = json.dumps(SNAPSHOTS["nvidia-mig"]).replace('"taken_at": ', f'"taken_at": {number}, "was": ', 1)
    [node] = agent_view(text.encode()).nodes
    assert "an invalid number" in (node.error or "")
    rows = json.dumps(ANSWERS["/api/v1/summary"]).replace("300.0", number, 1)
    answers = {name: written(answer) for name, answer in ANSWERS.items()}
    view = fleet_view({**answers, "/api/v1/summary": rows.encode()}, Query())
    assert "an invalid number" in (view.error or "")


@pytest.mark.parametrize(
    ("path", "key", "value", "error"),
    [
        ("/api/v1/summary", "power_watts", "300", "power_watts: expected a number, got str"),
        ("/api/v1/summary", "devices_lost", [1], "devices_lost: expected a whole number, got list"),
        ("/api/v1/nodes", "age_seconds", True, "age_seconds: expected a number, got bool"),
        ("/api/v1/clusters", "reachable", "yes", "reachable: expected true or false, got str"),
        ("/api/v1/health", "health", "odd", "health: 'odd' is not one of"),
        ("/api/v1/nodes", "node", None, "node: missing"),
    ],
)
def test_row_of_the_wrong_kind_says_which_field(path: str, key: str, value: Any, error: str) -> None:
    answers = {name: written(answer) for name, answer in ANSWERS.items()}
    broken = next(
        changed(ANSWERS[path], i, value) for i, p in enumerate(places(ANSWERS[path])) if key in p[-1:]
    )
    view = fleet_view({**answers, path: written(broken)}, Query())
    assert view.error is not None
    assert view.error.startswith("not the response of a fleet: ")
    assert error in view.error


def test_null_is_no_304() -> None:
    """What was known is kept, but as what it is: old."""
    poller = AgentPoller(ENDPOINT, 1.0)
    for body in (written(SNAPSHOTS["nvidia-mig"]), b"null"):
        poller._client = Told({"/snapshot": body})  # type: ignore[assignment]
        poller.poll()
    node = poller.node()
    assert len(node.devices) == 3
    assert "expected a JSON object" in (node.error or "")


def test_one_bad_agent_costs_the_others_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with stub_agent(stored("nvidia-mig")) as good, stub_agent(None) as bad:
        text = json.dumps(stored("nvidia-sick"))
        bad.body = text.replace('"power_watts": ', '"power_watts": 1e400, "was": ').encode()
        assert main(["top", "--once", "--ascii", "--width", "140", good.url, bad.url]) == 0
    table = capsys.readouterr().out
    assert "nvidia-mig" in table
    assert "an invalid number: 1e400" in table


def test_a_fault_of_our_own_is_published_and_the_feed_goes_on() -> None:
    seen: list[View] = []

    def read(query: Query) -> View:
        if len(source.questions) < 3:
            raise RuntimeError("a fault")
        return View(kind=ViewKind.LOCAL, title="n", at=1.8e9)

    source = StillSource(read)
    feed = SourceReader(source, Query(), 0.01, lambda view, _: seen.append(view))
    feed.start()
    try:
        wait_until(lambda: len(seen) >= 4, "it goes on")
    finally:
        feed.stop()
    assert "RuntimeError: a fault" in (seen[0].error or "")
    assert seen[3].error is None
    for view in seen[:4]:
        shown(view)


class Paged(Told):
    """As many pages of nodes as `pages` says; cursors are their numbers."""

    def __init__(self) -> None:
        super().__init__({name: written(answer) for name, answer in ANSWERS.items()})
        self.pages = 60
        self.asked: list[int] = []

    def get(self, path: str, tag: str | None = None) -> JsonResponse:
        if not path.startswith("/api/v1/nodes?"):
            return super().get(path, tag)
        number = int(dict(parse_qsl(urlsplit(path).query)).get("cursor", 0))
        self.asked.append(number)
        there = number < self.pages
        following = str(number + 1) if number + 1 < self.pages else None
        found = {"items": [ROW] if there else [], "total": self.pages, "next": following}
        return JsonResponse({}, found)


def test_page_far_down_costs_one_request_and_a_shorter_list_shows_its_last_page() -> None:
    source = FleetSource(ENDPOINT, timeout_seconds=1.0)
    paged = Paged()
    source._client = paged  # type: ignore[assignment]
    for number in range(50):
        shown_page = source.read(Query(page=number)).overview
        assert shown_page is not None
        assert shown_page.page == number
    assert paged.asked == list(range(50))
    paged.pages = 48
    shorter = source.read(Query(page=49)).overview
    assert shorter is not None
    assert (shorter.page, shorter.has_next, len(shorter.nodes)) == (47, False, 1)


def test_cursor_that_is_refused_for_ever_ends() -> None:
    class Refusing(Told):
        def get(self, path: str, tag: str | None = None) -> JsonResponse:
            if "cursor=" in path:
                raise KubeError(Reason.BAD_ANSWER, f"{ENDPOINT.url}: 400", status=400)
            return super().get(path, tag)

    answers = {name: written(answer) for name, answer in ANSWERS.items()}
    answers["/api/v1/nodes"] = written({**ANSWERS["/api/v1/nodes"], "next": "x"})
    source = FleetSource(ENDPOINT, timeout_seconds=1.0)
    source._client = Refusing(answers)  # type: ignore[assignment]
    view = source.read(Query(page=3))
    assert view.error is None
    assert view.overview is not None
    assert view.overview.page == 0
