"""Address and credentials of an API server, and its errors."""

import re
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from threading import Lock
from urllib.parse import urlsplit

from accelscope.files import FileWatch, open_regular

# --- errors ---------------------------------------------------------------
# Errors of requests to an API server or a kubelet, with reasons that serve as metric labels.


TEXT_LIMIT = 300  # characters


class Reason(StrEnum):
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    TLS = "tls"
    UNAUTHORIZED = "unauthorized"  # 401, or no usable token
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    GONE = "gone"  # the resource version is too old: list again
    THROTTLED = "throttled"
    SERVER_ERROR = "server_error"
    BAD_ANSWER = "bad_answer"
    TOO_LARGE = "too_large"


class KubeError(Exception):
    """A failed request. The text is one line and never contains a token."""

    def __init__(
        self, reason: Reason, text: str, *, retry_after: float | None = None, status: int | None = None
    ) -> None:
        self.reason = reason
        self.text = one_line(text)
        self.status = status  # HTTP status, if there was a response
        self.retry_after = retry_after  # seconds, from the response
        super().__init__(self.text)


class DecodeError(ValueError):
    """A malformed object. It does not affect the others."""


# A server may repeat our token truncated or re-encoded, so everything that looks like a token is removed.
_LIKE_A_TOKEN = re.compile(r"(?i:\bbearer\s+)\S+|\beyJ[\w-]{8,}(?:\.[\w-]*){0,2}", re.ASCII)


def one_line(text: str) -> str:
    """Foreign text made safe for a log line: without control characters and tokens, and of limited length."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * TEXT_LIMIT]).split())
    line = _LIKE_A_TOKEN.sub("[token]", line)
    return line if len(line) <= TEXT_LIMIT else line[: TEXT_LIMIT - 1] + "…"


_REASONS = {
    401: Reason.UNAUTHORIZED,
    403: Reason.FORBIDDEN,
    404: Reason.NOT_FOUND,
    409: Reason.CONFLICT,
    410: Reason.GONE,
    413: Reason.TOO_LARGE,
    429: Reason.THROTTLED,
}
_UNPROCESSABLE = 422


def reason_for_status(status: int) -> Reason:
    if 500 <= status < 600:
        return Reason.SERVER_ERROR
    return _REASONS.get(status, Reason.BAD_ANSWER)


def _reason(status: int, message: str) -> Reason:
    # A ValidatingAdmissionPolicy rejects with 422 unless it sets another reason.
    if status == _UNPROCESSABLE and " is forbidden: " in message:
        return Reason.FORBIDDEN
    return reason_for_status(status)


def error_for_response(
    status: int, headers: Mapping[str, str], body: bytes, *, url: str, secret: str | None = None
) -> KubeError:
    """The error for a response that is not a success. `secret` is removed from its text, because a server may
    repeat it."""
    message = _message(body)
    text = f"{url}: {status} {message}" if message else f"{url}: HTTP status {status}"
    if secret:
        text = text.replace(secret, "[token]")
    return KubeError(_reason(status, message), text, retry_after=_retry_after(headers), status=status)


def _message(body: bytes) -> str:
    """The message of a Status object, otherwise the text itself."""
    text = body.decode("utf-8", "replace").strip()
    if text.startswith("{"):
        import json  # noqa: PLC0415 - only needed for errors

        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            return text
        message = document.get("message", document.get("error"))  # Prometheus has `error`
        return message if isinstance(message, str) else ""
    return "" if text.startswith("<") else text


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """In seconds. Kubernetes does not send the form with a date."""
    value = headers.get("retry-after", "")
    return float(value) if value.isascii() and value.isdigit() and len(value) <= 6 else None


# --- endpoint -------------------------------------------------------------


_TOKEN_LIMIT = 64 << 10  # bytes; service account tokens are about 1 KiB
_TOKEN_SECONDS = 60.0  # a token is reloaded after this even if its file looks unchanged


class EndpointError(ValueError):
    """The address cannot be used. The text is one line."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Raises EndpointError for a URL that cannot be used."""

    url: str
    token_file: str | None = None
    ca_file: str | None = None  # None: the authorities of the system
    client_certificate: str | None = None
    client_key: str | None = None
    skip_tls_verify: bool = False
    server_name: str | None = None  # the name in the server's certificate, if it is not the URL's host
    allow_http: bool = False  # to other hosts too, then without token and client certificate

    secure: bool = field(init=False)
    host: str = field(init=False)  # without brackets
    port: int = field(init=False)
    base_path: str = field(init=False)  # prefix of all paths, without a trailing slash

    def __post_init__(self) -> None:
        secure, host, port, base_path = _split(self.url)
        if not secure and not is_loopback(host):
            if not self.allow_http:
                raise EndpointError(
                    f"{self.url}: http is allowed only for 127.0.0.1, ::1 and localhost, because the token "
                    "would be sent unencrypted; use https"
                )
            if self.token_file is not None or self.client_certificate is not None:
                raise EndpointError(
                    f"{self.url}: a token must not be sent over http to another machine; use https"
                )
        if self.client_key is not None and self.client_certificate is None:
            raise EndpointError(f"{self.url}: a client key requires a client certificate")
        for name, value in (("secure", secure), ("host", host), ("port", port), ("base_path", base_path)):
            object.__setattr__(self, name, value)

    @property
    def authority(self) -> str:
        """The Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PemSource:
    """A certificate or key in PEM format: in a file that may be rotated, or in memory."""

    name: str  # for error messages
    path: str | None = None
    content: bytes | None = field(default=None, repr=False)


def in_cluster(environ: Mapping[str, str], token_file: str | None, ca_file: str | None) -> Endpoint | None:
    """The API server from the environment of a container; None outside a cluster."""
    host = environ.get("KUBERNETES_SERVICE_HOST", "").strip()
    port = environ.get("KUBERNETES_SERVICE_PORT", "").strip() or "443"
    if not host:
        return None
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    return Endpoint(f"https://{host}:{port}", token_file, ca_file)


def is_loopback(host: str) -> bool:
    """Whether the host is this machine, decided without DNS."""
    if host.lower() == "localhost":
        return True
    try:
        return socket.inet_pton(socket.AF_INET, host)[0] == 127
    except OSError:
        pass
    try:
        return socket.inet_pton(socket.AF_INET6, host) == bytes(15) + b"\x01"
    except OSError:
        return False


def _split(url: str) -> tuple[bool, str, int, str]:
    if not url.isprintable() or " " in url or not url.isascii():
        raise _unusable(url, "not a URL")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _unusable(url, str(error)) from None
    if parts.username is not None or parts.password is not None:
        raise _unusable(url, "")
    if parts.scheme not in ("http", "https") or not host:
        raise _unusable(url, "not an https:// URL with a host")
    if parts.query or parts.fragment:
        raise _unusable(url, "a query or fragment is not allowed")
    secure = parts.scheme == "https"
    return secure, host, port or (443 if secure else 80), parts.path.rstrip("/")


def _unusable(url: str, problem: str) -> EndpointError:
    """The error never contains a password or a query. A password with / or # changes where the host begins,
    so any @ counts."""
    if "@" in url:
        return EndpointError("the URL must not contain a user or password; use a token file or a certificate")
    place = url.partition("?")[0].partition("#")[0]
    return EndpointError(f"{place if place.isprintable() and ' ' not in place else repr(place)}: {problem}")


class TokenFile:
    """A bearer token that others rotate: reloaded when its file changes, and at least once a minute."""

    def __init__(self, path: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._lock = Lock()  # several threads use one client
        self._watch = FileWatch(path)
        self._token: str | None = None
        self._read_at = 0.0
        self._generation = 0

    def generation(self) -> int:
        """Increases with each change of the content: requests that the old token failed can be retried."""
        with self._lock:
            self._check_file()
            return self._generation

    def read(self) -> str:
        """Raises KubeError."""
        with self._lock:
            self._check_file()
            now = self._clock()
            if self._token is None or now - self._read_at >= _TOKEN_SECONDS:
                token = self._load()
                if self._token is not None and token != self._token:
                    self._generation += 1
                self._token, self._read_at = token, now
            return self._token

    def _check_file(self) -> None:
        if self._watch.changed():
            self._token = None
            self._generation += 1

    def _load(self) -> str:
        try:
            with open_regular(Path(self._path)) as file:
                content = file.read(_TOKEN_LIMIT + 1)
        except OSError as error:
            text = f"cannot read token file {self._path}: {error.strerror or error}"
            raise KubeError(Reason.UNAUTHORIZED, text) from None
        token = content.strip()
        # A malformed token is never printed: it may contain most of a valid one.
        if not token:
            raise KubeError(Reason.UNAUTHORIZED, f"token file {self._path} is empty")
        if len(content) > _TOKEN_LIMIT or not all(0x21 <= byte <= 0x7E for byte in token):
            raise KubeError(Reason.UNAUTHORIZED, f"token file {self._path} does not contain a token")
        return token.decode("ascii")


def host_argument(host: str) -> str | bytes:
    """The host for functions of `socket` and `ssl`. For str they load the tables of the IDNA codec, half a
    mebibyte, so an ASCII name is passed as bytes."""
    return host.encode() if host.isascii() else host
