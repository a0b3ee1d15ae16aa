"""Sums and averages over the fleet, or over a part of it, by whatever people ask by."""

from typing import Annotated

from msgspec import Meta, Struct

from accelscope.config.values import Choice
from accelscope.fleet.api.filters import conditions, filter_parameters, page_parameters, sort_parameter
from accelscope.fleet.api.parameter import TEXT, Parameter, several
from accelscope.fleet.api.problem import ProblemKind
from accelscope.fleet.api.route import Call, Route
from accelscope.fleet.api.short_lists import short_page
from accelscope.fleet.api.tables import At, Generation, Next
from accelscope.fleet.rows import DeviceRow
from accelscope.fleet.store.query import Condition
from accelscope.fleet.store.summary import GROUP_FIELDS, SummaryRow, summarize_whole_and_groups

_GROUPS_ON_A_PAGE = 1000


class Summary(Struct, frozen=True, kw_only=True):
    total: Annotated[SummaryRow, Meta(description="over all that is meant")]
    groups: Annotated[list[SummaryRow], Meta(description="by `group_by`; empty without it")]
    groups_total: Annotated[int, Meta(description="groups on all pages together")]
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


def _grouping(asked: tuple[str, ...]) -> tuple[str, ...]:
    """A node is one of its cluster: others may have a node of that name."""
    return ("cluster", *asked) if "node" in asked and "cluster" not in asked else asked


_FILTERS = tuple(parameter for parameter in filter_parameters(DeviceRow) if parameter.name != "q")

SUMMARY_ROUTES = (
    Route(
        path="/api/v1/summary",
        summary="Sums and averages, of everything or by group",
        description=(
            "Filters are those of /api/v1/devices. What is absent stays out of sums and averages; sums of "
            "nothing are 0, averages of nothing null, and so is a sum over devices of which none tells. By "
            "namespace, a device that two share counts in both; in a sum over several, once."
        ),
        tag="fleet",
        answer=Summary,
        handle=summary,
        parameters=(
            Parameter(
                name="group_by",
                kind=several(Choice(*GROUP_FIELDS), len(GROUP_FIELDS)),
                default=(),
                description="one group for each combination of these; `node` is by cluster too",
            ),
            Parameter(
                name="namespace",
                kind=several(TEXT),
                description="only what pods of these namespaces hold or use",
            ),
            *_FILTERS,
            sort_parameter(SummaryRow),
            *page_parameters(_GROUPS_ON_A_PAGE),
        ),
        problems=(ProblemKind.BAD_CURSOR,),
        cached=True,
    ),
)
