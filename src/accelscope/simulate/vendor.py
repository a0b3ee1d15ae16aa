"""What a vendor's simulated driver is, and which there are.

A vendor is a package `simulate/<vendor>/` and one line in the registry below. The line names a module that
has `VENDOR`, a SimulatedVendor. From there on:

- the description's section of that name is given to `read_section`, which makes the vendor's own spec of it;
- `open_driver` makes the vendor's driver on a node, from that spec and a Site: the seed, the PCI addresses
  that are its own and the processes on its devices, with a load curve each;
- the node builds and installs the driver's native parts (and takes them away under a fault), and at each
  step asks the driver for all of its files. Only what differs is written;
- the cluster around the node asks the driver what the vendor's device plugin would give to a pod.

Everything a driver shows is a function of seed, time and the faults up to then: counters must not run
backwards, and the same instant must look the same whenever it is asked for. `load`, `physics`, `identity`,
`tool` and `folder` have what every vendor needs for that.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, TypeVar

from accelscope.simulate import pci
from accelscope.simulate.compiler import NativePart
from accelscope.simulate.faults import Fault, FaultKind, FaultLog, PossibleFaults
from accelscope.simulate.folder import Content
from accelscope.simulate.pods import PluginDevice
from accelscope.simulate.section import Section
from accelscope.simulate.spec import VendorSpec
from accelscope.simulate.workload import Placement

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
        return f"{self.pci_domain:04x}:{pci.bus_number(slot, count):02x}:00.0"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedVendor:
    read_section: Callable[[Section], VendorSpec]  # takes its keys off; raises DescriptionError
    open_driver: Callable[[Any, Site], VendorDriver[Any]]  # the spec is the one that read_section made
    faults: PossibleFaults
    # For keys of a process that only this vendor has; the result is kept as `ProcessSpec.own`.
    read_process: Callable[[Section, Any, tuple[int, ...]], Hashable] | None = None


@dataclass(frozen=True, slots=True)
class RegisteredVendor:
    module: str  # imported only for nodes that have the vendor
    # The agent's settings, and where they point to in a node's folder. They are given for every node: where
    # the vendor is absent there is nothing at these places, and the machine's own driver stays out of it.
    settings: Mapping[str, str]


# NVIDIA first: its library writes addresses of the first PCI domain.
VENDORS: dict[str, RegisteredVendor] = {
    "nvidia": RegisteredVendor(
        "accelscope.simulate.nvidia.vendor",
        {"nvml_library": "lib/libnvidia-ml.so.1", "nvidia_smi_path": "bin/nvidia-smi"},
    ),
    "amd": RegisteredVendor(
        "accelscope.simulate.amd.vendor",
        {"amd_smi_path": "bin/amd-smi", "rocm_smi_path": "bin/rocm-smi"},
    ),
    "ascend": RegisteredVendor(
        "accelscope.simulate.ascend.vendor",
        {"npu_smi_path": "bin/npu-smi", "ascend_driver_root": "opt/Ascend/driver"},
    ),
    "furiosa": RegisteredVendor(
        "accelscope.simulate.furiosa.vendor",
        {"furiosa_smi_path": "bin/furiosa-smi", "furiosactl_path": "bin/furiosactl"},
    ),
}


def simulated_vendor(name: str) -> SimulatedVendor:
    vendor: SimulatedVendor = import_module(VENDORS[name].module).VENDOR
    return vendor
