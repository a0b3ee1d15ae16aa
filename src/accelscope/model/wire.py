"""Conversion of model objects to and from plain JSON values.

The dataclasses define the format: a dataclass becomes an object with the names of its fields, a tuple a list,
an enum its value. Fields that are `None` or empty are left out. `/snapshot`, `accelscope parse` and the fleet
use this format.

`SCHEMA_VERSION` is `major.minor`. A new field or enum value increments the minor version; older readers
ignore it, and leave out devices of unknown vendors with a remark. Removing a field or changing its meaning
increments the major version; readers reject documents of another major version.
"""

import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from accelscope.model.device import HealthState, Vendor
from accelscope.model.snapshot import Snapshot
from accelscope.model.workload import OwnerKind

SCHEMA_VERSION = "1.4"

# Replacements of unknown enum values. Unknown values of other enums are left out.
STAND_INS: Mapping[type, Enum] = {HealthState: HealthState.UNKNOWN, OwnerKind: OwnerKind.UNKNOWN}

_DEVICE_LISTS = (
    "processes",
    "allocations",
    "pod_usages",
    "unattributed",
    "balances",
)  # have a field `device`
_VENDORS = frozenset(map(str, Vendor))
_VENDORS_LIMIT = 5  # in a message
_NAME_LIMIT = 32  # characters in a message

T = TypeVar("T")


class SchemaError(ValueError):
    """This version cannot read the document."""


class _UnknownEnumValue(SchemaError):
    """A newer minor version may have added it."""


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


def drop_unknown_vendors(document: object) -> tuple[object, str | None]:
    """Remove readers and devices of vendors that this version does not support, and everything that refers
    to these devices. Returns the document and a remark about the removed devices. A document that is not a
    snapshot is returned unchanged."""
    if not isinstance(document, Mapping) or not any(
        _has_unknown_vendor(item) for name in ("readers", "devices") for item in _list(document, name)
    ):
        return document, None
    devices = _list(document, "devices")
    unknown = [device for device in devices if _has_unknown_vendor(device)]
    left_out = _texts(unknown, "id") - _texts([d for d in devices if not _has_unknown_vendor(d)], "id")
    known = dict(document)
    for name in ("readers", "devices"):
        if isinstance(document.get(name), list):
            known[name] = [item for item in document[name] if not _has_unknown_vendor(item)]
    for name in _DEVICE_LISTS:
        if isinstance(document.get(name), list):
            known[name] = [item for item in document[name] if not _texts([item], "device") & left_out]
    return known, _remark(Counter(device["vendor"][:_NAME_LIMIT] for device in unknown))


def read_snapshot(document: object) -> Snapshot:
    """Convert a document of any minor version of the same major version. Enum values added by newer minor
    versions are replaced or left out. An unknown vendor is an error, because its devices would be missing
    without notice; `drop_unknown_vendors` removes them first."""
    if not isinstance(document, Mapping):
        raise SchemaError("expected a JSON object")
    version = str(document.get("schema_version", ""))
    if version.split(".", 1)[0] != SCHEMA_VERSION.split(".", 1)[0]:
        written = f"version {version}" if version else "no version"
        raise SchemaError(f"the snapshot schema has {written}, but this release reads {SCHEMA_VERSION}")
    return build(Snapshot, document)


def build(cls: type[T], document: object, where: str = "") -> T:
    """Create a dataclass from plain values. Unknown keys are ignored, and missing fields get their defaults.
    The error for a value of the wrong type contains its path."""
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
    """Cached, because resolving the hints takes longer than building the object."""
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
        except _UnknownEnumValue:
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
        return tuple(_known_items(kinds[0], value, where))
    if len(value) != len(kinds):
        raise SchemaError(f"{where}: expected a list of {len(kinds)}, got {len(value)}")
    return tuple(
        _value(k, item, f"{where}[{i}]") for i, (k, item) in enumerate(zip(kinds, value, strict=True))
    )


def _known_items(kind: Any, items: list[object], where: str) -> Iterator[Any]:
    for i, item in enumerate(items):
        with contextlib.suppress(_UnknownEnumValue):
            yield _value(kind, item, f"{where}[{i}]")


def _scalar(kind: Any, value: object, where: str) -> Any:
    if issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError as error:
            if not isinstance(value, str):
                raise SchemaError(f"{where}: {error}") from None
            if kind is Vendor:
                raise SchemaError(
                    f"{where}: this version does not support the vendor {_quoted(value)}; update accelscope"
                ) from None
            if kind in STAND_INS:
                return STAND_INS[kind]
            raise _UnknownEnumValue(f"{where}: {error}") from None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if (kind is float and number) or (type(value) is kind):
        return value
    raise SchemaError(f"{where}: expected {kind.__name__}, got {type(value).__name__}")


def _list(document: Mapping[str, Any], name: str) -> list[Any]:
    found = document.get(name)
    return found if isinstance(found, list) else []


def _has_unknown_vendor(item: object) -> bool:
    vendor = item.get("vendor") if isinstance(item, Mapping) else None
    return isinstance(vendor, str) and vendor not in _VENDORS


def _texts(items: list[Any], name: str) -> set[str]:
    values = (item.get(name) for item in items if isinstance(item, Mapping))
    return {value for value in values if isinstance(value, str)}


def _remark(devices: Counter[str]) -> str | None:
    if not devices:
        return None
    named = [f"{_quoted(vendor)} ({count})" for vendor, count in devices.most_common(_VENDORS_LIMIT)]
    further = [] if len(devices) <= _VENDORS_LIMIT else ["…"]
    return "left out devices of vendors that this version does not support: " + ", ".join(named + further)


def _quoted(word: str) -> str:
    return json.dumps(word[:_NAME_LIMIT])
