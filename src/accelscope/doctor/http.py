"""The agent's HTTP server: certificate, key and token files, and whether its port is free.

The files are loaded by the agent's own code, so a file that the agent rejects fails here with the same text.
"""

import errno
import math
import re
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from accelscope.certificates import CertificateError, CertificateFiles
from accelscope.doctor.check import Check, Finding, Subject, error, note, ok, pluralize, warning
from accelscope.files import is_world_readable
from accelscope.kube.client import Client
from accelscope.kube.endpoint import Endpoint, EndpointError, KubeError
from accelscope.kube.message import Head
from accelscope.serve import ServeError, Server, TokenFile
from accelscope.vendors import dialect_declarations

_SOON_DAYS = 14
_DAY_SECONDS = 86400


def tls(subject: Subject) -> Iterator[Finding]:
    settings = subject.settings
    if settings.tls_certificate is None or settings.tls_key is None:
        yield ok("tls", "off: pages are served over plain HTTP")
        return
    try:
        CertificateFiles(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
    except CertificateError as problem:
        yield error(
            "tls",
            str(problem),
            "The agent does not start with these files. --tls-certificate must name a PEM certificate chain "
            "and --tls-key its key without a password; the agent's user must be able to read both.",
        )
        return
    yield ok("tls", "certificate and key match")
    yield from _check_dates(subject, "certificate", settings.tls_certificate)
    yield from _check_permissions(subject, "tls-key", settings.tls_key, "the private key")
    if settings.tls_client_ca is not None:
        yield from _check_dates(subject, "client-ca", settings.tls_client_ca)


def guard(subject: Subject) -> Iterator[Finding]:
    """Whether clients must authenticate."""
    settings = subject.settings
    if settings.token_file is None and settings.tls_client_ca is None and not settings.token_review:
        yield note(
            "guard",
            "no authentication: anyone who can reach the port can read the metrics",
            "To restrict access, set --token-file, --token-review or --tls-client-ca, or limit the port with "
            "a firewall or NetworkPolicy.",
        )
    if settings.token_review and settings.tls_certificate is None:
        yield warning(
            "token-review",
            "ServiceAccount tokens are sent unencrypted because TLS is off",
            "Set --tls-certificate and --tls-key: these tokens also give access to the API server.",
        )
    if settings.token_file is None:
        return
    try:
        TokenFile(settings.token_file)
    except ServeError as problem:
        yield error(
            "token-file",
            str(problem),
            "The agent does not start with this file: write one token per line, and make it readable for the "
            "agent's user.",
        )
        return
    yield ok("token-file", f"{settings.token_file} contains a token")
    yield from _check_permissions(subject, "token-file", settings.token_file, "the tokens")
    if settings.tls_certificate is None:
        yield note(
            "token-file",
            "tokens are sent unencrypted because TLS is off",
            "Set --tls-certificate and --tls-key, unless the network is trusted.",
        )


def _check_dates(subject: Subject, name: str, path: str) -> Iterator[Finding]:
    """A chain is valid only while all its certificates are."""
    try:
        found = validities(Path(path).read_text(errors="replace"))
    except NotACertificate as problem:
        yield warning(
            name,
            f"{path}: cannot read its validity: {problem}",
            f"Inspect it with `openssl x509 -noout -dates -in {path}`.",
        )
        return
    if not found:
        yield note(name, f"{path} contains no PEM certificate")
        return
    now = datetime.fromtimestamp(subject.clock(), UTC)
    begins, ends = max(v.not_before for v in found), min(v.not_after for v in found)
    left = (ends - now).total_seconds() / _DAY_SECONDS
    details = {"path": path, "not_before": begins.isoformat(), "not_after": ends.isoformat()}
    renew = f"Replace {path}; the agent reloads it without a restart."
    if now < begins:
        yield error(
            name,
            f"not valid before {begins:%Y-%m-%d %H:%M} UTC",
            "Check this node's clock (`timedatectl`), then the certificate: clients reject it now.",
            **details,
        )
    elif left <= 0:
        yield error(
            name, f"expired on {ends:%Y-%m-%d}, {_days(-left)} ago: clients reject it", renew, **details
        )
    elif left < _SOON_DAYS:
        yield warning(name, f"expires on {ends:%Y-%m-%d}, in {_days(left)}", renew, **details)
    else:
        yield ok(name, f"valid until {ends:%Y-%m-%d}, in {_days(left)}", **details)


def _days(days: float) -> str:
    return pluralize(math.floor(days), "day", "days")


def _check_permissions(subject: Subject, name: str, path: str, what: str) -> Iterator[Finding]:
    if not is_world_readable(path):
        return
    found = f"{what} in {path} can be read by every user of this machine"
    if subject.in_container:
        # Files of a Secret have mode 0644 by default, and only the agent runs in its container.
        yield note(name, found, "In a pod, set defaultMode: 0440 for the volume, and fsGroup for the agent.")
    else:
        yield warning(name, found, f"`chmod o-r {path}`, and set a group that the agent's user belongs to.")


FILE_CHECKS = (Check("tls", tls), Check("guard", guard))


_TIMEOUT_SECONDS = 1.0
_MAX_BYTES = 256 * 1024
_LOCAL_ADDRESSES = {"": "localhost", "*": "localhost", "::": "localhost", "0.0.0.0": "127.0.0.1"}  # noqa: S104
_OUR_PAGE = re.compile(r"<h1>AccelScope agent ?([^<]*)</h1>")
# The agent's response to a client without credentials.
_OUR_REFUSALS = (
    'realm="accelscope"',
    "client certificate required",
    "a client certificate is needed here",  # agents before 0.2
)


@dataclass(frozen=True, slots=True)
class Listener:
    """The program that listens on the port."""

    name: str
    is_agent: bool = False
    is_exporter: bool = False  # one whose metrics the agent can serve as a dialect


def port(subject: Subject) -> Iterator[Finding]:
    settings = subject.settings
    number = settings.exporter_port
    if number == 0:
        yield ok("port", "0: the agent chooses a free port and logs it")
        return
    host = _LOCAL_ADDRESSES.get(settings.exporter_host, settings.exporter_host)
    listener = _identify_listener(host, number)
    if listener is None:
        yield _try_to_listen(settings.exporter_host, number)
    elif listener.is_agent:
        yield ok("port", f"{number} is served by {listener.name}", port=number, tenant=listener.name)
    else:
        yield _in_use(number, listener)


def _try_to_listen(host: str, number: int) -> Finding:
    server = Server({}, host=host, port=number)
    try:
        server.start()
    except ServeError as problem:
        cause = problem.__cause__
        code = cause.errno if isinstance(cause, OSError) else None
        if code == errno.EADDRINUSE:
            return _in_use(number, Listener("a program that does not respond"))
        if code in (errno.EACCES, errno.EPERM):
            advice = (
                "Ports below 1024 need the capability NET_BIND_SERVICE: choose another with --exporter-port."
            )
        else:
            advice = "--exporter-host must be an address of this machine; omit it to listen on all."
        return error("port", str(problem), advice, port=number)
    server.stop()
    return ok("port", f"{number} is free", port=number)


def _in_use(number: int, listener: Listener) -> Finding:
    name = listener.name
    advice = f"Find it with `ss -ltnp 'sport = :{number}'`; stop it, or set another --exporter-port."
    if listener.is_exporter:
        advice = (
            "Set another --exporter-port, such as 9410, and scrape that port too; or remove "
            f"{name} once nothing uses its metrics."
        )
    return error("port", f"{number} is in use by {name}", advice, port=number, tenant=name)


def _identify_listener(host: str, number: int) -> Listener | None:
    """None if nothing listens. Sends no token, because the listener may not be the agent."""
    try:
        with socket.create_connection((host, number), _TIMEOUT_SECONDS):
            pass
    except OSError:
        return None
    speaks_http = False
    for encrypted in (False, True):  # a TLS server may reject plain HTTP with an HTTP response
        start = _fetch(host, number, "/", encrypted=encrypted) or ""
        page = _OUR_PAGE.search(start)
        if page is not None:
            return Listener(f"an AccelScope agent {page[1]}".rstrip(), is_agent=True)
        if any(refusal in start for refusal in _OUR_REFUSALS):
            return Listener("an AccelScope agent that requires authentication", is_agent=True)
        metrics = _fetch(host, number, "/metrics", encrypted=encrypted)
        for dialect in dialect_declarations().values():
            if dialect.page_marker and dialect.page_marker in (metrics or ""):
                return Listener(dialect.exporter, is_exporter=True)
        speaks_http |= metrics is not None
    return Listener("another HTTP server" if speaks_http else "another program")


def _fetch(host: str, number: int, path: str, *, encrypted: bool) -> str | None:
    """Header values and the beginning of the body; None if the listener does not speak HTTP."""
    authority = f"[{host}]:{number}" if ":" in host else f"{host}:{number}"
    url = f"{'https' if encrypted else 'http'}://{authority}"
    received = bytearray()
    head: Head | None = None
    try:
        # Nothing secret is sent, so the certificate is not verified.
        endpoint = Endpoint(url, skip_tls_verify=True, allow_http=True)
        client = Client(endpoint, timeout_seconds=_TIMEOUT_SECONDS, user_agent="accelscope-doctor")
        stream = client.stream(path, idle_seconds=_TIMEOUT_SECONDS, accept="*/*", any_status=True)
        with stream:
            head = stream.head
            for piece in stream:
                received += piece
                if len(received) >= _MAX_BYTES:
                    break
    except (KubeError, EndpointError):
        pass  # the part received so far is used
    return None if head is None else "\n".join((*head.headers.values(), received.decode("latin-1")))


def _seconds(_: object) -> float:
    return 15.0  # four requests, each with its own timeout


PORT_CHECKS = (
    Check("port", port, _seconds, "The program that listens there does not respond: see `ss -ltnp`."),
)


# Validity of certificates: ssl exposes it only for a verified certificate of a peer, so the times are read
# from the encoding (RFC 5280, 4.1): certificate > contents > validity > times.
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
    """The validity of each certificate in a PEM file, in the file's order. Raises NotACertificate."""
    try:
        return [_validity(ssl.PEM_cert_to_DER_cert(block)) for block in _PEM.findall(pem)]
    except (ValueError, IndexError) as problem:
        raise NotACertificate(str(problem)) from problem


def _validity(encoded: bytes) -> Validity:
    contents = _sequence(_elements(_sequence(_elements(encoded)[:1]))[:1])
    parts = [element for element in _elements(contents) if element[0] != _VERSION]
    # serial number, signature algorithm, issuer, validity
    times = [_time(*element) for element in _elements(_sequence(parts[3:4]))]
    return Validity(times[0], times[1])


def _sequence(elements: list[tuple[int, bytes]]) -> bytes:
    [(tag, value)] = elements
    if tag != _SEQUENCE:
        raise NotACertificate(f"tag {tag:#x} instead of a sequence")
    return value


def _elements(encoded: bytes) -> list[tuple[int, bytes]]:
    """Consecutive tags and values. A length above 127 is preceded by the number of its bytes."""
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
            raise NotACertificate("it is truncated")
        found.append((tag, encoded[at : at + length]))
        at += length
    return found


def _time(tag: int, value: bytes) -> datetime:
    if tag not in _TIMES:
        raise NotACertificate(f"tag {tag:#x} instead of a time")
    # Two-digit years mean 1950 to 2049, but strptime reads 69 and above as 19xx.
    parsed = datetime.strptime(value.decode("ascii"), _TIMES[tag]).replace(tzinfo=UTC)
    return parsed.replace(year=parsed.year - 100) if tag == 0x17 and parsed.year >= 2050 else parsed
