"""Snapshots of nodes: decoding with limits, and merging those of several agents.

Numbers are limited by the name of their field, because impossible numbers would corrupt the sums of the
fleet. The limits are wide: they exclude the impossible, not the unusual. Texts are limited in length, because
one node must not fill the memory of the fleet.

The major version of a document's schema must be ours. An older minor version lacks fields, which get their
defaults; a newer one has more. Unknown fields, unknown values of enumerations and impossible numbers are
omitted, and overlong texts are truncated; a remark lists what was changed.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from enum import Enum
from functools import cache
from itertools import accumulate
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
import numpy.typing as npt

from accelscope.fleet.rows import (
    DeviceRow,
    NodeFailure,
    NodeReport,
    NodeValues,
    PodRow,
    ProcessRow,
    Row,
    SourceKind,
)
from accelscope.fleet.store.query import layout_of
from accelscope.kube.endpoint import Reason, one_line
from accelscope.model import (
    Allocation,
    Device,
    Health,
    HealthState,
    ReaderState,
    Snapshot,
    Vendor,
    identity_of,
)
from accelscope.model.update import DEVICE_NUMBERS, DEVICE_TEXTS, FORMAT, POD_NUMBERS, PROCESS_NUMBERS
from accelscope.model.wire import SCHEMA_VERSION, STAND_INS, drop_unknown_vendors

# Characters. The longest real text is the id of a claimed device: driver, pool and device, each a Kubernetes
# name.
TEXT_LIMIT = 1024

_MAX_WHOLE = 2**53  # larger integers are not exact in a column of floats
_MOST_SECONDS = 1e15
_DAY_SECONDS = 86400.0

_BY_NAME: dict[str, tuple[float, float]] = {
    "index": (0, 1_000_000),
    "device_index": (0, 1_000_000),
    "numa_node": (-1, 1_000_000),  # -1: the machine has only one
    "cpu_ratio": (0, 1_000_000),  # 1 is one CPU
    "interval_seconds": (0, _DAY_SECONDS),
    "volts": (-1e6, 1e6),
    "amperes": (-1e6, 1e6),
    "watts": (-1e6, 1e6),  # of a rail, which may be negative
}
_BY_ENDING: tuple[tuple[str, tuple[float, float]], ...] = (
    ("_ratio", (0, 100)),  # some drivers exceed 1 for a moment, or count by core
    ("celsius", (-100, 1000)),
    ("_watts", (0, 1e6)),
    ("_bytes", (0, _MAX_WHOLE)),
    ("_seconds", (0, _MOST_SECONDS)),
    ("_joules", (0, _MOST_SECONDS)),
    ("cycles_total", (0, 2**63 - 1)),  # at 2 GHz, 2**53 cycles are passed after 52 days
)


@cache
def bounds(name: str, kind: Any) -> tuple[float, float]:
    """Minimum and maximum of a field of this name, of type int or float; both are finite."""
    if (found := _BY_NAME.get(name)) is not None:
        return found
    for ending, found in _BY_ENDING:
        if name.endswith(ending):
            return found
    return (0, _MAX_WHOLE) if kind is int else (0, 1e18)


def is_plausible(name: str, kind: Any, value: float) -> bool:
    least, most = bounds(name, kind)
    return least <= value <= most


def truncate(text: str) -> str:
    """Truncates a text to TEXT_LIMIT characters; the last one marks the truncation."""
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + "…"


@dataclass(frozen=True, slots=True)
class OmittedFields:
    """Names of the fields with an omitted value or a truncated text."""

    numbers: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)

    def remarks(self) -> Iterator[str]:
        """For people."""
        if self.numbers:
            yield f"values out of range were omitted: {', '.join(sorted(self.numbers))}"
        if self.texts:
            names = ", ".join(sorted(self.texts))
            yield f"texts of more than {TEXT_LIMIT} characters were truncated: {names}"


# The model as msgspec structures, for readings that are used once. They are generated from the dataclasses of
# the model, with the same names, types and defaults. Decoding takes less than half the time of frozen
# dataclasses, which are filled attribute by attribute, and they are not tracked by the garbage collector.


def light_type(kind: Any, name: str = "") -> Any:
    """The type to decode instead of `kind`. Numbers and texts have limits; a document that exceeds them is
    decoded again by the slower way."""
    if kind is str:
        return Annotated[str, msgspec.Meta(max_length=TEXT_LIMIT)]
    if kind is int or kind is float:
        least, most = bounds(name, kind)
        return Annotated[kind, msgspec.Meta(ge=least, le=most)]
    if is_dataclass(kind):
        return _structure(cast(type, kind))
    origin = get_origin(kind)
    if origin is UnionType:
        return Union[tuple(light_type(option, name) for option in get_args(kind))]  # noqa: UP007 - of a computed tuple
    if origin is tuple:
        return tuple[tuple(item if item is Ellipsis else light_type(item, name) for item in get_args(kind))]  # type: ignore[misc]
    return kind


@cache
def _structure(kind: Any) -> type[msgspec.Struct]:
    hints = get_type_hints(kind)
    declared: list[tuple[str, Any, Any]] = []
    for one in fields(kind):
        default = msgspec.NODEFAULT if one.default is MISSING else one.default
        declared.append((one.name, light_type(hints[one.name], one.name), default))
    return msgspec.defstruct(kind.__name__, declared, kw_only=True, frozen=True, gc=False)


# An integer with more digits than any count has. Parsing such a number takes long.
_MANY_DIGITS = b"0" * 40
_DIGITS = bytes.maketrans(b"123456789", b"000000000")

# Agents write the version first; otherwise the document is searched for it.
_FIRST = re.compile(rb'\{"schema_version":"([0-9.]{1,32})"')
_decoder = msgspec.json.Decoder(Snapshot)
_Light = light_type(Snapshot)
_light_decoder = msgspec.json.Decoder(_Light)
# The error text of msgspec, which contains a path such as $.devices[...].model.
_TEXT_TOO_LONG = re.compile(r"Expected `str` of length <= .* - at `\$\.([^`]*)`")

# Generous limits for a node; each item becomes a row.
_MOST_DEVICES = 1024
_MOST_PROCESSES = 16_384
_MOST_POD_USAGES = 16_384
# Lenient decoding takes a hundred times as long, in the event loop. Eight devices are about 100 KB.
_LENIENT_BYTES_LIMIT = 1 << 20


class _SchemaVersion(msgspec.Struct):
    schema_version: str = ""


class _MemberCounts(msgspec.Struct):
    """Only counts the members."""

    devices: tuple[msgspec.Raw, ...] = ()
    processes: tuple[msgspec.Raw, ...] = ()
    pod_usages: tuple[msgspec.Raw, ...] = ()


_version_decoder = msgspec.json.Decoder(_SchemaVersion)
_members_decoder = msgspec.json.Decoder(_MemberCounts)


class BadDocument(ValueError):
    """Not a valid snapshot. The message is one line."""


class IncompatibleSchema(ValueError):
    """A snapshot of another major version. The message contains both versions."""


class SnapshotTooLarge(ValueError):
    """A snapshot that exceeds the limits of a node."""


@dataclass(frozen=True, slots=True)
class DecodedSnapshot:
    snapshot: Snapshot
    whole: bool  # nothing was omitted, so the document can be decoded again without checks
    remark: str | None = None  # about what was omitted


def decode_light(document: bytes) -> DecodedSnapshot:
    """Decodes to the light model: much faster, but not equal to objects of the model and without
    `dataclasses.replace`. Raises BadDocument, IncompatibleSchema and TooLarge."""
    try:
        decoded = _decode_strictly(document)
    except (msgspec.MsgspecError, RecursionError) as error:
        return _decode_leniently(document, error)
    return DecodedSnapshot(decoded, whole=True)


def decode_snapshot(document: bytes) -> DecodedSnapshot:
    """Raises BadDocument, IncompatibleSchema and TooLarge."""
    try:
        _decode_strictly(document)
        return DecodedSnapshot(_decoder.decode(document), whole=True)
    except (msgspec.MsgspecError, RecursionError) as error:
        return _decode_leniently(document, error)


def check_snapshot(snapshot: Snapshot) -> DecodedSnapshot:
    """Checks a snapshot that was not decoded from a document. Raises BadDocument and TooLarge."""
    _check_size(snapshot)
    try:
        msgspec.convert(snapshot, _Light, from_attributes=True)
    except msgspec.ValidationError:
        try:
            return _without_unsupported(msgspec.to_builtins(snapshot))
        except msgspec.ValidationError as why:
            raise BadDocument(one_line(str(why))) from None
    return DecodedSnapshot(snapshot, whole=True)


def _decode_strictly(document: bytes) -> Snapshot:
    _check_version(document)
    if len(document) > _LENIENT_BYTES_LIMIT:
        _check_size(_members_decoder.decode(document))
    decoded = cast(Snapshot, _light_decoder.decode(document))
    _check_size(decoded)
    return decoded


def _decode_leniently(document: bytes, error: Exception) -> DecodedSnapshot:
    """Decodes leniently; `error` is that of the strict decoder."""
    try:
        _check_version(document)
        if len(document) > _LENIENT_BYTES_LIMIT:
            raise _too_long(error) or error
        if _MANY_DIGITS in document.translate(_DIGITS):
            raise BadDocument("it contains a number of 40 digits or more")
        _check_size(_members_decoder.decode(document))
        return _without_unsupported(msgspec.json.decode(document))
    except RecursionError:
        raise BadDocument("it is nested too deeply") from None
    except msgspec.MsgspecError as why:
        raise BadDocument(one_line(str(why))) from None


def _too_long(error: Exception) -> SnapshotTooLarge | None:
    """None if `error` is not about the length of a text."""
    found = _TEXT_TOO_LONG.search(str(error))
    if found is None:
        return None
    return SnapshotTooLarge(f"a text of more than {TEXT_LIMIT} characters in {found[1]}")


def _without_unsupported(document: object) -> DecodedSnapshot:
    omitted = OmittedFields()
    document, remark = drop_unknown_vendors(document)
    supported = _supported(Snapshot, document, "", omitted)
    if isinstance(supported, _OmittedValue):
        raise BadDocument(f"out of range: {', '.join(sorted(omitted.numbers))}")
    remarks = [text for text in (remark, *omitted.remarks()) if text is not None]
    return DecodedSnapshot(
        msgspec.convert(supported, Snapshot), whole=False, remark="; ".join(remarks) or None
    )


def _check_size(of: Snapshot | _MemberCounts) -> None:
    for name, found, most in (
        ("devices", len(of.devices), _MOST_DEVICES),
        ("processes", len(of.processes), _MOST_PROCESSES),
        ("uses by pods", len(of.pod_usages), _MOST_POD_USAGES),
    ):
        if found > most:
            raise SnapshotTooLarge(f"{found} {name} exceed the limit of {most} for a node")


def _check_version(document: bytes) -> None:
    first = _FIRST.match(document)
    version = first[1].decode() if first else _version_decoder.decode(document).schema_version
    if not version:
        raise BadDocument("it has no schema_version")
    if version.split(".", 1)[0] != SCHEMA_VERSION.split(".", 1)[0]:
        raise IncompatibleSchema(
            f"unsupported schema version {version[:32]}; this version of accelscope reads {SCHEMA_VERSION}"
        )


class _OmittedValue(Enum):
    WORD = "a value of a newer version"
    NUMBER = "an impossible number"


def _supported(kind: Any, value: object, name: str, omitted: OmittedFields) -> Any:
    """`value` without values that this version does not support, without impossible numbers, and with texts
    truncated to their limit; the names of those fields are added to `omitted`. Other errors stay: the
    conversion finds them. `name` is the name of the field."""
    if get_origin(kind) is UnionType:
        kind = next(option for option in get_args(kind) if option is not NoneType)
        if value is None:
            return None
    if get_origin(kind) is tuple:
        return _supported_items(kind, value, name, omitted)
    if is_dataclass(kind):
        return _supported_fields(kind, value, omitted)
    if isinstance(kind, type) and issubclass(kind, Enum) and isinstance(value, str):
        return _supported_word(kind, value)
    return _bounded(kind, value, name, omitted)


def _bounded(kind: Any, value: object, name: str, omitted: OmittedFields) -> object:
    if kind in (int, float) and isinstance(value, int | float) and not is_plausible(name, kind, value):
        omitted.numbers.add(name)
        return _OmittedValue.NUMBER
    if kind is str and isinstance(value, str) and len(value) > TEXT_LIMIT:
        omitted.texts.add(name)
        return truncate(value)
    return value


def _supported_word(kind: type[Enum], value: str) -> object:
    if value in (member.value for member in kind):
        return value
    stand_in = STAND_INS.get(kind)
    return _OmittedValue.WORD if stand_in is None else stand_in.value


def _supported_items(kind: Any, value: object, name: str, omitted: OmittedFields) -> object:
    if not isinstance(value, list | tuple):
        return value
    kinds = get_args(kind)
    if kinds[-1] is not Ellipsis:  # pairs of texts
        return [_bounded(str, item, name, omitted) for item in value]
    items = (_supported(kinds[0], item, name, omitted) for item in value)
    return [item for item in items if not isinstance(item, _OmittedValue)]


def _supported_fields(kind: Any, value: object, omitted: OmittedFields) -> object:
    if not isinstance(value, dict):
        return value
    supported = {}
    for name, hint, required in _fields(kind):
        if name not in value:
            continue
        item = _supported(hint, value[name], name, omitted)
        if not isinstance(item, _OmittedValue):
            supported[name] = item
        elif required:
            return item
    return supported


@cache
def _fields(kind: Any) -> tuple[tuple[str, Any, bool], ...]:
    hints = get_type_hints(kind)
    return tuple(
        (field.name, hints[field.name], field.default is MISSING and field.default_factory is MISSING)
        for field in fields(kind)
    )


def make_report(
    node: str, source: SourceKind, taken_at: float, snapshot: Snapshot, *, remark: str | None = None
) -> NodeReport | NodeFailure:
    """The report of a snapshot that a source has assembled, without impossible numbers, or a failure if it
    exceeds the limits of a node. `remark` describes what was omitted before."""
    try:
        found = check_snapshot(snapshot)
    except SnapshotTooLarge as error:
        return NodeFailure(node=node, source=source, reason=Reason.TOO_LARGE, text=str(error))
    except BadDocument as error:
        return NodeFailure(node=node, source=source, reason=Reason.BAD_ANSWER, text=str(error))
    return NodeReport(
        node=node,
        source=source,
        taken_at=taken_at,
        snapshot=found.snapshot,
        remark="; ".join(filter(None, (remark, found.remark))) or None,
    )


# --- Updates ------------------------------------------------------------------


class _Update(msgspec.Struct, gc=False):
    format: int
    rows: tuple[int, int, int]
    texts: list[Annotated[str, msgspec.Meta(max_length=TEXT_LIMIT)] | None]
    numbers: list[float | None]


_update_decoder = msgspec.json.Decoder(_Update)
_HEALTHS = frozenset(map(str, HealthState))


@cache
def _limits_of(row: type[Row], names: tuple[str, ...]) -> npt.NDArray[np.float64]:
    """Minimum and maximum by column."""
    whole = layout_of(row).whole
    return np.array([bounds(name, int if name in whole else float) for name in names]).T


_KINDS = ((DeviceRow, DEVICE_NUMBERS), (PodRow, POD_NUMBERS), (ProcessRow, PROCESS_NUMBERS))
_COLUMNS = tuple(len(names) for _, names in _KINDS)


def decode_update(
    document: bytes, *, node: str, source: SourceKind, taken_at: float, structure: str
) -> NodeValues:
    """Raises BadDocument for anything that cannot be used; the whole snapshot then shows why."""
    try:
        decoded = _update_decoder.decode(document)
    except msgspec.MsgspecError as error:
        raise BadDocument(one_line(str(error))) from None
    if decoded.format != FORMAT:
        raise BadDocument(f"it has format {decoded.format}; this version reads {FORMAT}")
    ends = list(accumulate(count * columns for count, columns in zip(decoded.rows, _COLUMNS, strict=True)))
    if min(decoded.rows) < 0 or max(decoded.rows) > _MOST_PROCESSES or len(decoded.numbers) != ends[-1]:
        raise BadDocument("it has another number of values than of rows and columns")
    healths = decoded.texts[:: len(DEVICE_TEXTS)]
    if len(decoded.texts) != decoded.rows[0] * len(DEVICE_TEXTS) or not _HEALTHS.issuperset(healths):
        raise BadDocument("it has other texts than this version reads")
    numbers = np.split(np.array(decoded.numbers, np.float64), ends[:2])
    parts = [part.reshape(-1, columns) for part, columns in zip(numbers, _COLUMNS, strict=True)]
    for part, kind in zip(parts, _KINDS, strict=True):
        least, most = _limits_of(*kind)
        if ((part < least) | (part > most)).any():
            raise BadDocument("a value is out of range")
    devices, containers, processes = parts
    return NodeValues(
        node=node,
        source=source,
        taken_at=taken_at,
        structure=structure,
        texts={name: decoded.texts[place :: len(DEVICE_TEXTS)] for place, name in enumerate(DEVICE_TEXTS)},
        devices=devices,
        containers=containers,
        processes=processes,
    )


# --- Several agents of a node -------------------------------------------------

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSnapshot:
    """The last snapshot of one agent."""

    snapshot: Snapshot
    taken_at: float  # by this process's clock
    failure: str | None = None  # of the last request
    remark: str | None = None  # about parts that were omitted
    whole: bool = True  # nothing was omitted


def merge_agents(agents: Sequence[AgentSnapshot]) -> AgentSnapshot:
    """Merges the snapshots of several agents of a node: one for each vendor, or an old and a new one during a
    rollout. Each device is taken from the agent that responded last; devices of an agent that failed keep
    only their identity."""
    in_order = sorted(agents, key=lambda agent: (agent.failure is not None, -agent.taken_at))
    parts = [_without_readings(agent) if agent.failure else agent.snapshot for agent in in_order]
    reporter: dict[str, int] = {}
    for place, part in enumerate(parts):
        for device in part.devices:
            reporter.setdefault(device.id, place)

    def reported_members(
        members: Callable[[Snapshot], Iterable[T]], device: Callable[[T], str | None]
    ) -> tuple[T, ...]:
        return tuple(
            member
            for place, part in enumerate(parts)
            for member in members(part)
            if reporter.get(device(member) or "", place) == place
        )

    first = parts[0]
    snapshot = replace(
        first,
        readers=_readers(parts),
        devices=reported_members(lambda part: part.devices, lambda device: device.id),
        processes=reported_members(lambda part: part.processes, lambda process: process.device),
        pods=tuple({(pod.namespace, pod.name): pod for part in parts for pod in part.pods}.values()),
        allocations=_allocations(parts),
        pod_usages=reported_members(lambda part: part.pod_usages, lambda usage: usage.device),
        unattributed=reported_members(lambda part: part.unattributed, lambda use: use.device),
        balances=reported_members(lambda part: part.balances, lambda balance: balance.device),
        sinks=tuple(sink for part in parts for sink in part.sinks),
    )
    responded = [agent.taken_at for agent in in_order if agent.failure is None]
    return AgentSnapshot(
        snapshot=snapshot,
        taken_at=min(responded, default=in_order[0].taken_at),
        remark="; ".join(dict.fromkeys(agent.remark for agent in in_order if agent.remark)) or None,
    )


def _without_readings(agent: AgentSnapshot) -> Snapshot:
    """The snapshot with only the identity of its devices."""
    failure = f"its agent does not respond: {agent.failure}"
    readers = (replace(reader, up=False, reason=failure) for reader in agent.snapshot.readers)
    devices = (_named(device, failure, agent.snapshot.taken_at) for device in agent.snapshot.devices)
    return Snapshot(
        node=agent.snapshot.node,
        taken_at=agent.snapshot.taken_at,
        agent=agent.snapshot.agent,
        interval_seconds=agent.snapshot.interval_seconds,
        readers=tuple(readers),
        devices=tuple(devices),
    )


def _named(device: Device, failure: str, read_at: float) -> Device:
    return replace(
        identity_of(device),
        health=Health(HealthState.UNKNOWN, failure),
        stale=True,
        read_at=device.read_at if device.stale or device.read_at is not None else read_at,
    )


def _readers(parts: Sequence[Snapshot]) -> tuple[ReaderState, ...]:
    """One for each vendor, preferably of an agent that found the driver."""
    chosen: dict[Vendor, ReaderState] = {}
    for part in parts:
        for reader in part.readers:
            if reader.vendor not in chosen or (reader.found and not chosen[reader.vendor].found):
                chosen[reader.vendor] = reader
    return tuple(chosen.values())


def _allocations(parts: Sequence[Snapshot]) -> tuple[Allocation, ...]:
    """Prefers allocations with a device: an agent that does not read the vendor has the allocation without
    it."""
    chosen: dict[tuple[str, ...], Allocation] = {}
    for part in parts:
        for given in part.allocations:
            key = (given.namespace, given.pod, given.container, given.source, given.device_id)
            if key not in chosen or (chosen[key].device is None and given.device is not None):
                chosen[key] = given
    return tuple(chosen.values())
