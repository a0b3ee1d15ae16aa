"""nvitop, gpustat and nvtop beside the snapshot of a node with NVIDIA GPUs."""

import json
import re
from pathlib import Path
from typing import Any

from tests.reality.comparison import Field, Report, Value, flat_devices
from tests.reality.namespace import Place
from tests.reality.programs import GPUSTAT, NVITOP, TRIXIE

from accelscope.model import Snapshot, pci_address

_SCRIPT = Path(__file__).with_name("inside") / "nvitop_devices.py"
_MILLI, _KILO, _MEGA, _MEBI, _PERCENT = 1e-3, 1e3, 1e6, 1 << 20, 1e-2

NVITOP_FIELDS = (
    Field("uuid", "uuid"),
    Field("name", "model"),
    Field("index", "index"),
    Field("driver", "driver_version"),
    Field("memory.total", "memory_total_bytes"),
    Field("memory.used", "memory_used_bytes"),
    Field("bar1.total", "bar1_total_bytes"),
    Field("bar1.used", "bar1_used_bytes"),
    Field("temperature", "temperature_celsius"),
    Field("watts", "power_watts", scale=_MILLI),
    Field("power_limit", "power_limit_watts", scale=_MILLI),
    Field("utilization", "utilization_ratio", scale=_PERCENT),
    Field("utilization.memory", "memory_utilization_ratio", scale=_PERCENT),
    Field("utilization.encoder", "encoder_utilization_ratio", scale=_PERCENT),
    Field("utilization.decoder", "decoder_utilization_ratio", scale=_PERCENT),
    Field("clock.max.{}", "clocks.{}.max_hertz", scale=_MEGA),
    Field("clock.{}", "clocks.{}.hertz", scale=_MEGA),
    Field("fan", "fans.0.speed_ratio", scale=_PERCENT),
    Field("performance", "performance_state"),
    Field("persistence", "persistence_mode"),
    Field("mig", "mig_enabled"),
    Field("ecc.uncorrected", "ecc.uncorrected.volatile.all.count"),
    Field("pcie.transmit", "pcie.transmit_bytes_per_second", scale=_KILO),
    Field("pcie.receive", "pcie.receive_bytes_per_second", scale=_KILO),
    Field("mig.{}.uuid", "partitions.{}.uuid"),
    Field("mig.{}.index", "partitions.{}.index"),
    Field("mig.{}.gpu_instance", "partitions.{}.gpu_instance_id"),
    Field("mig.{}.compute_instance", "partitions.{}.compute_instance_id"),
    Field("mig.{}.memory.total", "partitions.{}.memory_total_bytes"),
    Field("mig.{}.memory.used", "partitions.{}.memory_used_bytes"),
    Field("process.{}.pid", "processes.{}.pid"),
    Field("process.{}.memory", "processes.{}.memory_bytes"),
)
# Whole mebibytes and watts.
GPUSTAT_FIELDS = (
    Field("uuid", "uuid"),
    Field("name", "model"),
    Field("index", "index"),
    Field("temperature.gpu", "temperature_celsius"),
    Field("fan.speed", "fans.0.speed_ratio", scale=_PERCENT),
    Field("utilization.gpu", "utilization_ratio", scale=_PERCENT),
    Field("utilization.enc", "encoder_utilization_ratio", scale=_PERCENT),
    Field("utilization.dec", "decoder_utilization_ratio", scale=_PERCENT),
    Field("power.draw", "power_watts", within=1),
    Field("enforced.power.limit", "power_limit_watts", within=1),
    Field("memory.used", "memory_used_bytes", scale=_MEBI, within=_MEBI),
    Field("memory.total", "memory_total_bytes", scale=_MEBI, within=_MEBI),
    Field("process.{}.pid", "processes.{}.pid"),
    Field("process.{}.command", "processes.{}.name"),
    Field("process.{}.gpu_memory_usage", "processes.{}.memory_bytes", scale=_MEBI, within=_MEBI),
)
NVTOP_FIELDS = (
    Field("device_name", "model"),
    Field("gpu_clock", "clocks.graphics.hertz", scale=_MEGA),
    Field("mem_clock", "clocks.memory.hertz", scale=_MEGA),
    Field("temp", "temperature_celsius"),
    Field("fan_speed", "fans.0.speed_ratio", scale=_PERCENT),
    Field("power_draw", "power_watts", within=1),
    Field("gpu_util", "utilization_ratio", scale=_PERCENT),
    Field("mem_util", "memory_not_free_ratio", scale=_PERCENT, within=0.01),
)


def values_of(snapshot: Snapshot) -> dict[str, dict[str, Value]]:
    """By PCI address. nvtop counts memory that the driver reserves as used."""
    result = flat_devices(snapshot, lambda device: device.pci_address)
    for own in result.values():
        total, free = own["memory_total_bytes"], own["memory_free_bytes"]
        if isinstance(total, int) and isinstance(free, int):
            own["memory_not_free_ratio"] = 1 - free / total
    return result


def nvitop(node: Path) -> list[Report]:
    done = Place(node=str(node), environment={"LD_LIBRARY_PATH": f"{node}/lib"}).run(
        [NVITOP.python(), _SCRIPT]
    )
    assert done.returncode == 0, done.stderr
    reports = []
    for each in json.loads(done.stdout):
        address = pci_address(str(each.pop("address")))
        if address is not None:
            words = {"Enabled": True, "Disabled": False}
            values = {name: words.get(value, value) for name, value in each.items()}
            if "performance" in values:
                values["performance"] = int(str(values["performance"]).removeprefix("P"))
            reports.append(Report(device=address, values=values))
    return reports


def nvitop_screen(node: Path) -> str:
    """What the program prints once. Raises no error that it does not report."""
    environment = {"LD_LIBRARY_PATH": f"{node}/lib", "TERM": "xterm"}
    done = Place(node=str(node), environment=environment).run([NVITOP.python(), "-m", "nvitop", "--once"])
    assert done.returncode == 0, done.stderr
    return done.stdout


def gpustat(node: Path, addresses: dict[Value, str]) -> list[Report]:
    """`addresses` are by index."""
    environment = {"LD_LIBRARY_PATH": f"{node}/lib"}
    done = Place(node=str(node), environment=environment).run([GPUSTAT.python(), "-m", "gpustat", "--json"])
    assert done.returncode == 0, done.stderr
    reports = []
    for each in json.loads(done.stdout)["gpus"]:
        values: dict[str, Value] = {}
        for process in each.pop("processes") or ():
            words = {name: process[name] for name in ("pid", "command", "gpu_memory_usage")}
            values |= {f"process.{process['pid']}.{name}": word for name, word in words.items()}
        values |= each
        known = {name: value for name, value in values.items() if value is not None}
        reports.append(Report(device=addresses[each["index"]], values=known))
    return reports


def nvtop(node: Path, addresses: dict[Value, str]) -> list[Report]:
    """It prints the GPUs in their order, without a name for each."""
    shared = {"lib": f"{node}/lib", "state": f"{node}/state"}
    environment = {"LD_LIBRARY_PATH": "/media/lib"}
    root = str(TRIXIE.root())
    done = Place(node=str(node), root=root, shared=shared, environment=environment).run(["nvtop", "-s"])
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return [
        Report(
            device=addresses[index], values={k: _nvtop_value(k, v) for k, v in each.items() if v is not None}
        )
        for index, each in enumerate(found)
    ]


def _nvtop_value(name: str, text: str) -> Value:
    number = re.fullmatch(r"(\d+)(?:MHz|C|W|%)", text)
    return int(number[1]) if number else text
