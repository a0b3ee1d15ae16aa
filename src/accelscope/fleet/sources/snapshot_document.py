"""An agent's `/snapshot` as the model, whatever version of the agent wrote it.

The major of its schema must be ours. Within it a document of an older minor lacks fields, which take their
defaults, and one of a newer minor has more: unknown fields are passed over, and so are words that an
enumeration of ours does not have, each at the smallest cost.
"""

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from accelscope.kube.errors import one_line
from accelscope.model import HealthState, OwnerKind, Snapshot
from accelscope.model.wire import SCHEMA_VERSION

# What stands for a word that is not known; of other enumerations the value is left out.
_STAND_INS: Mapping[type, Enum] = {HealthState: HealthState.UNKNOWN, OwnerKind: OwnerKind.UNKNOWN}
# An integer with more digits than any count has would not fit into a column.
_ABSURD = b"0" * 40
_DIGITS = bytes.maketrans(b"123456789", b"000000000")

# Agents write it first; elsewhere it must be looked for.
_FIRST = re.compile(rb'\{"schema_version":"([0-9.]{1,32})"')
_decoder = msgspec.json.Decoder(Snapshot)


class _Versioned(msgspec.Struct):
    schema_version: str = ""


_version_decoder = msgspec.json.Decoder(_Versioned)


class BadDocument(ValueError):
    """What came is no snapshot. The text says in one line why."""


class IncompatibleSchema(ValueError):
    """A snapshot of another major. The text names both versions."""


@dataclass(frozen=True, slots=True)
class Decoded:
    snapshot: Snapshot
    whole: bool  # nothing had to be passed over: the document can be read again by the types alone


def decode_snapshot(document: bytes) -> Decoded:
    """Raises BadDocument and IncompatibleSchema."""
    try:
        _check_version(document)
        if _ABSURD in document.translate(_DIGITS):
            raise BadDocument("it holds a number of 40 digits or more")
        try:
            return Decoded(_decoder.decode(document), whole=True)
        except msgspec.ValidationError:
            known = _known(Snapshot, msgspec.json.decode(document))
            return Decoded(msgspec.convert(known, Snapshot), whole=False)
    except RecursionError:
        raise BadDocument("it is nested too deeply") from None
    except msgspec.MsgspecError as error:
        raise BadDocument(one_line(str(error))) from None


def _check_version(document: bytes) -> None:
    first = _FIRST.match(document)
    version = first[1].decode() if first else _version_decoder.decode(document).schema_version
    if not version:
        raise BadDocument("it has no schema_version")
    if version.split(".", 1)[0] != SCHEMA_VERSION.split(".", 1)[0]:
        raise IncompatibleSchema(
            f"its snapshots have schema {version[:32]}, this version of accelscope reads {SCHEMA_VERSION}"
        )


class _Unknown(Enum):
    WORD = "a word of a newer version"


def _known(kind: Any, value: object) -> Any:
    """`value` without what this version's types have no word for. What is wrong otherwise stays, and is found
    by who converts it."""
    if get_origin(kind) is UnionType:
        kind = next(option for option in get_args(kind) if option is not NoneType)
        if value is None:
            return None
    if get_origin(kind) is tuple:
        return _known_items(kind, value)
    if is_dataclass(kind):
        return _known_fields(kind, value)
    if isinstance(kind, type) and issubclass(kind, Enum) and isinstance(value, str):
        if value in (member.value for member in kind):
            return value
        stand_in = _STAND_INS.get(kind)
        return _Unknown.WORD if stand_in is None else stand_in.value
    return value


def _known_items(kind: Any, value: object) -> object:
    if not isinstance(value, list):
        return value
    kinds = get_args(kind)
    if kinds[-1] is not Ellipsis:
        return value  # pairs of texts
    items = (_known(kinds[0], item) for item in value)
    return [item for item in items if item is not _Unknown.WORD]


def _known_fields(kind: Any, value: object) -> object:
    if not isinstance(value, dict):
        return value
    known = {}
    for name, hint, required in _fields(kind):
        if name not in value:
            continue
        item = _known(hint, value[name])
        if item is not _Unknown.WORD:
            known[name] = item
        elif required:
            return _Unknown.WORD
    return known


@cache
def _fields(kind: Any) -> tuple[tuple[str, Any, bool], ...]:
    hints = get_type_hints(kind)
    return tuple(
        (field.name, hints[field.name], field.default is MISSING and field.default_factory is MISSING)
        for field in fields(kind)
    )
