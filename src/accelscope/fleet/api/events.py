"""What happened: the log of events, as far as it reaches back."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from accelscope.config.values import WholeNumber
from accelscope.fleet.api.answering import SECURITY_HEADERS
from accelscope.fleet.api.parameter import TEXT, Parameter, one_of, several
from accelscope.fleet.api.problem import ApiLimits, Problem, ProblemKind, later
from accelscope.fleet.api.route import Call, Route
from accelscope.fleet.api.tables import LIMIT_DEFAULT, LIMIT_MOST, At, Generation, visible
from accelscope.fleet.store.events import Change, Event, EventKind, Severity, Subscription
from accelscope.fleet.store.query import Condition
from accelscope.fleet.store.summary import SummaryRow, summarize


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


# --- stream ------------------------------------------------------------
# The live stream: server-sent events.
#
# `hello` says where things stand. `change` tells which clusters and nodes changed, with the new sums, once a
# second at most; `event` is an entry of the log; `resync` says that something was missed and all should be
# asked for anew. The id of a message names the last entry of the log that the reader can see, so that a
# reader that comes back with it (browsers send Last-Event-ID by themselves) is told what it missed.


NODES_LIMIT = 500  # named in one change; of more only the number is told


class Hello(Struct, frozen=True, kw_only=True):
    generation: int
    at: float
    summary: SummaryRow


class Changed(Struct, frozen=True, kw_only=True):
    generation: int
    at: float
    clusters: list[str]
    nodes: Annotated[
        list[tuple[str, str]] | None, Meta(description="cluster and name; null: more than are named")
    ]
    nodes_changed: int
    summary: SummaryRow


class Resync(Struct, frozen=True, kw_only=True):
    generation: int
    at: float


class Streams:
    """Those that are open. Readers who see the same get the same bytes, made once."""

    def __init__(self, limits: ApiLimits) -> None:
        self._limits = limits
        self._process = os.urandom(4).hex()  # entries of the log are numbered anew by each process
        self._open: dict[Subscription, str] = {}  # and whose it is
        self._closing = False
        self._made: dict[tuple[str, tuple[str, ...] | None], bytes] = {}
        self._made_of: Change | None = None

    def __len__(self) -> int:
        return len(self._open)

    async def serve(self, call: Call) -> web.StreamResponse:
        """Raises Problem before anything is sent."""
        self._check_room(call.counted_as)
        subscription = call.fleet.store.subscribe()
        self._open[subscription] = call.counted_as
        try:
            return await self._run(call, subscription)
        finally:
            subscription.close()
            del self._open[subscription]

    def close(self) -> None:
        """Ends all of them, and takes no more."""
        self._closing = True
        for subscription in list(self._open):
            subscription.close()

    def _check_room(self, counted_as: str) -> None:
        if self._closing or len(self._open) >= self._limits.streams:
            raise later(ProblemKind.BUSY, "there are as many streams as there may be", 5.0)
        if Counter(self._open.values())[counted_as] >= self._limits.streams_of_caller:
            raise later(ProblemKind.TOO_MANY_REQUESTS, "this caller has as many streams as it may have", 5.0)

    async def _run(self, call: Call, subscription: Subscription) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={
                **SECURITY_HEADERS,
                "Content-Type": "text/event-stream",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",
            }
        )
        first = [b"retry: 3000\n\n", *self._missed(call), self._hello(call)]
        heartbeat_seconds = self._limits.heartbeat_seconds
        checked_at = written_at = time.monotonic()
        # Whoever went away, or takes nothing for too long, ends the stream: there is nobody to tell.
        with suppress(ConnectionError, TimeoutError):
            await response.prepare(call.request)
            await self._write(response, b"".join(first))
            while True:
                message = b""
                silent_until = written_at + heartbeat_seconds
                with suppress(TimeoutError):
                    async with asyncio.timeout(silent_until - time.monotonic()):
                        change = await anext(subscription, None)
                        if change is None:
                            break
                        message = self._message(call, change)
                # Changes that this reader is not told of are no sign of life.
                if not message and time.monotonic() >= silent_until:
                    message = b": still here\n\n"
                if message:
                    await self._write(response, message)
                    written_at = time.monotonic()
                if time.monotonic() >= checked_at + heartbeat_seconds:
                    checked_at = time.monotonic()
                    if not await _still_admitted(call):
                        break
            await response.write_eof()
        return response

    async def _write(self, response: web.StreamResponse, message: bytes) -> None:
        async with asyncio.timeout(self._limits.send_seconds):
            await response.write(message)

    def _missed(self, call: Call) -> Iterable[bytes]:
        """What a reader that was here before has not been told."""
        shown = call.request.headers.get("Last-Event-ID")
        if not shown:
            return ()
        log = call.fleet.store.events
        process, _, number = shown.partition("-")
        known = int(number) if number.isascii() and number.isdigit() and len(number) < 18 else -1
        clusters = call.caller.clusters
        if process != self._process or not log.first_id_of(clusters) - 1 <= known <= log.last_id_of(clusters):
            return (self._resync(call),)
        return [self._event(event) for event in log.after(known) if _is_meant_stream(call, event.cluster)]

    def _hello(self, call: Call) -> bytes:
        store = call.fleet.store
        hello = Hello(generation=call.generation, at=time.time(), summary=_sum(call))
        return self._entry("hello", hello, store.events.last_id_of(call.caller.clusters))

    def _resync(self, call: Call) -> bytes:
        store = call.fleet.store
        again = Resync(generation=call.generation, at=time.time())
        return self._entry("resync", again, store.events.last_id_of(call.caller.clusters))

    def _event(self, event: Event) -> bytes:
        return self._entry("event", event, event.id)

    def _message(self, call: Call, change: Change) -> bytes:
        if self._made_of is not change:
            self._made_of = change
            self._made = {}
        key = (call.caller.view, call.values["cluster"])
        message = self._made.get(key)
        if message is None:
            message = self._made[key] = self._make(call, change)
        return message

    def _make(self, call: Call, change: Change) -> bytes:
        if change.resync:
            return self._resync(call)
        parts = [self._event(event) for event in change.events if _is_meant_stream(call, event.cluster)]
        clusters = [cluster for cluster in change.clusters if _is_meant_stream(call, cluster)]
        nodes = [node for node in change.nodes if _is_meant_stream(call, node[0])]
        if clusters or nodes:
            changed = Changed(
                generation=call.generation,
                at=time.time(),
                clusters=clusters,
                nodes=nodes if len(nodes) <= NODES_LIMIT else None,
                nodes_changed=len(nodes),
                summary=_sum(call),
            )
            last = call.fleet.store.events.last_id_of(call.caller.clusters, until=change.last_event)
            parts.append(self._entry("change", changed, last))
        return b"".join(parts)

    def _entry(self, name: str, content: object, last_id: int) -> bytes:
        text = msgspec.json.encode(content)
        return f"event: {name}\nid: {self._process}-{last_id}\ndata: ".encode() + text + b"\n\n"


def _is_meant_stream(call: Call, cluster: str) -> bool:
    sought = call.values["cluster"]
    return call.caller.sees(cluster) and (sought is None or cluster in sought)


def _sum(call: Call) -> SummaryRow:
    where = list(visible(call))
    if call.values["cluster"] is not None:
        where.append(Condition("cluster", "in", call.values["cluster"]))
    [row] = summarize(call.fleet.store, tuple(where), ())
    return row


async def _still_admitted(call: Call) -> bool:
    """A token that was revoked, or sees other clusters now, ends the stream; its holder may come back."""
    try:
        return await call.admitted_again() == call.caller
    except Problem:
        return False


async def stream(call: Call) -> web.StreamResponse:
    return await call.fleet.streams.serve(call)


STREAM_ROUTES = (
    Route(
        path="/api/v1/stream",
        summary="What changes, as it changes: server-sent events",
        description=(
            "Messages are `hello`, `change` (clusters and nodes, and the new sums; once a second at most), "
            "`event` (an entry of the log) and `resync` (something was missed: ask for everything anew). A "
            "reader that comes back with Last-Event-ID is told the events that it missed."
        ),
        tag="time",
        answer=None,
        media_type="text/event-stream",
        stream=stream,
        parameters=(
            Parameter(name="cluster", kind=several(TEXT), description="only of these clusters"),
            Parameter(
                name="Last-Event-ID",
                kind=TEXT,
                description="id of the last message that was seen",
                where="header",
            ),
        ),
    ),
)
