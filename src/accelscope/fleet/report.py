"""What a source says of a node: one type for all of them, so that nobody else asks where it came from."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from accelscope.model import Snapshot


class SourceKind(StrEnum):
    """In order of precedence: of two that see the same vendor's devices on a node, the first one counts while
    it is fresh."""

    AGENTS = "agents"
    EXEC = "exec"
    ANNOTATIONS = "annotations"
    PROMETHEUS = "prometheus"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """A reading. What the source does not know of a node is absent in the snapshot."""

    node: str
    source: SourceKind
    taken_at: float  # when it was read there, by this process's clock, seconds since the epoch
    snapshot: Snapshot
    document: bytes = b""  # the snapshot as the agent sent it, gzip; empty: there is none
    remark: str | None = None  # what of it had to be left out, for people


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUnchanged:
    """The node answered that its last reading is still its last."""

    node: str
    source: SourceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFailure:
    """A node that should have answered and did not. What was known of it stays and ages."""

    node: str
    source: SourceKind
    reason: str  # a word that serves as a metric label: timeout, unreachable, forbidden, bad_answer ...
    text: str  # one line for people; never holds a secret
    incompatible: bool = False  # it answered in a schema that this version cannot read; `text` names both


Saying = NodeReport | NodeUnchanged | NodeFailure
Take = Callable[[Saying], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOutcome:
    """How one refresh of a source went. `reason` and `text` are absent when all went well; a source may be up
    although some of its nodes failed."""

    up: bool
    expected: int = 0  # nodes that it should have heard of
    answered: int = 0
    reason: str | None = None
    text: str | None = None


class Source(Protocol):
    """One way to see one cluster. `refresh` hands over each node as soon as it has it, never raises for what
    the cluster does, and ends within its own deadlines."""

    kind: SourceKind

    async def refresh(self, take: Take) -> SourceOutcome: ...

    def sees_accelerators(self) -> bool: ...

    async def close(self) -> None: ...
