"""A simulated node: a folder that looks like a machine with its drivers, kept up to date as time goes on.

lib/ bin/           the vendors' libraries and tools
proc/ sys/ dev/     what the kernel shows
opt/                what else the vendors' drivers install
state/              what libraries and tools read; written whole, never edited by hand
node.yaml           the description that the node was made from
faults.yaml         what is wrong just now: may be edited while the node runs
"""

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Lock
from typing import Any, TypeVar

from accelscope.config.document import read_each
from accelscope.simulate.compiler import built, cache_folder
from accelscope.simulate.description import read_fault, read_node, read_yaml
from accelscope.simulate.faults import Fault, FaultLog, fault_document
from accelscope.simulate.folder import Content, KeptFolder, Tree, copy_program, write_text
from accelscope.simulate.pods import homes, pods_of
from accelscope.simulate.section import Description, DescriptionError, Options
from accelscope.simulate.spec import NodeSpec, Pauses
from accelscope.simulate.vendor import (
    InstalledPart,
    Instant,
    Site,
    VendorDriver,
    simulated_names,
    simulated_vendor,
)
from accelscope.simulate.workload import host_loads, paused, place, proc_files, stat_of

# --- installation ------------------------------------------------------------
# The native parts of a node's drivers, in its folder.


_FOLDERS = ("bin", "lib")


class Installation:
    """All parts of one vendor's driver."""

    def __init__(self, folder: Path, cache: Path, parts: Iterable[InstalledPart]) -> None:
        self._folder = folder
        self._cache = cache
        self._parts = tuple(parts)

    def build(self) -> None:
        """Raises CompileError."""
        for part in self._parts:
            self._install(part)

    def bring_to(self, faults: Sequence[Fault]) -> None:
        """Take parts away, or put them back, as the faults of the moment say."""
        for part in self._parts:
            target = self._folder / part.path
            if any(map(part.taken_away_by, faults)):
                target.unlink(missing_ok=True)
            elif not target.exists():
                self._install(part)

    def _install(self, part: InstalledPart) -> None:
        """A copy, not a link: a part finds its state from where it lies, and the loader takes two links to
        one file for the same library."""
        target = self._folder / part.path
        source = built(part.part, self._cache)
        if not target.exists() or target.read_bytes() != source.read_bytes():
            copy_program(source, target)

    @property
    def paths(self) -> frozenset[Path]:
        return frozenset(self._folder / part.path for part in self._parts)


def remove_others(folder: Path, installations: Iterable[Installation]) -> None:
    """Parts of another node that was built in the same folder before."""
    wanted = frozenset[Path]().union(*(installation.paths for installation in installations))
    for name in _FOLDERS:
        for path in (folder / name).glob("*"):
            if path not in wanted:
                path.unlink()


Shown = TypeVar("Shown")

_DESCRIPTION, _FAULTS = "node.yaml", "faults.yaml"  # of a node's folder

# Wall-clock time of simulated time zero for a node that is not running: so its files are always the same.
_STILL_EPOCH = 1_767_225_600.0  # 2026-01-01T00:00:00Z

_CPU_SECONDS = 0.2  # between two counts of CPU time
_IDLE_TIMES = 10  # as long as a count takes, nothing is done after it

log = logging.getLogger(__name__)


class SimulatedNode:
    """`spec` as a folder. Nothing is written before `build()`."""

    def __init__(
        self,
        spec: NodeSpec,
        folder: Path | str,
        *,
        cache: Path | None = None,
        idle: Mapping[str, Pauses] | None = None,
    ) -> None:
        """`idle` are simulated times in which processes do nothing, by the process's name."""
        self.spec = spec
        self.folder = Path(folder).absolute()
        self._placements = tuple(paused(placement, idle or {}) for placement in place(spec))
        self._drivers = {name: self._open_driver(name) for name in spec.vendors}
        self._installations = {
            name: Installation(self.folder, cache or cache_folder(), driver.native_parts)
            for name, driver in self._drivers.items()
        }
        self.pods = pods_of(spec, lambda vendor, *place: self._drivers[vendor].plugin_device(*place))
        self._homes = homes(spec)
        self._hosts = host_loads(spec.seed, self._placements)
        self._followers: list[Callable[[], None]] = []
        self._tree = Tree(self.folder, ("proc", "sys", "dev", "opt", "state"))
        self._faults = FaultLog(spec.faults)
        self._bad_faults: str | None = None  # what was last wrong with faults.yaml
        self._at = 0.0
        self._epoch = _STILL_EPOCH
        self._lock = Lock()
        self._kept = KeptFolder(self.folder, "a simulated node", (_DESCRIPTION,))

    def _open_driver(self, vendor: str) -> VendorDriver[Any]:
        site = Site(
            seed=self.spec.seed,
            pci_domain=list(self.spec.vendors).index(vendor),
            placements=tuple(p for p in self._placements if p.process.spec.vendor == vendor),
        )
        return simulated_vendor(vendor).open_driver(self.spec.vendors[vendor], site)

    @classmethod
    def open(cls, folder: Path | str) -> "SimulatedNode":
        """A node that was built before, with its time and its faults. Raises DescriptionError."""
        folder = Path(folder)
        try:
            spec = read_node((folder / _DESCRIPTION).read_text(encoding="utf-8"))
            memory = json.loads((folder / "state" / "memory.json").read_text(encoding="utf-8"))
        except OSError as error:
            raise DescriptionError(f"not a simulated node: {error.strerror}", file=folder) from None
        except DescriptionError as error:
            raise error.in_file(folder / _DESCRIPTION) from None
        node = cls(spec, folder)
        node._at, node._epoch = memory["at"], memory["epoch"]
        node._faults = FaultLog(spec.faults, _faults(memory["faults"], "faults", spec))
        return node

    def build(self, at: float = 0.0) -> None:
        """Compile what must be compiled and lay out the folder at simulated time `at`, with no faults but
        those of the description. Raises CompileError; DescriptionError for a folder that is not ours;
        AlreadyMoving."""
        self._kept.check_still()
        self._kept.check_ours()
        for installation in self._installations.values():
            installation.build()
        remove_others(self.folder, self._installations.values())
        write_text(self.folder / _DESCRIPTION, self.spec.text)
        self.write_faults(())
        self.write(at)

    def write(self, at: float) -> None:
        """Show the node at simulated time `at`, in seconds."""
        with self._lock:
            self._write(at)
        for follower in tuple(self._followers):
            follower()

    @property
    def at(self) -> float:
        """The simulated time that was last written."""
        return self._at

    @property
    def epoch(self) -> float:
        """Wall-clock time of simulated time zero."""
        return self._epoch

    @contextmanager
    def followed_by(self, follower: Callable[[], None]) -> Iterator[None]:
        """It is called after each change of time."""
        self._followers.append(follower)
        try:
            yield
        finally:
            self._followers.remove(follower)

    def _write(self, at: float) -> None:
        self._at = at
        self._observe_faults(at)
        running = [load for load in self._hosts if load.runs_at(at)]
        proc = proc_files(self.spec.seed, self._epoch, at, running, self._homes)
        files: dict[str, Content] = {f"proc/{name}": text for name, text in proc.items()}
        for name, driver in self._drivers.items():
            instant = self._instant(name)
            self._installations[name].bring_to(instant.active)
            files.update(driver.files(instant))
        noted = [fault_document(fault) for fault in self._faults.noted]
        memory = {"at": at, "epoch": self._epoch, "faults": noted}
        files["state/memory.json"] = json.dumps(memory) + "\n"
        self._tree.bring_to(files)

    def _observe_faults(self, at: float) -> None:
        """A file that somebody is editing may be bad for a while: what was good before stays in force."""
        try:
            current = self.faults()
        except DescriptionError as error:
            if str(error) != self._bad_faults:
                log.warning("%s; the previous faults stay in force", error)
            self._bad_faults = str(error)
            return
        self._bad_faults = None
        self._faults.observe(current, at)

    def _instant(self, vendor: str) -> Instant:
        faults = self._faults.of_vendor(vendor)
        return Instant(at=self._at, wall_clock=self._epoch + self._at, faults=faults)

    def readings(self, kind: type[VendorDriver[Shown]]) -> tuple[Shown, ...]:
        """What the devices of one vendor, named by its driver's class, show at the time last written: the
        truth to hold readers against. Raises LookupError."""
        for vendor, driver in self._drivers.items():
            if type(driver) is kind:
                return driver.readings(self._instant(vendor))
        raise LookupError(f"{self.spec.name} has no {kind.__name__}")

    def readings_at(self, vendor: str, at: float) -> tuple[Any, ...]:
        """What the devices of a vendor show at any time, without writing it."""
        faults = self._faults.of_vendor(vendor)
        instant = Instant(at=at, wall_clock=self._epoch + at, faults=faults)
        return self._drivers[vendor].readings(instant)

    def capacity(self) -> dict[str, str]:
        """What the vendors' device plugins offer, by the name of the resource."""
        counts: Counter[str] = Counter()
        for vendor, own in self.spec.vendors.items():
            for device in range(own.device_count):
                parts = own.instances(device)
                for instance in range(parts) if parts is not None else (None,):
                    counts[self._drivers[vendor].plugin_device(device, instance, None).resource] += 1
        return {resource: str(count) for resource, count in counts.items()}

    def schedule(self, faults: Iterable[Fault]) -> None:
        """Faults with times of their own, beside those of the description. Takes effect with `write`."""
        self._faults = FaultLog((*self.spec.faults, *faults))

    def set_faults(self, faults: Iterable[Fault]) -> None:
        """Let exactly these be wrong from now on, beside those of the description. Takes effect at once."""
        with self._lock:
            self.write_faults(faults)
            self._write(self._at)

    def faults(self) -> tuple[Fault, ...]:
        """Those that are set just now, from `faults.yaml`. Raises DescriptionError."""
        try:
            text = (self.folder / _FAULTS).read_text(encoding="utf-8")
        except FileNotFoundError:
            return ()
        except UnicodeDecodeError:
            raise DescriptionError("not UTF-8 text", file=_FAULTS) from None
        try:
            document = read_yaml(text)
        except DescriptionError as error:
            raise error.in_file(_FAULTS) from None
        return _faults(document, _FAULTS, self.spec)

    def checked_fault(self, document: Mapping[str, object]) -> Fault:
        """A fault of a command line, with the keys of a description, that this node can have. Raises
        DescriptionError."""
        section = Options(document)
        fault = read_fault(section, self.spec.vendors)
        section.finish()
        return fault

    def run(self, stop: Event, period: float = 1.0) -> None:
        """Move with the wall clock until `stop` is set. Raises AlreadyMoving."""
        with self._kept.moving():
            started = time.monotonic() - self._at
            self._epoch = time.time() - self._at
            while not stop.is_set():
                self.write(time.monotonic() - started)
                self._count_cpu(stop, started, time.monotonic() + period)

    def _count_cpu(self, stop: Event, started: float, until: float) -> None:
        """The kernel counts CPU time all the time. Whoever measures it over a second or two would see it jump
        if it went on with the steps only."""
        while (left := until - time.monotonic()) > 0 and not stop.wait(min(left, _CPU_SECONDS)):
            began = time.monotonic()
            if began >= until:
                return
            with self._lock:
                at = began - started
                running = [load for load in self._hosts if load.runs_at(self._at) and load.runs_at(at)]
                files = {f"proc/{load.process.pid}/stat": stat_of(load, at) for load in running}
                self._tree.renew(files)
            # With thousands of processes, less often.
            if stop.wait(min(_IDLE_TIMES * (time.monotonic() - began), max(0.0, until - time.monotonic()))):
                return

    def is_running(self) -> bool:
        """Whether some process keeps the folder moving."""
        return self._kept.is_moving()

    def agent_settings(self) -> dict[str, str]:
        """The agent's settings that point it at this node, and away from the machine's own drivers and
        kubelet. Those of a SimulatedCluster come over them."""
        roots = {"proc_root": "proc", "sys_root": "sys", "dev_root": "dev"}
        places = [*(simulated_vendor(name).settings for name in simulated_names()), roots]
        paths = {name: str(self.folder / path) for place in places for name, path in place.items()}
        return {**paths, "pod_source": "off", "pod_resources_socket": ""}

    def write_faults(self, faults: Iterable[Fault]) -> None:
        """Only the file: for a node that another process keeps moving, which sees it at its next step.
        Raises DescriptionError for faults that this node cannot have."""
        documents = [fault_document(replace(fault, begin=0.0, until=None)) for fault in faults]
        _faults(documents, "faults", self.spec)
        lines = "".join(f"- {json.dumps(document)}\n" for document in documents)
        write_text(self.folder / _FAULTS, lines or "[]\n")


def _faults(document: object, where: str, spec: NodeSpec) -> tuple[Fault, ...]:
    root = Description({where: document or []})
    return read_each(root.sections(where), lambda section: read_fault(section, spec.vendors))
