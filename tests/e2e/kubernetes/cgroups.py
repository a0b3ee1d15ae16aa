"""The control groups of pods. They are the kernel's, not a namespace's: so they outlive the node, and a
machine has one cluster at a time."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from tests.waiting import wait_until

ROOT = Path("/sys/fs/cgroup")

_OWN = ("kubepods", "k8s.io")  # the kubelet's, and those of what containerd starts by itself
_PROBE = "accelscope-e2e-probe"
_PATIENCE_SECONDS = 30.0


def trees() -> list[Path]:
    """Those that are there: one for each hierarchy with cgroup v1, one in all with v2."""
    return [path for name in _OWN for path in (ROOT / name, *ROOT.glob(f"*/{name}")) if path.is_dir()]


def processes(container_id: str = "") -> set[int]:
    """Of pods, whichever kubelet made them; of one container, if its id is given."""
    found: set[int] = set()
    for tree in trees():
        for folder in _depth_first(tree):
            if container_id not in folder.name:
                continue
            with contextlib.suppress(OSError):
                found.update(map(int, (folder / "cgroup.procs").read_text().split()))
    return found


def writable() -> bool:
    """By trying: a container may have them read-only."""
    hierarchies = [ROOT] if (ROOT / "cgroup.procs").exists() else list(ROOT.glob("memory"))
    try:
        for hierarchy in hierarchies:
            (hierarchy / _PROBE).mkdir(exist_ok=True)
            (hierarchy / _PROBE).rmdir()
    except OSError:
        return False
    return bool(hierarchies)


def remove_left_behind() -> None:
    """The kernel refuses to remove one that holds a process, so that nobody else's can be harmed."""
    wait_until(_removed, "the pods' cgroups are gone", _PATIENCE_SECONDS)


def _removed() -> bool:
    """A group stays busy until the last of its processes is buried."""
    for tree in trees():
        for folder in _depth_first(tree):
            with contextlib.suppress(OSError):
                folder.rmdir()
    return not trees()


def _depth_first(tree: Path) -> Iterator[Path]:
    for folder, _, _ in os.walk(tree, topdown=False):
        yield Path(folder)
