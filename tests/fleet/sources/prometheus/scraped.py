"""Pages of agents as series of a store, and a stub store for the PromQL that the fleet uses."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from accelscope.metrics.exposition import Exposition
from accelscope.model import Snapshot

# Labels of a target that is discovered through Kubernetes; workloads have labels of the same names.
AGENT_LABELS = {"namespace": "monitoring", "pod": "agent-x", "container": "agent"}


@dataclass(frozen=True)
class Series:
    labels: Mapping[str, str]
    value: float


def page(snapshot: Snapshot) -> list[Series]:
    """The page of the agent of this node. Stores drop labels without a value."""
    text = Exposition().render(snapshot).text.decode()
    return [
        Series({"__name__": sample.name, **sample.labels}, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]


@dataclass
class Agent:
    """A target of the store."""

    snapshot: Snapshot
    instance: str
    scraped_at: float
    job: str = "accelscope"
    external: Mapping[str, str] = field(default_factory=dict)  # labels that the store itself adds
    dropped: str = ""  # families with this prefix are not stored

    def __post_init__(self) -> None:
        found = page(self.snapshot)
        self._page = [
            one for one in found if not self.dropped or not one.labels["__name__"].startswith(self.dropped)
        ]

    def series(self) -> Iterator[Series]:
        target = {"job": self.job, "instance": self.instance, **AGENT_LABELS}
        for one in self._page:
            labels = {**target, **one.labels, **self.external}
            yield Series({name: value for name, value in labels.items() if value}, one.value)


_PART = re.compile(
    r"max by \((?P<by>[^)]*)\) "
    r"\((?P<timestamp>timestamp\()?(?P<name>\w*)\{(?P<matchers>.*)\}\)?(?P<one> == 1)?\)"
)
_MATCHER = re.compile(r'(\w+)(=~|=)"((?:[^"\\]|\\.)*)"')


@dataclass
class StubStore:
    agents: Sequence[Agent]
    now: float
    warnings: Sequence[str] = ()
    most_series: int | None = None  # more are rejected, as Prometheus rejects too many samples
    requests: list[dict[str, str]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        form = {name: values[0] for name, values in parse_qs((await request.read()).decode()).items()}
        self.requests.append(form)
        self.headers.append(request.headers)
        at = float(form.get("time", self.now))
        found = [series for part in form["query"].split(" or max ") for series in self._part(part, at)]
        if self.most_series is not None and len(found) > self.most_series:
            refusal = {"status": "error", "errorType": "execution", "error": "too many samples"}
            return web.json_response(refusal, status=422)
        result = [{"metric": dict(one.labels), "value": [at, repr(one.value)]} for one in found]
        document = {"status": "success", "data": {"resultType": "vector", "result": result}}
        if self.warnings:
            document["warnings"] = list(self.warnings)
        return web.json_response(document)

    def _part(self, text: str, at: float) -> Iterator[Series]:
        parsed = _PART.fullmatch(text if text.startswith("max ") else f"max {text}")
        assert parsed is not None, text
        matchers = [
            (name, kind == "=~", unquoted(value))
            for name, kind, value in _MATCHER.findall(parsed["matchers"])
        ]
        if parsed["name"]:
            matchers.append(("__name__", False, parsed["name"]))
        by = parsed["by"].split(", ")
        grouped: dict[tuple[tuple[str, str], ...], float] = {}
        for agent in self.agents:
            for one in agent.series():
                if all(fits(one.labels.get(name, ""), pattern, value) for name, pattern, value in matchers):
                    if parsed["one"] and one.value != 1:
                        continue
                    value = agent.scraped_at if parsed["timestamp"] else one.value
                    labels = {name: one.labels[name] for name in by if name in one.labels}
                    key = tuple(labels.items())
                    grouped[key] = max(value, grouped.get(key, value))
        return iter([Series(dict(key), value) for key, value in grouped.items()])


def fits(text: str, pattern: bool, value: str) -> bool:
    return re.fullmatch(value, text) is not None if pattern else text == value


def unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), text)
