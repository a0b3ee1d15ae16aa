"""The files that guard the page: certificate, key, client CA, tokens. Loaded by what the agent loads them
with, so that what fails there fails here, with the same words."""

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from accelscope.doctor.certificate import NotACertificate, validities
from accelscope.doctor.check import Check
from accelscope.doctor.finding import Finding, counted, error, note, ok, warning
from accelscope.doctor.subject import Subject
from accelscope.secret_files import is_world_readable
from accelscope.serve import ServeError, TokenFile

_SOON_DAYS = 14
_DAY_SECONDS = 86400


def tls(subject: Subject) -> Iterator[Finding]:
    settings = subject.settings
    if settings.tls_certificate is None or settings.tls_key is None:
        yield ok("tls", "off: the page is served over plain HTTP")
        return
    # Brings ssl, which a node without TLS never needs.
    from accelscope.certificate_files import CertificateError, CertificateFiles  # noqa: PLC0415

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
