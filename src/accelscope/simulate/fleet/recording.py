"""Recordings of the real agent on simulated nodes: made once, stored in the user's cache, played by fleets.

A recorded document belongs to one node at one time. A node of a fleet that plays it fills in its own name,
ids and pods, shifts the times, and continues the counters over the rounds of the recording.

`python -m accelscope.simulate.fleet.recording` makes one; its request is a JSON document on standard input.
"""

import fcntl
import gzip
import hashlib
import json
import logging
import math
import os
import re
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

import accelscope
from accelscope.simulate.description import read_node
from accelscope.simulate.faults import Fault
from accelscope.simulate.spec import IdlePodSpec, NodeSpec, ProcessSpec
from accelscope.simulate.vendor import CompileError, cache_folder

TAG = "~~tag~"
TAG_DIGITS = len(TAG)
MAX_NODES = 10**TAG_DIGITS
_MIN_SHORTENED = 12  # a shorter id would lose what distinguishes the devices of one node
_MIN_REPLACED = 6  # a shorter id may occur by chance in any text
# Spreads the tags of neighbouring nodes. Coprime to ten, so that tags are unique.
_SPREAD = 387_101

_NODE = "~node~"
_NOW = "~now~"
_SLOT = re.compile(r'"~(\d+)~"')
_ID_KEYS = frozenset({"uuid", "serial", "uid", "pod_uid", "container_id"})
_MOVING = frozenset(
    {"taken_at", "read_at", "last_success", "last_seen", "since"}
)  # times that change with each reading
_FIXED = frozenset({"started_at"})  # times that are the same in each round
_COUNTERS = frozenset(
    {
        "collections",
        "correctable",
        "count",
        "cpu_seconds",
        "cycles_total",
        "energy_joules",
        "idle_energy_joules",
        "idle_seconds",
        "overruns",
        "receive_bytes_total",
        "replays_total",
        "skips",
        "task_cycles_total",
        "transmit_bytes_total",
        "uncorrectable",
        "uptime_seconds",
        "writes",
    }
)
_MEMBER_KEYS = (
    "device", "partition", "namespace", "pod", "pod_uid", "container", "pid", "vendor", "source", "sink",
    "kind", "name", "code", "reason", "severity", "lifetime", "block", "index",
)  # fmt: skip


def tag_of(number: int) -> str:
    """The tag of the node with that number in the fleet."""
    return f"{number * _SPREAD % MAX_NODES:0{TAG_DIGITS}}"


@dataclass(slots=True)
class Identities:
    """Strings of a recording that differ on each node, with the form that contains the tag. Thread-safe."""

    ids: dict[str, str]  # replaced in any text
    pods: dict[str, str]  # names
    _known: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, documents: Iterable[Mapping[str, Any]]) -> "Identities":
        found = cls({}, {})
        for document in documents:
            found.add(document)
        return found

    def document(self) -> dict[str, dict[str, str]]:
        return {"ids": self.ids, "pods": self.pods}

    def add(self, document: Mapping[str, Any]) -> None:
        with self._lock:
            for pod in document.get("pods", ()):
                if pod["name"] not in self.pods:
                    # The tag replaces the random suffix of a controller's pod, or is appended.
                    head = "".join(pod["name"].rpartition("-")[:2]) if "owner_kind" in pod else ""
                    self.pods[pod["name"]] = _unused(head, f"{pod['name']}-", self.pods)
            new = set(_ids(document)) - self.ids.keys()
            if new:
                ids = dict(self.ids)
                for text in sorted(new):
                    # The tag replaces the last characters: six digits are valid in every vendor's ids.
                    ids[text] = _unused(text[:-TAG_DIGITS] if len(text) > _MIN_SHORTENED else "", text, ids)
                # Longest first, because an id may be part of another.
                self.ids = dict(sorted(ids.items(), key=lambda each: -len(each[0])))
                self._known.clear()

    def tagged(self, text: str) -> str:
        with self._lock:
            known = self._known.get(text)
            if known is None:
                known = self._known[text] = self._with_tags(text)
            return known

    def of_node(self, text: str, tag: str) -> str:
        """The text with the node's own ids, without caching it."""
        return self._with_tags(text).replace(TAG, tag)

    def _with_tags(self, text: str) -> str:
        ids = self.ids
        if text in ids:
            return ids[text]
        for plain, tagged in ids.items():
            if len(plain) >= _MIN_REPLACED and plain in text:
                text = text.replace(plain, tagged)
        return text

    def pod(self, name: str) -> str:
        return self.pods.get(name) or f"{name}-{TAG}"


def _unused(short: str, whole: str, taken: Mapping[str, str]) -> str:
    """The tag after the short text, or after the whole one if that form is taken."""
    form = short + TAG if short else whole + TAG
    while form in taken.values():
        form, whole = whole + TAG, f"{whole}0"
    return form


def _ids(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, member in value.items():
            if key in _ID_KEYS and isinstance(member, str):
                yield member
            else:
                yield from _ids(member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from _ids(member)


def counters(document: Mapping[str, Any]) -> dict[str, float]:
    """The counters by their path in the document; members of lists are named by their ids, not by
    position."""
    return {place: holder[key] for place, holder, key in _counters(document, "")}


def raised(document: dict[str, Any], by: Mapping[str, float]) -> dict[str, Any]:
    """Adds `by` to the counters of the document, in place, and rounds away the noise of float sums."""
    for place, holder, key in _counters(document, ""):
        value = holder[key] + by.get(place, 0)
        holder[key] = round(value, 6) if isinstance(value, float) else value
    return document


def growth_of(documents: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The growth from the first document to the last, of counters that never decrease: one that decreases is
    a duration that restarts, such as the idle time of a pod."""
    series: dict[str, list[float]] = {}
    for document in documents:
        for place, value in counters(document).items():
            series.setdefault(place, []).append(value)
    return {
        place: values[-1] - values[0]
        for place, values in series.items()
        if values[-1] > values[0] and values == sorted(values)
    }


def _counters(value: Any, place: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    if isinstance(value, dict):
        for key, member in value.items():
            if key in _COUNTERS:
                if isinstance(member, int | float):
                    yield f"{place}/{key}", value, key
            elif isinstance(member, dict | list | tuple):
                yield from _counters(member, f"{place}/{key}")
    elif isinstance(value, list | tuple):
        for member in value:
            if isinstance(member, dict):
                yield from _counters(member, f"{place}/{_name(member)}")


def _name(member: Mapping[str, Any]) -> str:
    """A name that is unique in the list."""
    return member.get("id") or "|".join(str(member[key]) for key in _MEMBER_KEYS if key in member)


class Template:
    """A document that is filled in for any number of nodes. Times before `settled` do not move."""

    def __init__(
        self, document: Mapping[str, Any], identities: Identities, *, settled: float = -math.inf
    ) -> None:
        self.taken_at: float = document["taken_at"]
        self._identities = identities
        self._settled = settled
        self._slots: list[tuple[float, bool]] = []  # recorded time, and whether it moves
        marked = self._marked(document, "", in_pods=False)
        text = json.dumps({**marked, "node": _NODE}, separators=(",", ":"))
        head, _, rest = text.partition(_NODE)
        pieces = _SLOT.split(rest)  # every second one is the number of a slot
        self._head = head.encode()
        # Split at the slots, then at the time of the reading, then at the tag: joining is faster than
        # replacing (110 against 190 microseconds for 115 KB).
        self._texts = [
            [[part.encode() for part in stretch.split(TAG)] for stretch in piece.split(f'"{_NOW}"')]
            for piece in pieces[::2]
        ]
        self._times = [self._slots[int(number)] for number in pieces[1::2]]

    def fill(self, name: str, tag: str, *, moving: float, fixed: float) -> bytes:
        """The document of the node `name`. `moving` and `fixed` are added to times of either kind."""
        mark, now = tag.encode(), b"%.3f" % (self.taken_at + moving)
        parts = [self._head, name.encode()]
        for text, slot in zip_longest(self._texts, self._times):
            parts.append(now.join([mark.join(stretch) for stretch in text]))
            if slot is not None:
                recorded, moves = slot
                parts.append(b"%r" % round(recorded + (moving if moves else fixed), 3))
        return b"".join(parts)

    def _marked(self, value: Any, key: str, *, in_pods: bool) -> Any:
        """The value with placeholders for everything that differs on each node."""
        if isinstance(value, Mapping):
            return {
                each: self._marked(member, each, in_pods=in_pods or each == "pods")
                for each, member in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._marked(member, key, in_pods=in_pods) for member in value]
        if isinstance(value, str):
            of_pod = key == "pod" or (in_pods and key == "name")
            return self._identities.pod(value) if of_pod else self._identities.tagged(value)
        if key in _MOVING and value == self.taken_at:
            return _NOW
        if value is not None and (key in _MOVING or key in _FIXED):
            self._slots.append((value, key in _MOVING and value >= self._settled))
            return f"~{len(self._slots) - 1}~"
        return value


_UNUSED_SECONDS = 14 * 86_400.0  # after which a recording is deleted
_MIN_LOOPED = 12  # readings
_SOURCES = ("*.py", "*.c", "*.h", "*.yaml")

Progress = Callable[[str], None]


class RecordingError(RuntimeError):
    pass


@dataclass(frozen=True, slots=True)
class RecordingRequest:
    description: str  # of the node
    seed: int
    interval_seconds: float
    readings: int = 24
    idle: tuple[
        tuple[str, float, float], ...
    ] = ()  # name of a process, and the times between which it is idle

    def spec(self) -> NodeSpec:
        return replace(read_node(self.description), seed=self.seed)

    def latest_change(self) -> float:
        """Simulated time of the last change that the description contains."""
        spec = self.spec()
        timed: list[Fault | ProcessSpec | IdlePodSpec] = [*spec.faults, *spec.processes, *spec.holders]
        times = [at for each in timed for at in (each.begin, each.until) if at is not None]
        return max((at for at in times if math.isfinite(at)), default=0.0)

    def begin(self) -> float:
        """Simulated time when the agent starts, early enough for the last change to be in the recording."""
        last = math.ceil(self.latest_change() / self.interval_seconds)
        return self.interval_seconds * max(0, last + 4 - self.readings)

    def loop_from(self) -> int:
        """The first frame that is repeated, at least one reading after the last change."""
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
    loop_from: int  # frames before this one are played once, the others are repeated
    growth: dict[str, float]  # of counters, in one round of the loop
    identities: Identities

    @property
    def annotated(self) -> bool:
        return bool(self.frames[0].annotations)


def recorded(requests: Iterable[RecordingRequest], progress: Progress | None = None) -> list[Recording]:
    """The recordings in the order of the requests, from the cache or made now, one for each CPU at a time.
    Raises RecordingError."""
    requests = list(requests)
    found = {request: _load(_file(request)) for request in requests}
    missing = [request for request, recording in found.items() if recording is None]
    if missing:
        if progress is not None:
            progress(f"making {len(missing)} recordings; later starts reuse them")
        _delete_unused()
        with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
            for number, name in enumerate(threads.map(_make, missing), 1):
                if progress is not None:
                    progress(f"recorded {name}: {number} of {len(missing)}")
    found |= {request: _load(_file(request)) for request in missing}
    recordings = [recording for request in requests if (recording := found[request]) is not None]
    if len(recordings) < len(requests):
        raise RecordingError(
            f"cannot read the recordings in {_folder()}; set XDG_CACHE_HOME to use another folder"
        )
    return recordings


def record(request: RecordingRequest) -> dict[str, Any]:
    """The document of a recording. One reading more than there are frames is made, because its counters give
    the growth of a round."""
    from accelscope.simulate.fleet.agent_session import (  # noqa: PLC0415 - imports the agent
        AgentSession,
        node_annotations,
    )

    begin, interval, loop_from = request.begin(), request.interval_seconds, request.loop_from()
    frames = max(request.readings, loop_from + _MIN_LOOPED)
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
    """Runs in a process of its own, which ends the agent's threads and unloads its libraries."""
    target, name = _file(request), request.spec().name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be making it
            if not target.exists():
                command = [sys.executable, "-m", "accelscope.simulate.fleet.recording", str(target)]
                text = json.dumps(asdict(request))
                result = subprocess.run(  # noqa: S603 - this module
                    command, input=text, text=True, capture_output=True, check=False
                )
                if result.returncode:
                    last = result.stderr.strip().splitlines()[-1:] or ["no message"]
                    raise RecordingError(f"cannot record {name}: {last[0]}")
        target.with_suffix(".lock").unlink(missing_ok=True)
    except OSError as error:
        raise RecordingError(
            f"cannot store recordings in {target.parent}: {error.strerror};"
            " set XDG_CACHE_HOME to use another folder"
        ) from None
    return name


def _load(file: Path) -> Recording | None:
    """None if there is none. A damaged file, such as after a full disk, is deleted."""
    if not file.exists():
        return None
    with suppress(OSError):  # a cache that is read-only can still be used
        os.utime(file)
    try:
        with gzip.open(file, "rt", encoding="utf-8") as content:
            document = json.load(content)
        frames = tuple(Frame(at, text, annotations) for at, text, annotations in document["frames"])
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
    """Also deletes locks and unfinished files of interrupted starts."""
    for pattern in ("*.json.gz", "*.lock", ".*.json.gz.*"):
        for file in _folder().glob(pattern):
            with suppress(OSError):
                if time.time() - file.stat().st_mtime > _UNUSED_SECONDS:
                    file.unlink()


@cache
def _fingerprint() -> str:
    """A hash of the package's sources: a changed agent needs new recordings."""
    folder, digest = Path(accelscope.__file__).parent, hashlib.sha256()
    for file in sorted(file for pattern in _SOURCES for file in folder.rglob(pattern)):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def main() -> int:
    logging.disable(logging.WARNING)  # simulated faults would be logged
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
