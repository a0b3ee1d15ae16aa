"""What a cluster may have left on the machine."""

import os
from pathlib import Path

from tests.e2e.kubernetes import cgroups
from tests.e2e.kubernetes.node import KEPT


def find_leftovers(folder: Path, pid_namespace: Path) -> list[str]:
    """Of the run in this folder whose processes were in this namespace: `pid:[4026532000]`."""
    found = [f"process {pid}" for pid in _processes_in(pid_namespace)]
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    found += [f"mount {line}" for line in mounts if str(folder) in line]
    found += [f"cgroup {tree}" for tree in cgroups.trees()]
    found += [f"file {path}" for path in folder.iterdir() if path.name not in KEPT]
    return found


def _processes_in(pid_namespace: Path) -> list[str]:
    pids = []
    for entry in os.scandir("/proc"):
        try:
            if entry.name.isdigit() and Path(entry.path, "ns", "pid").readlink() == pid_namespace:
                pids.append(entry.name)
        except (FileNotFoundError, ProcessLookupError):
            pass  # it ended meanwhile
    return pids
