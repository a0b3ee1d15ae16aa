"""Devices that could not be read: shown with their identity only, because old values would pass for new."""

from dataclasses import replace

from accelscope.model import Device, Health, HealthState, Vendor, device_id, identity_of
from accelscope.vendors.common.contract import ReaderError


def _identity_only(device: Device, health: Health) -> Device:
    # Errors are counted by the agent, not by what is gone.
    return replace(
        identity_of(device), read_at=device.read_at, errors=device.errors, stale=True, health=health
    )


def stale_device(device: Device, error: ReaderError) -> Device:
    """Nobody can tell how it is: its health is unknown, not bad."""
    return _identity_only(device, Health(HealthState.UNKNOWN, f"{error.reason}: {error}"))


def lost_device(device: Device, error: ReaderError) -> Device:
    """The driver itself says that it is gone, or no longer shows it."""
    return _identity_only(device, Health(HealthState.LOST, f"{error.reason}: {error}"))


def unidentified_device(vendor: Vendor, key: str, keys: list[str]) -> Device:
    """A device that the driver names but that never answered."""
    index = keys.index(key)
    return Device(vendor=vendor, id=device_id(vendor, index=index), index=index)
