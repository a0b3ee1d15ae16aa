"""The parts of an examination: findings, the subject, checks and areas."""

import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from accelscope.agent.settings import AgentSettings
from accelscope.config import LoadedSettings
from accelscope.vendors.common.contract import Paths
from accelscope.vendors.declaration import VendorSetting


class Severity(StrEnum):
    """In rising order. A note is information and needs no action."""

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
    details: Mapping[str, Any] = field(default_factory=dict)  # plain values, for the JSON report
    hung: bool = False  # a call was abandoned and may never return


def ok(name: str, found: str, **details: Any) -> Finding:
    return Finding(name=name, severity=Severity.OK, found=found, details=details)


def note(name: str, found: str, advice: str | None = None, **details: Any) -> Finding:
    return Finding(name=name, severity=Severity.NOTE, found=found, advice=advice, details=details)


def warning(name: str, found: str, advice: str, **details: Any) -> Finding:
    return Finding(name=name, severity=Severity.WARNING, found=found, advice=advice, details=details)


def error(name: str, found: str, advice: str, **details: Any) -> Finding:
    return Finding(name=name, severity=Severity.ERROR, found=found, advice=advice, details=details)


def pluralize(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"


def join_words(parts: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


# Signs of a container runtime: files below the root, and words in the path of a cgroup.
_CONTAINER_FILES = (".dockerenv", "run/.containerenv")
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
    """The agent's settings and the environment of this process.

    `root` is this process's own root folder; the paths of the node's folders are settings.
    """

    loaded: LoadedSettings[AgentSettings]
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
    def container_evidence(self) -> str | None:
        """Why this process is assumed to run in a container; None if it is not."""
        if self.in_pod:
            return "KUBERNETES_SERVICE_HOST is set"
        for file in _CONTAINER_FILES:
            if (self.root / file).exists():
                return f"/{file} exists"
        if self.environ.get("container"):
            return f"container={self.environ['container']} is set"
        try:
            cgroup = (self.paths.proc / "self/cgroup").read_text(errors="replace")
        except OSError:
            return None
        word = next((word for word in _CGROUP_WORDS if word in cgroup), None)
        return f"the cgroup path contains {word}" if word else None

    @property
    def in_container(self) -> bool:
        return self.container_evidence is not None


_FILES_HANG = (
    "Reading a file or folder hangs. Usual causes are a lost network file system or a hanging driver: see "
    "`dmesg -T | tail`."
)


def _default_seconds(_: AgentSettings) -> float:
    return 5.0


@dataclass(frozen=True, slots=True)
class Check:
    """`look` may return several findings. Those made before the deadline are kept."""

    name: str
    look: Callable[[Subject], Iterable[Finding]]
    seconds: Callable[[AgentSettings], float] = _default_seconds
    timeout_advice: str = _FILES_HANG
    skip_if_hung: str | None = None  # name of another check of the area: if that hung, so would this one


@dataclass(frozen=True, slots=True)
class Area:
    name: str
    checks: tuple[Check, ...]
