"""A route as data: what is asked, who may, what comes back, and the function that answers."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiohttp import web

from accelscope.fleet.api.access import Caller, Scope
from accelscope.fleet.api.parameter import Parameter
from accelscope.fleet.api.problem import ProblemKind
from accelscope.fleet.history import History, Past
from accelscope.fleet.store.fleet_store import FleetStore

if TYPE_CHECKING:
    from accelscope.fleet.api.events import Streams


# --- fleet ------------------------------------------------------------
# All that answers are made from.


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    store: FleetStore
    history: History
    past: Past | None  # a store that remembers longer
    refresh: Callable[[str], Awaitable[None]]  # has one cluster read anew, at once
    metrics: Callable[[], bytes]  # of the fleet itself, Prometheus text
    guarded: bool  # a token is needed
    streams: "Streams"
    unready: Callable[[], str | None]  # why it is not ready; None: it is


JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request whose parameters are read and whose caller is let in."""

    fleet: Fleet
    caller: Caller
    counted_as: str  # whose limits it counts against: a token, or an address where no token is needed
    values: Mapping[str, Any]  # by parameter, its default where it was not given
    question: str  # path and parameters that say which rows are meant: what a cursor is bound to
    now: float  # seconds since the epoch
    request: web.Request
    admitted_again: Callable[[], Awaitable[Caller]]  # looks at the token anew; raises Problem

    @property
    def generation(self) -> int:
        """Of what the caller sees: changes of other clusters must not show in it."""
        return self.fleet.store.generation_of(self.caller.clusters)


@dataclass(frozen=True, slots=True)
class Document:
    """An answer that is encoded already, in one piece or in several."""

    pieces: Iterable[bytes]


@dataclass(frozen=True, slots=True)
class Large:
    """An answer that takes long to make: `make` runs in a thread and must touch nothing that changes."""

    make: Callable[[], object]


Answer = object  # what the route's `answer` says, a Document or a Large
Handle = Callable[[Call], Answer | Awaitable[Answer]]
Stream = Callable[[Call], Awaitable[web.StreamResponse]]


_OF_THE_DOOR = frozenset({ProblemKind.UNAUTHORIZED, ProblemKind.FORBIDDEN, ProblemKind.CANNOT_REVIEW})
COMMON_PROBLEMS = (
    ProblemKind.BAD_REQUEST,
    ProblemKind.BAD_PARAMETER,  # unknown ones are refused everywhere
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
    answer: Any  # a type that msgspec describes; None: the media type says all
    handle: Handle | None = None
    # In the place of `handle`: writes the answer itself, for as long as it likes.
    stream: Stream | None = None
    method: str = "GET"
    description: str = ""
    parameters: tuple[Parameter, ...] = ()
    problems: tuple[ProblemKind, ...] = ()  # beside those that every route has
    scope: Scope | None = Scope.READ  # None: open to everybody
    all_clusters: bool = False  # not for tokens that are limited to some
    media_type: str = JSON
    status: int = 200
    probe: bool = False  # answered also by a server that is too busy for anything else
    cached: bool = False  # has an ETag: the answer changes with the store's generation only
    content_security_policy: str | None = None  # of a page; what is no page needs none but the strictest

    @property
    def all_problems(self) -> tuple[ProblemKind, ...]:
        """What may come in place of the answer."""
        kinds = {*COMMON_PROBLEMS, *self.problems}
        if self.scope is None:
            kinds -= _OF_THE_DOOR
        if self.probe:
            kinds -= {ProblemKind.BUSY}
        return tuple(sorted(kinds, key=lambda kind: (kind.status, kind.uri)))
