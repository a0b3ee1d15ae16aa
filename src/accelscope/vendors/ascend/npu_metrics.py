"""The entries of the annotation k8s-monitor.io/npu-metrics, which the agent writes.

Its readers decode it into Go structs with integer fields: `40.0` instead of `40` would make the whole
document unreadable to them.
"""

from collections.abc import Iterable, Iterator

from accelscope.model import Device, HealthState
from accelscope.sinks.documents import Entry, is_answered, numbers, without_none

_MIB = 1 << 20  # npu-smi's MB
_UNKNOWN = "UNKNOWN"  # npu-smi's word for an unknown health


def entries(chips: Iterable[Device]) -> Iterator[Entry]:
    """A lost chip is left out. A chip that could not be read has an unknown health and no measurements."""
    listed = (
        chip for chip in chips if chip.board_id is not None and chip.health.state is not HealthState.LOST
    )
    return map(_entry, sorted(listed, key=lambda chip: (chip.board_id or 0, chip.chip_id or 0)))


def _entry(chip: Device) -> Entry:
    # Readers print it as the number of the row. For a 910B or 310P, npu-smi prints no Phy-ID, so the logic id
    # is used instead: `Device` in the table of a 310P, and in `npu-smi info -m` for both.
    number = chip.index if chip.physical_id is None else chip.physical_id
    identity = without_none(
        ("npu", chip.board_id),
        ("chip", chip.chip_id),
        ("phy_id", number),
        # In upper case, as npu-smi prints it.
        ("bus_id", chip.pci_address.upper() if chip.pci_address is not None else None),
        ("health", _UNKNOWN if chip.stale else chip.health.vendor_word or _UNKNOWN),
    )
    return Entry(
        identity,
        numbers(
            ("power", chip.power_watts, 1),
            ("temp", chip.temperature_celsius, None),
            ("aicore", _scaled(chip.utilization_ratio, 100), None),
            ("hbm_used", _scaled(chip.memory_used_bytes, 1 / _MIB), None),
            ("hbm_total", _scaled(chip.memory_total_bytes, 1 / _MIB), None),
        ),
        chip.id,
        is_answered(chip),
        lacks_number=number is None,
    )


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
