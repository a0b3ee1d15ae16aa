"""An agent's `/snapshot` as the model, whatever version of the agent wrote it.

The major of its schema must be ours. Within it a document of an older minor lacks fields, which take their
defaults, and one of a newer minor has more: unknown fields are passed over, and so are words that an
enumeration of ours does not have and numbers that cannot be, each at the smallest cost. Texts that are too
long are cut. A remark lists the devices and numbers that were left out and the texts that were cut.
"""

import re
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, cast, get_args, get_origin, get_type_hints

import msgspec

from accelscope.fleet.sources.light_model import light
from accelscope.fleet.sources.plausible import TEXT_LIMIT, LeftOut, cut, is_plausible
from accelscope.kube.errors import one_line
from accelscope.model import Snapshot
from accelscope.model.wire import SCHEMA_VERSION, STAND_INS, of_known_vendors

# An integer with more digits than any count has: to read it alone takes long.
_ABSURD = b"0" * 40
_DIGITS = bytes.maketrans(b"123456789", b"000000000")

# Agents write it first; elsewhere it must be looked for.
_FIRST = re.compile(rb'\{"schema_version":"([0-9.]{1,32})"')
_decoder = msgspec.json.Decoder(Snapshot)
_Light = light(Snapshot)
_light_decoder = msgspec.json.Decoder(_Light)
# As msgspec words it; the place is a path such as $.devices[...].model.
_TEXT_TOO_LONG = re.compile(r"Expected `str` of length <= .* - at `\$\.([^`]*)`")

# What a node can have, generously; each becomes a row.
_MOST_DEVICES = 1024
_MOST_PROCESSES = 16_384
_MOST_POD_USAGES = 16_384
# To look closely takes a hundred times as long, in the event loop. Eight devices make some 100 KB.
_MOST_BYTES_LOOKED_AT = 1 << 20


class _Versioned(msgspec.Struct):
    schema_version: str = ""


class _Members(msgspec.Struct):
    """How many there are, without a look at them."""

    devices: tuple[msgspec.Raw, ...] = ()
    processes: tuple[msgspec.Raw, ...] = ()
    pod_usages: tuple[msgspec.Raw, ...] = ()


_version_decoder = msgspec.json.Decoder(_Versioned)
_members_decoder = msgspec.json.Decoder(_Members)


class BadDocument(ValueError):
    """What came is no snapshot. The text says in one line why."""


class IncompatibleSchema(ValueError):
    """A snapshot of another major. The text names both versions."""


class TooLarge(ValueError):
    """A snapshot of more than a node can have. The text says of what."""


@dataclass(frozen=True, slots=True)
class Decoded:
    snapshot: Snapshot
    whole: bool  # nothing had to be passed over: the document can be read again by the types alone
    remark: str | None = None  # what was left out, for people


def glance(document: bytes) -> Decoded:
    """A snapshot to read fields of and let go: much quicker, but not equal to one of the model, and not to be
    changed with `dataclasses.replace`. Raises BadDocument, IncompatibleSchema and TooLarge."""
    try:
        seen = _seen(document)
    except (msgspec.MsgspecError, RecursionError) as error:
        return _looked_at(document, error)  # says what is wrong, or makes the best of it
    return Decoded(seen, whole=True)


def decode_snapshot(document: bytes) -> Decoded:
    """Raises BadDocument, IncompatibleSchema and TooLarge."""
    try:
        _seen(document)
        return Decoded(_decoder.decode(document), whole=True)
    except (msgspec.MsgspecError, RecursionError) as error:
        return _looked_at(document, error)


def checked(snapshot: Snapshot) -> Decoded:
    """What was put together here from something else than a document. Raises BadDocument and TooLarge."""
    _check_size(snapshot)
    try:
        msgspec.convert(snapshot, _Light, from_attributes=True)
    except msgspec.ValidationError:
        try:
            return _made_the_best_of(msgspec.to_builtins(snapshot))
        except msgspec.ValidationError as why:
            raise BadDocument(one_line(str(why))) from None
    return Decoded(snapshot, whole=True)


def _seen(document: bytes) -> Snapshot:
    _check_version(document)
    if len(document) > _MOST_BYTES_LOOKED_AT:
        _check_size(_members_decoder.decode(document))
    seen = cast(Snapshot, _light_decoder.decode(document))
    _check_size(seen)
    return seen


def _looked_at(document: bytes, error: Exception) -> Decoded:
    """`error`: why the types alone do not do."""
    try:
        _check_version(document)
        if len(document) > _MOST_BYTES_LOOKED_AT:
            raise _too_long(error) or error
        if _ABSURD in document.translate(_DIGITS):
            raise BadDocument("it holds a number of 40 digits or more")
        _check_size(_members_decoder.decode(document))
        return _made_the_best_of(msgspec.json.decode(document))
    except RecursionError:
        raise BadDocument("it is nested too deeply") from None
    except msgspec.MsgspecError as why:
        raise BadDocument(one_line(str(why))) from None


def _too_long(error: Exception) -> TooLarge | None:
    """If `error` is about the length of a text."""
    found = _TEXT_TOO_LONG.search(str(error))
    return None if found is None else TooLarge(f"a text of more than {TEXT_LIMIT} characters in {found[1]}")


def _made_the_best_of(document: object) -> Decoded:
    left_out = LeftOut()
    document, remark = of_known_vendors(document)
    known = _known(Snapshot, document, "", left_out)
    if isinstance(known, _Unknown):
        raise BadDocument(f"out of range: {', '.join(sorted(left_out.numbers))}")
    remarks = [text for text in (remark, *left_out.remarks()) if text is not None]
    return Decoded(msgspec.convert(known, Snapshot), whole=False, remark="; ".join(remarks) or None)


def _check_size(of: Snapshot | _Members) -> None:
    for name, found, most in (
        ("devices", len(of.devices), _MOST_DEVICES),
        ("processes", len(of.processes), _MOST_PROCESSES),
        ("uses by pods", len(of.pod_usages), _MOST_POD_USAGES),
    ):
        if found > most:
            raise TooLarge(f"{found} {name}, of {most} that a node may have")


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
    NUMBER = "a number that cannot be"


def _known(kind: Any, value: object, name: str, left_out: LeftOut) -> Any:
    """`value` without what this version's types have no word for, without numbers that cannot be, and with
    texts cut to their limit; `left_out` takes the names of those fields. What is wrong otherwise stays, and
    is found by who converts it. `name`: of the field."""
    if get_origin(kind) is UnionType:
        kind = next(option for option in get_args(kind) if option is not NoneType)
        if value is None:
            return None
    if get_origin(kind) is tuple:
        return _known_items(kind, value, name, left_out)
    if is_dataclass(kind):
        return _known_fields(kind, value, left_out)
    if isinstance(kind, type) and issubclass(kind, Enum) and isinstance(value, str):
        return _known_word(kind, value)
    return _bounded(kind, value, name, left_out)


def _bounded(kind: Any, value: object, name: str, left_out: LeftOut) -> object:
    if kind in (int, float) and isinstance(value, int | float) and not is_plausible(name, kind, value):
        left_out.numbers.add(name)
        return _Unknown.NUMBER
    if kind is str and isinstance(value, str) and len(value) > TEXT_LIMIT:
        left_out.texts.add(name)
        return cut(value)
    return value


def _known_word(kind: type[Enum], value: str) -> object:
    if value in (member.value for member in kind):
        return value
    stand_in = STAND_INS.get(kind)
    return _Unknown.WORD if stand_in is None else stand_in.value


def _known_items(kind: Any, value: object, name: str, left_out: LeftOut) -> object:
    if not isinstance(value, list | tuple):
        return value
    kinds = get_args(kind)
    if kinds[-1] is not Ellipsis:  # pairs of texts
        return [_bounded(str, item, name, left_out) for item in value]
    items = (_known(kinds[0], item, name, left_out) for item in value)
    return [item for item in items if not isinstance(item, _Unknown)]


def _known_fields(kind: Any, value: object, left_out: LeftOut) -> object:
    if not isinstance(value, dict):
        return value
    known = {}
    for name, hint, required in _fields(kind):
        if name not in value:
            continue
        item = _known(hint, value[name], name, left_out)
        if not isinstance(item, _Unknown):
            known[name] = item
        elif required:
            return item
    return known


@cache
def _fields(kind: Any) -> tuple[tuple[str, Any, bool], ...]:
    hints = get_type_hints(kind)
    return tuple(
        (field.name, hints[field.name], field.default is MISSING and field.default_factory is MISSING)
        for field in fields(kind)
    )
