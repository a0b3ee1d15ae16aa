"""Output of `acme-smi query`: a comment with the driver's version, then one line of CSV for each card.

    # driver 4.5.6
    0,ACME-4f9c2a10,Acme A1,0000:10:00.0,41,55.2,1024,16384,ok,1201:512 1300:512

The columns are index, uuid, model, PCI address, °C, W, MiB used, MiB in total, status and processes
(pid:MiB). A value that the card does not measure is "-".
"""

import re

from accelscope.model import (
    Absence,
    AbsenceReason,
    Device,
    Health,
    HealthState,
    Process,
    Vendor,
    device_id,
)
from accelscope.parsing import ParseError, ParseResult, Rejections

_COLUMNS = 10
_VERSION = re.compile(r"# driver (\S{1,64})")
_MEASURED = {"temperature_celsius": 4, "power_watts": 5, "memory_used_bytes": 6, "memory_total_bytes": 7}
_STATES = {"ok": HealthState.OK, "hot": HealthState.WARNING, "failed": HealthState.CRITICAL}


def parse(text: str) -> ParseResult:
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return ParseResult(error=ParseError("empty", "acme-smi printed nothing"))
    if lines[0].startswith("error:"):
        return ParseResult(error=ParseError("driver_error", lines[0]))
    version = _VERSION.fullmatch(lines[0])
    if version is None:
        return ParseResult(error=ParseError("unrecognized", "not an output of acme-smi query"))
    devices: list[Device] = []
    processes: list[Process] = []
    rejected = Rejections()
    for line in lines[1:]:
        try:
            device, own = _card(line.split(","), version[1])
        except ValueError:
            rejected.add(line, "not_a_card")
        else:
            devices.append(device)
            processes += own
    return ParseResult(
        devices=tuple(devices),
        processes=tuple(processes),
        versions=(("driver", version[1]),),
        rejected=rejected.listed(),
    )


def _card(cells: list[str], driver: str) -> tuple[Device, list[Process]]:
    """Raises ValueError."""
    if len(cells) != _COLUMNS:
        raise ValueError
    index, (uuid, model, address) = int(cells[0]), cells[1:4]
    measured = {field: _number(cells[column]) for field, column in _MEASURED.items()}
    own_id = device_id(Vendor("acme"), uuid=uuid, pci=address, index=index)
    device = Device(
        vendor=Vendor("acme"),
        id=own_id,
        index=index,
        model=model,
        uuid=uuid,
        pci_address=address,
        device_name=f"acme{index}",
        driver_version=driver,
        health=_health(cells[8]),
        temperature_celsius=measured["temperature_celsius"],
        power_watts=measured["power_watts"],
        memory_used_bytes=_bytes(measured["memory_used_bytes"]),
        memory_total_bytes=_bytes(measured["memory_total_bytes"]),
        absent=tuple(
            Absence(field, AbsenceReason.NOT_SUPPORTED) for field, value in measured.items() if value is None
        ),
    )
    pairs = (pair.split(":") for pair in cells[9].split())
    return device, [Process(pid=int(pid), device=own_id, memory_bytes=int(mib) << 20) for pid, mib in pairs]


def _number(cell: str) -> float | None:
    if cell == "-":
        return None
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", cell) is None:
        raise ValueError
    return float(cell)


def _bytes(mib: float | None) -> int | None:
    return None if mib is None else int(mib) << 20


def _health(word: str) -> Health:
    state = _STATES.get(word, HealthState.UNKNOWN)
    return Health(state, None if state is HealthState.OK else f"the driver reports {word}", word)
