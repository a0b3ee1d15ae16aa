"""What an answer that is no success means."""

from collections.abc import Mapping

from accelscope.kube.errors import KubeError, Reason

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


def reason_of(status: int) -> Reason:
    if 500 <= status < 600:
        return Reason.SERVER_ERROR
    return _REASONS.get(status, Reason.BAD_ANSWER)


def _reason(status: int, message: str) -> Reason:
    # A ValidatingAdmissionPolicy forbids with the status of what is invalid, unless it names another reason.
    if status == _UNPROCESSABLE and " is forbidden: " in message:
        return Reason.FORBIDDEN
    return reason_of(status)


def refusal(
    status: int, headers: Mapping[str, str], body: bytes, *, url: str, secret: str | None = None
) -> KubeError:
    """The error for an answer; `secret` is what must not be in its text even if the server repeats it."""
    message = _message(body)
    text = f"{url}: {status} {message}" if message else f"{url}: answered {status}"
    if secret:
        text = text.replace(secret, "[token]")
    return KubeError(_reason(status, message), text, retry_after=_retry_after(headers), status=status)


def _message(body: bytes) -> str:
    """The message of a Status object, else the text itself."""
    text = body.decode("utf-8", "replace").strip()
    if text.startswith("{"):
        import json  # noqa: PLC0415 - not needed as long as all is well

        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            return text
        message = document.get("message", document.get("error"))  # the latter is a Prometheus store's
        return message if isinstance(message, str) else ""
    return "" if text.startswith("<") else text


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds. The form with a date is not used by Kubernetes."""
    value = headers.get("retry-after", "")
    return float(value) if value.isascii() and value.isdigit() and len(value) <= 6 else None
