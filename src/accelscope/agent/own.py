"""What the agent uses itself: CPU, memory, threads, files."""

import os
import threading
from dataclasses import replace
from pathlib import Path

from accelscope.model import AgentState

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_SELF = Path("/proc/self")  # the agent's own, whatever the setting for the node's /proc says


def with_usage(state: AgentState) -> AgentState:
    times = os.times()
    return replace(
        state,
        cpu_seconds=round(times.user + times.system + times.children_user + times.children_system, 3),
        memory_bytes=_resident_bytes(),
        threads=threading.active_count(),
        open_files=_open_files(),
    )


def _resident_bytes() -> int | None:
    try:
        return int((_SELF / "statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return None


def _open_files() -> int | None:
    try:
        return sum(1 for _ in (_SELF / "fd").iterdir()) - 1  # without the one that lists them
    except OSError:
        return None
