"""furiosa-smi as a library, in its versions, beside the snapshot of a node with RNGDs and Warboys."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.reality.comparison import Field, Report, Value, flat_devices
from tests.reality.namespace import Place
from tests.reality.pypi import Environment

from accelscope.model import HealthState, Snapshot

_SCRIPT = Path(__file__).with_name("inside") / "furiosa_library.py"
_MILLI, _MEGA = 1e-3, 1e6

FIELDS = (
    Field("arch", "architecture"),
    Field("address", "pci_address"),
    Field("name", "device_name"),
    Field("index", "index"),
    Field("numa_node", "numa_node"),
    Field("serial", "serial"),
    Field("uuid", "uuid"),
    Field("number", "device_number"),
    Field("firmware", "firmware_version"),
    Field("driver", "driver_version"),
    Field("cores", "cores.count"),
    Field("file.{}", "device_files.{}"),
    Field("core.{}.megahertz", "cores.{}.clock_hertz", scale=_MEGA),
    Field("core.{}.occupied", "cores.{}.occupied"),
    Field("core.{}.cycles", "cores.{}.cycles_total"),
    Field("core.{}.task_cycles", "cores.{}.task_cycles_total"),
    Field("core.{}.utilization", "cores.{}.utilization_ratio", within=1e-6),
    Field("memory.total", "memory_total_bytes"),
    Field("memory.used", "memory_used_bytes"),
    Field("temperature.peak", "temperature_celsius", within=0.01),
    Field("temperature.ambient", "sensors.AMBIENT.celsius", within=0.01),
    Field("watts", "power_watts", within=0.01),
    Field("power_limit.milliwatts", "power_limit_watts", scale=_MILLI),
    Field("governor", "governor"),
    Field("alive", "alive"),
    Field("throttle.{}", "throttles.{}.active"),
    Field("pcie.generation", "pcie.generation"),
    Field("pcie.width", "pcie.width"),
    Field("pcie.max_width", "pcie.max_width"),
)


def values_of(snapshot: Snapshot) -> dict[str, dict[str, Value]]:
    """By PCI address. Warboy's cores have one clock, which the snapshot has by its name."""
    result = flat_devices(snapshot, lambda device: device.pci_address)
    for device in snapshot.devices:
        if device.pci_address in result:
            own = result[device.pci_address]
            if device.architecture == "warboy":
                hertz = own["clocks.ne_tensor.hertz"]
                own |= {f"cores.{core.index}.clock_hertz": hertz for core in device.cores}
            own["alive"] = device.health.state is not HealthState.CRITICAL
            own |= {
                f"device_files.{path.rpartition('/')[2]}": path.rpartition("/")[2]
                for path in device.device_files
            }
    return result


@dataclass(frozen=True, slots=True)
class Library:
    """The library of one version, in a process that stays."""

    environment: Environment
    ask: Callable[[], dict[str, Any]]

    def reports(self) -> list[Report]:
        return [Report(device=each["address"], values=each) for each in self.ask()["devices"]]


@contextmanager
def libraries(environments: Sequence[Environment], node: Path) -> Iterator[list[Library]]:
    """The library in all versions, on one node."""
    with ExitStack() as stack:
        yield [stack.enter_context(_library(each, node)) for each in environments]


@contextmanager
def _library(environment: Environment, node: Path) -> Iterator[Library]:
    module = environment.package.replace("-", "_")
    process = Place(node=str(node)).start([environment.python(), _SCRIPT, module])
    assert process.stdin is not None
    assert process.stdout is not None
    questions, answers = process.stdin, process.stdout

    def ask() -> dict[str, Any]:
        questions.write("\n")
        questions.flush()
        # The library logs to the same stream.
        line = next(line for line in answers if line.startswith("{"))
        answer: dict[str, Any] = json.loads(line)
        return answer

    with process:
        try:
            yield Library(environment, ask)
        finally:
            process.kill()
