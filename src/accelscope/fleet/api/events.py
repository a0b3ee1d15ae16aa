"""What happened: the log of events, as far as it reaches back."""

from typing import Annotated

from msgspec import Meta, Struct

from accelscope.config.values import WholeNumber
from accelscope.fleet.api.filters import LIMIT_DEFAULT, LIMIT_MOST
from accelscope.fleet.api.parameter import Parameter, one_of, several
from accelscope.fleet.api.route import Call, Route
from accelscope.fleet.api.tables import At, Generation
from accelscope.fleet.store.events import Event, EventKind, Severity


class Events(Struct, frozen=True, kw_only=True):
    items: Annotated[list[Event], Meta(description="oldest first")]
    first: Annotated[
        int, Meta(description="from this number on none is missing; of older ones, not all are held")
    ]
    last: Annotated[int, Meta(description="number of the newest that the caller can see; 0: none yet")]
    next: Annotated[int, Meta(description="`after` of the next question")]
    generation: Generation
    at: At


def events(call: Call) -> Events:
    """Without `after` the newest; with it, those behind it from the oldest on, so that nothing is missed."""
    log = call.fleet.store.events
    after, limit = call.values["after"], call.values["limit"]
    # Numbers begin anew with each process: one that lies ahead is another's, and all is news to its holder.
    last = log.last_id_of(call.caller.clusters)
    held = log.after(after if after is not None and after <= last else 0)
    meant = [event for event in held if call.caller.sees(event.cluster) and _is_meant(event, call)]
    shown = meant[-limit:] if after is None else meant[:limit]
    more = after is not None and len(meant) > limit
    return Events(
        items=shown,
        first=log.first_id_of(call.caller.clusters),
        last=last,
        next=shown[-1].id if more else last,
        generation=call.generation,
        at=call.now,
    )


def _is_meant(event: Event, call: Call) -> bool:
    for name in _FILTERS:
        sought = call.values[name]
        if sought is not None and getattr(event, name) not in sought:
            return False
    return True


_FILTERS = ("cluster", "node", "device", "namespace", "pod", "kind", "severity")
_WORDS = {"kind": tuple(EventKind), "severity": tuple(Severity)}

EVENT_ROUTES = (
    Route(
        path="/api/v1/events",
        summary="What happened: devices lost and back, nodes stale, clusters out of reach, what is unusual",
        description=(
            "Oldest first. To follow, ask again with `after` set to `next`; the stream has the same events. "
            "An `after` that is ahead of `last` comes from before a restart: all that is held is given."
        ),
        tag="time",
        answer=Events,
        handle=events,
        parameters=(
            Parameter(
                name="after", kind=WholeNumber(0, 2**53), description="only later ones; left out: the newest"
            ),
            Parameter(
                name="limit",
                kind=WholeNumber(1, LIMIT_MOST),
                default=LIMIT_DEFAULT,
                description="events in the answer",
            ),
            *(
                Parameter(
                    name=name,
                    kind=several(one_of(tuple(map(str, _WORDS.get(name, ()))))),
                    description="one of these",
                )
                for name in _FILTERS
            ),
        ),
        cached=True,
    ),
)
