"""A fleet, through its API: an overview of clusters and one page of nodes, or one node with all on it.

However large the fleet is, an answer is a page.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import isclose
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from accelscope.kube.endpoint import Endpoint
from accelscope.kube.errors import KubeError, Reason, one_line
from accelscope.model import HealthState, OwnerKind, is_idle
from accelscope.top.sources.from_snapshot import device_label, unread
from accelscope.top.sources.source import JsonClient, Question, is_agent, is_fleet
from accelscope.top.view.cells import ratio_of
from accelscope.top.view.shown import (
    ClusterSums,
    DeviceView,
    Kind,
    NodeSums,
    NodeView,
    Overview,
    ProcessView,
    Sums,
    Use,
    View,
)
from accelscope.top.view.text import reason_of, spoken

# --- fields ------------------------------------------------------------
# Fields of a row that somebody else sent: of the kind that is expected, or an error that names the field.


Row = Mapping[str, Any]
E = TypeVar("E", bound=StrEnum)


class RowError(ValueError):
    """A row that is none, and why."""


def named(row: Row, name: str) -> str:
    """A text that must be there."""
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


def whole(row: Row, name: str) -> int | None:
    value = row.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise _other(name, "a whole number", value)


def numbered(row: Row, name: str) -> int:
    """A whole number that must be there."""
    found = whole(row, name)
    if found is None:
        raise RowError(f"{name}: missing")
    return found


def count(row: Row, name: str) -> int:
    """Of what is not counted there is none."""
    return whole(row, name) or 0


def flag(row: Row, name: str) -> bool | None:
    value = row.get(name)
    if value is None or isinstance(value, bool):
        return value
    raise _other(name, "true or false", value)


def word(row: Row, name: str, words: type[E]) -> E:
    value = named(row, name)
    try:
        return words(value)
    except ValueError:
        raise RowError(f"{name}: {value[:40]!r} is none of {', '.join(words)}") from None


def part(row: Row, name: str) -> Row:
    value = row.get(name)
    if isinstance(value, Mapping):
        return value
    raise _other(name, "an object", value)


def rows(row: Row, name: str) -> Sequence[Row]:
    value = row.get(name)
    if not isinstance(value, list):
        raise _other(name, "a list", value)
    for item in value:
        if not isinstance(item, Mapping):
            raise _other(name, "objects", item)
    return value


def rows_if_any(row: Row, name: str) -> Sequence[Row]:
    """Of what older ones do not tell, none."""
    return () if row.get(name) is None else rows(row, name)


def _other(name: str, expected: str, value: object) -> RowError:
    if value is None:
        return RowError(f"{name}: missing")
    return RowError(f"{name}: expected {expected}, got {type(value).__name__}")


# --- from rows ------------------------------------------------------------
# A fleet's rows as views. Raises RowError for what is no answer of a fleet.


_NOT_READ = ("unread", "incompatible")  # states of nodes of which there is no device
_FRESH = ("fresh",)
_WELL = (HealthState.OK, HealthState.UNKNOWN)


def overview(summary: Row, clusters: Row, health: Row, page: Row, number_of_page: int) -> Overview:
    groups = {named(row, "cluster"): row for row in rows(summary, "groups")}
    following = text(page, "next")
    troubles = tuple(_troubles(health))
    return Overview(
        sums=_total(part(summary, "total"), health),
        clusters=tuple(_cluster(row, groups.get(named(row, "id"), {})) for row in rows(clusters, "items")),
        nodes=tuple(_node_sums(row) for row in rows(page, "items")),
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
    row = part(document, "node")
    cluster, name, state = named(row, "cluster"), named(row, "node"), named(row, "state")
    key = f"{cluster}/{name}"
    devices = sorted(rows(document, "devices"), key=_place)
    several = len({named(device, "vendor") for device in devices}) > 1
    labels = {named(device, "id"): _label(device, several) for device in devices}
    pods: defaultdict[str, dict[str, None]] = defaultdict(dict)
    idle: defaultdict[str, float] = defaultdict(float)
    for pod in rows(document, "pods"):
        pods[named(pod, "device")][f"{named(pod, 'namespace')}/{named(pod, 'pod')}"] = None
        if is_idle(number(pod, "idle_seconds")):
            idle[named(pod, "device")] += number(pod, "device_share_ratio") or 0.0
    drivers = {f"{named(d, 'vendor')} {version}" for d in devices if (version := text(d, "driver_version"))}
    return NodeView(
        key=key,
        name=name,
        cluster=cluster,
        source=source,
        error=None if state == "fresh" else f"{state}: {spoken(text(row, 'reason') or 'not read')}",
        age_seconds=number(row, "age_seconds"),
        simulated=bool(flag(row, "simulated")),
        driver=", ".join(sorted(drivers)),
        read=bool(devices),
        devices=tuple(
            _device(device, key, tuple(pods[named(device, "id")]), idle[named(device, "id")])
            for device in devices
        ),
        processes=tuple(_processes(rows(document, "processes"), key, labels)),
        troubles=tuple(
            unread(named(reader, "vendor"), text(reader, "reason"))
            for reader in rows_if_any(document, "readers")
            if flag(reader, "found") and not flag(reader, "up")
        ),
        notes=tuple(
            f"{spoken(named(told, 'source'))}: {spoken(text(told, 'reason') or 'not up')}"
            for told in rows_if_any(document, "attribution")
            if not flag(told, "up")
        ),
        document=document,
    )


def _place(row: Row) -> tuple[str, int, str]:
    index = whole(row, "index")
    return named(row, "vendor"), -1 if index is None else index, named(row, "id")


def _label(row: Row, several_vendors: bool) -> str:
    return device_label(named(row, "vendor"), whole(row, "index"), named(row, "id"), several_vendors)


def _device(row: Row, node: str, pods: tuple[str, ...], idle_ratio: float) -> DeviceView:
    throttled = text(row, "throttled")
    return DeviceView(
        key=f"{node} {named(row, 'id')}",
        node=node,
        id=named(row, "id"),
        vendor=named(row, "vendor"),
        index=whole(row, "index"),
        model=text(row, "model"),
        health=word(row, "health", HealthState),
        health_reason=text(row, "health_reason"),
        stale=text(row, "state") == "stale",
        read_at=number(row, "taken_at"),
        unusual=text(row, "unusual"),
        utilization_ratio=number(row, "utilization_ratio"),
        memory_used_bytes=whole(row, "memory_used_bytes"),
        memory_total_bytes=whole(row, "memory_total_bytes"),
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
        by_pid[numbered(row, "pid")].append(row)
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
            resident_memory_bytes=whole(first, "resident_memory_bytes"),
            started_at=number(first, "started_at"),
            namespace=text(first, "namespace"),
            pod=text(first, "pod"),
            container=text(first, "container"),
            owner_kind=word(first, "owner_kind", OwnerKind) if text(first, "owner_kind") else None,
            owner=text(first, "owner"),
        )


def _use(row: Row, node: str, labels: Mapping[str, str]) -> Use:
    device, index, partition = named(row, "device"), whole(row, "device_index"), text(row, "partition")
    key = f"{node} {device}"
    return Use(
        device=key,
        label=labels.get(device, "?" if index is None else str(index)),
        partition=f"{key} {partition}" if partition is not None else None,
        type=text(row, "type"),
        memory_bytes=whole(row, "memory_bytes"),
        utilization_ratio=number(row, "utilization_ratio"),
    )


def _total(row: Row, health: Row) -> Sums:
    """The summary counts nodes by their devices: one that was not read has none, and is a node still."""
    if health.get("nodes_by_state") is None:
        return _sums(row, count(row, "nodes"))
    states = part(health, "nodes_by_state")
    known = sum(count(states, state) for state in states)
    return _sums(row, known, sum(count(states, state) for state in _NOT_READ))


def _sums(row: Row, nodes: int | None = 0, nodes_not_read: int = 0) -> Sums:
    used, total = whole(row, "memory_used_bytes"), whole(row, "memory_total_bytes")
    ratio = number(row, "memory_used_ratio") if "memory_used_ratio" in row else ratio_of(used, total)
    if used is not None and total and (ratio is None or not isclose(ratio * total, used)):
        total = None  # not the total of the devices that report what is used
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
    sums = _sums(group, whole(row, "nodes"))
    if not group:  # a cluster without devices has none
        devices = whole(row, "devices")
        sums = replace(sums, devices=devices, processes=None if devices is None else 0)
    return ClusterSums(
        key=named(row, "id"),
        sums=sums,
        reachable=flag(row, "reachable"),
        reason=spoken(reason) if reason else None,
        age_seconds=number(row, "age_seconds"),
        simulated=bool(flag(row, "simulated")),
    )


def _node_sums(row: Row) -> NodeSums:
    cluster, node, reason = named(row, "cluster"), named(row, "node"), text(row, "reason")
    return NodeSums(
        key=f"{cluster}/{node}",
        cluster=cluster,
        node=node,
        state=named(row, "state"),
        reason=spoken(reason) if reason else None,
        age_seconds=number(row, "age_seconds"),
        models=text(row, "models"),
        sums=_sums(row),
    )


def _troubles_total(health: Row) -> int:
    """Lists of devices and nodes end at the limit that was asked for; the counts beside them are of all."""
    unwell = 0
    for name, well in (("devices_by_health", _WELL), ("nodes_by_state", _FRESH)):
        if health.get(name) is not None:
            counts = part(health, name)
            unwell += sum(count(counts, state) for state in counts if state not in well)
    return unwell + len(rows(health, "clusters"))


def _troubles(health: Row) -> Iterable[str]:
    for cluster in rows(health, "clusters"):
        down = [named(each, "kind") for each in rows_if_any(cluster, "sources") if not flag(each, "up")]
        why = (
            text(cluster, "text") or text(cluster, "reason") or (f"{', '.join(down)} not up" if down else "")
        )
        if flag(cluster, "reachable") is False:
            yield f"{named(cluster, 'id')}: out of reach: {spoken(why)}"
        else:
            yield f"{named(cluster, 'id')}: {spoken(why) or 'not read yet'}"
    for device in rows(health, "devices"):
        state = word(device, "health", HealthState)
        why = reason_of(text(device, "health_reason"), state) or ""
        place = f"{named(device, 'cluster')}/{named(device, 'node')} {_label(device, several_vendors=True)}"
        yield f"{place}: {state.upper()}{f': {why}' if why else ''}"
    for node in rows(health, "nodes"):
        place = f"{named(node, 'cluster')}/{named(node, 'node')}"
        yield f"{place}: {named(node, 'state')}: {spoken(text(node, 'reason') or 'not read')}"


ANSWER_LIMIT = 64 << 20  # bytes
MOST_CLUSTERS = 1000  # as many as the API puts on one page
TROUBLES_LIMIT = 50
# What a person must see first: lost and sick devices, then nodes that are not read, then heat.
WHAT_MATTERS = "-devices_lost,-devices_unhealthy,-state,-temperature_max_celsius"

Key = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Known:
    """The last answer; `received` by the monotonic clock."""

    tag: str
    document: Mapping[str, Any]
    received: float


class FleetSource:
    kind = Kind.FLEET

    def __init__(self, endpoint: Endpoint, *, timeout_seconds: float, page_size: int = 100) -> None:
        self.title = endpoint.url
        self._page_size = page_size
        self._client = JsonClient(endpoint, timeout_seconds=timeout_seconds, limit_bytes=ANSWER_LIMIT)
        self._known: dict[str, _Known] = {}  # by path
        self._asked: set[str] = set()  # paths of the view that is being made
        self._cursors: dict[Key, list[str]] = {}
        self._last: dict[Question, tuple[float, View]] = {}

    def start(self) -> None:
        pass

    def read(self, question: Question) -> View:
        self._asked = set()
        try:
            view = self._read(question)
        except KubeError as error:
            if error.reason is Reason.NOT_FOUND and question.node is not None and is_fleet(self._client):
                return self._unknown(question, *question.node)
            if error.reason is Reason.NOT_FOUND and is_agent(self._client):
                return self._failed(question, "this is an agent, not a fleet: leave --fleet out")
            return self._failed(question, str(error).removeprefix(f"{self.title}: "))
        except RowError as error:
            return self._failed(question, one_line(f"its answer is not that of a fleet: {error}"))
        # One at a time is looked at: what was asked for before is not kept.
        self._known = {path: known for path, known in self._known.items() if path in self._asked}
        self._last = {question: (time.monotonic(), view)}
        return view

    def settle(self) -> None:
        pass

    def hurry(self, interval_seconds: float) -> None:
        pass

    def refresh(self) -> None:
        pass  # it is asked at every reading

    def stop(self) -> None:
        self._client.close()

    def _unknown(self, question: Question, cluster: str, node: str) -> View:
        """The fleet is well, and has no such node, or has it no longer."""
        error = f"the fleet knows no node {node} in cluster {cluster}"
        known = NodeView(key=f"{cluster}/{node}", name=node, cluster=cluster, source=self.title)
        if question in self._last:
            [known] = self._last[question][1].nodes
        return View(kind=self.kind, title=self.title, at=time.time(), nodes=(replace(known, error=error),))

    def _failed(self, question: Question, error: str) -> View:
        """What is known of it, and how old that is."""
        if question in self._last:
            read_at, view = self._last[question]
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
        overview = Overview(sums=Sums()) if question.node is None else None
        nodes: tuple[NodeView, ...] = ()
        if question.node is not None:
            cluster, node = question.node
            nodes = (NodeView(key=f"{cluster}/{node}", name=node, cluster=cluster, source=self.title),)
        return View(
            kind=self.kind, title=self.title, at=time.time(), overview=overview, nodes=nodes, error=error
        )

    def _read(self, question: Question) -> View:
        if question.node is not None:
            cluster, node = (quote(part, safe="") for part in question.node)
            document = self._get(f"/api/v1/nodes/{cluster}/{node}")
            found = node_view(document, source=self.title)
            return View(kind=self.kind, title=self.title, at=time.time(), nodes=(found,))
        return View(kind=self.kind, title=self.title, at=time.time(), overview=self._overview(question))

    def _overview(self, question: Question) -> Overview:
        summary = self._get(f"/api/v1/summary?group_by=cluster&limit={MOST_CLUSTERS}")
        clusters = self._get("/api/v1/clusters")
        health = self._get(f"/api/v1/health?limit={TROUBLES_LIMIT}")
        page, number = self._nodes(question)
        return overview(summary, clusters, health, page, number)

    def _nodes(self, question: Question) -> tuple[Any, int]:
        """The page, and its number: a list may have become shorter since it was asked for."""
        wanted = {
            "sort": question.sort or WHAT_MATTERS,
            "limit": str(self._page_size),
            **({"cluster": question.cluster} if question.cluster else {}),
            **({"q": question.text} if question.text else {}),
        }
        key = tuple(wanted.items())
        cursors = self._cursors.setdefault(key, [""])
        self._cursors = {key: cursors}
        # From the last page whose beginning is known, so that a page far down costs one request.
        number, refused = min(question.page, len(cursors) - 1), False
        while True:
            cursor = cursors[number]
            try:
                page = self._get(
                    "/api/v1/nodes?" + urlencode(wanted | ({"cursor": cursor} if cursor else {}))
                )
            except KubeError as error:
                if number == 0 or error.reason is not Reason.BAD_ANSWER:
                    raise
                del cursors[1:]  # of a list that is no longer as it was
                number, refused = 0, True
                continue
            following = text(page, "next")
            if number > 0 and not rows(page, "items"):  # the list has become shorter
                del cursors[number:]
                number, refused = number - 1, True
                continue
            del cursors[number + 1 :]
            if following:
                cursors.append(following)
            if number >= question.page or not following or refused:
                return page, number
            number += 1

    def _get(self, path: str) -> Any:
        self._asked.add(path)
        known = self._known.get(path)
        answer = self._client.get(path, None if known is None else known.tag)
        if answer.unchanged and known is not None:
            return _aged(known.document, time.monotonic() - known.received)
        if not isinstance(answer.document, Mapping):
            raise RowError("it is no object")
        if (tag := answer.headers.get("etag")) is not None:
            self._known[path] = _Known(tag, answer.document, time.monotonic())
        return answer.document


def _aged(document: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
    """The same so much later, where ages are shown: the fleet's tags are of its data, not of their age."""
    aged = dict(document)
    if isinstance(items := aged.get("items"), list):
        aged["items"] = [_older(row, seconds) for row in items]
    if "node" in aged:
        aged["node"] = _older(aged["node"], seconds)
    return aged


def _older(row: Any, seconds: float) -> Any:
    age = row.get("age_seconds") if isinstance(row, Mapping) else None
    return {**row, "age_seconds": age + seconds} if isinstance(age, int | float) else row
