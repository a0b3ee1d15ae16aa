"""What a cluster may have left on the machine."""

import os
from pathlib import Path

from tests.e2e.kubernetes import cgroups
from tests.e2e.kubernetes.node import KEPT


def find_leftovers(folder: Path, pid_namespace: Path) -> list[str]:
    """Of the run in this folder whose processes were in this namespace: `pid:[4026532000]`."""
    found = [f"process {pid}" for pid in processes_in(pid_namespace)]
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    found += [f"mount {line}" for line in mounts if str(folder) in line]
    found += [f"cgroup {tree}" for tree in cgroups.trees()]
    found += [f"file {path}" for path in folder.iterdir() if path.name not in KEPT]
    return found


def processes_in(pid_namespace: Path) -> list[int]:
    """The machine's numbers of those that can be looked at; one that cannot was not started by us."""
    pids = []
    for entry in os.scandir("/proc"):
        try:
            if entry.name.isdigit() and Path(entry.path, "ns", "pid").readlink() == pid_namespace:
                pids.append(int(entry.name))
        except OSError:
            continue  # it ended meanwhile, or belongs to somebody mightier
    return pids
