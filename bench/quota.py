"""A CPU quota as a container's limit sets it: a control group, of version 2 or 1."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

_PERIOD_MICROSECONDS = 100_000  # what the kubelet sets


class NoQuota(Exception):
    """Why no quota can be set here, in one line."""


@contextlib.contextmanager
def cpu_quota(millicpu: int) -> Iterator[tuple[str, ...]]:
    """What to put before a command so that it, and all that it starts, runs in a group of its own with this
    quota. Raises NoQuota."""
    group, limit = _place()
    microseconds = millicpu * _PERIOD_MICROSECONDS // 1000
    try:
        group.mkdir()
    except OSError as error:
        raise NoQuota(f"no control group can be made: {error.strerror}") from None
    try:
        try:
            if limit == "cpu.max":
                (group / limit).write_text(f"{microseconds} {_PERIOD_MICROSECONDS}")
            else:
                (group / "cpu.cfs_period_us").write_text(str(_PERIOD_MICROSECONDS))
                (group / limit).write_text(str(microseconds))
        except OSError as error:
            raise NoQuota(f"{limit} cannot be written: {error.strerror}") from None
        yield "/bin/sh", "-c", f'echo $$ >"{group}/cgroup.procs" && exec "$@"', "sh"
    finally:
        _remove(group)


def _place() -> tuple[Path, str]:
    """A group that is not there yet, below one that hands its CPU controller on; the file of its limit."""
    name = f"accelscope-bench-{os.getpid()}"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, kind, options, *_ = line.split()
        root = Path(mount)
        if kind == "cgroup2" and "cpu" in _words(root / "cgroup.subtree_control"):
            return root / name, "cpu.max"
        if kind == "cgroup" and "cpu" in options.split(","):
            return root / name, "cpu.cfs_quota_us"
    raise NoQuota("no control group of this machine limits CPU time")


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _remove(group: Path) -> None:
    """Its processes have been ended; the kernel may need a moment to let go of them."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.05)
    raise RuntimeError(f"{group} cannot be removed: something still runs in it")
