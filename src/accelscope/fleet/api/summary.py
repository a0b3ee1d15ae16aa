"""Sums over the fleet: in total, by group, by namespace, and of idle pods."""

from itertools import islice
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

from accelscope.config.values import Choice, Decimal
from accelscope.fleet.api.problem import ProblemKind
from accelscope.fleet.api.route import TEXT, ApiRoute, Call, Parameter, several
from accelscope.fleet.api.tables import (
    NO_PLACE,
    After,
    At,
    Generation,
    Next,
    bad_cursor,
    conditions,
    filter_parameters,
    page_parameters,
    read_cursor,
    short_page,
    sort_parameter,
    visible,
    write_cursor,
)
from accelscope.fleet.rows import DeviceRow, PodRow
from accelscope.fleet.store.node_rows import FRESH, STALE
from accelscope.fleet.store.query import Condition, Positions, RowQuery
from accelscope.fleet.store.summary import (
    GROUP_FIELDS,
    SHARE_DIGITS,
    NamespaceRow,
    SummaryRow,
    group_rows,
    idle_shares,
    namespaces,
    summarize_whole_and_groups,
)
from accelscope.fleet.store.table import ColumnTable
from accelscope.model import IDLE_SECONDS

_GROUPS_ON_A_PAGE = 1000


class Summary(Struct, frozen=True, kw_only=True):
    total: Annotated[SummaryRow, Meta(description="over all selected devices")]
    groups: Annotated[list[SummaryRow], Meta(description="one row for each group; empty without `group_by`")]
    groups_total: Annotated[int, Meta(description="number of groups on all pages")]
    next: Next
    generation: Generation
    at: At


def summary(call: Call) -> Summary:
    store = call.fleet.store
    where = list(conditions(DeviceRow, call))
    if call.values["namespace"] is not None:
        where.append(Condition("namespace", "in", call.values["namespace"]))
    group_by = _grouping(call.values["group_by"])
    total, groups = summarize_whole_and_groups(store, where, group_by)
    shown, following = short_page(call, groups, group_by)
    return Summary(
        total=total,
        groups=shown,
        groups_total=len(groups),
        next=following,
        generation=call.generation,
        at=call.now,
    )


def _grouping(fields: tuple[str, ...]) -> tuple[str, ...]:
    """Grouping by node includes the cluster, since node names are not unique across clusters."""
    return ("cluster", *fields) if "node" in fields and "cluster" not in fields else fields


_FILTERS = tuple(parameter for parameter in filter_parameters(DeviceRow) if parameter.name != "q")

SUMMARY_ROUTES = (
    ApiRoute(
        path="/api/v1/summary",
        summary="Sums and averages, in total or by group",
        description=(
            "The filters are those of /api/v1/devices. Unknown values are omitted from sums and averages. "
            "Without devices a sum is 0 and an average is null; a sum over devices that all lack the value "
            "is null. A device shared by two namespaces counts in both groups, and once in the total."
        ),
        tag="fleet",
        response=Summary,
        handle=summary,
        parameters=(
            Parameter(
                name="group_by",
                kind=several(Choice(*GROUP_FIELDS), len(GROUP_FIELDS)),
                default=(),
                description="one group for each combination of these; `node` includes `cluster`",
            ),
            Parameter(
                name="namespace",
                kind=several(TEXT),
                description="only devices that are allocated to pods of these namespaces or used by them",
            ),
            *_FILTERS,
            sort_parameter(SummaryRow),
            *page_parameters(_GROUPS_ON_A_PAGE),
        ),
        problems=(ProblemKind.BAD_CURSOR,),
        cached=True,
    ),
)


# --- Namespaces -----------------------------------------------------------------


class Namespaces(Struct, frozen=True, kw_only=True):
    items: list[NamespaceRow]
    total: Annotated[int, Meta(description="number of namespaces on all pages")]
    next: Next
    generation: Generation
    at: At


def list_namespaces(call: Call) -> Namespaces:
    where = list(visible(call))
    for name in ("cluster", "namespace", "vendor", "model"):
        if call.values[name] is not None:
            where.append(Condition(name, "in", call.values[name]))
    rows = namespaces(call.fleet.store, where)
    if (sought := call.values["q"]) is not None:
        rows = [row for row in rows if sought.lower() in row.namespace.lower()]
    shown, following = short_page(call, rows, ("cluster", "namespace"))
    return Namespaces(
        items=shown,
        total=len(rows),
        next=following,
        generation=call.generation,
        at=call.now,
    )


NAMESPACE_ROUTES = (
    ApiRoute(
        path="/api/v1/namespaces",
        summary="Namespaces with their allocated and used devices",
        tag="fleet",
        response=Namespaces,
        handle=list_namespaces,
        parameters=(
            *(
                Parameter(name=name, kind=several(TEXT), description="is one of these")
                for name in ("cluster", "namespace", "vendor", "model")
            ),
            Parameter(name="q", kind=TEXT, description="the name of the namespace contains this"),
            sort_parameter(NamespaceRow),
            *page_parameters(),
        ),
        problems=(ProblemKind.BAD_CURSOR,),
        cached=True,
    ),
)


# --- Idle pods ------------------------------------------------------------------


_BY = ("cluster", "node", "namespace", "pod")


class IdlePod(Struct, frozen=True, kw_only=True):
    cluster: str
    node: str
    namespace: str
    pod: str
    owner_kind: str | None
    owner_name: str | None
    devices: Annotated[int, Meta(description="number of idle devices or partitions allocated to the pod")]
    devices_idle: Annotated[
        float,
        Meta(description="sum of its shares of them; 0.5 is half a device"),
    ]
    models: Annotated[list[str], Meta(description="models of those devices")]
    idle_seconds: Annotated[float, Meta(description="all of them have been idle for at least this time")]
    device_hours: Annotated[
        float,
        Meta(description="sum of the idle time of each device times the share of the pod"),
    ]
    memory_used_bytes: Annotated[int | None, Meta(description="memory that the pod still uses on them")]
    state: str
    simulated: bool
    age_seconds: float | None


class IdlePods(Struct, frozen=True, kw_only=True):
    items: list[IdlePod]
    total: int
    devices_idle: Annotated[float, Meta(description="sum over all pages")]
    device_hours: Annotated[float, Meta(description="sum over all pages")]
    next: Next
    generation: Generation
    at: At


def idle_pods(call: Call) -> IdlePods:
    table = call.fleet.store.pods
    where = (
        *conditions(PodRow, call),
        Condition("allocated", ">=", 1),
        Condition("idle_seconds", ">=", call.values["min_seconds"]),
    )
    found = table.matching(RowQuery(where=where, search=call.values["q"]))
    pods = _IdlePodGroups(table, found, call.values["min_seconds"])
    given = call.values["cursor"]
    shown, more = pods.page(
        None if given is None else read_cursor(call.query_key, given), call.values["limit"]
    )
    return IdlePods(
        items=_items(call, table, pods, shown),
        total=len(pods.hours),
        devices_idle=round(float(pods.shares.sum()), SHARE_DIGITS),
        device_hours=round(pods.device_hours, SHARE_DIGITS),
        next=write_cursor(call.query_key, pods.place(shown[-1])) if more else None,
        generation=call.generation,
        at=call.now,
    )


class _IdlePodGroups:
    """Rows of the table, which are per container and device, grouped by pod. A pod is an index into the
    arrays: there may be as many pods as devices, and only those of one page become objects."""

    def __init__(self, table: ColumnTable[PodRow], positions: Positions, min_seconds: float) -> None:
        self._table = table
        codes = [table.column(name, positions) for name in _BY]
        groups, _ = group_rows(codes, [len(table.texts(name)) for name in _BY], len(positions))
        order = np.argsort(groups.of, kind="stable")
        self._positions = positions[order]
        self._starts = np.flatnonzero(np.diff(groups.of[order], prepend=-1))  # first row of each pod
        shares = idle_shares(table, self._positions, min_seconds)
        hours = table.column("idle_seconds", self._positions) / 3600 * shares
        self.device_hours = float(hours.sum())
        if len(hours):
            shares, hours = (np.add.reduceat(values, self._starts) for values in (shares, hours))
        self.shares = shares
        # Rounded as in the response, so that a cursor matches.
        self.hours = np.round(hours, SHARE_DIGITS)

    def page(self, after: After | None, limit: int) -> tuple[list[int], bool]:
        """Pods ordered by descending hours and name, and whether there are more."""
        first = self._positions[self._starts]
        keys = [-self.hours]
        keys += [self._table.texts(name).ranks()[self._table.column(name, first)] for name in _BY]
        pods = np.arange(len(first)) if after is None else self._after(keys, after)
        more = len(pods) > limit
        if more:  # sort only candidates for this page
            edge = np.partition(keys[0][pods], limit)[limit]
            pods = pods[keys[0][pods] <= edge]
        order = np.lexsort([key[pods] for key in reversed(keys)])[:limit]
        return pods[order].tolist(), more

    def place(self, pod: int) -> After:
        first = int(self._positions[self._starts[pod]])
        return (-float(self.hours[pod]), *(str(self._table.value(name, first)) for name in _BY))

    def rows(self, pod: int) -> Positions:
        end = self._starts[pod + 1] if pod + 1 < len(self._starts) else len(self._positions)
        return self._positions[self._starts[pod] : end]

    def _after(self, keys: list[npt.NDArray[Any]], after: After) -> Positions:
        hours, *names = after
        if not isinstance(hours, float) or len(names) != len(_BY):
            raise bad_cursor(NO_PLACE)
        places = [self._table.texts(name).place(str(text)) for name, text in zip(_BY, names, strict=True)]
        behind, equal = np.zeros(len(self.hours), np.bool_), np.ones(len(self.hours), np.bool_)
        for key, place in zip(keys, [hours, *places], strict=True):
            behind |= equal & (key > place)
            equal &= key == place
        return np.flatnonzero(behind)


def _items(call: Call, table: ColumnTable[PodRow], pods: _IdlePodGroups, shown: list[int]) -> list[IdlePod]:
    """Reads the rows of all pods at once, which is far faster than pod by pod."""
    here = [pods.rows(pod) for pod in shown]
    rows = iter(table.rows(np.concatenate(here), call.now) if here else ())
    return [
        _pod(list(islice(rows, len(positions))), float(pods.shares[pod]), float(pods.hours[pod]))
        for pod, positions in zip(shown, here, strict=True)
    ]


def _pod(rows: list[PodRow], share: float, hours: float) -> IdlePod:
    first = rows[0]
    memory = [row.memory_used_bytes for row in rows if row.memory_used_bytes is not None]
    ages = [row.age_seconds for row in rows if row.age_seconds is not None]
    return IdlePod(
        cluster=first.cluster,
        node=first.node,
        namespace=first.namespace,
        pod=first.pod,
        owner_kind=first.owner_kind,
        owner_name=first.owner_name,
        devices=len({(row.device, row.partition) for row in rows}),
        devices_idle=round(share, SHARE_DIGITS),
        models=sorted({row.model for row in rows if row.model is not None}),
        idle_seconds=min(row.idle_seconds or 0.0 for row in rows),
        device_hours=hours,
        memory_used_bytes=sum(memory) if memory else None,
        state=STALE if any(row.state == STALE for row in rows) else FRESH,
        simulated=first.simulated,
        age_seconds=max(ages, default=None),
    )


_MIN_SECONDS = Parameter(
    name="min_seconds",
    kind=Decimal(0),
    default=IDLE_SECONDS,
    description="idle for at least this many seconds",
)

IDLE_ROUTES = (
    ApiRoute(
        path="/api/v1/idle",
        summary="Pods with idle devices",
        description=(
            "Ordered by idle device-hours, largest first. The filters are those of /api/v1/pods. Only the "
            "idle devices of a pod count."
        ),
        tag="fleet",
        response=IdlePods,
        handle=idle_pods,
        parameters=(_MIN_SECONDS, *filter_parameters(PodRow), *page_parameters()),
        problems=(ProblemKind.BAD_CURSOR,),
        cached=True,
    ),
)
