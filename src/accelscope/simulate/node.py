"""A simulated node: a folder that looks like a machine with its drivers, and that is updated as time passes.

lib/ bin/           the vendors' libraries and tools
proc/ sys/ dev/     the files of the kernel
opt/                other files that the vendors' drivers install
state/              read by the libraries and tools
node.yaml           the description of the node
faults.yaml         the current faults; may be edited while the node runs
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
from accelscope.simulate.description import read_fault, read_node, read_yaml
from accelscope.simulate.faults import Fault, FaultKind, FaultLog, fault_document
from accelscope.simulate.folder import Content, LockedFolder, Tree, copy_program, write_text
from accelscope.simulate.pods import homes, pods_of
from accelscope.simulate.spec import Description, DescriptionError, NodeSpec, Options, Pauses
from accelscope.simulate.vendor import (
    InstalledPart,
    SimulatedHost,
    SimulationTime,
    VendorDriver,
    built,
    cache_folder,
    simulated_names,
    simulated_vendor,
)
from accelscope.simulate.workload import host_loads, paused, place, proc_files, stat_of

Reading = TypeVar("Reading")

_DESCRIPTION, _FAULTS = "node.yaml", "faults.yaml"  # in the folder of a node
_PROGRAM_FOLDERS = ("bin", "lib")

# Wall-clock time of simulated time 0 for a node that is not running, so that its files are reproducible.
_STILL_EPOCH = 1_767_225_600.0  # 2026-01-01T00:00:00Z

_CPU_SECONDS = 0.2  # between two updates of the CPU time of processes
_CPU_PAUSE_FACTOR = 10  # the pause after an update is at least this many times as long as the update

log = logging.getLogger(__name__)


class Installation:
    """The native parts of one vendor's driver in the folder of a node."""

    def __init__(self, folder: Path, cache: Path, parts: Iterable[InstalledPart]) -> None:
        self._folder = folder
        self._cache = cache
        self._parts = tuple(parts)

    def build(self) -> None:
        """Raises CompileError."""
        for part in self._parts:
            self._install(part)

    def apply(self, faults: Sequence[Fault]) -> None:
        """Removes the parts that are missing under these faults, and restores the others."""
        for part in self._parts:
            target = self._folder / part.path
            if any(map(part.is_removed_by, faults)):
                target.unlink(missing_ok=True)
            elif not target.exists():
                self._install(part)

    def _install(self, part: InstalledPart) -> None:
        """Copies the part instead of linking it: a part finds its state relative to its own path, and the
        loader treats two links to one file as the same library."""
        target = self._folder / part.path
        source = built(part.part, self._cache)
        if not target.exists() or target.read_bytes() != source.read_bytes():
            copy_program(source, target)

    @property
    def paths(self) -> frozenset[Path]:
        return frozenset(self._folder / part.path for part in self._parts)


def remove_others(folder: Path, installations: Iterable[Installation]) -> None:
    """Removes parts of another node that was built in the same folder before."""
    wanted = frozenset[Path]().union(*(installation.paths for installation in installations))
    for name in _PROGRAM_FOLDERS:
        for path in (folder / name).glob("*"):
            if path not in wanted:
                path.unlink()


class SimulatedNode:
    """Nothing is written to `folder` before `build()`."""

    def __init__(
        self,
        spec: NodeSpec,
        folder: Path | str,
        *,
        cache: Path | None = None,
        idle: Mapping[str, Pauses] | None = None,
    ) -> None:
        """`idle` contains the simulated times when processes are idle, by the name of the process."""
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
        self._callbacks: list[Callable[[], None]] = []
        self._tree = Tree(self.folder, ("proc", "sys", "dev", "opt", "state"))
        self._faults = FaultLog(spec.faults)
        self._loads: dict[str, int] = {}  # of each vendor's driver, when last written
        self._faults_error: str | None = None  # the last error of faults.yaml
        self._at = 0.0
        self._epoch = _STILL_EPOCH
        self._lock = Lock()
        self._locked_folder = LockedFolder(self.folder, "a simulated node", (_DESCRIPTION,))

    def _open_driver(self, vendor: str) -> VendorDriver[Any]:
        site = SimulatedHost(
            seed=self.spec.seed,
            pci_domain=list(self.spec.vendors).index(vendor),
            placements=tuple(p for p in self._placements if p.process.spec.vendor == vendor),
        )
        return simulated_vendor(vendor).open_driver(self.spec.vendors[vendor], site)

    @classmethod
    def open(cls, folder: Path | str) -> "SimulatedNode":
        """Opens a node that was built before, with its time and its faults. Raises DescriptionError."""
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
        """Compiles the native parts and writes the folder at simulated time `at`, with the faults of the
        description only. Raises CompileError, DescriptionError for a folder with other files, and
        FolderInUse."""
        self._locked_folder.check_not_running()
        self._locked_folder.check_content()
        for installation in self._installations.values():
            installation.build()
        remove_others(self.folder, self._installations.values())
        write_text(self.folder / _DESCRIPTION, self.spec.text)
        self.write_faults(())
        self.write(at)

    def write(self, at: float) -> None:
        """Writes the files of simulated time `at`, in seconds."""
        with self._lock:
            self._write(at)
        for callback in tuple(self._callbacks):
            callback()

    @property
    def at(self) -> float:
        """The simulated time that was last written."""
        return self._at

    @property
    def epoch(self) -> float:
        """Wall-clock time of simulated time 0."""
        return self._epoch

    @contextmanager
    def notifying(self, callback: Callable[[], None]) -> Iterator[None]:
        """Calls `callback` after each write."""
        self._callbacks.append(callback)
        try:
            yield
        finally:
            self._callbacks.remove(callback)

    def _write(self, at: float) -> None:
        self._at = at
        self._observe_faults(at)
        running = [load for load in self._hosts if load.runs_at(at)]
        reboots = self._faults.restarts(at, {FaultKind.REBOOT})
        proc = proc_files(self.spec.seed, self._epoch, at, running, self._homes, reboots=reboots)
        files: dict[str, Content] = {f"proc/{name}": text for name, text in proc.items()}
        for name, driver in self._drivers.items():
            instant = self._instant(name)
            self._installations[name].apply(instant.active)
            files.update(driver.files(instant))
        noted = [fault_document(fault) for fault in self._faults.noted]
        memory = {"at": at, "epoch": self._epoch, "faults": noted}
        files["state/memory.json"] = json.dumps(memory) + "\n"
        self._tree.bring_to(files)
        for name in self._drivers:
            self._load_module(name, at)

    def _load_module(self, vendor: str, at: float) -> None:
        """After a reload of the driver, the folder of its module is another one."""
        loads = self._faults.of_vendor(vendor).restarts(at, {FaultKind.DRIVER_RELOAD, FaultKind.REBOOT})
        module = simulated_vendor(vendor).module
        if module and loads > self._loads.get(vendor, loads):
            self._tree.remake(f"sys/module/{module}")
        self._loads[vendor] = loads

    def _observe_faults(self, at: float) -> None:
        """While the file is invalid, the last valid faults stay in force."""
        try:
            current = self.faults()
        except DescriptionError as error:
            if str(error) != self._faults_error:
                log.warning("%s; the previous faults stay in force", error)
            self._faults_error = str(error)
            return
        self._faults_error = None
        self._faults.observe(current, at)

    def _instant(self, vendor: str) -> SimulationTime:
        faults = self._faults.of_vendor(vendor)
        return SimulationTime(at=self._at, wall_clock=self._epoch + self._at, faults=faults)

    def readings(self, kind: type[VendorDriver[Reading]]) -> tuple[Reading, ...]:
        """The readings of one vendor's devices, given by its driver's class, at the time last written: the
        reference for tests of readers. Raises LookupError."""
        for vendor, driver in self._drivers.items():
            if type(driver) is kind:
                return driver.readings(self._instant(vendor))
        raise LookupError(f"{self.spec.name} has no {kind.__name__}")

    def readings_at(self, vendor: str, at: float) -> tuple[Any, ...]:
        """The readings of a vendor's devices at any time, without writing them."""
        faults = self._faults.of_vendor(vendor)
        instant = SimulationTime(at=at, wall_clock=self._epoch + at, faults=faults)
        return self._drivers[vendor].readings(instant)

    def capacity(self) -> dict[str, str]:
        """What the vendors' device plugins offer, by resource."""
        counts: Counter[str] = Counter()
        for vendor, own in self.spec.vendors.items():
            for device in range(own.device_count):
                parts = own.instances(device)
                for instance in range(parts) if parts is not None else (None,):
                    counts[self._drivers[vendor].plugin_device(device, instance, None).resource] += 1
        return {resource: str(count) for resource, count in counts.items()}

    def schedule(self, faults: Iterable[Fault]) -> None:
        """Adds faults with times to those of the description. Takes effect with the next `write`."""
        self._faults = FaultLog((*self.spec.faults, *faults))

    def set_faults(self, faults: Iterable[Fault]) -> None:
        """Replaces the current faults, apart from those of the description. Takes effect at once."""
        with self._lock:
            self.write_faults(faults)
            self._write(self._at)

    def faults(self) -> tuple[Fault, ...]:
        """The current faults, from `faults.yaml`. Raises DescriptionError."""
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
        """Reads a fault from the options of a command line. Raises DescriptionError."""
        section = Options(document)
        fault = read_fault(section, self.spec.vendors)
        section.finish()
        return fault

    def run(self, stop: Event, period: float = 1.0) -> None:
        """Updates the folder with the wall clock until `stop` is set. Raises FolderInUse."""
        with self._locked_folder.locked():
            started = time.monotonic() - self._at
            self._epoch = time.time() - self._at
            while not stop.is_set():
                self.write(time.monotonic() - started)
                self._count_cpu(stop, started, time.monotonic() + period)

    def _count_cpu(self, stop: Event, started: float, until: float) -> None:
        """Updates the CPU time of processes between two steps, because it would jump for a client that
        measures it over a second or two."""
        while (left := until - time.monotonic()) > 0 and not stop.wait(min(left, _CPU_SECONDS)):
            began = time.monotonic()
            if began >= until:
                return
            with self._lock:
                at = began - started
                running = [load for load in self._hosts if load.runs_at(self._at) and load.runs_at(at)]
                files = {f"proc/{load.process.pid}/stat": stat_of(load, at) for load in running}
                self._tree.renew(files)
            # With thousands of processes, updates are less frequent.
            pause = _CPU_PAUSE_FACTOR * (time.monotonic() - began)
            if stop.wait(min(pause, max(0.0, until - time.monotonic()))):
                return

    def is_running(self) -> bool:
        """Whether a process updates the folder."""
        return self._locked_folder.is_running()

    def agent_settings(self) -> dict[str, str]:
        """The agent's settings that point it at this node instead of the machine's own drivers and kubelet.
        The settings of a SimulatedCluster override them."""
        roots = {"proc_root": "proc", "sys_root": "sys", "dev_root": "dev"}
        places = [*(simulated_vendor(name).settings for name in simulated_names()), roots]
        paths = {name: str(self.folder / path) for place in places for name, path in place.items()}
        return {**paths, "pod_source": "off", "pod_resources_socket": ""}

    def write_faults(self, faults: Iterable[Fault]) -> None:
        """Writes only the file, for a node that another process updates: it reads the file at its next step.
        Raises DescriptionError for faults that this node does not support."""
        documents = [fault_document(replace(fault, begin=0.0, until=None)) for fault in faults]
        _faults(documents, "faults", self.spec)
        lines = "".join(f"- {json.dumps(document)}\n" for document in documents)
        write_text(self.folder / _FAULTS, lines or "[]\n")


def _faults(document: object, where: str, spec: NodeSpec) -> tuple[Fault, ...]:
    root = Description({where: document or []})
    return read_each(root.sections(where), lambda section: read_fault(section, spec.vendors))
