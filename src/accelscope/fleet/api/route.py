"""A route of the API as data: path, parameters, required scope, type of the response, handler."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from aiohttp import web

from accelscope.config.values import BadValue, Boolean, Choice, List, Number, ValueKind, WholeNumber
from accelscope.fleet.api.access import AccessScope, Caller
from accelscope.fleet.api.problem import Problem, ProblemKind
from accelscope.fleet.history import FleetHistory
from accelscope.fleet.history_rings import HistoryStore
from accelscope.fleet.store.fleet_store import FleetStore

# --- Parameters ---------------------------------------------------------------

TEXT_LIMIT = 512  # characters; the longest name in Kubernetes has 253
WORDS_LIMIT = 64  # values of one parameter
_ALLOWED_LIMIT = 200  # names that a problem lists


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    name: str
    kind: ValueKind[Any]
    description: str
    where: Literal["path", "query", "header"] = "query"
    required: bool = False
    default: Any = None  # value if the parameter is missing


class BoundedText(ValueKind[str]):
    def __init__(self, limit: int = TEXT_LIMIT) -> None:
        self.limit = limit
        self.allowed = f"text of 1 to {limit} characters"

    def parse(self, text: str) -> str:
        if not 1 <= len(text) <= self.limit:
            raise BadValue
        return text


class Flag(Boolean):
    """Only the JSON spelling, not the others that settings allow."""

    allowed = "true or false"

    def parse(self, text: str) -> bool:
        if text not in ("true", "false"):
            raise BadValue
        return text == "true"


TEXT = BoundedText()
FLAG = Flag()
WHOLE = WholeNumber(-(2**53), 2**53)  # the range in which every JSON parser is exact


def one_of(words: Sequence[str]) -> ValueKind[str]:
    """Any text if `words` is empty."""
    return Choice(*words) if words else TEXT


def several(item: ValueKind[Any], limit: int = WORDS_LIMIT) -> List[Any]:
    """Values separated by commas (`\\,` is a comma within a value); the parameter can also be repeated."""
    return List(item, limit)


def schema(kind: ValueKind[Any]) -> dict[str, Any]:
    """JSON Schema, for OpenAPI."""
    if isinstance(kind, List):
        item = schema(kind.item)
        if isinstance(kind.item, BoundedText):
            item["pattern"] = r"^([^,\\]|\\.)+$"
        return {"type": "array", "items": item, "minItems": 1, "maxItems": kind.most}
    if isinstance(kind, BoundedText):
        return {"type": "string", "minLength": 1, "maxLength": kind.limit}
    if isinstance(kind, Choice):
        return {"type": "string", "enum": list(kind.choices)}
    if isinstance(kind, Number):
        bounds = {"minimum": kind.minimum, "maximum": kind.maximum}
        given = {name: bound for name, bound in bounds.items() if bound is not None}
        return {"type": "integer" if isinstance(kind, WholeNumber) else "number", **given}
    return {"type": "boolean"}


def split_words(text: str) -> list[str]:
    words, escaped = [""], False
    for character in text:
        if escaped or character not in ",\\":
            words[-1] += character
            escaped = False
        elif character == ",":
            words.append("")
        else:
            escaped = True
    if escaped:
        words[-1] += "\\"  # a trailing backslash escapes nothing
    return words


def parse_parameters(
    parameters: Sequence[Parameter], path: Mapping[str, str], query: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    """The values of all parameters, defaults included. Raises Problem."""
    given: dict[str, list[str]] = {}
    for name, text in query:
        given.setdefault(name, []).append(text)
    known = tuple(parameter.name for parameter in parameters if parameter.where == "query")
    for name in given:
        if name not in known:
            shown = name if len(name) <= 80 else name[:80] + "…"
            raise Problem(
                ProblemKind.BAD_PARAMETER,
                f"unknown parameter {shown!r}",
                parameter=shown,
                allowed=known[:_ALLOWED_LIMIT],
            )
    values: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.where == "header":
            continue
        texts = [path[parameter.name]] if parameter.where == "path" else given.get(parameter.name)
        if texts is None:
            if parameter.required:
                raise _bad(parameter, "missing")
            values[parameter.name] = parameter.default
            continue
        try:
            values[parameter.name] = _value(parameter.kind, texts)
        except BadValue as error:
            raise _bad(parameter, str(error)) from None
    return values


def _bad(parameter: Parameter, what: str) -> Problem:
    words = _words(parameter.kind)
    return Problem(
        ProblemKind.BAD_PARAMETER,
        f"{parameter.name}: {what}",
        parameter=parameter.name,
        allowed=words[:_ALLOWED_LIMIT],
    )


def _words(kind: ValueKind[Any]) -> tuple[str, ...]:
    if isinstance(kind, List):
        return _words(kind.item)
    return tuple(map(str, kind.choices)) if isinstance(kind, Choice) else ()


def _value(kind: ValueKind[Any], texts: Sequence[str]) -> Any:
    if isinstance(kind, List):
        return kind.read([word for text in texts for word in split_words(text)])
    if len(texts) != 1:
        raise BadValue("specified more than once")
    return kind.read(texts[0])


if TYPE_CHECKING:
    from accelscope.fleet.api.events import StreamServer

# --- Requests and routes ------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetServices:
    """The services that handlers use."""

    store: FleetStore
    history: FleetHistory
    stored_history: HistoryStore | None  # a store with a longer history
    refresh: Callable[[str], Awaitable[None]]  # reads one cluster now
    read_whole: Callable[
        [str, str], Awaitable[None]
    ]  # makes the stored snapshot of a node as new as its rows
    metrics: Callable[[], bytes]  # of the fleet process, in the Prometheus text format
    guarded: bool  # a token is required
    streams: "StreamServer"
    unready: Callable[[], str | None]  # why the fleet is not ready; None: it is ready


JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request whose caller is authorized and whose parameters are parsed."""

    fleet: FleetServices
    caller: Caller
    counted_as: str  # key of the rate limit: the token, or the address if no token is required
    values: Mapping[str, Any]  # by parameter, defaults included
    query_key: str  # path and filters: a cursor is valid only with the same ones
    now: float  # seconds since the epoch
    request: web.Request
    admitted_again: Callable[[], Awaitable[Caller]]  # checks the token again; raises Problem

    @property
    def generation(self) -> int:
        """Changes only with the clusters that the caller can see."""
        return self.fleet.store.generation_of(self.caller.clusters)


@dataclass(frozen=True, slots=True)
class EncodedResponse:
    """A response body that is already encoded, in one or several pieces."""

    pieces: Iterable[bytes]


@dataclass(frozen=True, slots=True)
class ThreadedResponse:
    """A response that takes long to build. `make` runs in a thread and must not use mutable state."""

    make: Callable[[], object]


HandlerResult = object  # an object of the type `Route.response`, an EncodedResponse or a ThreadedResponse
Handler = Callable[[Call], HandlerResult | Awaitable[HandlerResult]]
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
class ApiRoute:
    path: str  # with {parameters}
    summary: str
    tag: str
    response: Any  # a type that msgspec can encode; None: not JSON, or any
    handle: Handler | None = None
    stream: StreamHandler | None = None  # instead of `handle`: writes the response itself
    method: str = "GET"
    description: str = ""
    parameters: tuple[Parameter, ...] = ()
    problems: tuple[ProblemKind, ...] = ()  # besides COMMON_PROBLEMS
    scope: AccessScope | None = AccessScope.READ  # None: no token required
    all_clusters: bool = False  # rejects tokens that are limited to some clusters
    media_type: str = JSON
    status: int = 200
    probe: bool = False  # handled even if the server is too busy for other requests
    cached: bool = False  # has an ETag: the response changes only with the store's generation
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
