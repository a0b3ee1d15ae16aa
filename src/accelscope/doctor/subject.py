"""What is examined: the settings as the agent would take them, and the surroundings of this process."""

import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from accelscope.agent.settings import AgentSettings
from accelscope.config import Loaded
from accelscope.vendors.common.contract import Paths
from accelscope.vendors.declaration import VendorSetting

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
