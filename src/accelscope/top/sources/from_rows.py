"""A fleet's rows as views. Raises RowError for what is no answer of a fleet."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import isclose

from accelscope.model import HealthState, OwnerKind, is_idle
from accelscope.top.sources.fields import (
    Row,
    count,
    flag,
    named,
    number,
    numbered,
    part,
    rows,
    rows_if_any,
    text,
    whole,
    word,
)
from accelscope.top.sources.from_snapshot import device_label, unread
from accelscope.top.view.cells import ratio_of
from accelscope.top.view.shown import (
    ClusterSums,
    DeviceView,
    NodeSums,
    NodeView,
    Overview,
    ProcessView,
    Sums,
    Use,
)
from accelscope.top.view.text import reason_of, spoken

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
