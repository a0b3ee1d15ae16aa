"""From when until when a certificate is valid.

The standard library shows this only of a certificate that a peer has sent and that was verified, so the two
times are taken from the encoding itself (RFC 5280, 4.1): certificate > contents > validity > times.
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

from accelscope.doctor.check import Check, Finding, Subject, counted, error, note, ok, warning
from accelscope.files import is_world_readable
from accelscope.kube.client import Client
from accelscope.kube.endpoint import Endpoint, EndpointError
from accelscope.kube.errors import KubeError
from accelscope.kube.message import Head
from accelscope.serve import ServeError, Server, TokenFile

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


# --- http files ------------------------------------------------------------
# The files that guard the page: certificate, key, client CA, tokens. Loaded by what the agent loads them
# with, so that what fails there fails here, with the same words.


_SOON_DAYS = 14
_DAY_SECONDS = 86400


def tls(subject: Subject) -> Iterator[Finding]:
    settings = subject.settings
    if settings.tls_certificate is None or settings.tls_key is None:
        yield ok("tls", "off: the page is served over plain HTTP")
        return
    # Brings ssl, which a node without TLS never needs.
    from accelscope.files import CertificateError, CertificateFiles  # noqa: PLC0415

    try:
        CertificateFiles(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
    except CertificateError as problem:
        yield error(
            "tls",
            str(problem),
            "The agent does not start with these files: name a PEM certificate chain with --tls-certificate, "
            "its key without a password with --tls-key, and let the agent's user read both.",
        )
        return
    yield ok("tls", "certificate and key belong together")
    yield from _dates(subject, "certificate", settings.tls_certificate)
    yield from _exposed(subject, "tls-key", settings.tls_key, "the private key")
    if settings.tls_client_ca is not None:
        yield from _dates(subject, "client-ca", settings.tls_client_ca)


def guard(subject: Subject) -> Iterator[Finding]:
    """Who may read the page."""
    settings = subject.settings
    if settings.token_file is None and settings.tls_client_ca is None and not settings.token_review:
        yield note(
            "guard",
            "none: anybody who reaches the port may read",
            "Set --token-file, --token-review or --tls-client-ca if that is too many, or close the port with "
            "a firewall or NetworkPolicy.",
        )
    if settings.token_review and settings.tls_certificate is None:
        yield warning(
            "token-review",
            "tokens of the cluster travel unencrypted",
            "Set --tls-certificate and --tls-key: these tokens also open the API server.",
        )
    if settings.token_file is None:
        return
    try:
        TokenFile(settings.token_file)
    except ServeError as problem:
        yield error(
            "token-file",
            str(problem),
            "The agent does not start with it: write one token a line, and let the agent's user read it.",
        )
        return
    yield ok("token-file", f"{settings.token_file} can be read and holds a token")
    yield from _exposed(subject, "token-file", settings.token_file, "the tokens")
    if settings.tls_certificate is None:
        yield note(
            "token-file",
            "tokens travel unencrypted, because TLS is off",
            "Set --tls-certificate and --tls-key, unless the network is trusted.",
        )


def _dates(subject: Subject, name: str, path: str) -> Iterator[Finding]:
    """Of the first to end in the file: a chain is no better than its weakest part."""
    try:
        found = validities(Path(path).read_text(errors="replace"))
    except NotACertificate as problem:
        yield warning(
            name,
            f"{path}: the dates in it cannot be read: {problem}",
            f"Look at it with `openssl x509 -noout -dates -in {path}`.",
        )
        return
    if not found:
        yield note(name, f"{path} holds no certificate in PEM form whose dates could be read")
        return
    now = datetime.fromtimestamp(subject.clock(), UTC)
    begins, ends = max(v.not_before for v in found), min(v.not_after for v in found)
    left = (ends - now).total_seconds() / _DAY_SECONDS
    details = {"path": path, "not_before": begins.isoformat(), "not_after": ends.isoformat()}
    renew = f"Put a new one into {path}: the agent takes it up by itself, without a restart."
    if now < begins:
        yield error(
            name,
            f"not valid before {begins:%Y-%m-%d %H:%M} UTC",
            "Check this node's clock (`timedatectl`), then the certificate: clients refuse it now.",
            **details,
        )
    elif left <= 0:
        yield error(
            name, f"expired on {ends:%Y-%m-%d}, {_days(-left)} ago: clients refuse it", renew, **details
        )
    elif left < _SOON_DAYS:
        yield warning(name, f"expires on {ends:%Y-%m-%d}, in {_days(left)}", renew, **details)
    else:
        yield ok(name, f"valid until {ends:%Y-%m-%d}, in {_days(left)}", **details)


def _days(days: float) -> str:
    return counted(math.floor(days), "day", "days")


def _exposed(subject: Subject, name: str, path: str, what: str) -> Iterator[Finding]:
    if not is_world_readable(path):
        return
    found = f"every user of this machine can read {what} in {path}"
    if subject.in_container:
        # A Secret's files are 0644 unless told otherwise, and nobody else lives in the agent's container.
        yield note(name, found, "In a pod: defaultMode: 0440 at the volume, and fsGroup for the agent.")
    else:
        yield warning(name, found, f"chmod o-r {path}, and give it to a group that the agent's user is in.")


FILE_CHECKS = (Check("tls", tls), Check("guard", guard))


# --- port ------------------------------------------------------------
# Whether the agent can have its port, and who has it otherwise.


_ANSWER_SECONDS = 1.0
_ANSWER_BYTES = 256 * 1024
_EVERYWHERE = {"": "localhost", "*": "localhost", "::": "localhost", "0.0.0.0": "127.0.0.1"}  # noqa: S104
_OUR_PAGE = re.compile(r"<h1>AccelScope agent ?([^<]*)</h1>")
# What the agent answers those who may not see its page.
_OUR_REFUSALS = ('realm="accelscope"', "a client certificate is needed here; the probes work without")


@dataclass(frozen=True, slots=True)
class Tenant:
    """Who listens on the port."""

    name: str
    ours: bool = False


def port(subject: Subject) -> Iterator[Finding]:
    settings = subject.settings
    number = settings.exporter_port
    if number == 0:
        yield ok("port", "any free one, told in the log when the agent starts")
        return
    host = _EVERYWHERE.get(settings.exporter_host, settings.exporter_host)
    tenant = _tenant(host, number)
    if tenant is None:
        yield _listening(settings.exporter_host, number)
    elif tenant.ours:
        yield ok("port", f"{number} is served by {tenant.name}", port=number, tenant=tenant.name)
    else:
        yield _taken(number, tenant.name)


def _listening(host: str, number: int) -> Finding:
    """Try as the agent would."""
    server = Server({}, host=host, port=number)
    try:
        server.start()
    except ServeError as problem:
        cause = problem.__cause__
        code = cause.errno if isinstance(cause, OSError) else None
        if code == errno.EADDRINUSE:
            return _taken(number, "a program that does not answer here")
        if code in (errno.EACCES, errno.EPERM):
            advice = (
                "Ports below 1024 need the capability NET_BIND_SERVICE: choose another with --exporter-port."
            )
        else:
            advice = "--exporter-host must be an address of this machine; leave it out to listen on all."
        return error("port", str(problem), advice, port=number)
    server.stop()
    return ok("port", f"{number} is free", port=number)


def _taken(number: int, tenant: str) -> Finding:
    advice = f"See who it is with `ss -ltnp 'sport = :{number}'`; end it, or set another --exporter-port."
    if tenant == "dcgm-exporter":
        advice = (
            "Both have 9400 by default: give AccelScope another port (--exporter-port 9410, and the same "
            "where Prometheus scrapes it), or remove dcgm-exporter once nothing uses its names any more."
        )
    return error("port", f"{number} is taken by {tenant}", advice, port=number, tenant=tenant)


def _tenant(host: str, number: int) -> Tenant | None:
    """None: nobody listens there. No token is sent: whoever listens may not be who it should be."""
    try:
        with socket.create_connection((host, number), _ANSWER_SECONDS):
            pass
    except OSError:
        return None
    speaks_http = False
    for encrypted in (False, True):  # a server with TLS may answer plain HTTP too, with a refusal
        start = _answer(host, number, "/", encrypted=encrypted) or ""
        page = _OUR_PAGE.search(start)
        if page is not None:
            return Tenant(f"an AccelScope agent {page[1]}".rstrip(), ours=True)
        if any(refusal in start for refusal in _OUR_REFUSALS):
            return Tenant("an AccelScope agent, guarded", ours=True)
        metrics = _answer(host, number, "/metrics", encrypted=encrypted)
        if "DCGM_FI_" in (metrics or ""):
            return Tenant("dcgm-exporter")
        speaks_http |= metrics is not None
    return Tenant("another HTTP server" if speaks_http else "another program")


def _answer(host: str, number: int, path: str, *, encrypted: bool) -> str | None:
    """Header values and the beginning of the body; None if what listens does not speak HTTP."""
    authority = f"[{host}]:{number}" if ":" in host else f"{host}:{number}"
    url = f"{'https' if encrypted else 'http'}://{authority}"
    received = bytearray()
    head: Head | None = None
    try:
        # Nothing secret is sent, so the server's certificate does not matter.
        endpoint = Endpoint(url, skip_tls_verify=True, allow_http=True)
        client = Client(endpoint, timeout_seconds=_ANSWER_SECONDS, user_agent="accelscope-doctor")
        stream = client.stream(path, idle_seconds=_ANSWER_SECONDS, accept="*/*", any_status=True)
        with stream:
            head = stream.head
            for piece in stream:
                received += piece
                if len(received) >= _ANSWER_BYTES:
                    break
    except (KubeError, EndpointError):
        pass  # what came until then is used
    return None if head is None else "\n".join((*head.headers.values(), received.decode("latin-1")))


def _seconds(_: object) -> float:
    return 15.0  # four questions, each with a time of its own


PORT_CHECKS = (
    Check("port", port, _seconds, "What listens there does not answer: see `ss -ltnp` for who it is."),
)
