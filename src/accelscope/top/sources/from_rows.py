"""A fleet's rows as views. Raises KeyError, TypeError or ValueError for what is no answer of a fleet."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from accelscope.model import HealthState, OwnerKind
from accelscope.top.sources.from_snapshot import device_label
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

Row = Mapping[str, Any]


def overview(summary: Row, clusters: Row, health: Row, page: Row, number: int) -> Overview:
    groups = {row["cluster"]: row for row in summary["groups"]}
    return Overview(
        sums=_sums(summary["total"]),
        clusters=tuple(_cluster(row, groups.get(row["id"], {})) for row in clusters["items"]),
        nodes=tuple(_node_sums(row) for row in page["items"]),
        nodes_total=int(page["total"]),
        page=number,
        has_next=bool(page.get("next")),
        troubles=tuple(_troubles(health)),
        documents={
            "summary": summary,
            "clusters": clusters["items"],
            "nodes": page["items"],
            "nodes_total": page["total"],
            "next": page.get("next"),
        },
    )


def node_view(document: Row, *, source: str) -> NodeView:
    row = document["node"]
    key = f"{row['cluster']}/{row['node']}"
    devices = sorted(document["devices"], key=_place)
    several = len({device["vendor"] for device in devices}) > 1
    labels = {d["id"]: device_label(d["vendor"], d.get("index"), d["id"], several) for d in devices}
    pods: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for pod in document["pods"]:
        pods[pod["device"]][f"{pod['namespace']}/{pod['pod']}"] = None
    fresh = row["state"] == "fresh"
    return NodeView(
        key=key,
        name=row["node"],
        cluster=row["cluster"],
        source=source,
        error=None if fresh else f"{row['state']}: {row.get('reason') or 'not read'}",
        age_seconds=row.get("age_seconds"),
        taken_at=row.get("taken_at"),
        simulated=bool(row.get("simulated")),
        driver=", ".join(sorted({f"{d['vendor']} {v}" for d in devices if (v := d.get("driver_version"))})),
        read=bool(devices),
        devices=tuple(_device(device, key, tuple(pods[device["id"]])) for device in devices),
        processes=tuple(_processes(document["processes"], key, labels)),
        troubles=tuple(
            f"{reader['vendor']}: cannot be read: {reader.get('reason') or 'no device answers'}"
            for reader in document.get("readers") or ()
            if reader.get("found") and not reader.get("up")
        ),
        notes=tuple(
            f"{state['source']}: {state.get('reason') or 'not up'}"
            for state in document.get("attribution") or ()
            if not state.get("up")
        ),
        document=document,
    )


def _place(row: Row) -> tuple[str, int, str]:
    return row["vendor"], -1 if row.get("index") is None else row["index"], row["id"]


def _device(row: Row, node: str, pods: tuple[str, ...]) -> DeviceView:
    throttled = row.get("throttled")
    return DeviceView(
        key=f"{node} {row['id']}",
        node=node,
        id=row["id"],
        vendor=row["vendor"],
        index=row.get("index"),
        model=row.get("model"),
        health=HealthState(row["health"]),
        health_reason=row.get("health_reason"),
        stale=row.get("state") == "stale",
        read_at=row.get("taken_at"),
        unusual=row.get("unusual"),
        utilization_ratio=row.get("utilization_ratio"),
        memory_used_bytes=row.get("memory_used_bytes"),
        memory_total_bytes=row.get("memory_total_bytes"),
        power_watts=row.get("power_watts"),
        power_limit_watts=row.get("power_limit_watts"),
        temperature_celsius=row.get("temperature_celsius"),
        temperature_slowdown_celsius=row.get("temperature_slowdown_celsius"),
        fan_ratio=row.get("fan_speed_ratio"),
        throttles=tuple(throttled.split(",")) if throttled else (),
        pods=pods,
        idle_seconds=row.get("idle_seconds"),
    )


def _processes(rows: Iterable[Row], node: str, labels: Mapping[str, str]) -> Iterable[ProcessView]:
    by_pid: defaultdict[int, list[Row]] = defaultdict(list)
    for row in rows:
        by_pid[row["pid"]].append(row)
    for pid, found in by_pid.items():
        first = found[0]
        kind = first.get("owner_kind")
        yield ProcessView(
            key=f"{node} {pid}",
            node=node,
            pid=pid,
            name=first.get("name"),
            user=first.get("user"),
            uses=tuple(
                Use(
                    device=f"{node} {row['device']}",
                    label=labels.get(row["device"], str(row.get("device_index", "?"))),
                    partition=row.get("partition"),
                    type=row.get("type"),
                    memory_bytes=row.get("memory_bytes"),
                    utilization_ratio=row.get("utilization_ratio"),
                )
                for row in found
            ),
            cpu_ratio=first.get("cpu_ratio"),
            resident_memory_bytes=first.get("resident_memory_bytes"),
            started_at=first.get("started_at"),
            namespace=first.get("namespace"),
            pod=first.get("pod"),
            container=first.get("container"),
            owner_kind=OwnerKind(kind) if kind else None,
            owner=first.get("owner"),
        )


def _sums(row: Row) -> Sums:
    return Sums(
        nodes=row.get("nodes", 0),
        devices=row.get("devices", 0),
        devices_lost=row.get("devices_lost", 0),
        devices_unhealthy=row.get("devices_unhealthy", 0),
        devices_stale=row.get("devices_stale", 0),
        devices_idle=row.get("devices_idle"),
        processes=row.get("processes", 0),
        utilization_ratio=row.get("utilization_ratio"),
        memory_used_bytes=row.get("memory_used_bytes"),
        memory_total_bytes=row.get("memory_total_bytes"),
        power_watts=row.get("power_watts"),
        temperature_max_celsius=row.get("temperature_max_celsius"),
    )


def _cluster(row: Row, group: Row) -> ClusterSums:
    return ClusterSums(
        key=row["id"],
        sums=_sums({"nodes": row.get("nodes", 0), "devices": row.get("devices", 0), **group}),
        reachable=row.get("reachable"),
        reason=row.get("text") or row.get("reason"),
        age_seconds=row.get("age_seconds"),
        simulated=bool(row.get("simulated")),
    )


def _node_sums(row: Row) -> NodeSums:
    return NodeSums(
        key=f"{row['cluster']}/{row['node']}",
        cluster=row["cluster"],
        node=row["node"],
        state=row["state"],
        reason=row.get("reason"),
        age_seconds=row.get("age_seconds"),
        models=row.get("models"),
        sums=_sums(row),
    )


def _troubles(health: Row) -> Iterable[str]:
    for cluster in health["clusters"]:
        down = [source["kind"] for source in cluster.get("sources") or () if not source.get("up")]
        why = cluster.get("text") or cluster.get("reason") or (f"{', '.join(down)} not up" if down else "")
        if cluster.get("reachable") is False:
            yield f"{cluster['id']}: out of reach: {why}"
        else:
            yield f"{cluster['id']}: {why or 'not read yet'}"
    for device in health["devices"]:
        number = device_label(device["vendor"], device.get("index"), device["id"], several_vendors=True)
        reason = device.get("health_reason")
        place = f"{device['cluster']}/{device['node']} {number}"
        yield f"{place}: {device['health'].upper()}{f': {reason}' if reason else ''}"
    for node in health["nodes"]:
        yield f"{node['cluster']}/{node['node']}: {node['state']}: {node.get('reason') or 'not read'}"
