"""Model objects as plain JSON values and back.

The form is the model itself: a dataclass is an object with its fields' names, a tuple a list, an enum its
value; what is `None` or empty is left out. So `/snapshot`, `accelscope parse` and the fleet share one
description, the dataclasses.

`SCHEMA_VERSION` is `major.minor`. A new field, or a new word of an enumeration, raises the minor: older
readers pass over it. A field that changes its meaning or goes away raises the major: other readers must
refuse it.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from accelscope.model.device import Vendor
from accelscope.model.health import HealthState
from accelscope.model.snapshot import Snapshot
from accelscope.model.workload import OwnerKind

SCHEMA_VERSION = "1.2"

# What stands for a word that is not known; of other enumerations the value is left out.
STAND_INS: Mapping[type, Enum] = {HealthState: HealthState.UNKNOWN, OwnerKind: OwnerKind.UNKNOWN}

T = TypeVar("T")


class SchemaError(ValueError):
    """A document that this version cannot read, and why."""


class _UnknownWord(SchemaError):
    """Of an enumeration that a newer minor may have added to."""


def plain(value: object) -> Any:
    """A model object as dicts, lists, strings and numbers."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        written = {}
        for field in fields(value):
            item = getattr(value, field.name)
            if item is None or item == ():
                continue
            written[field.name] = plain(item)
        return written
    return value


def snapshot_document(snapshot: Snapshot) -> dict[str, Any]:
    return {"schema_version": SCHEMA_VERSION, **plain(snapshot)}


def read_snapshot(document: object) -> Snapshot:
    """A Snapshot from the document of any version of the same major. Words that a newer minor added are
    passed over at the smallest cost; a device of an unknown vendor is not: it would go missing unsaid."""
    if not isinstance(document, Mapping):
        raise SchemaError("a snapshot is a JSON object")
    version = str(document.get("schema_version", ""))
    if version.split(".", 1)[0] != SCHEMA_VERSION.split(".", 1)[0]:
        raise SchemaError(
            f"snapshot has schema {version or 'without a version'}, this reads {SCHEMA_VERSION}"
        )
    return build(Snapshot, document)


def build(cls: type[T], document: object, where: str = "") -> T:
    """A dataclass from plain values. Unknown keys are ignored (a newer minor wrote them); a missing field
    takes its default; a value of the wrong kind is an error that says where."""
    if not isinstance(document, Mapping):
        raise SchemaError(f"{where or cls.__name__}: expected an object")
    hints = _hints(cls)
    arguments = {}
    for field in fields(cls):  # type: ignore[arg-type]
        if field.name in document:
            arguments[field.name] = _value(hints[field.name], document[field.name], f"{where}.{field.name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise SchemaError(f"{where}.{field.name}: missing")
    return cls(**arguments)


_HINTS: dict[Any, dict[str, Any]] = {}


def _hints(cls: type) -> dict[str, Any]:
    """Resolved once: it takes longer than everything else."""
    hints = _HINTS.get(cls)
    if hints is None:
        hints = _HINTS[cls] = get_type_hints(cls)
    return hints


def _value(kind: Any, value: object, where: str) -> Any:
    origin = get_origin(kind)
    if origin is UnionType:
        if value is None:
            return None
        [kind] = [option for option in get_args(kind) if option is not NoneType]
        try:
            return _value(kind, value, where)
        except _UnknownWord:
            return None
    if origin is tuple:
        return _items(get_args(kind), value, where)
    if is_dataclass(kind):
        return build(kind, value, where)  # type: ignore[arg-type]
    return _scalar(kind, value, where)


def _items(kinds: tuple[Any, ...], value: object, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise SchemaError(f"{where}: expected a list")
    if kinds[-1] is Ellipsis:
        return tuple(_known(kinds[0], value, where))
    if len(value) != len(kinds):
        raise SchemaError(f"{where}: expected a list of {len(kinds)}, got {len(value)}")
    return tuple(
        _value(k, item, f"{where}[{i}]") for i, (k, item) in enumerate(zip(kinds, value, strict=True))
    )


def _known(kind: Any, items: list[object], where: str) -> Iterator[Any]:
    for i, item in enumerate(items):
        with contextlib.suppress(_UnknownWord):
            yield _value(kind, item, f"{where}[{i}]")


def _scalar(kind: Any, value: object, where: str) -> Any:
    if issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError as error:
            if kind is Vendor or not isinstance(value, str):
                raise SchemaError(f"{where}: {error}") from None
            if kind in STAND_INS:
                return STAND_INS[kind]
            raise _UnknownWord(f"{where}: {error}") from None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if (kind is float and number) or (type(value) is kind):
        return value
    raise SchemaError(f"{where}: expected {kind.__name__}, got {type(value).__name__}")
