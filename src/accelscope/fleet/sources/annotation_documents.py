"""What collectors write into Node objects, as devices: `k8s-monitor.io/npu-metrics`, which others than us
write too, and our own `accelscope.io/devices`."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from accelscope.model import Device, Health, HealthState, Vendor, pci_address
from accelscope.readers.ascend.health import health_of
from accelscope.readers.ascend.identity import chip_device_id

_MIB = 1 << 20
_MOST_DEVICES = 1024
_LARGEST = 2**63

# As Go writes times: with up to nine digits of a second, of which Python reads six.
_FRACTION = re.compile(r"(\.[0-9]{6})[0-9]+")


class BadAnnotation(ValueError):
    """A document that is not what it should be. The text says in one line why."""


@dataclass(frozen=True, slots=True)
class Annotated:
    written_at: float  # by the node's clock, seconds since the epoch
    devices: tuple[Device, ...]


class _Chips(msgspec.Struct):
    timestamp: str
    chips: list[dict[str, object]] = []


class _Devices(msgspec.Struct):
    timestamp: str
    devices: list[dict[str, object]] = []


_chips_decoder = msgspec.json.Decoder(_Chips)
_devices_decoder = msgspec.json.Decoder(_Devices)


def npu_metrics(text: str) -> Annotated:
    """Raises BadAnnotation. An entry that is none costs itself."""
    try:
        document = _chips_decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadAnnotation(_why(error)) from None
    chips = [_chip(entry) for entry in document.chips[:_MOST_DEVICES]]
    return _annotated(document.timestamp, chips, len(document.chips))


def neutral_devices(text: str) -> Annotated:
    """Raises BadAnnotation. An entry that is none costs itself."""
    try:
        document = _devices_decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadAnnotation(_why(error)) from None
    devices = [_device(entry) for entry in document.devices[:_MOST_DEVICES]]
    return _annotated(document.timestamp, devices, len(document.devices))


def _annotated(timestamp: str, devices: list[Device | None], entries: int) -> Annotated:
    distinct = {device.id: device for device in devices if device is not None}
    if entries and not distinct:
        raise BadAnnotation("none of its entries is a device")
    return Annotated(_seconds(timestamp), tuple(distinct.values()))


def _chip(entry: Mapping[str, object]) -> Device | None:
    """A member that is no value is absent."""
    board, chip = _whole(entry, "npu"), _whole(entry, "chip")
    if board is None:
        return None
    address = _text(entry, "bus_id")
    address = None if address is None else pci_address(address)
    word = _text(entry, "health")
    used, total = _number(entry, "hbm_used"), _number(entry, "hbm_total")
    core = _number(entry, "aicore")
    return Device(
        vendor=Vendor.ASCEND,
        id=chip_device_id(pci=address, board=board, chip=chip),
        index=_whole(entry, "phy_id"),
        board_id=board,
        chip_id=chip,
        physical_id=_whole(entry, "phy_id"),
        pci_address=address,
        health=health_of(word or ""),
        power_watts=_number(entry, "power"),
        temperature_celsius=_number(entry, "temp", least=-273),
        utilization_ratio=None if core is None else core / 100,
        memory_used_bytes=None if used is None else round(used * _MIB),
        memory_total_bytes=None if total is None else round(total * _MIB),
    )


def _device(entry: Mapping[str, object]) -> Device | None:
    identity, vendor = _text(entry, "id"), _text(entry, "vendor")
    if identity is None or vendor not in tuple(Vendor):
        return None
    word = _text(entry, "health")
    used, total = _number(entry, "memory_used_bytes"), _number(entry, "memory_total_bytes")
    return Device(
        vendor=Vendor(vendor),
        id=identity,
        index=_whole(entry, "index"),
        model=_text(entry, "model"),
        health=Health(HealthState(word) if word in tuple(HealthState) else HealthState.UNKNOWN),
        utilization_ratio=_number(entry, "utilization_ratio"),
        memory_used_bytes=None if used is None else round(used),
        memory_total_bytes=None if total is None else round(total),
        temperature_celsius=_number(entry, "temperature_celsius", least=-273),
        power_watts=_number(entry, "power_watts"),
    )


def _number(entry: Mapping[str, object], name: str, *, least: float = 0) -> float | None:
    value = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if least <= value < _LARGEST and math.isfinite(value) else None


def _whole(entry: Mapping[str, object], name: str) -> int | None:
    value = _number(entry, name)
    return int(value) if value is not None and value == int(value) else None


def _text(entry: Mapping[str, object], name: str) -> str | None:
    value = entry.get(name)
    return value if isinstance(value, str) and value else None


def _seconds(timestamp: str) -> float:
    try:
        moment = datetime.fromisoformat(_FRACTION.sub(r"\1", timestamp))
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise BadAnnotation("its timestamp is no RFC 3339 time") from None


def _why(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
