"""History: per minute from this process's memory, and older values from a Prometheus store if there is
one."""

from collections.abc import Sequence
from math import ceil, inf
from typing import get_args

from msgspec.structs import replace

from accelscope.config.values import Choice, Decimal
from accelscope.fleet.api.clusters import visible_cluster
from accelscope.fleet.api.problem import Problem, ProblemKind
from accelscope.fleet.api.route import TEXT, ApiRoute, Call, Parameter
from accelscope.fleet.history_rings import HistoryScope, HistorySeries, SummaryScope
from accelscope.fleet.store.query import Condition, RowQuery

SPAN_SECONDS = 3600.0
_LONGEST_SECONDS = 366 * 86400.0
_LATEST = 253402300799  # seconds since the epoch: the end of the year 9999
_TOLERANCE_SECONDS = 120.0  # smaller gaps are not filled from the store
_REQUIRED = {
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
    series = _own_series(call, scope, since, until)
    if since < min(_first_value_at(series), until) - _TOLERANCE_SECONDS:
        series = await _stored_series(call, scope, since, until) or series
    _check_exists(call, scope, series)
    shown = _resampled(series, call.values["step"])
    return replace(shown, simulated=_is_simulated(call, scope, series.source))


def _check(call: Call, scope: HistoryScope) -> None:
    """Checks that the parameters fit the scope and that the caller may see the cluster."""
    required = _REQUIRED.get(scope, ("key",))
    for name in ("key", *_PARTS):
        if name in required and call.values[name] is None:
            raise _bad_combination(name, f"{name} is required with scope={scope}")
        if name not in required and call.values[name] is not None:
            raise _bad_combination(name, f"{name} is not allowed with scope={scope}")
    cluster = call.values["key" if scope == "cluster" else "cluster"]
    if cluster is not None:
        visible_cluster(call, cluster)


def _own_series(call: Call, scope: HistoryScope, since: float, until: float) -> HistorySeries:
    values, history = call.values, call.fleet.history
    if scope == "device":
        return history.device(values["cluster"], values["node"], values["key"], since, until)
    if scope == "pod":
        return history.pod(values["cluster"], values["namespace"], values["key"], since, until)
    return history.summary(scope, values["key"], since, until, clusters=call.caller.clusters)


def _first_value_at(series: HistorySeries) -> float:
    """Time of the first value; infinity if there is none."""
    firsts = [
        next((place for place, value in enumerate(values) if value is not None), inf)
        for values in series.fields.values()
    ]
    return series.start + min(firsts, default=inf) * series.step_seconds


async def _stored_series(call: Call, scope: HistoryScope, since: float, until: float) -> HistorySeries | None:
    """None without a store, or if its sums include clusters that the caller may not see."""
    store = call.fleet.stored_history
    if store is None or (call.caller.clusters is not None and scope in _ACROSS_CLUSTERS):
        return None
    parts = {name: call.values[name] for name in _PARTS}
    return await store.series(scope, call.values["key"], **parts, since=since, until=until)


def _is_simulated(call: Call, scope: HistoryScope, source: str) -> bool:
    views = call.fleet.store.clusters
    simulated = {view.id for view in views.values() if view.simulated and call.caller.sees(view.id)}
    match scope:
        case "device" | "pod":
            return call.values["cluster"] in simulated
        case "cluster":
            return call.values["key"] in simulated
    if source == "prometheus":  # a store does not report which clusters its sums contain
        return any(one.kind == source for name in simulated for one in views[name].sources)
    return not simulated.isdisjoint(
        call.fleet.history.clusters_of(scope, call.values["key"], clusters=simulated)
    )


def _check_exists(call: Call, scope: HistoryScope, series: HistorySeries) -> None:
    """Raises Problem for a device or pod that has neither history nor a row."""
    if scope not in ("device", "pod") or any(_known(values) for values in series.fields.values()):
        return
    values, store = call.values, call.fleet.store
    if scope == "device":
        row = store.devices.find(cluster=values["cluster"], node=values["node"], id=values["key"])
    else:
        row = next(iter(_pod_positions(call)), None)
    if row is None:
        raise Problem(
            ProblemKind.NOT_FOUND, f"{scope} {values['key']!r} not found", cluster=values["cluster"]
        )


def _pod_positions(call: Call) -> Sequence[int]:
    named = {"cluster": "cluster", "namespace": "namespace", "pod": "key"}
    where = tuple(Condition(field, "=", call.values[name]) for field, name in named.items())
    positions: list[int] = call.fleet.store.pods.matching(RowQuery(where=where)).tolist()
    return positions


def _resampled(series: HistorySeries, step: float | None) -> HistorySeries:
    """Resampled: the maximum of `_max_` fields, the mean of all others, without unknown values."""
    factor = 1 if step is None else max(1, ceil(step / series.step_seconds))
    if factor == 1:
        return series
    fields = {name: _resampled_values(name, values, factor) for name, values in series.fields.items()}
    return replace(series, step_seconds=series.step_seconds * factor, fields=fields)


def _resampled_values(name: str, values: Sequence[float | None], factor: int) -> list[float | None]:
    coarse: list[float | None] = []
    for start in range(0, len(values), factor):
        known = _known(values[start : start + factor])
        if not known:
            coarse.append(None)
        else:
            coarse.append(max(known) if "_max_" in name else round(sum(known) / len(known), 4))
    return coarse


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _bad_combination(parameter: str, detail: str) -> Problem:
    return Problem(ProblemKind.INCOMPLETE_QUESTION, detail, parameter=parameter)


_ACROSS_CLUSTERS = tuple(scope for scope in get_args(SummaryScope) if scope != "cluster")


def _part(name: str, description: str) -> Parameter:
    return Parameter(name=name, kind=TEXT, description=description)


def _moment(name: str, description: str) -> Parameter:
    return Parameter(name=name, kind=Decimal(0, _LATEST), description=description)


_PARAMETERS = (
    Parameter(
        name="scope",
        kind=Choice(*get_args(HistoryScope)),
        description="what the history is about",
        required=True,
    ),
    _part(
        "key",
        "id of the cluster or device, or name of the vendor, model, namespace or pod; not with scope=fleet",
    ),
    _part("cluster", "with scope=device and scope=pod"),
    _part("node", "with scope=device"),
    _part("namespace", "with scope=pod"),
    _moment("since", "seconds since the epoch; default: an hour before `until`"),
    _moment("until", "seconds since the epoch; default: now"),
    Parameter(
        name="step",
        kind=Decimal(1, _LONGEST_SECONDS),
        description="seconds between two values; default: the finest available",
    ),
)

ROUTES = (
    ApiRoute(
        path="/api/v1/history",
        summary="History of the fleet, a cluster, a device, a pod …",
        description=(
            "One value per minute: sums by cluster, vendor, model and namespace for a day, and every device "
            "and pod for an hour. Older values need a Prometheus store. Gaps are null."
        ),
        tag="time",
        response=HistorySeries,
        handle=history,
        parameters=_PARAMETERS,
        problems=(ProblemKind.NOT_FOUND, ProblemKind.INCOMPLETE_QUESTION),
    ),
)
