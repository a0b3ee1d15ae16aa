"""What comes back from a server."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with a status of success, or 304."""

    status: int
    headers: Mapping[str, str]  # lower-case names
    body: bytes  # decompressed
    gzip: bytes | None = None  # the body as it came, where it came compressed in one piece


@dataclass(frozen=True, slots=True)
class ExecResult:
    """A command that ran to its end, well or not."""

    stdout: bytes
    stderr: bytes
    exit_code: int
