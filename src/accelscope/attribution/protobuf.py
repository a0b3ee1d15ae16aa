"""Reading protobuf's wire format, which is a page of code: the agent does without the package."""

from collections.abc import Iterator

from accelscope.kube.errors import DecodeError

_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
_MOST_VARINT_BYTES = 10


def fields(message: bytes | memoryview) -> Iterator[tuple[int, memoryview | None]]:
    """The fields of one message, in order, by number. Of those that are not length-delimited (no name or id
    is) only the length matters, so that they can be passed over."""
    view = memoryview(message)
    size = len(view)
    at = 0
    while at < size:
        key, at = _varint(view, at)
        number, kind = key >> 3, key & 7
        if not 0 < number < 1 << 29:
            raise DecodeError("not a protobuf message: a field number that cannot be")
        if kind == _LENGTH_DELIMITED:
            length, at = _varint(view, at)
            if length > size - at:
                raise DecodeError("a protobuf message that is cut short")
            yield number, view[at : at + length]
            at += length
            continue
        if kind == _VARINT:
            _, at = _varint(view, at)
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
            if at > size:
                raise DecodeError("a protobuf message that is cut short")
        else:
            raise DecodeError(f"not a protobuf message: wire type {kind}")
        yield number, None


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    """The number that starts at `at`, and where the next thing starts."""
    value = 0
    for place, byte in enumerate(view[at : at + _MOST_VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise DecodeError("a protobuf message that is cut short, or a number of more than 64 bits")


def submessage(value: memoryview | None) -> memoryview:
    if value is None:
        raise DecodeError("not the expected message: a number where a message should be")
    return value


def string(value: memoryview | None) -> str:
    try:
        return str(submessage(value), "utf-8")
    except UnicodeDecodeError as error:
        raise DecodeError("not the expected message: a name that is not UTF-8") from error
