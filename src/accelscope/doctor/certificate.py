"""From when until when a certificate is valid.

The standard library shows this only of a certificate that a peer has sent and that was verified, so the two
times are taken from the encoding itself (RFC 5280, 4.1): certificate > contents > validity > times.
"""

import re
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime

_SEQUENCE = 0x30
_VERSION = 0xA0  # context tag 0, absent in version 1
_TIMES = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}  # UTCTime, GeneralizedTime
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


class NotACertificate(ValueError):
    """The text is not an encoded certificate."""


@dataclass(frozen=True, slots=True)
class Validity:
    not_before: datetime
    not_after: datetime


def validities(pem: str) -> list[Validity]:
    """Of each certificate in a PEM file, in its order: a server's own comes first. Raises NotACertificate."""
    try:
        return [_validity(ssl.PEM_cert_to_DER_cert(block)) for block in _PEM.findall(pem)]
    except (ValueError, IndexError) as problem:
        raise NotACertificate(str(problem)) from problem


def _validity(encoded: bytes) -> Validity:
    contents = _only(_elements(_only(_elements(encoded)[:1])[1])[:1])[1]
    parts = [element for element in _elements(contents) if element[0] != _VERSION]
    # serial number, signature algorithm, issuer, validity
    times = [_time(*element) for element in _elements(_only(parts[3:4])[1])]
    return Validity(times[0], times[1])


def _only(elements: list[tuple[int, bytes]]) -> tuple[int, bytes]:
    [(tag, value)] = elements
    if tag != _SEQUENCE:
        raise NotACertificate(f"tag {tag:#x} where a sequence should be")
    return tag, value


def _elements(encoded: bytes) -> list[tuple[int, bytes]]:
    """The tags and values that stand one after another. A length over 127 is preceded by its own length."""
    found = []
    at = 0
    while at < len(encoded):
        tag, length = encoded[at], encoded[at + 1]
        at += 2
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(encoded[at : at + size], "big")
            at += size
        if at + length > len(encoded):
            raise NotACertificate("it ends in the middle")
        found.append((tag, encoded[at : at + length]))
        at += length
    return found


def _time(tag: int, value: bytes) -> datetime:
    if tag not in _TIMES:
        raise NotACertificate(f"tag {tag:#x} where a time should be")
    # Two digits of a year are of 1950 to 2049; the standard library takes 69 and above for 19xx.
    parsed = datetime.strptime(value.decode("ascii"), _TIMES[tag]).replace(tzinfo=UTC)
    return parsed.replace(year=parsed.year - 100) if tag == 0x17 and parsed.year >= 2050 else parsed
