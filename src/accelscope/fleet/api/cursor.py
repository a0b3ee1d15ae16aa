"""Where the next page begins: opaque, stateless, and of use with the question that it was made for only.

It holds the values of the last row in the order of the sort, not a position: rows that come and go in between
shift nothing. The sum tells a cut or mistyped cursor from a good one; it is no secret, for there is none: a
cursor names a place in a list that its holder may read anyway, and rights are looked at anew each time.
"""

import base64
import binascii
import hashlib
import math

import msgspec

from accelscope.fleet.api.problem import Problem, ProblemKind

After = tuple[str | float | None, ...]

LENGTH_LIMIT = 4096  # characters
_SUM_BYTES = 6
_SPOILT = "it is cut or mistyped"

NO_PLACE = "it is no place in this list"


def write_cursor(question: str, after: After) -> str:
    content = msgspec.json.encode([_fingerprint(question), *after])
    return base64.urlsafe_b64encode(_sum(content) + content).decode().rstrip("=")


def read_cursor(question: str, cursor: str) -> After:
    """Raises Problem."""
    try:
        packed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise bad_cursor(_SPOILT) from None
    given, content = packed[:_SUM_BYTES], packed[_SUM_BYTES:]
    if given != _sum(content):
        raise bad_cursor(_SPOILT)
    try:
        fingerprint, *after = msgspec.json.decode(content, type=list[str | float | None])
    except (msgspec.DecodeError, ValueError):
        raise bad_cursor(_SPOILT) from None
    if fingerprint != _fingerprint(question):
        raise bad_cursor(
            "it belongs to other parameters: filters and sort must stay the same from page to page"
        )
    if any(isinstance(value, float) and not math.isfinite(value) for value in after):
        raise bad_cursor(_SPOILT)
    return tuple(after)


def _fingerprint(question: str) -> str:
    return hashlib.blake2b(question.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _sum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_SUM_BYTES, person=b"cursor").digest()


def bad_cursor(why: str) -> Problem:
    """One that cannot be used with this list."""
    return Problem(ProblemKind.BAD_CURSOR, f"the cursor is not taken: {why}", parameter="cursor")
