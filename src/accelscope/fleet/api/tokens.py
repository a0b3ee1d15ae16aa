"""Callers, and static tokens: a file that holds their hashes, so that reading the file lets nobody in.

```yaml
tokens:
  - name: grafana
    sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    scopes: [read]              # read or admin; left out: read
    clusters: [berlin, paris]   # left out: all
    expires: 2027-01-01T00:00:00Z   # left out: never
```

A token is 256 random bits, so a plain hash is as good as a slow one: there is nothing to guess.
"""

import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from accelscope.config import BadValue, Choice, ConfigError, Kind, Text, quoted
from accelscope.config.document import Section, read_document
from accelscope.config.log import fields
from accelscope.filewatch import FileWatch
from accelscope.fleet.clusters.entry import CLUSTER_ID

log = logging.getLogger(__name__)


class Scope(StrEnum):
    READ = "read"
    ADMIN = "admin"  # may also have clusters read anew; includes read


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """To one limited to some clusters the others are not there: not in lists, not in sums, not found."""

    name: str
    scopes: frozenset[Scope]
    clusters: frozenset[str] | None = None  # None: all, also those that come later

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes

    def sees(self, cluster: str) -> bool:
        return self.clusters is None or cluster in self.clusters

    @property
    def view(self) -> str:
        """The same text for those to whom the same answer is given."""
        return "all" if self.clusters is None else repr(sorted(self.clusters))


EVERYBODY = Caller(name="everybody", scopes=frozenset(Scope))

LOOK_SECONDS = 1.0  # between two looks at the file
_NAME = Text(
    "a name of letters, digits, - _ and . (at most 63)", r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?"
)
_SHA256 = Text("64 hexadecimal digits: the SHA-256 of the token", r"[0-9A-Fa-f]{64}", secret=True)
_SCOPE = Choice(*Scope)
_CLUSTER = Text("a cluster's id; leave clusters out for all", CLUSTER_ID)


class _Expiry(Kind[float]):
    allowed = "a time with its zone, such as 2027-01-01T00:00:00Z"

    def parse(self, text: str) -> float:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise BadValue from None
        if moment.tzinfo is None:
            raise BadValue
        return moment.timestamp()


_EXPIRY = _Expiry()


@dataclass(frozen=True, slots=True)
class Token:
    digest: bytes
    caller: Caller
    expires_at: float | None  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class MadeToken:
    token: str  # shown once, kept nowhere
    entry: str  # the lines for the file


def make_token(
    name: str,
    *,
    scopes: Iterable[Scope] = (Scope.READ,),
    clusters: Iterable[str] | None = None,
    expires: str | None = None,
) -> MadeToken:
    """Raises ConfigError for what the file would not take."""
    token = "as_" + secrets.token_urlsafe(32)
    entry: dict[str, str | list[str]] = {
        "name": name,
        "sha256": _digest(token).hex(),
        "scopes": [scope.value for scope in scopes],
    }
    if clusters is not None:
        entry["clusters"] = list(clusters)
    if expires is not None:
        entry["expires"] = expires
    _token(Section(entry))
    lines: list[str] = []
    for key, value in entry.items():
        shown = value if isinstance(value, str) else f"[{', '.join(value)}]"
        lines.append(f"{'  - ' if not lines else '    '}{key}: {shown}\n")
    return MadeToken(token, "".join(lines))


def read_tokens(path: str) -> tuple[Token, ...]:
    """Raises ConfigError of one line that names the file and the entry; it never quotes a hash."""
    document = Section(read_document(path), file=path)
    listed = document.sections("tokens")
    document.finish()
    if not document.has("tokens"):
        raise ConfigError("has no tokens; an empty list (tokens: []) lets nobody in", file=path)
    tokens: list[Token] = []
    for section in listed:
        token = _token(section)
        if any(token.caller.name == other.caller.name for other in tokens):
            raise section.error("name", f"{quoted(token.caller.name)} is given twice")
        if any(token.digest == other.digest for other in tokens):
            raise section.error("sha256", "the same sha256 is given twice")
        tokens.append(token)
    return tuple(tokens)


class TokensFile:
    """The tokens in force. A file that is no good any more leaves them as they were; the log says so."""

    def __init__(self, path: str, *, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._watch = FileWatch(path)
        self._tokens = read_tokens(path)
        self._looked_at = time.monotonic()

    def caller(self, token: str) -> Caller | None:
        """None: no token of ours, or not any more."""
        self._look()
        digest, found = _digest(token), None
        for known in self._tokens:
            if hmac.compare_digest(known.digest, digest):
                found = known
        if found is None or (found.expires_at is not None and self._clock() >= found.expires_at):
            return None
        return found.caller

    def _look(self) -> None:
        now = time.monotonic()
        if now < self._looked_at + LOOK_SECONDS:
            return
        self._looked_at = now
        if not self._watch.changed():
            return
        try:
            self._tokens = read_tokens(self._path)
        except ConfigError as error:
            log.error("tokens stay as they were: the new file is no good", extra=fields(error=str(error)))  # noqa: TRY400 - the text says all
        else:
            log.info("tokens read anew", extra=fields(tokens=len(self._tokens)))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _token(section: Section) -> Token:
    name, sha256 = section.require("name", _NAME), section.require("sha256", _SHA256)
    scopes, clusters = section.take_each("scopes", _SCOPE), section.take_each("clusters", _CLUSTER)
    expires_at = section.take("expires", _EXPIRY)
    section.finish()
    if section.has("scopes") and not scopes:
        raise section.error("scopes", f"empty; expected a list of {', '.join(Scope)}")
    if section.has("clusters") and section.raw("clusters") is None:
        raise section.error("clusters", "empty; leave clusters out for all")
    held = frozenset(Scope) if Scope.ADMIN in scopes else frozenset({Scope.READ})
    visible = frozenset(clusters) if section.has("clusters") else None
    return Token(bytes.fromhex(sha256), Caller(name=name, scopes=held, clusters=visible), expires_at)
