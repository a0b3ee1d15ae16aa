"""What processes hold and run through the graphics side of the driver, from /proc/<pid>/fdinfo.

Which processes have a GPU's device file open is told by the links in /proc/<pid>/fd, without asking the
driver; what it says of such a file is read with the device, since that may hang with it. Looking through all
processes costs much, so those without such a file are looked at again only now and then.
"""

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from accelscope.vendors.common.files import entries, read_text

_NODE = re.compile(r"(?:.*/)?dri/((?:renderD|card)[0-9]{1,6})", re.ASCII)
_PID = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)
_LINE = re.compile(r"^(drm-[a-z0-9-]{1,40}):[ \t]*([^\n]{0,100}?)[ \t]*$", re.MULTILINE)
_AMOUNT = re.compile(r"([0-9]{1,20})(?:\s+([KMG]iB))?", re.ASCII)
_SPENT = re.compile(r"([0-9]{1,20}) ns", re.ASCII)
_BYTES = {None: 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_OTHERS_EVERY_SECONDS = 30.0
_MOST_FILES = 4096  # of one process; browsers have hundreds


@dataclass(frozen=True, slots=True)
class OpenFile:
    pid: int
    descriptor: str


@dataclass(frozen=True, slots=True)
class Client:
    """One opening of a GPU. Copies of it, in the same process or in a child, are the same client."""

    id: str
    memory_bytes: int | None
    # Nanoseconds that its work ran on an engine; None: the driver tells nothing of that engine.
    graphics_ns: int | None
    compute_ns: int | None
    encoder_ns: int | None
    decoder_ns: int | None

    @property
    def idle(self) -> bool:
        """Neither holds memory nor ever ran anything, as desktops and monitors do."""
        ran = self.graphics_ns or self.compute_ns or self.encoder_ns or self.decoder_ns
        return not self.memory_bytes and not ran


class OpenFiles:
    """Who has device files of GPUs open."""

    def __init__(self, proc: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._proc = str(proc)
        self._monotonic = monotonic
        self._looked_at: dict[int, float] = {}
        self._holders: set[int] = set()
        self.refused = 0  # processes that may not be looked at

    def find(self) -> Mapping[str, tuple[OpenFile, ...]]:
        """By the name of the device file, renderD128."""
        now = self._monotonic()
        found: dict[str, list[OpenFile]] = {}
        looked_at: dict[int, float] = {}
        holders: set[int] = set()
        self.refused = 0
        for name in entries(self._proc):
            if not _PID.fullmatch(name):
                continue
            pid = int(name)
            last = self._looked_at.get(pid)
            if last is not None and pid not in self._holders and now - last < _OTHERS_EVERY_SECONDS:
                looked_at[pid] = last
                continue
            looked_at[pid] = now
            for node, file in self._open_by(pid):
                holders.add(pid)
                found.setdefault(node, []).append(file)
        self._looked_at, self._holders = looked_at, holders
        return {node: tuple(files) for node, files in found.items()}

    def client(self, file: OpenFile) -> Client | None:
        """What the driver says of an open file; None: it was closed meanwhile. May hang."""
        try:
            return parse_fdinfo(read_text(f"{self._proc}/{file.pid}/fdinfo/{file.descriptor}"))
        except OSError:
            return None

    def _open_by(self, pid: int) -> list[tuple[str, OpenFile]]:
        folder = f"{self._proc}/{pid}/fd"
        found = []
        try:
            for descriptor in os.listdir(folder)[:_MOST_FILES]:  # noqa: PTH208 - thousands of them
                match = _NODE.fullmatch(_target(f"{folder}/{descriptor}"))
                if match is not None:
                    found.append((match[1], OpenFile(pid, descriptor)))
        except PermissionError:
            self.refused += 1
        except OSError:
            return found  # it ended meanwhile
        return found


def parse_fdinfo(text: str) -> Client | None:
    """None: not a file of this driver."""
    told = dict(_LINE.findall(text))
    client = told.get("drm-client-id", "")
    if told.get("drm-driver") != "amdgpu" or not client.isdecimal():
        return None
    memory = (told[key] for key in ("drm-memory-vram", "drm-resident-vram", "drm-total-vram") if key in told)
    return Client(
        id=client,
        memory_bytes=next((amount for amount in map(_bytes, memory) if amount is not None), None),
        graphics_ns=_spent(told, "drm-engine-gfx"),
        compute_ns=_spent(told, "drm-engine-compute"),
        encoder_ns=_spent(told, "drm-engine-enc"),
        decoder_ns=_spent(told, "drm-engine-dec"),
    )


def _bytes(text: str) -> int | None:
    match = _AMOUNT.fullmatch(text)
    return int(match[1]) * _BYTES[match[2]] if match else None


def _spent(told: Mapping[str, str], key: str) -> int | None:
    match = _SPENT.fullmatch(told.get(key, ""))
    return int(match[1]) if match else None


def _target(link: str) -> str:
    try:
        return os.readlink(link)  # noqa: PTH115 - thousands of them
    except OSError:
        return ""
