"""The contract of a vendor's simulated driver.

The driver is a subpackage `simulated` of the vendor's folder. The vendor's declaration names its
SimulatedVendor:

- `read_section` turns the vendor's section of a node's description into the vendor's own spec;
- `open_driver` makes the driver of one node from that spec and a SimulatedHost: the seed, the vendor's PCI
  domain and the processes on its devices, each with a load curve;
- the node compiles and installs the driver's native parts, removes them under a fault, and at each step
  writes those of the driver's files that changed;
- the simulated cluster uses the driver's `plugin_device` as what the vendor's device plugin gives to a pod.

All output is a function of seed, time and the faults so far: counters never decrease, and output is
reproducible. `spec`, `workload`, `folder` and the Tool below contain what vendors share.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

from accelscope.config.document import Section
from accelscope.simulate import spec
from accelscope.simulate.faults import Fault, FaultKind, FaultLog, PossibleFaults
from accelscope.simulate.folder import Content
from accelscope.simulate.pods import PluginDevice
from accelscope.simulate.spec import FREE, ToolCost, VendorSpec
from accelscope.simulate.workload import Placement
from accelscope.vendors import declarations

# --- native parts ---------------------------------------------------------
# Native parts of simulated drivers, built with the machine's C compiler once per version of the sources.


_COMPILERS = ("cc", "gcc", "clang")
_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror=implicit-function-declaration")
_TIMEOUT_SECONDS = 120


class CompileError(RuntimeError):
    """The native parts could not be built; the message says how to fix it."""


@dataclass(frozen=True, slots=True)
class NativePart:
    """A library (with a SONAME) or a program made from C sources of one folder."""

    name: str
    folder: Path
    sources: tuple[str, ...]
    headers: tuple[str, ...] = ()
    soname: str | None = None

    def fingerprint(self) -> str:
        """A hash of the sources and the flags."""
        digest = hashlib.sha256(repr((self.name, self.soname, _FLAGS)).encode())
        for name in (*self.sources, *self.headers):
            digest.update((self.folder / name).read_bytes())
        return digest.hexdigest()[:16]


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "accelscope"


def built(part: NativePart, cache: Path) -> Path:
    """The compiled part, from the cache or made now. Raises CompileError."""
    target = cache / f"{part.name}-{part.fingerprint()}"
    try:
        if target.is_file():
            return target
        compiler = _compiler()
        cache.mkdir(parents=True, exist_ok=True)
        descriptor, scratch = tempfile.mkstemp(dir=cache, prefix=f".{part.name}-")
    except OSError as error:
        raise CompileError(
            f"cannot store compiled drivers in {cache}: {error.strerror};"
            " set XDG_CACHE_HOME to use another folder"
        ) from None
    os.close(descriptor)
    try:
        _compile(part, compiler, Path(scratch))
        Path(scratch).chmod(0o755)
        Path(scratch).replace(target)  # atomic, also when two builds race
    finally:
        Path(scratch).unlink(missing_ok=True)
    return target


def _compiler() -> str:
    wanted = os.environ.get("CC")
    candidates: Sequence[str] = (wanted,) if wanted else _COMPILERS
    for name in candidates:
        if path := shutil.which(name):
            return path
    raise CompileError(
        f"no C compiler found (looked for {', '.join(candidates)}): install one, "
        "e.g. apt install gcc libc6-dev, or set the environment variable CC"
    )


def _compile(part: NativePart, compiler: str, target: Path) -> None:
    command = [compiler, *_FLAGS]
    if part.soname:
        command += ["-shared", "-fPIC", "-fvisibility=hidden", f"-Wl,-soname,{part.soname}"]
    command += ["-o", str(target), *(str(part.folder / name) for name in part.sources)]
    command += ["-lpthread", "-ldl"]
    try:
        # The command is the user's own compiler and our own sources, without a shell.
        result = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompileError(f"cannot run {compiler}: {error}") from None
    if result.returncode != 0:
        first = next((line for line in result.stderr.splitlines() if "error" in line), "no message")
        raise CompileError(f"{compiler} cannot build {part.name}: {first}")


# --- simulated vendor -----------------------------------------------------


Reading_co = TypeVar("Reading_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedHost:
    """The node that a driver runs on."""

    seed: int
    # On a node of several vendors each has its own domain, so that addresses are unique.
    pci_domain: int
    placements: tuple[Placement, ...]  # of the vendor's own processes, on its own devices

    def pci_address(self, slot: int, count: int) -> str:
        """The address of device `slot` of `count`, in the notation of the kernel."""
        return f"{self.pci_domain:04x}:{spec.bus_number(slot, count):02x}:00.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationTime:
    at: float  # simulated time, seconds
    wall_clock: float  # the same as seconds since 1970
    faults: FaultLog  # of this vendor only, past and present

    @property
    def active(self) -> tuple[Fault, ...]:
        return self.faults.active(self.at)


@dataclass(frozen=True, slots=True)
class InstalledPart:
    """A library or a program, and its path in the folder of the node."""

    part: NativePart
    path: str  # under bin/ or lib/
    missing: FaultKind  # the fault that removes it

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def is_removed_by(self, fault: Fault) -> bool:
        return fault.kind is self.missing and fault.tool in (None, self.name)


class VendorDriver(Protocol[Reading_co]):
    @property
    def native_parts(self) -> tuple[InstalledPart, ...]: ...

    def readings(self, instant: SimulationTime) -> tuple[Reading_co, ...]:
        """The readings of each device, in the vendor's own terms: the reference for tests of readers."""

    def files(self, instant: SimulationTime) -> Iterable[tuple[str, Content]]:
        """The vendor's files under proc/, sys/, dev/, state/ and opt/ in the folder of the node, in the order
        in which they are written. The node writes the files of processes."""

    def plugin_device(self, device: int, instance: int | None, own: Hashable) -> PluginDevice:
        """The device that the vendor's device plugin allocates to a workload; `own` is its
        `ProcessSpec.own`."""


@dataclass(frozen=True, slots=True)
class CommandOutput:
    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverPod:
    """The pod in which a vendor's operator runs the driver; the vendor's tool can be run in it."""

    namespace: str
    daemon_set: str
    labels: Mapping[str, str]
    container: str
    image: str
    # Runs a command, given the vendor's spec, the readings of its devices, and the words of the command.
    run: Callable[[Any, tuple[Any, ...], Sequence[str]], CommandOutput]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedVendor:
    read_section: Callable[[Section], VendorSpec]  # takes its keys; raises DescriptionError
    open_driver: Callable[
        [Any, SimulatedHost], VendorDriver[Any]
    ]  # the spec is the one that read_section made
    faults: PossibleFaults
    # The agent's settings and their paths in the folder of a node. They are set for every node: where the
    # vendor is absent the paths do not exist, so the agent does not read the machine's own driver.
    settings: Mapping[str, str]
    # Labels that the vendor's operator or feature discovery sets on a Node with such devices.
    node_labels: Mapping[str, str] = field(default_factory=dict)
    # Reads the vendor's own keys of a process; the result is `ProcessSpec.own`.
    read_process: Callable[[Section, Any, tuple[int, ...]], Hashable] | None = None
    module: str = ""  # of the kernel; loaded again by `driver_reload`
    shares_devices: bool = False  # pods may have `replicas` or a `hami` share of a device
    driver_pod: DriverPod | None = None


def simulated_names() -> tuple[str, ...]:
    """Vendors with a simulated driver, in the order of their PCI domains."""
    return tuple(name for name, vendor in declarations().items() if vendor.simulated)


@cache
def simulated_vendor(name: str) -> SimulatedVendor:
    declaration = declarations()[name]
    vendor: SimulatedVendor = declaration.load(declaration.simulated)
    return vendor


# A vendor's tool is a program that prints prepared answers (native/tool.c). At every step the driver writes
# the output for each command line. A tool with freely combined options needs a program of its own, as for
# NVIDIA.

_PROGRAM = NativePart(name="tool", folder=Path(__file__).parent / "native", sources=("tool.c",))
_SPOILING = {
    FaultKind.TOOL_GARBAGE: "garbage",
    FaultKind.TOOL_TRUNCATED: "truncated",
    FaultKind.TOOL_NON_UTF8: "non_utf8",
    FaultKind.TOOL_KILLED: "killed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """The output of a tool if its arguments, joined with spaces, match one of the patterns of the shell (`*`
    for anything, `?` for one character)."""

    patterns: tuple[str, ...] = ("*",)
    text: str | bytes = ""
    error_text: str = ""  # on standard error
    exit_code: int = 0
    hangs: bool = False  # does not return while this is the answer, then prints the next one


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    name: str
    cost: ToolCost = FREE
    library: str | None = None  # which the loader must find in LD_LIBRARY_PATH
    errors: Mapping[str, ToolAnswer] = field(default_factory=dict)  # by their names for tool_error

    @property
    def installed(self) -> InstalledPart:
        return InstalledPart(_PROGRAM, f"bin/{self.name}", FaultKind.TOOL_MISSING)

    def state_file(self, answers: Iterable[ToolAnswer], active: Iterable[Fault]) -> tuple[str, bytes]:
        """The driver's file with the answers of the tool; the first match is printed. It contains
        the faults of the tool; the driver adapts `answers` to faults of devices and of the driver."""
        own = [fault for fault in active if fault.kind.of_tool and fault.tool in (None, self.name)]
        lines = [f"cost {self.cost.cpu_milliseconds} {self.cost.memory_mib}"]
        if self.library is not None:
            lines.append(f"library {self.library}")
        lines += [f"spoil {_SPOILING[fault.kind]}" for fault in own if fault.kind in _SPOILING]
        texts: list[bytes] = []
        for answer in (*self._faulty_answers(own), *answers):
            output = answer.text.encode() if isinstance(answer.text, str) else answer.text
            errors = answer.error_text.encode()
            lines.append(f"answer {answer.exit_code} {len(output)} {len(errors)} {int(answer.hangs)}")
            lines += [f"match {pattern}" for pattern in answer.patterns]
            texts += (output, errors)
        head = "".join(f"{line}\n" for line in lines)
        return f"state/{self.name}", b"".join((head.encode(), b"\n", *texts))

    def _faulty_answers(self, faults: Iterable[Fault]) -> Iterable[ToolAnswer]:
        for fault in faults:
            if fault.kind is FaultKind.TOOL_HANG:
                yield ToolAnswer(hangs=True)
            elif answer := self.errors.get(fault.error or ""):
                yield answer
