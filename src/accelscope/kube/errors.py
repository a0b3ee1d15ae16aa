"""What can go wrong between us and an API server or a kubelet, in words that serve as metric labels."""

import re
from enum import StrEnum

TEXT_LIMIT = 300  # characters; an error is one line on a page, not a document


class Reason(StrEnum):
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    TLS = "tls"
    UNAUTHORIZED = "unauthorized"  # 401, or no token to show
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    GONE = "gone"  # the resource version is too old: list anew
    THROTTLED = "throttled"
    SERVER_ERROR = "server_error"
    BAD_ANSWER = "bad_answer"
    TOO_LARGE = "too_large"


class KubeError(Exception):
    """A request that did not succeed. The text is one line and never holds a token."""

    def __init__(
        self, reason: Reason, text: str, *, retry_after: float | None = None, status: int | None = None
    ) -> None:
        self.reason = reason
        self.text = one_line(text)
        self.status = status  # of the answer, if there was one that said no
        self.retry_after = retry_after  # seconds that the server asked to wait
        super().__init__(self.text)


class DecodeError(ValueError):
    """An object that is not what it should be; it costs itself only."""


# Whoever repeats our token may cut it or spell it otherwise: what looks like one goes too.
_LIKE_A_TOKEN = re.compile(r"(?i:\bbearer\s+)\S+|\beyJ[\w-]{8,}(?:\.[\w-]*){0,2}", re.ASCII)


def one_line(text: str) -> str:
    """Other people's text made fit for a log line: no control characters, no tokens, cut."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * TEXT_LIMIT]).split())
    line = _LIKE_A_TOKEN.sub("[token]", line)
    return line if len(line) <= TEXT_LIMIT else line[: TEXT_LIMIT - 1] + "…"
