"""A route of the API as data: path, parameters, required scope, type of the answer, handler."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiohttp import web

from accelscope.fleet.api.access import Caller, Scope
from accelscope.fleet.api.parameter import Parameter
from accelscope.fleet.api.problem import ProblemKind
from accelscope.fleet.history import History, HistoryStore
from accelscope.fleet.store.fleet_store import FleetStore

if TYPE_CHECKING:
    from accelscope.fleet.api.events import StreamServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What handlers build their answers from."""

    store: FleetStore
    history: History
    past: HistoryStore | None  # a store with a longer history
    refresh: Callable[[str], Awaitable[None]]  # reads one cluster now
    metrics: Callable[[], bytes]  # of the fleet process, in the Prometheus text format
    guarded: bool  # a token is required
    streams: "StreamServer"
    unready: Callable[[], str | None]  # why the fleet is not ready; None: it is ready


JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request whose caller is authorized and whose parameters are parsed."""

    fleet: Fleet
    caller: Caller
    counted_as: str  # key of the rate limit: the token, or the address if no token is required
    values: Mapping[str, Any]  # by parameter, defaults included
    question: str  # path and filters: a cursor is valid only with the same ones
    now: float  # seconds since the epoch
    request: web.Request
    admitted_again: Callable[[], Awaitable[Caller]]  # checks the token again; raises Problem

    @property
    def generation(self) -> int:
        """Changes only with the clusters that the caller can see."""
        return self.fleet.store.generation_of(self.caller.clusters)


@dataclass(frozen=True, slots=True)
class EncodedAnswer:
    """An answer that is already encoded, in one or several pieces."""

    pieces: Iterable[bytes]


@dataclass(frozen=True, slots=True)
class ThreadedAnswer:
    """An answer that takes long to build. `make` runs in a thread and must not use mutable state."""

    make: Callable[[], object]


Answer = object  # an object of the type `Route.answer`, an EncodedAnswer or a ThreadedAnswer
Handler = Callable[[Call], Answer | Awaitable[Answer]]
StreamHandler = Callable[[Call], Awaitable[web.StreamResponse]]


_ACCESS_PROBLEMS = frozenset({ProblemKind.UNAUTHORIZED, ProblemKind.FORBIDDEN, ProblemKind.CANNOT_REVIEW})
COMMON_PROBLEMS = (
    ProblemKind.BAD_REQUEST,
    ProblemKind.BAD_PARAMETER,  # every route rejects unknown ones
    ProblemKind.UNAUTHORIZED,
    ProblemKind.FORBIDDEN,
    ProblemKind.BODY_TOO_LARGE,
    ProblemKind.TOO_MANY_REQUESTS,
    ProblemKind.BUSY,
    ProblemKind.CANNOT_REVIEW,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    path: str  # with {parameters}
    summary: str
    tag: str
    answer: Any  # a type that msgspec can encode; None: not JSON, or any
    handle: Handler | None = None
    stream: StreamHandler | None = None  # instead of `handle`: writes the response itself
    method: str = "GET"
    description: str = ""
    parameters: tuple[Parameter, ...] = ()
    problems: tuple[ProblemKind, ...] = ()  # besides COMMON_PROBLEMS
    scope: Scope | None = Scope.READ  # None: no token required
    all_clusters: bool = False  # rejects tokens that are limited to some clusters
    media_type: str = JSON
    status: int = 200
    probe: bool = False  # answered even if the server is too busy for other requests
    cached: bool = False  # has an ETag: the answer changes only with the store's generation
    content_security_policy: str | None = None  # None: the strictest

    @property
    def all_problems(self) -> tuple[ProblemKind, ...]:
        """All problems that the route can return."""
        kinds = {*COMMON_PROBLEMS, *self.problems}
        if self.scope is None:
            kinds -= _ACCESS_PROBLEMS
        if self.probe:
            kinds -= {ProblemKind.BUSY}
        return tuple(sorted(kinds, key=lambda kind: (kind.status, kind.uri)))
