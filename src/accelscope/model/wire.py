"""Model objects as plain JSON values and back.

The form is the model itself: a dataclass is an object with its fields' names, a tuple a list, an enum its
value; what is `None` or empty is left out. So `/snapshot`, `accelscope parse` and the fleet share one
description, the dataclasses.

`SCHEMA_VERSION` is `major.minor`. A new field, or a new word of an enumeration, raises the minor: older
readers pass over it; of a vendor that they do not know they leave out the devices, and say so. A field that
changes its meaning or goes away raises the major: other readers must refuse it.
"""

import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from accelscope.model.device import Vendor
from accelscope.model.health import HealthState
from accelscope.model.snapshot import Snapshot
from accelscope.model.workload import OwnerKind

SCHEMA_VERSION = "1.4"

# What stands for a word that is not known; of other enumerations the value is left out.
STAND_INS: Mapping[type, Enum] = {HealthState: HealthState.UNKNOWN, OwnerKind: OwnerKind.UNKNOWN}

_OF_A_DEVICE = ("processes", "allocations", "pod_usages", "unattributed", "balances")  # by their `device`
_VENDORS = frozenset(map(str, Vendor))
_MOST_VENDORS_NAMED = 5
_LONGEST_NAME = 32

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


def of_known_vendors(document: object) -> tuple[object, str | None]:
    """The document of a snapshot without readers and devices of vendors that this version does not know, and
    without what belongs to such devices; and which devices those were, for people. What is no snapshot stays
    as it is."""
    if not isinstance(document, Mapping) or not any(
        _of_unknown_vendor(item) for name in ("readers", "devices") for item in _listed(document, name)
    ):
        return document, None
    devices = _listed(document, "devices")
    strange = [device for device in devices if _of_unknown_vendor(device)]
    left_out = _texts(strange, "id") - _texts([d for d in devices if not _of_unknown_vendor(d)], "id")
    known = dict(document)
    for name in ("readers", "devices"):
        if isinstance(document.get(name), list):
            known[name] = [item for item in document[name] if not _of_unknown_vendor(item)]
    for name in _OF_A_DEVICE:
        if isinstance(document.get(name), list):
            known[name] = [item for item in document[name] if not _texts([item], "device") & left_out]
    return known, _remark(Counter(device["vendor"][:_LONGEST_NAME] for device in strange))


def read_snapshot(document: object) -> Snapshot:
    """A Snapshot from the document of any version of the same major. Words that a newer minor added are
    passed over at the smallest cost; a vendor that is not known is an error, since its devices would go
    missing unsaid: of documents of other versions, take what `of_known_vendors` leaves."""
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
            if not isinstance(value, str):
                raise SchemaError(f"{where}: {error}") from None
            if kind is Vendor:
                raise SchemaError(
                    f"{where}: {_quoted(value)} is not a vendor that this version knows; update accelscope"
                ) from None
            if kind in STAND_INS:
                return STAND_INS[kind]
            raise _UnknownWord(f"{where}: {error}") from None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if (kind is float and number) or (type(value) is kind):
        return value
    raise SchemaError(f"{where}: expected {kind.__name__}, got {type(value).__name__}")


def _listed(document: Mapping[str, Any], name: str) -> list[Any]:
    found = document.get(name)
    return found if isinstance(found, list) else []


def _of_unknown_vendor(item: object) -> bool:
    vendor = item.get("vendor") if isinstance(item, Mapping) else None
    return isinstance(vendor, str) and vendor not in _VENDORS


def _texts(items: list[Any], name: str) -> set[str]:
    values = (item.get(name) for item in items if isinstance(item, Mapping))
    return {value for value in values if isinstance(value, str)}


def _remark(devices: Counter[str]) -> str | None:
    if not devices:
        return None
    named = [f"{_quoted(vendor)} ({count})" for vendor, count in devices.most_common(_MOST_VENDORS_NAMED)]
    further = [] if len(devices) <= _MOST_VENDORS_NAMED else ["…"]
    return "devices of vendors that this version does not know were left out: " + ", ".join(named + further)


def _quoted(word: str) -> str:
    return json.dumps(word[:_LONGEST_NAME])
