"""Static tokens: a file that holds their hashes, so that reading the file lets nobody in.

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
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from accelscope.config import ConfigError
from accelscope.config.kind import Node, quoted
from accelscope.config.log import fields
from accelscope.config.settingsfile import read_settings_file
from accelscope.filewatch import FileWatch
from accelscope.fleet.api.access.caller import Caller, Scope
from accelscope.fleet.clusters.entry import CLUSTER_ID
from accelscope.fleet.clusters.section import read_sections

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0  # between two looks at the file
_KEYS = ("name", "sha256", "scopes", "clusters", "expires")
_NAME = re.compile(r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


class _UnknownKeyError(ConfigError):
    def __init__(self, key: str) -> None:
        super().__init__(f"unknown key {quoted(key)}; allowed: {', '.join(_KEYS)}")
        self.key = key


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
    entry: dict[str, Node] = {
        "name": name,
        "sha256": _digest(token).hex(),
        "scopes": [scope.value for scope in scopes],
    }
    if clusters is not None:
        entry["clusters"] = list(clusters)
    if expires is not None:
        entry["expires"] = expires
    _token(entry)
    lines: list[str] = []
    for key, value in entry.items():
        shown = value if isinstance(value, str) else f"[{', '.join(map(str, value or ()))}]"
        lines.append(f"{'  - ' if not lines else '    '}{key}: {shown}\n")
    return MadeToken(token, "".join(lines))


def read_tokens(path: str) -> tuple[Token, ...]:
    """Raises ConfigError of one line that names the file and the entry; it never quotes a hash."""
    entries = read_settings_file(path)
    for key, entry in entries.items():
        if key != "tokens":
            raise ConfigError(f"{path}:{entry.line}: unknown key {quoted(key)}; allowed: tokens")
    if "tokens" not in entries:
        raise ConfigError(f"{path}: has no tokens; an empty list (tokens: []) lets nobody in")
    line, nodes = entries["tokens"].line, entries["tokens"].node
    if not isinstance(nodes, Sequence) or isinstance(nodes, str):
        raise ConfigError(f"{path}:{line}: tokens must be a list")
    tokens: list[Token] = []
    for number, node in enumerate(nodes):
        where = f"{path}:{line}: tokens[{number}]"
        try:
            token = _token(node)
        except _UnknownKeyError as error:
            section = next(islice(read_sections(path).sections("tokens"), number, None))
            section.fail(error.key, f"unknown key; allowed: {', '.join(_KEYS)}")
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None
        if any(token.caller.name == other.caller.name for other in tokens):
            raise ConfigError(f"{where}: the name {quoted(token.caller.name)} is given twice")
        if any(token.digest == other.digest for other in tokens):
            raise ConfigError(f"{where}: the same sha256 is given twice")
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


def _token(node: Node) -> Token:
    if not isinstance(node, Mapping):
        raise ConfigError("must be a mapping with name and sha256")
    for key in node:
        if key not in _KEYS:
            raise _UnknownKeyError(key)
    name, sha256 = node.get("name"), node.get("sha256")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError("name must be letters, digits, - _ and . (at most 63)")
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256.lower()):
        raise ConfigError("sha256 must be 64 hexadecimal digits: the SHA-256 of the token")
    scopes = _texts(node, "scopes") if "scopes" in node else [Scope.READ.value]
    if not scopes or any(scope not in tuple(Scope) for scope in scopes):
        raise ConfigError(f"scopes must be a list of {', '.join(Scope)}")
    clusters = frozenset(_texts(node, "clusters")) if "clusters" in node else None
    for cluster in sorted(clusters or ()):
        if not re.fullmatch(CLUSTER_ID, cluster, re.ASCII):
            raise ConfigError(f"clusters: {quoted(cluster)} is no cluster's id; leave clusters out for all")
    held = frozenset(Scope) if Scope.ADMIN in scopes else frozenset({Scope.READ})
    return Token(
        bytes.fromhex(sha256), Caller(name=name, scopes=held, clusters=clusters), _expiry(node.get("expires"))
    )


def _texts(node: Mapping[str, Node], key: str) -> list[str]:
    value = node[key]
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ConfigError(f"{key} must be a list")
    texts = [item for item in value if isinstance(item, str) and item]
    if len(texts) != len(value):
        raise ConfigError(f"{key} must be a list of words")
    return texts


def _expiry(node: Node) -> float | None:
    if node is None:
        return None
    try:
        moment = datetime.fromisoformat(str(node))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ConfigError("expires must be a time with its zone, such as 2027-01-01T00:00:00Z")
    return moment.timestamp()
