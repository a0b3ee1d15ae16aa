"""Snapshots for sinks, and a clock that tests move."""

from dataclasses import dataclass
from typing import Any

from accelscope.model import (
    AgentState,
    Device,
    Health,
    HealthState,
    ReaderState,
    Snapshot,
    Vendor,
)
from accelscope.sinks.sink import Timing

START = 1_767_323_045.0  # 2026-01-02T03:04:05Z
OK = Health(HealthState.OK, vendor_word="OK")


@dataclass
class Clock:
    now: float = 0.0
    chance: float = 0.0

    @property
    def timing(self) -> Timing:
        return Timing(clock=lambda: START + self.now, monotonic=lambda: self.now, random=lambda: self.chance)


def chip(number: int = 0, **fields: Any) -> Device:
    told: dict[str, Any] = {
        "board_id": number,
        "chip_id": 0,
        "physical_id": number,
        "pci_address": f"0000:c{number % 10}:00.0",
        "model": "910B3",
        "health": OK,
        "power_watts": 93.5,
        "temperature_celsius": 40.0,
        "utilization_ratio": 0.12,
        "memory_used_bytes": 3381 << 20,
        "memory_total_bytes": 65536 << 20,
    }
    return Device(vendor=Vendor("ascend"), id=f"ascend:chip-{number}", **{**told, **fields})


def card(number: int = 0, vendor: Vendor = Vendor("nvidia"), **fields: Any) -> Device:
    told: dict[str, Any] = {
        "index": number,
        "model": "NVIDIA H100 80GB HBM3",
        "architecture": "hopper",
        "driver_version": "550.54.15",
        "memory_total_bytes": 81559 << 20,
        "health": OK,
    }
    return Device(vendor=vendor, id=f"{vendor}:card-{number}", **{**told, **fields})


def npu(number: int = 0, **fields: Any) -> Device:
    told = {
        "model": "warboy",
        "architecture": "warboy",
        "driver_version": "1.9.8, 4c1f0aa",
        "firmware_version": "1.7.8, 386a8ab",
        "memory_total_bytes": None,
    }
    return card(number, Vendor("furiosa"), **{**told, **fields})


def snapshot(*devices: Device, at: float = START, readers: tuple[ReaderState, ...] | None = None) -> Snapshot:
    """Of readers that have answered, unless they are given."""
    if readers is None:
        vendors = {device.vendor for device in devices} or {Vendor("ascend")}
        readers = tuple(ReaderState(vendor=vendor, found=True, up=True) for vendor in sorted(vendors))
    return Snapshot(
        node="node-1",
        taken_at=at,
        agent=AgentState(version="test", started_at=START),
        readers=readers,
        devices=devices,
    )
