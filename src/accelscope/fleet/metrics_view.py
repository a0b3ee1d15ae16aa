"""What the fleet's own metrics are taken from, gathered when they are asked for."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from aiohttp import web

from accelscope import __version__
from accelscope.fleet.api.access import AccessControl
from accelscope.fleet.api.app import STREAMS, TRAFFIC
from accelscope.fleet.metrics import FleetView, Labelled
from accelscope.fleet.refresh.engine import Engine
from accelscope.fleet.sources.exec import ExecSource
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.fleet.store.table import Table
from accelscope.own_process import own_process


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
        nodes=_counted(store.nodes, "cluster", "state"),
        devices=_counted(store.devices, "cluster", "vendor", "health"),
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
        tokens_refused=access.refusals,
        events=store.events.last_id,
        changes=store.generation,
        loop_lag_seconds=engine.lag_seconds,
    )


def _counted(table: Table[Any], *fields: str) -> Labelled:
    """Rows by the texts of these columns."""
    codes = np.stack([table.column(field) for field in fields])
    kinds, counts = np.unique(codes, axis=1, return_counts=True)
    texts = [table.texts(field).texts for field in fields]
    return {
        tuple(str(texts[place][code]) for place, code in enumerate(kind)): count
        for kind, count in zip(kinds.T.tolist(), counts.tolist(), strict=True)
    }
