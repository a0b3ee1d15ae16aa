"""What AMD's device-metrics-exporter measures of a GPU, from the model."""

import re

from accelscope.metrics.dialects.amounts import mebibytes, megahertz, millionths, percent, whole
from accelscope.metrics.dialects.dialect import Values, gauge, gauges
from accelscope.metrics.dialects.view import DeviceView
from accelscope.metrics.family import Family
from accelscope.model import Clock, Device, HealthState, Vendor

_GIGATRANSFERS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}  # per second, by PCIe generation
_HBM = re.compile(r"hbm[ _]?(\d+)")
_CLOCK_TYPES = {
    "graphics": "system",
    "gfx": "system",
    "system": "system",
    "sclk": "system",
    "memory": "memory",
    "mem": "memory",
    "mclk": "memory",
    "fabric": "fabric",
    "fclk": "fabric",
    "df": "fabric",
    "soc": "soc",
    "socclk": "soc",
    "dce": "dce",
    "dcefclk": "dce",
    "display": "dce",
    "pcie": "pcie",
    "video": "video",
    "vclk": "video",
    "data": "data",
    "dclk": "data",
}
_NEW_POWER = re.compile(r"MI3\d\d|gfx94|gfx95", re.IGNORECASE)


def of_device(view: DeviceView) -> Device:
    """What the whole device measures stands at its first partition; the others have none of it."""
    return _NOTHING if view.partition is not None and view.partition.index else view.device


_NOTHING = Device(vendor=Vendor.AMD, id="")


def _health(view: DeviceView) -> bool | None:
    device = of_device(view)
    if device is _NOTHING:
        return None
    if device.stale or device.health.state in (HealthState.CRITICAL, HealthState.LOST):
        return False
    return not any(e.count for e in device.ecc if e.severity == "uncorrected")


def _socket_power(view: DeviceView, *, new: bool) -> float | None:
    """From the MI300 on, drivers give the power of now; before, an average."""
    device = of_device(view)
    told = f"{device.model or ''} {device.architecture or ''}"
    return device.power_watts if bool(_NEW_POWER.search(told)) is new else None


def _sensor(view: DeviceView, *names: str) -> float | None:
    found = {sensor.name.lower(): sensor.celsius for sensor in of_device(view).sensors}
    return next((found[name] for name in names if name in found), None)


def _hbm_temperatures(view: DeviceView) -> Values:
    for sensor in of_device(view).sensors:
        match = _HBM.fullmatch(sensor.name.lower())
        if match:
            yield (match[1],), sensor.celsius


def _clocks(view: DeviceView) -> list[tuple[tuple[str, str], Clock]]:
    named = [
        (clock, _CLOCK_TYPES.get(clock.domain.lower().rstrip("0123456789_")))
        for clock in of_device(view).clocks
    ]
    return [((str(place), kind), clock) for place, (clock, kind) in enumerate(named) if kind is not None]


def _memory(view: DeviceView, which: str) -> int | None:
    part = view.partition
    source = of_device(view) if part is None or part.memory_total_bytes is None else part
    total, used = source.memory_total_bytes, source.memory_used_bytes
    if not total:
        return None
    if which == "free":
        return None if used is None else mebibytes(total - used)
    return mebibytes(total if which == "total" else used)


def _pcie_speed(view: DeviceView, *, highest: bool) -> float | None:
    pcie = of_device(view).pcie
    if pcie is None:
        return None
    generation = pcie.max_generation if highest else pcie.generation
    return None if generation is None else _GIGATRANSFERS.get(generation)


def _pcie_bandwidth(view: DeviceView) -> float | None:
    """Both directions together, in megabits per second."""
    pcie = of_device(view).pcie
    if pcie is None:
        return None
    total, sent, received = (
        pcie.bytes_per_second,
        pcie.transmit_bytes_per_second,
        pcie.receive_bytes_per_second,
    )
    if total is None and sent is not None and received is not None:
        total = sent + received
    return None if total is None else whole(total, 8e-6)


def _pcie_errors(name: str, code: str, text: str) -> Family:
    def value(view: DeviceView) -> int | None:
        errors = of_device(view).errors
        return next((e.count for e in errors if (e.kind, e.code) == ("pcie", code)), None)

    return gauge(f"pcie_{name}_count", text, value)


def _link_kilobytes(view: DeviceView, *, sent: bool) -> Values:
    for link in of_device(view).links:
        total = link.transmit_bytes_total if sent else link.receive_bytes_total
        if link.kind == "xgmi" and total is not None:
            yield (str(link.index),), whole(total // 1024)


def _activity(view: DeviceView) -> int | None:
    of_part = view.partition.utilization_ratio if view.partition is not None else None
    return percent(of_device(view).utilization_ratio if of_part is None else of_part)


FAMILIES: tuple[Family, ...] = (
    gauge("gpu_health", "1 if the GPU is healthy, 0 if not.", _health),
    gauge(
        "gpu_package_power", "Power of the socket now, in W (MI3xx).", lambda v: _socket_power(v, new=True)
    ),
    gauge(
        "gpu_average_package_power",
        "Average power of the socket, in W (before MI3xx).",
        lambda v: _socket_power(v, new=False),
    ),
    gauge("gpu_power_usage", "Power of the GPU, in W.", lambda v: of_device(v).power_watts),
    gauge(
        "gpu_energy_consumed",
        "Energy used since the driver was loaded, in microjoules.",
        lambda v: millionths(of_device(v).energy_joules),
    ),
    gauge(
        "gpu_edge_temperature",
        "Temperature at the edge of the die, in degrees Celsius.",
        lambda v: _sensor(v, "edge"),
    ),
    gauge(
        "gpu_junction_temperature",
        "Temperature at the hottest place of the die, in degrees Celsius.",
        lambda v: _sensor(v, "junction", "hotspot"),
    ),
    gauge(
        "gpu_memory_temperature",
        "Temperature of the memory, in degrees Celsius.",
        lambda v: _sensor(v, "memory", "mem"),
    ),
    gauges(
        "gpu_hbm_temperature",
        "Temperature of a stack of memory, in degrees Celsius.",
        ("hbm_index",),
        _hbm_temperatures,
    ),
    gauge("gpu_gfx_activity", "Utilisation of the graphics and compute engine, in %.", _activity),
    gauge(
        "gpu_umc_activity",
        "Utilisation of the memory controller, in %.",
        lambda v: percent(of_device(v).memory_utilization_ratio),
    ),
    gauges(
        "gpu_gfx_busy_instantaneous",
        "Utilisation of one compute die now, in %.",
        ("xcc_index",),
        lambda v: [((str(core.index),), percent(core.utilization_ratio)) for core in of_device(v).cores],
    ),
    gauges(
        "gpu_clock",
        "Clock of a part of the GPU, in MHz.",
        ("clock_index", "clock_type"),
        lambda v: [(labels, megahertz(clock.hertz)) for labels, clock in _clocks(v)],
    ),
    gauges(
        "gpu_max_clock",
        "Highest clock of a part of the GPU, in MHz.",
        ("clock_index", "clock_type"),
        lambda v: [(labels, megahertz(clock.max_hertz)) for labels, clock in _clocks(v)],
    ),
    gauge("gpu_total_vram", "Memory, in MB of 2^20 bytes.", lambda v: _memory(v, "total")),
    gauge("gpu_used_vram", "Memory in use, in MB of 2^20 bytes.", lambda v: _memory(v, "used")),
    gauge("gpu_free_vram", "Memory not in use, in MB of 2^20 bytes.", lambda v: _memory(v, "free")),
    gauge("pcie_speed", "Speed of the PCIe link now, in GT/s.", lambda v: _pcie_speed(v, highest=False)),
    gauge(
        "pcie_max_speed",
        "Highest speed of the PCIe link, in GT/s.",
        lambda v: _pcie_speed(v, highest=True),
    ),
    gauge("pcie_bandwidth", "Traffic over PCIe in both directions, in Mb/s.", _pcie_bandwidth),
    gauge(
        "pcie_replay_count",
        "PCIe packets that had to be sent again.",
        lambda v: pcie.replays_total if (pcie := of_device(v).pcie) else None,
    ),
    _pcie_errors("recovery", "recovery", "Times that the PCIe link had to recover."),
    _pcie_errors("replay_rollover", "replay_rollover", "Times that a PCIe packet was sent again in vain."),
    _pcie_errors("nack_sent", "nak_sent", "PCIe packets that the GPU refused."),
    _pcie_errors("nack_received", "nak_received", "PCIe packets of the GPU that were refused."),
    gauges(
        "gpu_xgmi_link_rx",
        "Data received over an XGMI link, in KB of 1024 bytes.",
        ("link_index",),
        lambda v: _link_kilobytes(v, sent=False),
    ),
    gauges(
        "gpu_xgmi_link_tx",
        "Data sent over an XGMI link, in KB of 1024 bytes.",
        ("link_index",),
        lambda v: _link_kilobytes(v, sent=True),
    ),
)
