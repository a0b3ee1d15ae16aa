"""Metrics of the fleet process: families as data, and the page made from them."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from aiohttp import web

from accelscope import __version__
from accelscope.fleet.api.access import AccessControl
from accelscope.fleet.api.app import STREAMS, TRAFFIC
from accelscope.fleet.refresh import Engine
from accelscope.fleet.rows import ClusterView, SourceView
from accelscope.fleet.sources.exec import ExecSource
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.fleet.store.table import ColumnTable
from accelscope.metrics.exposition import Page, render_page
from accelscope.metrics.family import Family, FamilyFactory, Number, Scope
from accelscope.process import OwnProcess, own_process

Labelled = Mapping[tuple[str, ...], int]  # counts by the values of labels


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """The values that the families read."""

    version: str
    started_at: float  # seconds since the epoch
    clusters: Sequence[ClusterView]
    process: OwnProcess
    source_errors: Labelled = field(default_factory=dict)  # cluster, source, reason
    source_rounds: Labelled = field(default_factory=dict)  # cluster, source
    exec_commands: Labelled = field(default_factory=dict)  # cluster
    nodes: Labelled = field(default_factory=dict)  # cluster, state
    devices: Labelled = field(default_factory=dict)  # cluster, vendor, health
    rows: Labelled = field(default_factory=dict)  # table
    unusual: Labelled = field(default_factory=dict)  # device or pod
    without_history: Labelled = field(default_factory=dict)  # device or pod
    reloads: Labelled = field(default_factory=dict)  # result
    requests: Labelled = field(default_factory=dict)  # route, status
    request_seconds: Mapping[str, float] = field(default_factory=dict)  # by route
    requests_active: int = 0
    unsent_bytes: int = 0
    streams: int = 0
    tokens_rejected: int = 0
    events: int = 0
    changes: int = 0
    loop_lag_seconds: float = 0.0


_fleet = FamilyFactory[FleetView](Scope.AGENT)


def _sources(view: FleetView) -> Iterator[tuple[tuple[str, str], SourceView]]:
    for cluster in view.clusters:
        for source in cluster.sources:
            yield (cluster.id, source.kind), source


def _counts(counts: Labelled) -> list[tuple[tuple[str, ...], Number]]:
    return [(labels, counts[labels]) for labels in sorted(counts)]


FAMILIES: tuple[Family, ...] = (
    _fleet.series(
        "accelscope_fleet_build_info",
        "",
        "Version of the fleet and of Python; 1.",
        ("version", "python"),
        lambda v: [((v.version, ".".join(map(str, sys.version_info[:3]))), 1)],
    ),
    _fleet(
        "accelscope_fleet_start_timestamp_seconds",
        "seconds",
        "When the process started, in seconds since the epoch.",
        lambda v: v.started_at,
    ),
    _fleet.series(
        "accelscope_fleet_cluster_up",
        "",
        "1 if the cluster's API server, or its store if it has none, responded to the last request.",
        ("cluster",),
        lambda v: [((cluster.id,), cluster.reachable) for cluster in v.clusters],
    ),
    _fleet.series(
        "accelscope_fleet_cluster_trouble",
        "",
        "1 while a cluster is unreachable or partly failing, by reason.",
        ("cluster", "reason"),
        lambda v: [((cluster.id, cluster.reason), 1) for cluster in v.clusters if cluster.reason],
    ),
    _fleet.series(
        "accelscope_fleet_cluster_last_success_timestamp_seconds",
        "seconds",
        "When the cluster last responded, in seconds since the epoch.",
        ("cluster",),
        lambda v: [((cluster.id,), cluster.succeeded_at) for cluster in v.clusters],
    ),
    _fleet.series(
        "accelscope_fleet_source_up",
        "",
        "1 if the last refresh of the source succeeded.",
        ("cluster", "source"),
        lambda v: [(labels, source.up) for labels, source in _sources(v)],
    ),
    _fleet.series(
        "accelscope_fleet_source_refresh_duration_seconds",
        "seconds",
        "Duration of the last refresh of the source.",
        ("cluster", "source"),
        lambda v: [(labels, source.duration_seconds) for labels, source in _sources(v)],
    ),
    _fleet.series(
        "accelscope_fleet_source_last_success_timestamp_seconds",
        "seconds",
        "When a refresh of the source last succeeded, in seconds since the epoch.",
        ("cluster", "source"),
        lambda v: [(labels, source.succeeded_at) for labels, source in _sources(v)],
    ),
    _fleet.series(
        "accelscope_fleet_source_nodes_expected",
        "",
        "Nodes that should have responded in the last refresh.",
        ("cluster", "source"),
        lambda v: [(labels, source.expected) for labels, source in _sources(v)],
    ),
    _fleet.series(
        "accelscope_fleet_source_nodes_answered",
        "",
        "Nodes that responded in the last refresh.",
        ("cluster", "source"),
        lambda v: [(labels, source.answered) for labels, source in _sources(v)],
    ),
    _fleet.series(
        "accelscope_fleet_source_refreshes_total",
        "",
        "Refreshes of the source.",
        ("cluster", "source"),
        lambda v: _counts(v.source_rounds),
    ),
    _fleet.series(
        "accelscope_fleet_source_errors_total",
        "",
        "Failed refreshes and nodes that did not respond, by reason.",
        ("cluster", "source", "reason"),
        lambda v: _counts(v.source_errors),
    ),
    _fleet.series(
        "accelscope_fleet_exec_commands_total",
        "",
        "Commands run in driver pods.",
        ("cluster",),
        lambda v: _counts(v.exec_commands),
    ),
    _fleet.series(
        "accelscope_fleet_nodes",
        "",
        "Nodes by state: fresh, stale, incompatible, unread.",
        ("cluster", "state"),
        lambda v: _counts(v.nodes),
    ),
    _fleet.series(
        "accelscope_fleet_devices",
        "",
        "Devices by vendor and health.",
        ("cluster", "vendor", "health"),
        lambda v: _counts(v.devices),
    ),
    _fleet.series(
        "accelscope_fleet_rows",
        "",
        "Rows of each table in memory.",
        ("table",),
        lambda v: _counts(v.rows),
    ),
    _fleet.series(
        "accelscope_fleet_unusual",
        "",
        "Devices and pods with an anomaly.",
        ("of",),
        lambda v: _counts(v.unusual),
    ),
    _fleet.series(
        "accelscope_fleet_without_history",
        "",
        "Devices and pods without history, because the history was full in the last minute.",
        ("of",),
        lambda v: _counts(v.without_history),
    ),
    _fleet(
        "accelscope_fleet_changes_total",
        "",
        "Changes of the data that the API returns.",
        lambda v: v.changes,
    ),
    _fleet(
        "accelscope_fleet_events_total",
        "",
        "Events in the event log since the start.",
        lambda v: v.events,
    ),
    _fleet.series(
        "accelscope_fleet_cluster_list_reloads_total",
        "",
        "Reloads of the list of clusters, by result.",
        ("result",),
        lambda v: _counts(v.reloads),
    ),
    _fleet.series(
        "accelscope_fleet_http_requests_total",
        "",
        "HTTP requests by route and status; 429: rejected by a rate limit.",
        ("route", "status"),
        lambda v: _counts(v.requests),
    ),
    _fleet.series(
        "accelscope_fleet_http_request_seconds_total",
        "seconds",
        "Time spent on HTTP requests by route, without streams.",
        ("route",),
        lambda v: [((route,), seconds) for route, seconds in sorted(v.request_seconds.items())],
    ),
    _fleet(
        "accelscope_fleet_http_requests_active",
        "",
        "HTTP requests in progress.",
        lambda v: v.requests_active,
    ),
    _fleet(
        "accelscope_fleet_http_unsent_bytes",
        "bytes",
        "Bytes of responses that clients have not read yet.",
        lambda v: v.unsent_bytes,
    ),
    _fleet("accelscope_fleet_streams", "", "Open live streams.", lambda v: v.streams),
    _fleet(
        "accelscope_fleet_tokens_refused_total",
        "",
        "Requests with an unknown or expired token.",
        lambda v: v.tokens_rejected,
    ),
    _fleet(
        "accelscope_fleet_loop_lag_seconds",
        "seconds",
        "Delay of the last tick of the event loop.",
        lambda v: v.loop_lag_seconds,
    ),
    _fleet(
        "accelscope_fleet_cpu_seconds_total",
        "seconds",
        "CPU time of the process and of the credential plugins that it ran.",
        lambda v: v.process.cpu_seconds,
    ),
    _fleet(
        "accelscope_fleet_resident_memory_bytes",
        "bytes",
        "Resident memory of the process.",
        lambda v: v.process.memory_bytes,
    ),
    _fleet("accelscope_fleet_threads", "", "Threads of the process.", lambda v: v.process.threads),
    _fleet(
        "accelscope_fleet_open_files",
        "",
        "Open files and sockets of the process.",
        lambda v: v.process.open_files,
    ),
)


def render(view: FleetView) -> Page:
    return render_page(FAMILIES, {Scope.AGENT: [(view, "")]})


def view_of(
    store: FleetStore,
    engine: Engine,
    access: AccessControl,
    app: web.Application,
    *,
    started_at: float,
    unusual: Mapping[str, int],
    without_history: Mapping[str, int],
) -> FleetView:
    errors: Counter[tuple[str, ...]] = Counter()
    rounds: Counter[tuple[str, ...]] = Counter()
    commands: Counter[tuple[str, ...]] = Counter()
    for id_, run in engine.runs.items():
        for loop in run.loops:
            rounds[id_, loop.kind.value] = loop.rounds
            for reason, count in loop.errors.items():
                errors[id_, loop.kind.value, reason] = count
            if isinstance(loop.source, ExecSource):
                commands[(id_,)] = loop.source.commands
    traffic = app[TRAFFIC]
    return FleetView(
        version=__version__,
        started_at=started_at,
        clusters=list(store.clusters.values()),
        process=own_process(),
        source_errors=errors,
        source_rounds=rounds,
        exec_commands=commands,
        nodes=_count_by(store.nodes, "cluster", "state"),
        devices=_count_by(store.devices, "cluster", "vendor", "health"),
        rows={
            ("nodes",): len(store.nodes),
            ("devices",): len(store.devices),
            ("pods",): len(store.pods),
            ("processes",): len(store.processes),
        },
        unusual={(kind,): count for kind, count in unusual.items()},
        without_history={(kind,): count for kind, count in without_history.items()},
        reloads={(result,): count for result, count in engine.reloads.items()},
        requests={(route, str(status)): count for (route, status), count in traffic.requests.items()},
        request_seconds=traffic.seconds,
        requests_active=traffic.active,
        unsent_bytes=traffic.unsent_bytes,
        streams=len(app[STREAMS]),
        tokens_rejected=access.rejected_tokens,
        events=store.events.last_id,
        changes=store.generation,
        loop_lag_seconds=engine.lag_seconds,
    )


def _count_by(table: ColumnTable[Any], *fields: str) -> Labelled:
    """Number of rows by the texts of these columns."""
    codes = np.stack([table.column(field) for field in fields])
    kinds, counts = np.unique(codes, axis=1, return_counts=True)
    texts = [table.texts(field).texts for field in fields]
    return {
        tuple(str(texts[place][code]) for place, code in enumerate(kind)): count
        for kind, count in zip(kinds.T.tolist(), counts.tolist(), strict=True)
    }
