"""What was: by the minute from what this process saw, and further back from a store where there is one."""

from collections.abc import Sequence
from math import ceil, inf
from typing import get_args

from msgspec.structs import replace

from accelscope.config.values import Choice, Decimal
from accelscope.fleet.api.clusters import visible_cluster
from accelscope.fleet.api.parameter import TEXT, Parameter
from accelscope.fleet.api.problem import Problem, ProblemKind
from accelscope.fleet.api.route import Call, Route
from accelscope.fleet.history import HistorySeries, Scope, SummaryScope
from accelscope.fleet.store.query import Condition, Query

SPAN_SECONDS = 3600.0
_LONGEST_SECONDS = 366 * 86400.0
_LATEST = 253402300799  # seconds since the epoch: the end of the year 9999
_NEAR_ENOUGH_SECONDS = 120.0  # a store that is asked for less would not know more
_NEEDED = {
    "fleet": (),
    "device": ("cluster", "node", "key"),
    "pod": ("cluster", "namespace", "key"),
}
_PARTS = ("cluster", "node", "namespace")


async def history(call: Call) -> HistorySeries:
    """Raises Problem."""
    scope = call.values["scope"]
    until = call.now if call.values["until"] is None else min(call.values["until"], call.now)
    since = until - SPAN_SECONDS if call.values["since"] is None else call.values["since"]
    since = max(since, until - _LONGEST_SECONDS)
    _check(call, scope)
    series = _seen(call, scope, since, until)
    if since < min(_begin(series), until) - _NEAR_ENOUGH_SECONDS:
        series = await _remembered(call, scope, since, until) or series
    _check_known(call, scope, series)
    shown = _in_steps(series, call.values["step"])
    return replace(shown, simulated=_is_simulated(call, scope, series.source))


def _check(call: Call, scope: Scope) -> None:
    """What goes with the scope, and nothing that the caller may not see."""
    needed = _NEEDED.get(scope, ("key",))
    for name in ("key", *_PARTS):
        if name in needed and call.values[name] is None:
            raise _incomplete(name, f"{name} is needed with scope={scope}")
        if name not in needed and call.values[name] is not None:
            raise _incomplete(name, f"{name} means nothing with scope={scope}")
    cluster = call.values["key" if scope == "cluster" else "cluster"]
    if cluster is not None:
        visible_cluster(call, cluster)


def _seen(call: Call, scope: Scope, since: float, until: float) -> HistorySeries:
    values, past = call.values, call.fleet.history
    if scope == "device":
        return past.device(values["cluster"], values["node"], values["key"], since, until)
    if scope == "pod":
        return past.pod(values["cluster"], values["namespace"], values["key"], since, until)
    return past.summary(scope, values["key"], since, until, clusters=call.caller.clusters)


def _begin(series: HistorySeries) -> float:
    """Of what is known; of nothing, the end of time."""
    firsts = [
        next((place for place, value in enumerate(values) if value is not None), inf)
        for values in series.fields.values()
    ]
    return series.start + min(firsts, default=inf) * series.step_seconds


async def _remembered(call: Call, scope: Scope, since: float, until: float) -> HistorySeries | None:
    """A store adds up all clusters or one: of no use to somebody who may see some of them."""
    store = call.fleet.past
    if store is None or (call.caller.clusters is not None and scope in _ACROSS_CLUSTERS):
        return None
    parts = {name: call.values[name] for name in _PARTS}
    return await store.series(scope, call.values["key"], **parts, since=since, until=until)


def _is_simulated(call: Call, scope: Scope, source: str) -> bool:
    views = call.fleet.store.clusters
    simulated = {view.id for view in views.values() if view.simulated and call.caller.sees(view.id)}
    match scope:
        case "device" | "pod":
            return call.values["cluster"] in simulated
        case "cluster":
            return call.values["key"] in simulated
    if source == "prometheus":  # a store does not tell whose devices it adds up
        return any(kept.kind == source for name in simulated for kept in views[name].sources)
    return not simulated.isdisjoint(
        call.fleet.history.clusters_of(scope, call.values["key"], clusters=simulated)
    )


def _check_known(call: Call, scope: Scope, series: HistorySeries) -> None:
    """A device or pod that nobody has heard of; of one that was there something is known."""
    if scope not in ("device", "pod") or any(_known(values) for values in series.fields.values()):
        return
    values, store = call.values, call.fleet.store
    if scope == "device":
        there = store.devices.find(cluster=values["cluster"], node=values["node"], id=values["key"])
    else:
        there = next(iter(_pod_positions(call)), None)
    if there is None:
        raise Problem(
            ProblemKind.NOT_FOUND, f"no {scope} {values['key']!r} is known there", cluster=values["cluster"]
        )


def _pod_positions(call: Call) -> Sequence[int]:
    named = {"cluster": "cluster", "namespace": "namespace", "pod": "key"}
    where = tuple(Condition(field, "=", call.values[name]) for field, name in named.items())
    positions: list[int] = call.fleet.store.pods.matching(Query(where=where)).tolist()
    return positions


def _in_steps(series: HistorySeries, step: float | None) -> HistorySeries:
    """Coarser: means of what is known, and the highest of what is a highest."""
    together = 1 if step is None else max(1, ceil(step / series.step_seconds))
    if together == 1:
        return series
    fields = {name: _coarser(name, values, together) for name, values in series.fields.items()}
    return replace(series, step_seconds=series.step_seconds * together, fields=fields)


def _coarser(name: str, values: Sequence[float | None], together: int) -> list[float | None]:
    coarse: list[float | None] = []
    for start in range(0, len(values), together):
        known = _known(values[start : start + together])
        if not known:
            coarse.append(None)
        else:
            coarse.append(max(known) if "_max_" in name else round(sum(known) / len(known), 4))
    return coarse


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _incomplete(parameter: str, detail: str) -> Problem:
    return Problem(ProblemKind.INCOMPLETE_QUESTION, detail, parameter=parameter)


_ACROSS_CLUSTERS = tuple(scope for scope in get_args(SummaryScope) if scope != "cluster")


def _part(name: str, description: str) -> Parameter:
    return Parameter(name=name, kind=TEXT, description=description)


def _moment(name: str, description: str) -> Parameter:
    return Parameter(name=name, kind=Decimal(0, _LATEST), description=description)


_PARAMETERS = (
    Parameter(
        name="scope",
        kind=Choice(*get_args(Scope)),
        description="of what the past is asked for",
        required=True,
    ),
    _part("key", "the cluster, vendor, model, namespace, device id or pod; not with scope=fleet"),
    _part("cluster", "with scope=device and scope=pod"),
    _part("node", "with scope=device"),
    _part("namespace", "with scope=pod"),
    _moment("since", "seconds since the epoch; left out: an hour before `until`"),
    _moment("until", "seconds since the epoch; left out: now"),
    Parameter(
        name="step",
        kind=Decimal(1, _LONGEST_SECONDS),
        description="seconds between two values; left out: as fine as there is",
    ),
)

ROUTES = (
    Route(
        path="/api/v1/history",
        summary="What was, by the minute",
        description=(
            "A day of sums by cluster, vendor, model and namespace, and an hour of every device and pod; "
            "further back where a cluster has a Prometheus store. Gaps are null."
        ),
        tag="time",
        answer=HistorySeries,
        handle=history,
        parameters=_PARAMETERS,
        problems=(ProblemKind.NOT_FOUND, ProblemKind.INCOMPLETE_QUESTION),
    ),
)
