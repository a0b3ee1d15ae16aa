"""Errors of requests to an API server or a kubelet, with reasons that serve as metric labels."""

import re
from collections.abc import Mapping
from enum import StrEnum

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
