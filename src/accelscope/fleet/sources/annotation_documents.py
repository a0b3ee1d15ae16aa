"""What collectors write into Node objects, as devices: the annotations that vendors declare, which other
collectors write too, and our own `accelscope.io/devices`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec

from accelscope.fleet.api_server.objects import vendor_annotations
from accelscope.model import Device, Health, HealthState, Vendor
from accelscope.vendors.common.entry_values import number, text, whole

_MOST_DEVICES = 1024

# As Go writes times: with up to nine digits of a second, of which Python reads six.
_FRACTION = re.compile(r"(\.[0-9]{6})[0-9]+")


class BadAnnotation(ValueError):
    """A document that is not what it should be. The text says in one line why."""


@dataclass(frozen=True, slots=True)
class Annotated:
    written_at: float  # by the node's clock, seconds since the epoch
    devices: tuple[Device, ...]


def read_annotation(name: str, document: str) -> Annotated:
    """An annotation that a vendor declares, or one of `accelscope.io/devices`. Raises BadAnnotation. An entry
    that is no device is left out."""
    vendor = vendor_annotations().get(name)
    if vendor is None or vendor.annotation is None:
        return _read(document, "devices", _device)
    return _read(document, vendor.annotation.member, vendor.load(vendor.annotation.device))


def _read(
    document: str, member: str, device_of: Callable[[Mapping[str, object]], Device | None]
) -> Annotated:
    try:
        decoded = _decoder(member).decode(document)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadAnnotation(_why(error)) from None
    devices = [device_of(entry) for entry in decoded.entries[:_MOST_DEVICES]]
    return _annotated(decoded.timestamp, devices, len(decoded.entries))


@cache
def _decoder(member: str) -> msgspec.json.Decoder[Any]:
    fields: list[Any] = [("timestamp", str), ("entries", list[dict[str, object]], [])]
    return msgspec.json.Decoder(msgspec.defstruct("Document", fields, rename={"entries": member}))


def _annotated(timestamp: str, devices: list[Device | None], entries: int) -> Annotated:
    distinct = {device.id: device for device in devices if device is not None}
    if entries and not distinct:
        raise BadAnnotation("none of its entries is a device")
    return Annotated(_seconds(timestamp), tuple(distinct.values()))


def _device(entry: Mapping[str, object]) -> Device | None:
    identity, vendor = text(entry, "id"), text(entry, "vendor")
    if identity is None or vendor not in tuple(Vendor):
        return None
    word = text(entry, "health")
    used, total = number(entry, "memory_used_bytes"), number(entry, "memory_total_bytes")
    return Device(
        vendor=Vendor(vendor),
        id=identity,
        index=whole(entry, "index"),
        model=text(entry, "model"),
        health=Health(HealthState(word) if word in tuple(HealthState) else HealthState.UNKNOWN),
        utilization_ratio=number(entry, "utilization_ratio"),
        memory_used_bytes=None if used is None else round(used),
        memory_total_bytes=None if total is None else round(total),
        temperature_celsius=number(entry, "temperature_celsius", least=-273),
        power_watts=number(entry, "power_watts"),
    )


def _seconds(timestamp: str) -> float:
    try:
        moment = datetime.fromisoformat(_FRACTION.sub(r"\1", timestamp))
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise BadAnnotation("its timestamp is no RFC 3339 time") from None


def _why(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
