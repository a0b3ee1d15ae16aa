"""The numbered fields of nvmlDeviceGetFieldValues, with the type that each has in the real library.

`u` is unsigned int, `q` unsigned long long, `s` signed int. Fields of a link are scoped by its number; NVLink
throughput has a scope for the sum over all links too.
"""

from collections.abc import Callable

from accelscope.vendors.nvidia.simulated.readings import GpuReading, LinkReading

ALL_LINKS = 0xFFFFFFFF

# Old fields number the links one by one: 0 to 5 from the first id, 6 to 11 from the second, then a total.
_OLD_LINK_FIELDS: tuple[tuple[int, int, int, Callable[[LinkReading], int]], ...] = (
    (32, 96, 38, lambda link: link.crc_errors),
    (39, 102, 45, lambda _: 0),
    (46, 108, 52, lambda link: link.replays),
    (53, 114, 59, lambda link: link.recoveries),
)
_OLD_SPEED = (84, 132, 90)
_OLD_LINKS = 12
_LINK_COUNT, _SWITCH_LINKS = 91, 147


def render_fields(reading: GpuReading) -> dict[str, object]:
    values = _device(reading) | _ecc(reading)
    if reading.gpu.card.nvlink is not None:
        values |= _links(reading)
    return {f"field.{field}": value for field, value in values.items()}


def _device(reading: GpuReading) -> dict[str, object]:
    power, limit = reading.gpu.card.power, int(1000 * reading.gpu.spec.power_limit_watts)
    values: dict[str, object] = {
        "83": f"q{reading.energy_millijoules}",
        "94": f"u{reading.pcie_replays}",
        "95": "u0",
        "74": "q0",
        "75": f"q{reading.thermal_violation_nanoseconds}",
        "173": "u0",  # PCIe errors: correctable, non-fatal, fatal
        "179": "u0",
        "180": "u0",
        "185": f"u{reading.power_average_milliwatts}",
        "186": f"u{reading.power_instant_milliwatts}",
        "187": f"u{int(1000 * power.min_watts)}",
        "188": f"u{int(1000 * power.max_watts)}",
        "189": f"u{int(1000 * power.default_watts)}",
        "190": f"u{limit}",
        "191": f"q{reading.energy_millijoules}",
        "192": f"u{limit}",
        "197": f"q{reading.pcie_transmit_bytes}",
        "198": f"q{reading.pcie_receive_bytes}",
        "269": f"q{reading.thermal_violation_nanoseconds}",
        "270": f"q{reading.thermal_violation_nanoseconds}",
        "271": "q0",
    }
    limits = reading.gpu.card.temperature
    if reading.gpu.card.has_temperature_margins:
        values["193"] = f"s{limits.gpu_max - limits.shutdown}"
        values["194"] = f"s{limits.gpu_max - limits.slowdown}"
        values["196"] = "s0"
    if reading.memory_temperature_celsius is not None:
        values["82"] = f"u{reading.memory_temperature_celsius}"
    return values


def _ecc(reading: GpuReading) -> dict[str, object]:
    values: dict[str, object] = {}
    if ecc := reading.ecc:
        values |= {
            "1": "u1",
            "2": "u1",
            "3": f"q{ecc.volatile_corrected}",
            "4": f"q{ecc.volatile_uncorrected}",
            "5": f"q{ecc.aggregate_corrected}",
            "6": f"q{ecc.aggregate_uncorrected}",
            "11": f"q{ecc.volatile_corrected}",
            "12": f"q{ecc.volatile_uncorrected}",
            "22": f"q{ecc.aggregate_corrected}",
            "23": f"q{ecc.aggregate_uncorrected}",
        }
    if remapping := reading.remapping:
        values |= {
            "142": f"u{remapping.correctable}",
            "143": f"u{remapping.uncorrectable}",
            "144": f"u{int(remapping.pending)}",
            "145": f"u{int(remapping.failed)}",
        }
    if reading.retired_pages is not None:
        single, double = reading.retired_pages
        values |= {"29": f"u{single}", "30": f"u{double}", "31": f"u{int(reading.retirement_pending)}"}
    return values


def _links(reading: GpuReading) -> dict[str, object]:
    nvlink = reading.gpu.card.nvlink
    mbps = nvlink.mbps if nvlink else 0
    version = nvlink.version if nvlink else 0
    active = [link for link in reading.links if link.active]
    values: dict[str, object] = {
        str(_LINK_COUNT): f"u{len(reading.links)}",
        str(_SWITCH_LINKS): f"u{len(active)}",
    }
    for link in reading.links:
        values[f"165.{link.link}"] = f"u{int(link.active)}"
    for link in active:
        scoped = {
            138: f"q{link.transmit_kib}",
            139: f"q{link.receive_kib}",
            140: f"q{_with_overhead(link.transmit_kib)}",
            141: f"q{_with_overhead(link.receive_kib)}",
            161: f"q{link.replays}",
            162: f"q{link.recoveries}",
            163: f"q{link.crc_errors}",
            164: f"u{mbps}",
            166: f"u{version}",
        }
        values |= {f"{field}.{link.link}": value for field, value in scoped.items()}
        if link.link < _OLD_LINKS:
            for low, high, _, count in _OLD_LINK_FIELDS:
                values[str(_old_field(low, high, link.link))] = f"q{count(link)}"
            values[str(_old_field(*_OLD_SPEED[:2], link.link))] = f"u{mbps}"
    if active:
        sums = {
            138: sum(link.transmit_kib for link in active),
            139: sum(link.receive_kib for link in active),
            140: sum(_with_overhead(link.transmit_kib) for link in active),
            141: sum(_with_overhead(link.receive_kib) for link in active),
        }
        values |= {f"{field}.{ALL_LINKS}": f"q{value}" for field, value in sums.items()}
        values |= {
            str(total): f"q{sum(count(link) for link in active)}" for _, _, total, count in _OLD_LINK_FIELDS
        }
        values[str(_OLD_SPEED[2])] = f"u{mbps}"
    return values


def _old_field(low: int, high: int, link: int) -> int:
    return low + link if link < _OLD_LINKS // 2 else high + link - _OLD_LINKS // 2


def _with_overhead(kib: int) -> int:
    """Raw throughput: what the protocol itself adds is about an eighth."""
    return kib + kib // 8
