"""Recordings of the real agent on simulated nodes: made once, kept in the user's cache, played by fleets.

`python -m accelscope.simulate.fleet.recording` makes one; its request is a JSON document on standard input.
"""

import fcntl
import gzip
import hashlib
import json
import logging
import math
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import accelscope
from accelscope.simulate.compiler import CompileError, cache_folder
from accelscope.simulate.description import read_node
from accelscope.simulate.faults import Fault
from accelscope.simulate.fleet.template import Identities, growth_of
from accelscope.simulate.spec import HolderSpec, NodeSpec, ProcessSpec

_UNUSED_SECONDS = 14 * 86_400.0  # after which a recording is deleted
_LEAST_LOOPED = 12  # readings
_SOURCES = ("*.py", "*.c", "*.h", "*.yaml")

Progress = Callable[[str], None]


class RecordingError(RuntimeError):
    """A recording could not be made."""


@dataclass(frozen=True, slots=True)
class RecordingRequest:
    description: str  # of the node
    seed: int
    interval_seconds: float
    readings: int = 24
    idle: tuple[tuple[str, float, float], ...] = ()  # names of processes, and when they do nothing

    def spec(self) -> NodeSpec:
        return replace(read_node(self.description), seed=self.seed)

    def latest_change(self) -> float:
        """Simulated time of the last change that the description contains."""
        spec = self.spec()
        timed: list[Fault | ProcessSpec | HolderSpec] = [*spec.faults, *spec.processes, *spec.holders]
        times = [at for each in timed for at in (each.begin, each.until) if at is not None]
        return max((at for at in times if math.isfinite(at)), default=0.0)

    def begin(self) -> float:
        """Simulated time at which the agent starts: the last change is in the recording."""
        last = math.ceil(self.latest_change() / self.interval_seconds)
        return self.interval_seconds * max(0, last + 4 - self.readings)

    def loop_from(self) -> int:
        """The first frame that is repeated. The agent has seen every change at least one reading before."""
        return max(0, math.ceil((self.latest_change() - self.begin()) / self.interval_seconds))

    def key(self) -> str:
        return hashlib.sha256(f"{_fingerprint()}{json.dumps(asdict(self))}".encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Frame:
    at: float  # simulated time
    text: str  # the snapshot's document
    annotations: dict[str, str]

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.text)
        return document


@dataclass(frozen=True, slots=True)
class Recording:
    frames: tuple[Frame, ...]
    loop_from: int  # frames before this one are played once, the others again and again
    growth: dict[str, float]  # of counters, from one round of the loop to the next
    identities: Identities

    @property
    def annotated(self) -> bool:
        return bool(self.frames[0].annotations)


def recorded(requests: Iterable[RecordingRequest], progress: Progress | None = None) -> list[Recording]:
    """In the order of the requests: from the cache, or made now, as many at a time as there are CPUs.
    Raises RecordingError."""
    requests = list(requests)
    found = {request: _load(_file(request)) for request in requests}
    missing = [request for request, recording in found.items() if recording is None]
    if missing:
        if progress is not None:
            progress(f"making {len(missing)} recordings, once: later starts use them again")
        _delete_unused()
        with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
            for number, name in enumerate(threads.map(_make, missing), 1):
                if progress is not None:
                    progress(f"recorded {name}: {number} of {len(missing)}")
    found |= {request: _load(_file(request)) for request in missing}
    recordings = [recording for request in requests if (recording := found[request]) is not None]
    if len(recordings) < len(requests):
        raise RecordingError(
            f"recordings in {_folder()} cannot be read; XDG_CACHE_HOME chooses another place"
        )
    return recordings


def record(request: RecordingRequest) -> dict[str, Any]:
    """The document of a recording. One more reading than there are frames: it is where the next round begins,
    and its counters give the growth of a round."""
    from accelscope.simulate.fleet.agent_session import (  # noqa: PLC0415 - imports the agent
        AgentSession,
        node_annotations,
    )

    begin, interval, loop_from = request.begin(), request.interval_seconds, request.loop_from()
    frames = max(request.readings, loop_from + _LEAST_LOOPED)
    idle = {name: ((since, until),) for name, since, until in request.idle}
    session = AgentSession(request.spec(), interval, begin, idle=idle)
    try:
        times = [begin + interval * number for number in range(1, frames + 2)]
        readings = [session.collect(at) for at in times]
    finally:
        session.close()
    documents = [reading.document() for reading in readings]
    return {
        "frames": [
            [reading.at, json.dumps(document, separators=(",", ":")), node_annotations(reading.snapshot)]
            for reading, document in zip(readings[:-1], documents, strict=False)
        ],
        "loop_from": loop_from,
        "growth": growth_of(documents[loop_from:]),
        "identities": Identities.of(documents).document(),
    }


def _make(request: RecordingRequest) -> str:
    """In a process of its own, since the agent's threads and libraries end with it."""
    target, name = _file(request), request.spec().name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # somebody else may be making it
            if not target.exists():
                command = [sys.executable, "-m", "accelscope.simulate.fleet.recording", str(target)]
                text = json.dumps(asdict(request))
                result = subprocess.run(  # noqa: S603 - this module
                    command, input=text, text=True, capture_output=True, check=False
                )
                if result.returncode:
                    last = result.stderr.strip().splitlines()[-1:] or ["no message"]
                    raise RecordingError(f"the recording of {name} could not be made: {last[0]}")
        target.with_suffix(".lock").unlink(missing_ok=True)
    except OSError as error:
        raise RecordingError(
            f"{target.parent}, where recordings are kept, cannot be used: {error.strerror};"
            " XDG_CACHE_HOME chooses another place"
        ) from None
    return name


def _load(file: Path) -> Recording | None:
    """None if there is none. A damaged one, such as after a full disk, is deleted."""
    if not file.exists():
        return None
    with suppress(OSError):  # a cache that is read-only can still be used
        os.utime(file)
    try:
        with gzip.open(file, "rt", encoding="utf-8") as text:
            document = json.load(text)
        frames = tuple(Frame(at, told, annotations) for at, told, annotations in document["frames"])
        identities = Identities(**document["identities"])
        return Recording(frames, document["loop_from"], document["growth"], identities)
    except (OSError, EOFError, ValueError, KeyError, TypeError, zlib.error):
        with suppress(OSError):
            file.unlink()
        return None


def _folder() -> Path:
    return cache_folder() / "recordings"


def _file(request: RecordingRequest) -> Path:
    return _folder() / f"{request.key()}.json.gz"


def _delete_unused() -> None:
    """Also locks and unfinished files of starts that were interrupted."""
    for pattern in ("*.json.gz", "*.lock", ".*.json.gz.*"):
        for file in _folder().glob(pattern):
            with suppress(OSError):
                if time.time() - file.stat().st_mtime > _UNUSED_SECONDS:
                    file.unlink()


@cache
def _fingerprint() -> str:
    """Of the package's sources: another agent makes other recordings."""
    folder, digest = Path(accelscope.__file__).parent, hashlib.sha256()
    for file in sorted(file for pattern in _SOURCES for file in folder.rglob(pattern)):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def main() -> int:
    logging.disable(logging.WARNING)  # a simulated fault is no news
    request = RecordingRequest(**json.load(sys.stdin))
    target = Path(sys.argv[1])
    scratch = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with gzip.open(scratch, "wt", encoding="utf-8", compresslevel=1) as text:
            json.dump(record(request), text)
        scratch.replace(target)
    except CompileError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        scratch.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
