"""A check as data."""

import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from accelscope.agent.settings import AgentSettings
from accelscope.config import Loaded
from accelscope.vendors.common.contract import Paths
from accelscope.vendors.declaration import VendorSetting

# --- finding ------------------------------------------------------------
# What a check says: how bad it is, what was found, and the next step.


class Severity(StrEnum):
    """In rising order. A note is something to know, not something to mend."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    name: str
    severity: Severity
    found: str
    advice: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)  # plain values, for the JSON form
    hung: bool = False  # a call was left behind that may never come back


def ok(name: str, found: str, **details: Any) -> Finding:
    return Finding(name=name, severity=Severity.OK, found=found, details=details)


def note(name: str, found: str, advice: str | None = None, **details: Any) -> Finding:
    return Finding(name=name, severity=Severity.NOTE, found=found, advice=advice, details=details)


def warning(name: str, found: str, advice: str, **details: Any) -> Finding:
    return Finding(name=name, severity=Severity.WARNING, found=found, advice=advice, details=details)


def error(name: str, found: str, advice: str, **details: Any) -> Finding:
    return Finding(name=name, severity=Severity.ERROR, found=found, advice=advice, details=details)


def counted(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"


def sentence(parts: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


# --- subject ------------------------------------------------------------
# What is examined: the settings as the agent would take them, and the surroundings of this process.


# What container runtimes leave behind: files under the root, and words in the path of a cgroup.
_MARKS = (".dockerenv", "run/.containerenv")
_CGROUP_WORDS = ("kubepods", "docker", "containerd", "libpod", "lxc")


@dataclass(frozen=True, slots=True)
class User:
    uid: int = field(default_factory=os.geteuid)
    groups: frozenset[int] = field(default_factory=lambda: frozenset({os.getegid(), *os.getgroups()}))

    @property
    def is_root(self) -> bool:
        return self.uid == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """`root` is this process's own, where container runtimes leave their marks; the node's folders are
    settings."""

    loaded: Loaded[AgentSettings]
    environ: Mapping[str, str]
    root: Path = Path("/")
    user: User = field(default_factory=User)
    clock: Callable[[], float] = time.time

    @property
    def settings(self) -> AgentSettings:
        return self.loaded.settings

    @property
    def paths(self) -> Paths:
        return self.settings.paths

    def value(self, setting: VendorSetting) -> str:
        return setting.of(self.settings.vendor_settings)

    @property
    def node(self) -> str:
        return self.settings.node_name or socket.gethostname()

    @property
    def in_pod(self) -> bool:
        return "KUBERNETES_SERVICE_HOST" in self.environ  # the kubelet sets it in every container

    @property
    def container_mark(self) -> str | None:
        """What shows that this process is in a container, or None."""
        if self.in_pod:
            return "KUBERNETES_SERVICE_HOST is set"
        for mark in _MARKS:
            if (self.root / mark).exists():
                return f"/{mark} exists"
        if self.environ.get("container"):
            return f"container={self.environ['container']} is set"
        try:
            cgroup = (self.paths.proc / "self/cgroup").read_text(errors="replace")
        except OSError:
            return None
        word = next((word for word in _CGROUP_WORDS if word in cgroup), None)
        return f"its cgroup is one of {word}" if word else None

    @property
    def in_container(self) -> bool:
        return self.container_mark is not None


_USUAL_SECONDS = 5.0
_FILES_HANG = (
    "A file or folder does not answer, as on a network file system that is gone or in a driver that hangs: "
    "see `dmesg -T | tail` for what."
)


def usual_seconds(_: AgentSettings) -> float:
    return _USUAL_SECONDS


@dataclass(frozen=True, slots=True)
class Check:
    """`look` may find several things; what it has found when its time is up still counts."""

    name: str
    look: Callable[[Subject], Iterable[Finding]]
    seconds: Callable[[AgentSettings], float] = usual_seconds
    if_it_hangs: str = _FILES_HANG  # advice
    unless_hung: str | None = None  # name of a check of the same area: where that hung, this would too


@dataclass(frozen=True, slots=True)
class Area:
    name: str
    checks: tuple[Check, ...]
