"""The binary file gpu_metrics of a simulated GPU: the firmware's sensors and counters in one table.

The layouts are those of the kernel's kgd_pp_interface.h. A value that the chip does not measure is all ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct, pack

from accelscope.vendors.amd.simulated.gpu import GpuReading
from accelscope.vendors.amd.simulated.spec import AmdSpec, Family

PCIE_LANES = 16
XGMI_GIGABITS = 32  # of one lane
XGMI_LANES = 16
VIDEO_ENGINES = 4
JPEG_RINGS = 8  # of each video engine
_ONES = {1: 0xFF, 2: 0xFFFF, 4: 0xFFFF_FFFF, 8: 0xFFFF_FFFF_FFFF_FFFF}
_GT_PER_SECOND = {1: 25, 2: 50, 3: 80, 4: 160, 5: 320}  # tenths
_PROCESSORS, _CLOCKS, _LINKS, _PARTITIONS, _HBM_STACKS = 8, 4, 8, 8, 4
_IDLE_SOC, _IDLE_VIDEO, _IDLE_DECODER = 28, 29, 22  # MHz
_BANDWIDTH = 5300  # GB/s, of an MI300X

# Throttle status by cause: bits of the chip, and those of the driver, which mean the same for all chips.
_STATUS = {
    Family.INSTINCT: {"ppt": 0, "socket_thermal": 6, "hbm_thermal": 7, "vr_thermal": 11},
    Family.RADEON: {"ppt": 16, "socket_thermal": 1, "hbm_thermal": 4, "vr_thermal": 5},
}
_COMMON_STATUS = {
    Family.INSTINCT: {"ppt": 0, "socket_thermal": 32, "hbm_thermal": 34, "vr_thermal": 38},
    Family.RADEON: {"ppt": 0, "socket_thermal": 36, "hbm_thermal": 34, "vr_thermal": 38},
}


def gpu_metrics(spec: AmdSpec, reading: GpuReading, *, repeats_power: bool) -> bytes:
    """`repeats_power`: older drivers report the power of a module at both dies."""
    card = reading.gpu.card
    if card.family is Family.APU:
        return _version_2_1(reading)
    if card.xccs > 1:
        return _version_1_5(reading) if spec.metrics_revision == 5 else _version_1_7(reading)
    return _version_1_3(reading, has_power=reading.gpu.is_primary_die or repeats_power)


class _Table:
    """Fields in their order, with the alignment that a C compiler gives them."""

    def __init__(self, format_: int, content: int) -> None:
        self._bytes = bytearray(pack("<HBB", 0, format_, content))

    def add(self, size: int, *values: int | None) -> None:
        """Values of so many bytes each; None is not measured. Counters wrap around."""
        self._bytes += b"\0" * (-len(self._bytes) % size)
        ones = _ONES[size]
        for value in values:
            self._bytes += (ones if value is None else value & ones).to_bytes(size, "little")

    def array(self, size: int, values: Iterable[int | None], length: int) -> None:
        known = list(values)
        self.add(size, *known, *[None] * (length - len(known)))

    def finish(self) -> bytes:
        self._bytes += b"\0" * (-len(self._bytes) % 8)
        Struct("<H").pack_into(self._bytes, 0, len(self._bytes))
        return bytes(self._bytes)


def _version_1_3(reading: GpuReading, *, has_power: bool) -> bytes:
    card = reading.gpu.card
    instinct = card.family is Family.INSTINCT
    table = _Table(1, 3)
    vr = reading.vr_millicelsius // 1000
    table.add(2, reading.edge_millicelsius // 1000, reading.junction_millicelsius // 1000)
    table.add(2, reading.memory_millicelsius // 1000, vr, vr, vr)
    table.add(
        2, reading.busy_percent, reading.memory_busy_percent, None if instinct else reading.video_percent
    )
    table.add(2, reading.power_microwatts // 10**6 if has_power else 0)
    table.add(8, reading.energy_counts if has_power else 0)
    table.add(8, reading.uptime_nanoseconds)
    for _average_then_current in range(2):
        table.add(2, reading.sclk_mhz, _IDLE_SOC, reading.mclk_mhz, *(0,) * 4)
    table.add(4, _status(_STATUS, reading))
    table.add(2, reading.fan_rpm or 0, PCIE_LANES, _GT_PER_SECOND[card.pcie_generation], None)
    if instinct:
        table.add(4, reading.activity_sum, reading.memory_activity_sum)
        table.array(2, [reading.memory_millicelsius // 1000] * _HBM_STACKS, _HBM_STACKS)
        table.add(8, reading.cycles * 10**5)
    else:
        table.add(4, None, None)
        table.array(2, (), _HBM_STACKS)
        table.add(8, None)
    table.add(2, None, None if instinct else reading.millivolts, None, None)
    table.add(8, _status(_COMMON_STATUS, reading))
    return table.finish()


def _status(bits: Mapping[Family, Mapping[str, int]], reading: GpuReading) -> int:
    """These chips have no bit for an external signal (prochot)."""
    own = bits[reading.gpu.card.family]
    return sum(1 << own[cause] for cause in reading.throttle_causes if cause in own)


def _version_1_5(reading: GpuReading) -> bytes:
    table = _Table(1, 5)
    _add_sensors(table, reading)
    table.array(2, [0] * VIDEO_ENGINES, VIDEO_ENGINES)
    table.array(2, [0] * VIDEO_ENGINES * JPEG_RINGS, VIDEO_ENGINES * JPEG_RINGS)
    table.add(8, reading.energy_counts, reading.uptime_nanoseconds)
    table.add(4, 0, 0)  # the throttle status is not in this table; no clock is locked
    _add_links(table, reading)
    table.add(8, reading.cycles * 10**5)
    _add_clocks(table, reading)
    table.add(2, None)
    return table.finish()


def _version_1_7(reading: GpuReading) -> bytes:
    table = _Table(1, 7)
    _add_sensors(table, reading)
    table.add(8, _BANDWIDTH, reading.energy_counts, reading.uptime_nanoseconds)
    table.add(4, reading.cycles, *reading.throttle_cycles.values())
    table.add(4, 0)
    _add_links(table, reading)
    table.array(2, [1] * len(reading.xgmi), _LINKS)
    table.add(2, None)
    table.add(8, reading.cycles * 10**5)
    _add_clocks(table, reading)
    table.add(2, len(reading.parts))
    _add_partitions(table, reading)
    table.add(4, 0)
    return table.finish()


def _add_sensors(table: _Table, reading: GpuReading) -> None:
    table.add(2, reading.junction_millicelsius // 1000, reading.memory_millicelsius // 1000)
    table.add(2, reading.vr_millicelsius // 1000, reading.power_microwatts // 10**6)
    table.add(2, reading.busy_percent, reading.memory_busy_percent)


def _add_links(table: _Table, reading: GpuReading) -> None:
    table.add(2, PCIE_LANES, _GT_PER_SECOND[reading.gpu.card.pcie_generation], XGMI_LANES, XGMI_GIGABITS)
    table.add(4, reading.activity_sum, reading.memory_activity_sum)
    table.add(8, reading.pcie_megabit_sum, reading.pcie_megabits, 0, reading.pcie_replays, 0)
    table.add(4, 0, 0)
    table.array(8, (link.read_kilobytes for link in reading.xgmi), _LINKS)
    table.array(8, (link.written_kilobytes for link in reading.xgmi), _LINKS)


def _add_clocks(table: _Table, reading: GpuReading) -> None:
    table.array(2, [reading.sclk_mhz] * reading.gpu.card.xccs, _PROCESSORS)
    for clock in (_IDLE_SOC, _IDLE_VIDEO, _IDLE_DECODER):
        table.array(2, [clock] * _CLOCKS, _CLOCKS)
    table.add(2, reading.mclk_mhz)


def _add_partitions(table: _Table, reading: GpuReading) -> None:
    xccs = reading.gpu.card.xccs // len(reading.parts)
    engines = max(1, VIDEO_ENGINES // len(reading.parts))
    for number in range(_PARTITIONS):
        part = reading.parts[number] if number < len(reading.parts) else None
        table.add(8)  # a structure of its own, which begins where its largest fields may

        def of_part(values: Sequence[int]) -> Sequence[int]:
            return values if part is not None else ()  # noqa: B023 - called at once

        table.array(4, of_part([part.busy_percent if part else 0] * xccs), _PROCESSORS)
        table.array(2, of_part([0] * engines * JPEG_RINGS), VIDEO_ENGINES * JPEG_RINGS)
        table.array(2, of_part([0] * engines), VIDEO_ENGINES)
        table.array(8, of_part([part.activity_sum if part else 0] * xccs), _PROCESSORS)
        table.array(8, (), _PROCESSORS)  # cycles below the host's limit: needs newer firmware


def _version_2_1(reading: GpuReading) -> bytes:
    """Of an APU: hundredths of degrees and of percents, and milliwatts."""
    table = _Table(2, 1)
    table.add(2, reading.edge_millicelsius // 10, reading.edge_millicelsius // 10)
    table.array(2, (), 8)  # the cores of the CPU
    table.array(2, (), 2)
    table.add(2, reading.busy_percent * 100, reading.video_percent * 100)
    table.add(8, reading.uptime_nanoseconds)
    table.add(2, reading.power_microwatts // 1000, None, None, None)
    table.array(2, (), 8)
    table.add(2, reading.sclk_mhz, None, reading.mclk_mhz, reading.mclk_mhz, None, None)
    table.array(2, (), 6)  # current clocks are not reported, only averages
    table.array(2, (), 8)
    table.array(2, (), 2)
    table.add(4, 0)
    table.add(2, None, None, None, None)
    return table.finish()
