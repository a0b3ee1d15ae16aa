"""What Huawei's npu-exporter measures of a chip, from the model."""

from accelscope.metrics.dialects.amounts import mebibytes, megahertz, percent, whole
from accelscope.metrics.dialects.dialect import gauge, gauges
from accelscope.metrics.dialects.view import DeviceView
from accelscope.metrics.family import Family
from accelscope.model import Device, EccCount, HealthState

_MOST_ERROR_CODES = 10


def _has_hbm(device: Device) -> bool:
    """The 310 family has DDR memory, all others high-bandwidth memory."""
    return "310" not in (device.model or "")


def _has_vector_cores(device: Device) -> bool:
    """Not the first generation of the 910, which calls itself 910A, 910B, 910ProA ..."""
    return (device.model or "") not in ("910", "910A", "910B", "910ProA", "910ProB", "910PremiumA")


def _hbm(view: DeviceView, size: int | None) -> int | None:
    return mebibytes(size) if _has_hbm(view.device) else None


def _ddr(view: DeviceView, size: int | None) -> int | None:
    return None if _has_hbm(view.device) else mebibytes(size)


def _hbm_fill(view: DeviceView) -> int | None:
    used, total = view.device.memory_used_bytes, view.device.memory_total_bytes
    if used is None or not total or not _has_hbm(view.device):
        return None
    return percent(used / total)


def _health(view: DeviceView) -> int:
    state = view.device.health.state
    if view.device.stale or state in (HealthState.UNKNOWN, HealthState.LOST):
        return -1
    return int(state is HealthState.OK)


def _error_codes(device: Device) -> list[int]:
    """Faults that are there now: those that the driver named when it last named any."""
    if device.health.state in (HealthState.OK, HealthState.UNKNOWN):
        return []
    seen = [e for e in device.errors if e.kind == "npu" and e.count]
    latest = max((e.last_seen or 0.0 for e in seen), default=0.0)
    codes = [_number(e.code) for e in seen if (e.last_seen or 0.0) == latest]
    return [code for code in codes if code is not None][:_MOST_ERROR_CODES]


def _number(code: str) -> int | None:
    try:
        return int(code.removeprefix("0x").removeprefix("0X"), 16)
    except ValueError:
        return None


def _error_code(place: int) -> Family:
    def value(view: DeviceView) -> int | None:
        codes = _error_codes(view.device)
        return codes[place] if place < len(codes) else None

    name = "npu_chip_info_error_code" + (f"_{place}" if place else "")
    return gauge(name, "Code of a fault that the chip has now, as a decimal number.", value)


def _count(counts: tuple[EccCount, ...], severity: str, *, lifetime: bool | None) -> int | None:
    """Of the high-bandwidth memory where the tool tells it apart, else of the chip."""
    fitting = [c for c in counts if c.severity == severity and lifetime in (None, c.lifetime)]
    by_block = {c.block: c.count for c in fitting}
    return by_block.get("hbm", by_block.get(None))


def _hbm_errors(name: str, text: str, severity: str, *, lifetime: bool) -> Family:
    def value(view: DeviceView) -> int | None:
        return _count(view.device.ecc, severity, lifetime=lifetime) if _has_hbm(view.device) else None

    return gauge(f"npu_chip_info_hbm_ecc_{name}", text, value)


def _hbm_pages(name: str, text: str, severity: str) -> Family:
    def value(view: DeviceView) -> int | None:
        return _count(view.device.retired_pages, severity, lifetime=None) if _has_hbm(view.device) else None

    return gauge(f"npu_chip_info_hbm_ecc_{name}", text, value)


def _hbm_temperature(view: DeviceView) -> int | None:
    return whole(next((s.celsius for s in view.device.sensors if s.name.lower() == "hbm"), None))


def _temperature(view: DeviceView) -> int | None:
    return whole(view.device.temperature_celsius)


def _clock(view: DeviceView) -> int | None:
    return megahertz(next((c.hertz for c in view.device.clocks if c.domain == "aicore"), None))


CHIP_FAMILIES = (
    gauge("npu_chip_info_health_status", "1 healthy, 0 not, -1 if nobody could tell.", _health),
    *(_error_code(place) for place in range(_MOST_ERROR_CODES)),
    gauge(
        "npu_chip_info_utilization",
        "Utilisation of the AI cores, in %.",
        lambda v: percent(v.device.utilization_ratio),
    ),
    gauge(
        "npu_chip_info_overall_utilization",
        "Utilisation of the chip as a whole, in %.",
        lambda v: percent(v.device.overall_utilization_ratio),
    ),
    gauge(
        "npu_chip_info_vector_utilization",
        "Utilisation of the vector cores, in %.",
        lambda v: percent(v.device.vector_utilization_ratio) if _has_vector_cores(v.device) else None,
    ),
    gauge(
        "npu_chip_info_cube_utilization",
        "Utilisation of the cube (matrix) cores, in %.",
        lambda v: percent(v.device.tensor_active_ratio),
    ),
    gauge("npu_chip_info_temperature", "Temperature of the chip, in degrees Celsius.", _temperature),
    gauge(
        "npu_chip_info_power",
        "Power of the chip, in W; on the 310P of its card.",
        lambda v: v.device.power_watts,
    ),
    gauge(
        "npu_chip_info_voltage",
        "Voltage of the chip, in V.",
        lambda v: next((rail.volts for rail in v.device.rails), None),
    ),
    gauge("npu_chip_info_aicore_current_freq", "Clock of the AI cores, in MHz.", _clock),
    gauge(
        "npu_chip_info_hbm_used_memory",
        "High-bandwidth memory in use, in MB of 2^20 bytes.",
        lambda v: _hbm(v, v.device.memory_used_bytes),
    ),
    gauge(
        "npu_chip_info_hbm_total_memory",
        "High-bandwidth memory of the chip, in MB of 2^20 bytes.",
        lambda v: _hbm(v, v.device.memory_total_bytes),
    ),
    gauge("npu_chip_info_hbm_utilization", "How full the high-bandwidth memory is, in %.", _hbm_fill),
    gauge(
        "npu_chip_info_hbm_bandwidth_utilization",
        "Share of the high-bandwidth memory's bandwidth in use, in %.",
        lambda v: percent(v.device.memory_utilization_ratio) if _has_hbm(v.device) else None,
    ),
    gauge(
        "npu_chip_info_hbm_temperature",
        "Temperature of the high-bandwidth memory, in degrees Celsius.",
        _hbm_temperature,
    ),
    _hbm_errors("single_bit_error_cnt", "Errors of one bit since the start.", "corrected", lifetime=False),
    _hbm_errors("double_bit_error_cnt", "Errors of two bits since the start.", "uncorrected", lifetime=False),
    _hbm_errors("total_single_bit_error_cnt", "Errors of one bit over all time.", "corrected", lifetime=True),
    _hbm_errors(
        "total_double_bit_error_cnt", "Errors of two bits over all time.", "uncorrected", lifetime=True
    ),
    _hbm_pages("single_bit_isolated_pages_cnt", "Pages set aside after errors of one bit.", "corrected"),
    _hbm_pages("double_bit_isolated_pages_cnt", "Pages set aside after errors of two bits.", "uncorrected"),
    gauge(
        "npu_chip_info_used_memory",
        "DDR memory in use, in MB of 2^20 bytes.",
        lambda v: _ddr(v, v.device.memory_used_bytes),
    ),
    gauge(
        "npu_chip_info_total_memory",
        "DDR memory of the chip, in MB of 2^20 bytes.",
        lambda v: _ddr(v, v.device.memory_total_bytes),
    ),
    gauge(
        "npu_chip_info_process_info_num",
        "Processes on the chip.",
        lambda v: None if v.device.stale else len(v.processes),
    ),
    gauges(
        "npu_chip_info_serial_number",
        "Serial number of the card; 1.",
        ("serial_number",),
        lambda v: [((v.device.serial,), 1)] if v.device.serial else [],
    ),
)

# Of a chip that is put down to one pod.
CONTAINER_FAMILIES = (
    gauge(
        "container_npu_utilization",
        "Utilisation of the AI cores of a chip that a container holds, in %.",
        lambda v: percent(v.device.utilization_ratio) if v.pod else None,
    ),
    gauge(
        "container_npu_total_memory",
        "Memory of a chip that a container holds, in MB of 2^20 bytes.",
        lambda v: mebibytes(v.device.memory_total_bytes) if v.pod else None,
    ),
    gauge(
        "container_npu_used_memory",
        "Memory in use of a chip that a container holds, in MB of 2^20 bytes.",
        lambda v: mebibytes(v.device.memory_used_bytes) if v.pod else None,
    ),
)
