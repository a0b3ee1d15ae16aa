"""Who has what: namespaces of each cluster with what their pods hold and use."""

from typing import Annotated

from msgspec import Meta, Struct

from accelscope.fleet.api.filters import page_parameters, sort_parameter, visible
from accelscope.fleet.api.parameter import TEXT, Parameter, several
from accelscope.fleet.api.problem import ProblemKind
from accelscope.fleet.api.route import Call, Route
from accelscope.fleet.api.short_lists import short_page
from accelscope.fleet.api.tables import At, Generation, Next
from accelscope.fleet.store.query import Condition
from accelscope.fleet.store.summary import NamespaceRow, namespaces


class Namespaces(Struct, frozen=True, kw_only=True):
    items: list[NamespaceRow]
    total: Annotated[int, Meta(description="namespaces on all pages together")]
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
    Route(
        path="/api/v1/namespaces",
        summary="Namespaces with what their pods hold and use",
        tag="fleet",
        answer=Namespaces,
        handle=list_namespaces,
        parameters=(
            *(
                Parameter(name=name, kind=several(TEXT), description="one of these")
                for name in ("cluster", "namespace", "vendor", "model")
            ),
            Parameter(name="q", kind=TEXT, description="found in the name of the namespace"),
            sort_parameter(NamespaceRow),
            *page_parameters(),
        ),
        problems=(ProblemKind.BAD_CURSOR,),
        cached=True,
    ),
)
