"""The contract of a vendor's simulated driver.

The driver is a subpackage `simulated` of the vendor's folder. The vendor's declaration names its
SimulatedVendor:

- `read_section` turns the vendor's section of a node's description into the vendor's own spec;
- `open_driver` makes the driver of one node from that spec and a Site: the seed, the vendor's PCI domain and
  the processes on its devices, each with a load curve;
- the node compiles and installs the driver's native parts, removes them under a fault, and at each step
  writes those of the driver's files that changed;
- the simulated cluster uses the driver's `plugin_device` as what the vendor's device plugin gives to a pod.

All output is a function of seed, time and the faults so far: counters never decrease, and one instant always
looks the same. `load`, `physics`, `identity`, `tool` and `folder` contain what every vendor needs for this.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

from accelscope.config.document import Section
from accelscope.simulate import spec
from accelscope.simulate.compiler import NativePart
from accelscope.simulate.faults import Fault, FaultKind, FaultLog, PossibleFaults
from accelscope.simulate.folder import Content
from accelscope.simulate.pods import PluginDevice
from accelscope.simulate.spec import FREE, ToolCost, VendorSpec
from accelscope.simulate.workload import Placement
from accelscope.vendors import declarations

Shown_co = TypeVar("Shown_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What a driver finds on its node."""

    seed: int
    # On a node of several vendors each has a domain of its own, so that no two devices share an address.
    pci_domain: int
    placements: tuple[Placement, ...]  # of the vendor's own processes, on its own devices

    def pci_address(self, slot: int, count: int) -> str:
        """Of the device in that place among `count` of the vendor, as the kernel writes it."""
        return f"{self.pci_domain:04x}:{spec.bus_number(slot, count):02x}:00.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    at: float  # simulated time, seconds
    wall_clock: float  # the same as seconds since 1970
    faults: FaultLog  # of this vendor only, past and present

    @property
    def active(self) -> tuple[Fault, ...]:
        return self.faults.active(self.at)


@dataclass(frozen=True, slots=True)
class InstalledPart:
    """A library or a program, and where it lies in the node's folder."""

    part: NativePart
    path: str  # under bin/ or lib/
    missing: FaultKind  # which fault takes it away

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def taken_away_by(self, fault: Fault) -> bool:
        return fault.kind is self.missing and fault.tool in (None, self.name)


class VendorDriver(Protocol[Shown_co]):
    @property
    def native_parts(self) -> tuple[InstalledPart, ...]: ...

    def readings(self, instant: Instant) -> tuple[Shown_co, ...]:
        """What each device shows, in the vendor's own terms: the truth to hold readers against."""

    def files(self, instant: Instant) -> Iterable[tuple[str, Content]]:
        """Everything under proc/, sys/, dev/, state/ and opt/ of the node's folder that is the vendor's, in
        the order in which it is to be written. What the node itself shows of processes is not among it."""

    def plugin_device(self, device: int, instance: int | None, own: Hashable) -> PluginDevice:
        """What the vendor's device plugin gives to a workload there; `own` is its `ProcessSpec.own`."""


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
    # Runs a command: the vendor's spec, what its devices show, and the words of the command.
    run: Callable[[Any, tuple[Any, ...], Sequence[str]], CommandOutput]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedVendor:
    read_section: Callable[[Section], VendorSpec]  # takes its keys; raises DescriptionError
    open_driver: Callable[[Any, Site], VendorDriver[Any]]  # the spec is the one that read_section made
    faults: PossibleFaults
    # The agent's settings, and the paths in a node's folder that they get. They are set for every node: where
    # the vendor is absent these paths do not exist, so the agent does not read the machine's own driver.
    settings: Mapping[str, str]
    # Labels that a Node with such devices has from the vendor's operator or from feature discovery.
    node_labels: Mapping[str, str] = field(default_factory=dict)
    # Reads the keys of a process that only this vendor has; the result is `ProcessSpec.own`.
    read_process: Callable[[Section, Any, tuple[int, ...]], Hashable] | None = None
    shares_devices: bool = False  # whether pods may have `replicas` or a `hami` share of a device
    driver_pod: DriverPod | None = None


def simulated_names() -> tuple[str, ...]:
    """Vendors with a simulated driver, in the order of their PCI domains on a node of several."""
    return tuple(name for name, vendor in declarations().items() if vendor.simulated)


@cache
def simulated_vendor(name: str) -> SimulatedVendor:
    declaration = declarations()[name]
    vendor: SimulatedVendor = declaration.load(declaration.simulated)
    return vendor


# --- tool ------------------------------------------------------------
# A vendor's tool as a program that knows its answers by heart (native/tool.c).
#
# The driver states, at every step, what the tool would print to which command line. For tools that make their
# output out of freely combined options a vendor brings a program of its own, as NVIDIA does.


_PROGRAM = NativePart(name="tool", folder=Path(__file__).parent / "native", sources=("tool.c",))
_SPOILING = {
    FaultKind.TOOL_GARBAGE: "garbage",
    FaultKind.TOOL_TRUNCATED: "truncated",
    FaultKind.TOOL_NON_UTF8: "non_utf8",
    FaultKind.TOOL_KILLED: "killed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a tool does when its arguments, with one blank between, fit one of the patterns (the shell's: `*`
    for anything, `?` for one letter). Without patterns: always."""

    patterns: tuple[str, ...] = ("*",)
    text: str | bytes = ""
    error_text: str = ""  # on standard error
    exit_code: int = 0
    hangs: bool = False  # does not return while this is the answer, then gives the one that has come


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    name: str
    cost: ToolCost = FREE
    library: str | None = None  # what the loader must find in LD_LIBRARY_PATH before the tool starts at all
    errors: Mapping[str, Answer] = field(default_factory=dict)  # by their names in a tool_error

    @property
    def installed(self) -> InstalledPart:
        return InstalledPart(_PROGRAM, f"bin/{self.name}", FaultKind.TOOL_MISSING)

    def state_file(self, answers: Iterable[Answer], active: Iterable[Fault]) -> tuple[str, bytes]:
        """Among the driver's files: what the tool says, the first fitting answer. The tool's own faults are
        seen to; what faults of devices or of the driver do to its answers is the driver's to say."""
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

    def _faulty_answers(self, faults: Iterable[Fault]) -> Iterable[Answer]:
        for fault in faults:
            if fault.kind is FaultKind.TOOL_HANG:
                yield Answer(hangs=True)
            elif answer := self.errors.get(fault.error or ""):
                yield answer
