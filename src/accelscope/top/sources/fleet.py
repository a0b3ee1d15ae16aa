"""A fleet, read through its API: an overview of clusters with one page of nodes, or one node in detail."""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import isclose
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from accelscope.kube.endpoint import Endpoint, KubeError, Reason, one_line
from accelscope.model import HealthState, OwnerKind, is_idle
from accelscope.top.sources.source import JsonClient, Query, device_label, is_agent, is_fleet, unread
from accelscope.top.view.model import (
    ClusterSums,
    DeviceView,
    NodeSums,
    NodeView,
    Overview,
    ProcessUse,
    ProcessView,
    Sums,
    View,
    ViewKind,
)
from accelscope.top.view.table import ratio_of
from accelscope.top.view.text import health_reason_text, humanize

# --- typed access to the fields of a response

Row = Mapping[str, Any]
E = TypeVar("E", bound=StrEnum)


class RowError(ValueError):
    """A malformed response. The text names the field."""


def required_text(row: Row, name: str) -> str:
    found = text(row, name)
    if found is None:
        raise RowError(f"{name}: missing")
    return found


def text(row: Row, name: str) -> str | None:
    value = row.get(name)
    if value is None or isinstance(value, str):
        return value
    raise _other(name, "a text", value)


def number(row: Row, name: str) -> float | None:
    value = row.get(name)
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise _other(name, "a number", value)


def integer(row: Row, name: str) -> int | None:
    value = row.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise _other(name, "a whole number", value)


def required_integer(row: Row, name: str) -> int:
    found = integer(row, name)
    if found is None:
        raise RowError(f"{name}: missing")
    return found


def count(row: Row, name: str) -> int:
    """0 if it is missing."""
    return integer(row, name) or 0


def flag(row: Row, name: str) -> bool | None:
    value = row.get(name)
    if value is None or isinstance(value, bool):
        return value
    raise _other(name, "true or false", value)


def choice(row: Row, name: str, words: type[E]) -> E:
    value = required_text(row, name)
    try:
        return words(value)
    except ValueError:
        raise RowError(f"{name}: {value[:40]!r} is not one of {', '.join(words)}") from None


def mapping(row: Row, name: str) -> Row:
    value = row.get(name)
    if isinstance(value, Mapping):
        return value
    raise _other(name, "an object", value)


def objects(row: Row, name: str) -> Sequence[Row]:
    value = row.get(name)
    if not isinstance(value, list):
        raise _other(name, "a list", value)
    for item in value:
        if not isinstance(item, Mapping):
            raise _other(name, "objects", item)
    return value


def optional_objects(row: Row, name: str) -> Sequence[Row]:
    """Empty if it is missing, as in older versions."""
    return () if row.get(name) is None else objects(row, name)


def _other(name: str, expected: str, value: object) -> RowError:
    if value is None:
        return RowError(f"{name}: missing")
    return RowError(f"{name}: expected {expected}, got {type(value).__name__}")


# --- responses as views; malformed ones raise RowError

_NOT_READ = ("unread", "incompatible")  # states of nodes without devices
_FRESH = ("fresh",)
_HEALTHY = (HealthState.OK, HealthState.UNKNOWN)


def overview(summary: Row, clusters: Row, health: Row, page: Row, number_of_page: int) -> Overview:
    groups = {required_text(row, "cluster"): row for row in objects(summary, "groups")}
    following = text(page, "next")
    troubles = tuple(_troubles(health))
    return Overview(
        sums=_total(mapping(summary, "total"), health),
        clusters=tuple(
            _cluster(row, groups.get(required_text(row, "id"), {})) for row in objects(clusters, "items")
        ),
        nodes=tuple(_node_sums(row) for row in objects(page, "items")),
        nodes_total=count(page, "total"),
        page=number_of_page,
        has_next=bool(following),
        troubles=troubles,
        troubles_total=max(len(troubles), _troubles_total(health)),
        documents={
            "summary": summary,
            "clusters": clusters["items"],
            "nodes": page["items"],
            "nodes_total": count(page, "total"),
            "next": following,
        },
    )


def node_view(document: Row, *, source: str) -> NodeView:
    row = mapping(document, "node")
    cluster, name, state = (
        required_text(row, "cluster"),
        required_text(row, "node"),
        required_text(row, "state"),
    )
    key = f"{cluster}/{name}"
    devices = sorted(objects(document, "devices"), key=_place)
    several = len({required_text(device, "vendor") for device in devices}) > 1
    labels = {required_text(device, "id"): _label(device, several) for device in devices}
    pods: defaultdict[str, dict[str, None]] = defaultdict(dict)
    idle: defaultdict[str, float] = defaultdict(float)
    for pod in objects(document, "pods"):
        pods[required_text(pod, "device")][
            f"{required_text(pod, 'namespace')}/{required_text(pod, 'pod')}"
        ] = None
        if is_idle(number(pod, "idle_seconds")):
            idle[required_text(pod, "device")] += number(pod, "device_share_ratio") or 0.0
    drivers = {
        f"{required_text(d, 'vendor')} {version}" for d in devices if (version := text(d, "driver_version"))
    }
    return NodeView(
        key=key,
        name=name,
        cluster=cluster,
        source=source,
        error=None if state == "fresh" else f"{state}: {humanize(text(row, 'reason') or 'not read')}",
        age_seconds=number(row, "age_seconds"),
        simulated=bool(flag(row, "simulated")),
        driver=", ".join(sorted(drivers)),
        read=bool(devices),
        devices=tuple(
            _device(device, key, tuple(pods[required_text(device, "id")]), idle[required_text(device, "id")])
            for device in devices
        ),
        processes=tuple(_processes(objects(document, "processes"), key, labels)),
        troubles=tuple(
            unread(required_text(reader, "vendor"), text(reader, "reason"))
            for reader in optional_objects(document, "readers")
            if flag(reader, "found") and not flag(reader, "up")
        ),
        notes=tuple(
            f"{humanize(required_text(state, 'source'))}: {humanize(text(state, 'reason') or 'not up')}"
            for state in optional_objects(document, "attribution")
            if not flag(state, "up")
        ),
        document=document,
    )


def _place(row: Row) -> tuple[str, int, str]:
    index = integer(row, "index")
    return required_text(row, "vendor"), -1 if index is None else index, required_text(row, "id")


def _label(row: Row, several_vendors: bool) -> str:
    return device_label(
        required_text(row, "vendor"), integer(row, "index"), required_text(row, "id"), several_vendors
    )


def _device(row: Row, node: str, pods: tuple[str, ...], idle_ratio: float) -> DeviceView:
    throttled = text(row, "throttled")
    return DeviceView(
        key=f"{node} {required_text(row, 'id')}",
        node=node,
        id=required_text(row, "id"),
        vendor=required_text(row, "vendor"),
        index=integer(row, "index"),
        model=text(row, "model"),
        health=choice(row, "health", HealthState),
        health_reason=text(row, "health_reason"),
        health_action=text(row, "health_action"),
        stale=text(row, "state") == "stale",
        read_at=number(row, "taken_at"),
        unusual=text(row, "unusual"),
        utilization_ratio=number(row, "utilization_ratio"),
        memory_used_bytes=integer(row, "memory_used_bytes"),
        memory_total_bytes=integer(row, "memory_total_bytes"),
        power_watts=number(row, "power_watts"),
        power_limit_watts=number(row, "power_limit_watts"),
        temperature_celsius=number(row, "temperature_celsius"),
        temperature_slowdown_celsius=number(row, "temperature_slowdown_celsius"),
        fan_ratio=number(row, "fan_speed_ratio"),
        throttles=tuple(throttled.split(",")) if throttled else (),
        pods=pods,
        idle_seconds=number(row, "idle_seconds"),
        idle_ratio=idle_ratio,
    )


def _processes(found: Iterable[Row], node: str, labels: Mapping[str, str]) -> Iterable[ProcessView]:
    by_pid: defaultdict[int, list[Row]] = defaultdict(list)
    for row in found:
        by_pid[required_integer(row, "pid")].append(row)
    for pid, its in by_pid.items():
        first = its[0]
        yield ProcessView(
            key=f"{node} {pid}",
            node=node,
            pid=pid,
            name=text(first, "name"),
            user=text(first, "user"),
            uses=tuple(_use(row, node, labels) for row in its),
            cpu_ratio=number(first, "cpu_ratio"),
            resident_memory_bytes=integer(first, "resident_memory_bytes"),
            started_at=number(first, "started_at"),
            namespace=text(first, "namespace"),
            pod=text(first, "pod"),
            container=text(first, "container"),
            owner_kind=choice(first, "owner_kind", OwnerKind) if text(first, "owner_kind") else None,
            owner=text(first, "owner"),
        )


def _use(row: Row, node: str, labels: Mapping[str, str]) -> ProcessUse:
    device, index, partition = (
        required_text(row, "device"),
        integer(row, "device_index"),
        text(row, "partition"),
    )
    key = f"{node} {device}"
    return ProcessUse(
        device=key,
        label=labels.get(device, "?" if index is None else str(index)),
        partition=f"{key} {partition}" if partition is not None else None,
        type=text(row, "type"),
        memory_bytes=integer(row, "memory_bytes"),
        utilization_ratio=number(row, "utilization_ratio"),
    )


def _total(row: Row, health: Row) -> Sums:
    """The summary counts only nodes with devices; nodes that were not read have none."""
    if health.get("nodes_by_state") is None:
        return _sums(row, count(row, "nodes"))
    states = mapping(health, "nodes_by_state")
    known = sum(count(states, state) for state in states)
    return _sums(row, known, sum(count(states, state) for state in _NOT_READ))


def _sums(row: Row, nodes: int | None = 0, nodes_not_read: int = 0) -> Sums:
    used, total = integer(row, "memory_used_bytes"), integer(row, "memory_total_bytes")
    ratio = number(row, "memory_used_ratio") if "memory_used_ratio" in row else ratio_of(used, total)
    if used is not None and total and (ratio is None or not isclose(ratio * total, used)):
        total = None  # not the total of the devices in `used`
    return Sums(
        nodes=nodes,
        nodes_not_read=nodes_not_read,
        devices=count(row, "devices"),
        devices_lost=count(row, "devices_lost"),
        devices_unhealthy=count(row, "devices_unhealthy"),
        devices_idle=number(row, "devices_idle"),
        processes=count(row, "processes"),
        utilization_ratio=number(row, "utilization_ratio"),
        memory_used_bytes=used,
        memory_total_bytes=total,
        memory_used_ratio=ratio,
        power_watts=number(row, "power_watts"),
        temperature_max_celsius=number(row, "temperature_max_celsius"),
    )


def _cluster(row: Row, group: Row) -> ClusterSums:
    reason = text(row, "text") or text(row, "reason")
    sums = _sums(group, integer(row, "nodes"))
    if not group:  # a cluster without devices has none
        devices = integer(row, "devices")
        sums = replace(sums, devices=devices, processes=None if devices is None else 0)
    return ClusterSums(
        key=required_text(row, "id"),
        sums=sums,
        reachable=flag(row, "reachable"),
        reason=humanize(reason) if reason else None,
        age_seconds=number(row, "age_seconds"),
        simulated=bool(flag(row, "simulated")),
    )


def _node_sums(row: Row) -> NodeSums:
    cluster, node, reason = required_text(row, "cluster"), required_text(row, "node"), text(row, "reason")
    return NodeSums(
        key=f"{cluster}/{node}",
        cluster=cluster,
        node=node,
        state=required_text(row, "state"),
        reason=humanize(reason) if reason else None,
        age_seconds=number(row, "age_seconds"),
        models=text(row, "models"),
        sums=_sums(row),
    )


def _troubles_total(health: Row) -> int:
    """The lists of devices and nodes are limited, but the counts are not."""
    problems = 0
    for name, fine in (("devices_by_health", _HEALTHY), ("nodes_by_state", _FRESH)):
        if health.get(name) is not None:
            counts = mapping(health, name)
            problems += sum(count(counts, state) for state in counts if state not in fine)
    return problems + len(objects(health, "clusters"))


def _troubles(health: Row) -> Iterable[str]:
    for cluster in objects(health, "clusters"):
        down = [
            required_text(each, "kind")
            for each in optional_objects(cluster, "sources")
            if not flag(each, "up")
        ]
        why = (
            text(cluster, "text") or text(cluster, "reason") or (f"{', '.join(down)} not up" if down else "")
        )
        if flag(cluster, "reachable") is False:
            yield f"{required_text(cluster, 'id')}: unreachable: {humanize(why)}"
        else:
            yield f"{required_text(cluster, 'id')}: {humanize(why) or 'not read yet'}"
    for device in objects(health, "devices"):
        state = choice(device, "health", HealthState)
        why = health_reason_text(text(device, "health_reason"), state) or ""
        place = f"{required_text(device, 'cluster')}/{required_text(device, 'node')}"
        place += f" {_label(device, several_vendors=True)}"
        action = text(device, "health_action")
        yield f"{place}: {state.upper()}{f': {why}' if why else ''}{f': {action}' if action else ''}"
    for node in objects(health, "nodes"):
        place = f"{required_text(node, 'cluster')}/{required_text(node, 'node')}"
        yield f"{place}: {required_text(node, 'state')}: {humanize(text(node, 'reason') or 'not read')}"


ANSWER_LIMIT = 64 << 20  # bytes
CLUSTERS_LIMIT = 1000  # the largest page of the API
TROUBLES_LIMIT = 50
# Lost and unhealthy devices first, then nodes that are not read, then the hottest.
DEFAULT_ORDER = "-devices_lost,-devices_unhealthy,-state,-temperature_max_celsius"

Key = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _CachedResponse:
    """The last response of a path; `received` by the monotonic clock."""

    tag: str
    document: Mapping[str, Any]
    received: float


class FleetSource:
    kind = ViewKind.FLEET

    def __init__(self, endpoint: Endpoint, *, timeout_seconds: float, page_size: int = 100) -> None:
        self.title = endpoint.url
        self._page_size = page_size
        self._client = JsonClient(endpoint, timeout_seconds=timeout_seconds, limit_bytes=ANSWER_LIMIT)
        self._cache: dict[str, _CachedResponse] = {}  # by path
        self._requested: set[str] = set()  # paths of the current view
        self._cursors: dict[Key, list[str]] = {}
        self._last: dict[Query, tuple[float, View]] = {}

    def start(self) -> None:
        pass

    def read(self, query: Query) -> View:
        self._requested = set()
        try:
            view = self._read(query)
        except KubeError as error:
            if error.reason is Reason.NOT_FOUND and query.node is not None and is_fleet(self._client):
                return self._unknown(query, *query.node)
            if error.reason is Reason.NOT_FOUND and is_agent(self._client):
                return self._failed(query, "this is an agent, not a fleet: omit --fleet")
            return self._failed(query, str(error).removeprefix(f"{self.title}: "))
        except RowError as error:
            return self._failed(query, one_line(f"not the response of a fleet: {error}"))
        self._cache = {path: cached for path, cached in self._cache.items() if path in self._requested}
        self._last = {query: (time.monotonic(), view)}
        return view

    def settle(self) -> None:
        pass

    def hurry(self, interval_seconds: float) -> None:
        pass

    def refresh(self) -> None:
        pass  # every read sends requests

    def stop(self) -> None:
        self._client.close()

    def _unknown(self, query: Query, cluster: str, node: str) -> View:
        """The fleet has no such node, or no longer."""
        error = f"the fleet has no node {node} in cluster {cluster}"
        known = NodeView(key=f"{cluster}/{node}", name=node, cluster=cluster, source=self.title)
        if query in self._last:
            [known] = self._last[query][1].nodes
        return View(kind=self.kind, title=self.title, at=time.time(), nodes=(replace(known, error=error),))

    def _failed(self, query: Query, error: str) -> View:
        """The last known view, with the error and its age."""
        if query in self._last:
            read_at, view = self._last[query]
            age = time.monotonic() - read_at
            return View(
                kind=self.kind,
                title=self.title,
                at=time.time(),
                nodes=view.nodes,
                overview=view.overview,
                error=error,
                age_seconds=age,
            )
        overview = Overview(sums=Sums()) if query.node is None else None
        nodes: tuple[NodeView, ...] = ()
        if query.node is not None:
            cluster, node = query.node
            nodes = (NodeView(key=f"{cluster}/{node}", name=node, cluster=cluster, source=self.title),)
        return View(
            kind=self.kind, title=self.title, at=time.time(), overview=overview, nodes=nodes, error=error
        )

    def _read(self, query: Query) -> View:
        if query.node is not None:
            cluster, node = (quote(part, safe="") for part in query.node)
            document = self._get(f"/api/v1/nodes/{cluster}/{node}")
            found = node_view(document, source=self.title)
            return View(kind=self.kind, title=self.title, at=time.time(), nodes=(found,))
        return View(kind=self.kind, title=self.title, at=time.time(), overview=self._overview(query))

    def _overview(self, query: Query) -> Overview:
        summary = self._get(f"/api/v1/summary?group_by=cluster&limit={CLUSTERS_LIMIT}")
        clusters = self._get("/api/v1/clusters")
        health = self._get(f"/api/v1/health?limit={TROUBLES_LIMIT}")
        page, number = self._nodes(query)
        return overview(summary, clusters, health, page, number)

    def _nodes(self, query: Query) -> tuple[Any, int]:
        """The page and its number, which is smaller than requested if the list has become shorter."""
        wanted = {
            "sort": query.sort or DEFAULT_ORDER,
            "limit": str(self._page_size),
            **({"cluster": query.cluster} if query.cluster else {}),
            **({"q": query.text} if query.text else {}),
        }
        key = tuple(wanted.items())
        cursors = self._cursors.setdefault(key, [""])
        self._cursors = {key: cursors}
        # Start at the last page with a known cursor, so that a distant page takes one request.
        number, refused = min(query.page, len(cursors) - 1), False
        while True:
            cursor = cursors[number]
            try:
                page = self._get(
                    "/api/v1/nodes?" + urlencode(wanted | ({"cursor": cursor} if cursor else {}))
                )
            except KubeError as error:
                if number == 0 or error.reason is not Reason.BAD_ANSWER:
                    raise
                del cursors[1:]  # the list has changed
                number, refused = 0, True
                continue
            following = text(page, "next")
            if number > 0 and not objects(page, "items"):  # the list has become shorter
                del cursors[number:]
                number, refused = number - 1, True
                continue
            del cursors[number + 1 :]
            if following:
                cursors.append(following)
            if number >= query.page or not following or refused:
                return page, number
            number += 1

    def _get(self, path: str) -> Any:
        self._requested.add(path)
        cached = self._cache.get(path)
        response = self._client.get(path, None if cached is None else cached.tag)
        if response.unchanged and cached is not None:
            return _aged(cached.document, time.monotonic() - cached.received)
        if not isinstance(response.document, Mapping):
            raise RowError("expected an object")
        if (tag := response.headers.get("etag")) is not None:
            self._cache[path] = _CachedResponse(tag, response.document, time.monotonic())
        return response.document


def _aged(document: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
    """The document with its ages increased: the ETag of the fleet does not depend on them."""
    aged = dict(document)
    if isinstance(items := aged.get("items"), list):
        aged["items"] = [_older(row, seconds) for row in items]
    if "node" in aged:
        aged["node"] = _older(aged["node"], seconds)
    return aged


def _older(row: Any, seconds: float) -> Any:
    age = row.get("age_seconds") if isinstance(row, Mapping) else None
    return {**row, "age_seconds": age + seconds} if isinstance(age, int | float) else row
