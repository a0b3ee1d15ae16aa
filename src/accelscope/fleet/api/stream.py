"""The live stream: server-sent events.

`hello` says where things stand. `change` tells which clusters and nodes changed, with the new sums, once a
second at most; `event` is an entry of the log; `resync` says that something was missed and all should be
asked for anew. The id of a message names the last entry of the log that the reader can see, so that a reader
that comes back with it (browsers send Last-Event-ID by themselves) is told what it missed.
"""

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

from accelscope.fleet.api.answering import SECURITY_HEADERS
from accelscope.fleet.api.filters import visible
from accelscope.fleet.api.limits import ApiLimits
from accelscope.fleet.api.parameter import TEXT, Parameter, several
from accelscope.fleet.api.problem import Problem, ProblemKind, later
from accelscope.fleet.api.route import Call, Route
from accelscope.fleet.store.changes import Change, Subscription
from accelscope.fleet.store.events import Event
from accelscope.fleet.store.query import Condition
from accelscope.fleet.store.summary import SummaryRow, summarize

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
        return [self._event(event) for event in log.after(known) if _is_meant(call, event.cluster)]

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
        parts = [self._event(event) for event in change.events if _is_meant(call, event.cluster)]
        clusters = [cluster for cluster in change.clusters if _is_meant(call, cluster)]
        nodes = [node for node in change.nodes if _is_meant(call, node[0])]
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


def _is_meant(call: Call, cluster: str) -> bool:
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
