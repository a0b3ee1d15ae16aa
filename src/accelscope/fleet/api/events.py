"""The event log, and the live stream of changes (server-sent events)."""

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
from accelscope.fleet.api.problem import ApiLimits, Problem, ProblemKind, temporary
from accelscope.fleet.api.request_handler import SECURITY_HEADERS
from accelscope.fleet.api.route import TEXT, ApiRoute, Call, Parameter, one_of, several
from accelscope.fleet.api.tables import LIMIT_DEFAULT, LIMIT_MOST, At, Generation, visible
from accelscope.fleet.store.events import Event, EventKind, Severity, StoreChange, Subscription
from accelscope.fleet.store.query import Condition
from accelscope.fleet.store.summary import SummaryRow, summarize


class Events(Struct, frozen=True, kw_only=True):
    items: Annotated[list[Event], Meta(description="oldest first")]
    first: Annotated[
        int, Meta(description="no event with this id or a later one is missing; older ones may be")
    ]
    last: Annotated[int, Meta(description="id of the newest event that the caller can see; 0: none yet")]
    next: Annotated[int, Meta(description="`after` of the next request")]
    generation: Generation
    at: At


def events(call: Call) -> Events:
    """Without `after` the newest events; with it the oldest ones after that id, so that none is missed."""
    log = call.fleet.store.events
    after, limit = call.values["after"], call.values["limit"]
    # Ids restart with each process: an id ahead of the last one is from before a restart.
    last = log.last_id_of(call.caller.clusters)
    stored = log.after(after if after is not None and after <= last else 0)
    matching = [event for event in stored if call.caller.sees(event.cluster) and _matches(event, call)]
    shown = matching[-limit:] if after is None else matching[:limit]
    more = after is not None and len(matching) > limit
    return Events(
        items=shown,
        first=log.first_id_of(call.caller.clusters),
        last=last,
        next=shown[-1].id if more else last,
        generation=call.generation,
        at=call.now,
    )


def _matches(event: Event, call: Call) -> bool:
    for name in _FILTERS:
        sought = call.values[name]
        if sought is not None and getattr(event, name) not in sought:
            return False
    return True


_FILTERS = ("cluster", "node", "device", "namespace", "pod", "kind", "severity")
_WORDS = {"kind": tuple(EventKind), "severity": tuple(Severity)}

EVENT_ROUTES = (
    ApiRoute(
        path="/api/v1/events",
        summary="Events: lost and recovered devices, stale nodes, unreachable clusters, anomalies",
        description=(
            "Oldest first. To follow, repeat the request with `after` set to `next`; the stream has the same "
            "events. If `after` is greater than `last`, the fleet was restarted and all stored events are "
            "returned."
        ),
        tag="time",
        response=Events,
        handle=events,
        parameters=(
            Parameter(
                name="after",
                kind=WholeNumber(0, 2**53),
                description="only events after this id; default: the newest events",
            ),
            Parameter(
                name="limit",
                kind=WholeNumber(1, LIMIT_MOST),
                default=LIMIT_DEFAULT,
                description="number of events",
            ),
            *(
                Parameter(
                    name=name,
                    kind=several(one_of(tuple(map(str, _WORDS.get(name, ()))))),
                    description="is one of these",
                )
                for name in _FILTERS
            ),
        ),
        cached=True,
    ),
)


# --- Live stream ----------------------------------------------------------------
#
# `hello` contains the current sums. `change` lists the clusters and nodes that have changed, with the new
# sums, at most once a second. `event` is an entry of the event log. `resync` means that messages were lost
# and that the client must fetch everything again. The id of a message is that of the last event that the
# client can see. A client that reconnects with it (browsers send Last-Event-ID) gets the events that it
# missed.


NODES_LIMIT = 500  # listed in one change; of more nodes only the number is sent


class Hello(Struct, frozen=True, kw_only=True):
    generation: int
    at: float
    summary: SummaryRow


class Changed(Struct, frozen=True, kw_only=True):
    generation: int
    at: float
    clusters: list[str]
    nodes: Annotated[
        list[tuple[str, str]] | None, Meta(description="cluster and name; null: too many to list")
    ]
    nodes_changed: int
    summary: SummaryRow


class Resync(Struct, frozen=True, kw_only=True):
    generation: int
    at: float


class StreamServer:
    """The open streams. Each message is encoded once for all clients that see the same clusters."""

    def __init__(self, limits: ApiLimits) -> None:
        self._limits = limits
        self._process = os.urandom(4).hex()  # event ids restart with each process
        self._open: dict[Subscription, str] = {}  # key of the rate limit of each
        self._closing = False
        self._encoded: dict[tuple[str, tuple[str, ...] | None], bytes] = {}
        self._encoded_change: StoreChange | None = None

    def __len__(self) -> int:
        return len(self._open)

    async def serve(self, call: Call) -> web.StreamResponse:
        """Raises Problem if there are too many streams."""
        self._check_room(call.counted_as)
        subscription = call.fleet.store.subscribe()
        self._open[subscription] = call.counted_as
        try:
            return await self._run(call, subscription)
        finally:
            subscription.close()
            del self._open[subscription]

    def close(self) -> None:
        """Ends all streams and rejects new ones."""
        self._closing = True
        for subscription in list(self._open):
            subscription.close()

    def _check_room(self, counted_as: str) -> None:
        if self._closing or len(self._open) >= self._limits.streams:
            raise temporary(ProblemKind.BUSY, "too many streams", 5.0)
        if Counter(self._open.values())[counted_as] >= self._limits.streams_of_caller:
            raise temporary(ProblemKind.TOO_MANY_REQUESTS, "too many streams of this caller", 5.0)

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
        # A client that has disconnected, or does not read for too long, ends the stream.
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
                # Changes that are not sent to this client do not replace a heartbeat.
                if not message and time.monotonic() >= silent_until:
                    message = b": heartbeat\n\n"
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
        """The messages that a reconnecting client missed."""
        last_id = call.request.headers.get("Last-Event-ID")
        if not last_id:
            return ()
        log = call.fleet.store.events
        process, _, number = last_id.partition("-")
        known = int(number) if number.isascii() and number.isdigit() and len(number) < 18 else -1
        clusters = call.caller.clusters
        if process != self._process or not log.first_id_of(clusters) - 1 <= known <= log.last_id_of(clusters):
            return (self._resync(call),)
        return [self._event(event) for event in log.after(known) if _is_requested(call, event.cluster)]

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

    def _message(self, call: Call, change: StoreChange) -> bytes:
        if self._encoded_change is not change:
            self._encoded_change = change
            self._encoded = {}
        key = (call.caller.view, call.values["cluster"])
        message = self._encoded.get(key)
        if message is None:
            message = self._encoded[key] = self._make(call, change)
        return message

    def _make(self, call: Call, change: StoreChange) -> bytes:
        if change.resync:
            return self._resync(call)
        parts = [self._event(event) for event in change.events if _is_requested(call, event.cluster)]
        clusters = [cluster for cluster in change.clusters if _is_requested(call, cluster)]
        nodes = [node for node in change.nodes if _is_requested(call, node[0])]
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


def _is_requested(call: Call, cluster: str) -> bool:
    sought = call.values["cluster"]
    return call.caller.sees(cluster) and (sought is None or cluster in sought)


def _sum(call: Call) -> SummaryRow:
    where = list(visible(call))
    if call.values["cluster"] is not None:
        where.append(Condition("cluster", "in", call.values["cluster"]))
    [row] = summarize(call.fleet.store, tuple(where), ())
    return row


async def _still_admitted(call: Call) -> bool:
    """False if the token was revoked or its clusters have changed. The client can reconnect."""
    try:
        return await call.admitted_again() == call.caller
    except Problem:
        return False


async def stream(call: Call) -> web.StreamResponse:
    return await call.fleet.streams.serve(call)


STREAM_ROUTES = (
    ApiRoute(
        path="/api/v1/stream",
        summary="Live changes as server-sent events",
        description=(
            "Messages are `hello`, `change` (clusters and nodes that have changed, and the new sums; at most "
            "once a second), `event` (an entry of the event log) and `resync` (messages were lost: fetch "
            "everything again). A client that reconnects with Last-Event-ID gets the events that it missed."
        ),
        tag="time",
        response=None,
        media_type="text/event-stream",
        stream=stream,
        parameters=(
            Parameter(name="cluster", kind=several(TEXT), description="only these clusters"),
            Parameter(
                name="Last-Event-ID",
                kind=TEXT,
                description="id of the last message received",
                where="header",
            ),
        ),
    ),
)
