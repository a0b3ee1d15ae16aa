"""One card as the driver shows it in /sys, with what the tools add."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from accelscope.model import (
    Absence,
    AbsenceReason,
    Clock,
    Core,
    Device,
    ErrorCount,
    Health,
    HealthState,
    ProcessType,
    Reading,
    Throttle,
    Vendor,
    pci_address,
)
from accelscope.vendors.common.contract import DeviceLost
from accelscope.vendors.common.files import link_of, read_text
from accelscope.vendors.common.values import Growth
from accelscope.vendors.furiosa import draft, sysfs
from accelscope.vendors.furiosa.draft import stable_id
from accelscope.vendors.furiosa.sysfs import Attributes, Entry, Hwmon, RngdCores, Sensors, WarboyCores, whole
from accelscope.vendors.furiosa.tools import JOINED, Told, joined_cores

# --- health ------------------------------------------------------------
# From what the driver tells about a card to its health.


ERROR_IS_RECENT_SECONDS = 600.0

_HARDWARE_SLOWDOWNS = frozenset({"thermal_slowdown", "hw_power_cap", "hw_bus_limit"})


def health_of(
    *,
    now: float,
    alive: bool | None,
    told: Health,
    errors: Iterable[ErrorCount] = (),
    throttles: Iterable[Throttle] = (),
) -> Health:
    """The worst that holds. `alive` is the driver's word, `told` the tool's, which is taken where the driver
    says nothing."""
    if alive is False:
        return Health(HealthState.CRITICAL, "the driver says that the card is not alive", told.vendor_word)
    if alive is None and told.state is not HealthState.OK:
        reason = told.reason or "neither driver nor tool says whether the card is alive"
        return Health(told.state, reason, told.vendor_word)
    recent = sorted(
        error.code
        for error in errors
        # The file also counts doorbells, which are no errors.
        if error.code.endswith("error")
        and error.last_seen is not None
        and now - error.last_seen < ERROR_IS_RECENT_SECONDS
    )
    if recent:
        return Health(
            HealthState.WARNING, f"{', '.join(recent)} in the last ten minutes", vendor_word=told.vendor_word
        )
    slowed = sorted(t.reason for t in throttles if t.active and t.reason in _HARDWARE_SLOWDOWNS)
    if slowed:
        return Health(
            HealthState.WARNING, f"slowed down by hardware: {', '.join(slowed)}", vendor_word=told.vendor_word
        )
    return Health(HealthState.OK, vendor_word=told.vendor_word)


# --- join ------------------------------------------------------------
# The driver's values of a card, with the tools' where it has none.


# What a card has and somebody should tell.
_EXPECTED = (
    "temperature_celsius",
    "power_watts",
    "utilization_ratio",
    "memory_total_bytes",
    "memory_used_bytes",
)
_NOTHING: tuple[object, ...] = (None, ())


def reading(card: Device, values: Mapping[str, Any], told: Told, attributes: Attributes) -> Reading:
    """`card` says who it is, `values` what the driver showed."""
    whole = dict(values)
    for name in JOINED:
        if whole.get(name, getattr(card, name)) in _NOTHING:
            added = getattr(told.device, name)
            if added not in _NOTHING:
                whole[name] = added
    whole["cores"] = joined_cores(values.get("cores", card.cores), told.device.cores)
    whole["utilization_ratio"] = utilization(whole["cores"])
    absent = {absence.field: absence.reason for absence in told.device.absent} | attributes.absent
    for field in _EXPECTED:
        absent.setdefault(field, told.missing)
    whole["absent"] = tuple(_absences(card, whole, absent))
    processes = tuple(
        replace(process, device=card.id, device_index=card.index, type=ProcessType.COMPUTE)
        for process in told.processes
    )
    return Reading(replace(card, **whole), processes, tuple(attributes.rejected))


def utilization(cores: tuple[Core, ...]) -> float | None:
    """Of the whole card: the mean over its cores. A core that nobody holds runs nothing, so it counts as 0;
    with one that is held and not measured there is no mean."""
    ratios = [0.0 if core.occupied is False else core.utilization_ratio for core in cores]
    known = [ratio for ratio in ratios if ratio is not None]
    return round(sum(known) / len(known), 9) if known and len(known) == len(ratios) else None


def _absences(
    card: Device, values: Mapping[str, Any], reasons: Mapping[str, AbsenceReason]
) -> Iterator[Absence]:
    """Without those that the other source made good."""
    for field, reason in reasons.items():
        group, _, member = field.partition(".")
        if not member:
            there = values.get(group, getattr(card, group)) not in _NOTHING
        elif group == "cores":
            there = any(getattr(core, member) is not None for core in values["cores"])
        elif group == "clocks":
            there = any(clock.domain == member for clock in values.get("clocks", card.clocks))
        else:
            there = False
        if not there:
            yield Absence(field, reason)


# A card's PCI device: whether it is still there, and its NUMA node.


def is_gone(devices: str, address: str) -> bool:
    """The bus is shown, and the device is not on it any more. A container may show an empty one."""
    if os.path.isdir(f"{devices}/{address}"):  # noqa: PTH112 - a string
        return False
    try:
        return bool(os.listdir(devices))  # noqa: PTH208
    except OSError:
        return False


def numa_node(device: str, attributes: Attributes) -> int | None:
    node = attributes.value(f"{device}/numa_node", "numa_node", whole)
    if node is not None and node >= 0:
        return node
    attributes.absent.pop("numa_node", None)  # -1, or no such file: a machine of one node does not say
    return None


# What is remembered of a card from one pass to the next: when its errors grew, and its last counters.


class CardMemory:
    """Belongs to a card, not to its name: names move when a card drops out."""

    def __init__(self) -> None:
        self.warboy_cores = WarboyCores()
        self.rngd_cores = RngdCores()
        self._growth = Growth()

    def errors(self, counts: dict[str, int], now: float) -> tuple[ErrorCount, ...]:
        return tuple(
            ErrorCount(code.partition("_")[0], code, count, self._growth.last(code, count, now))
            for code, count in counts.items()
        )


_MILLI = 1e-3


class CardReader:
    def __init__(self, sys: Path) -> None:
        self._pci_devices = f"{sys}/bus/pci/devices"
        self._debugfs = f"{sys}/kernel/debug/rngd"
        self._hwmon = Hwmon()
        self._memories: dict[str, CardMemory] = {}

    def identity(self, entry: Entry, attributes: Attributes) -> Device:
        """Who the card is. Raises DeviceLost."""
        if not os.path.isdir(entry.folder):  # noqa: PTH112 - a string
            raise DeviceLost(f"{entry.folder} is gone")
        folder = entry.folder
        address = attributes.value(f"{folder}/busname", "pci_address", pci_address)
        if address is not None and is_gone(self._pci_devices, address):
            raise DeviceLost(f"{entry.name}: its PCI device {address} is gone")
        uuid = attributes.value(f"{folder}/device_uuid", "uuid", draft.identifier)
        serial = attributes.value(f"{folder}/device_sn", "serial", draft.identifier)
        kind = attributes.text(f"{folder}/device_type", "model")
        architecture = (draft.architecture(kind) if kind else None) or entry.architecture
        attributes.absent.pop("model", None)  # the driver's class says the family too
        revision = attributes.value(f"{folder}/soc_rev", "revision", draft.words)
        attributes.absent.pop("revision", None)  # a detail of the identity that not every driver has
        number = attributes.value(f"{folder}/dev", "device_number", draft.device_number)
        attributes.absent.pop("device_number", None)
        return Device(
            vendor=Vendor("furiosa"),
            id=stable_id(uuid, serial, address, entry.index),
            index=entry.index,
            model=architecture,
            architecture=architecture,
            uuid=uuid,
            serial=serial,
            pci_address=address,
            device_name=entry.name,
            device_number=number,
            driver_version=attributes.value(f"{folder}/version", "driver_version", draft.words),
            firmware_version=attributes.value(f"{folder}/fw_version", "firmware_version", draft.words),
            revision=revision,
        )

    def sensors(self, card: Device, attributes: Attributes) -> Sensors:
        """What the driver itself measures of the card."""
        return self._hwmon.read(self._pci_device(card), attributes)

    def read(
        self,
        entry: Entry,
        card: Device,
        sensors: Sensors,
        attributes: Attributes,
        *,
        told: Told,
        now: float,
    ) -> Reading:
        """The card's values; `told` fills what the driver does not show."""
        memory = self._memories.setdefault(card.id, CardMemory())
        folder = entry.folder
        if entry.architecture == "warboy":
            alive = attributes.value(f"{folder}/alive", "health", sysfs.flag)
        else:
            alive = attributes.value(f"{folder}/device_state", "health", sysfs.is_alive_state)
        attributes.absent.pop("health", None)  # an unknown health speaks for itself
        governor = attributes.value(f"{folder}/npu_governor", "governor", draft.governor)
        attributes.absent.pop("governor", None)  # not every driver has one
        counts = attributes.value(f"{folder}/atr_error", "errors", sysfs.error_counts)
        uptime = attributes.value(f"{folder}/heartbeat", "uptime_seconds", draft.count)
        device = self._pci_device(card)
        total, used = None, None
        if entry.architecture == "warboy":
            cores, clocks = self._warboy_cores(entry, attributes, memory)
        else:
            cores, clocks = self._rngd_cores(entry, attributes, memory, now)
            free = {core.index for core in cores if core.occupied is False}
            total, used = sysfs.card_memory(_core_folders(entry, cores), free, attributes)
        limit, default_limit = self._limits(entry)
        if sensors.power_limit_watts is not None:
            limit = sensors.power_limit_watts
        throttles = self._throttles(entry, attributes) if entry.architecture == "rngd" else ()
        errors = memory.errors(counts, now) if counts else ()
        values = {
            "health": health_of(
                now=now, alive=alive, told=told.device.health, errors=errors, throttles=throttles
            ),
            "read_at": now,
            "numa_node": numa_node(device, attributes),
            "uptime_seconds": None if uptime is None else float(uptime),
            "governor": governor,
            "memory_total_bytes": total,
            "memory_used_bytes": used,
            "temperature_celsius": sensors.temperature_celsius,
            "power_watts": sensors.power_watts,
            "power_limit_watts": limit,
            "power_limit_default_watts": default_limit,
            "sensors": sensors.sensors,
            "rails": sensors.rails,
            "cores": cores,
            "clocks": clocks,
            "throttles": throttles,
            "pcie": link_of(device),
            "errors": errors,
        }
        return reading(card, values, told, attributes)

    def _pci_device(self, card: Device) -> str:
        return f"{self._pci_devices}/{card.pci_address or 'unknown'}"

    def _warboy_cores(
        self, entry: Entry, attributes: Attributes, memory: CardMemory
    ) -> tuple[tuple[Core, ...], tuple[Clock, ...]]:
        folder = entry.folder
        clocks = attributes.value(f"{folder}/ne_clk_freq_info", "clocks", sysfs.clocks)
        return memory.warboy_cores.read(folder.rpartition("/")[0], entry.name, attributes), clocks or ()

    def _rngd_cores(
        self, entry: Entry, attributes: Attributes, memory: CardMemory, now: float
    ) -> tuple[tuple[Core, ...], tuple[Clock, ...]]:
        folder = entry.folder
        per_core = attributes.value(f"{folder}/npu_clocks", "clocks", sysfs.core_clocks) or ()
        held = attributes.value(f"{folder}/pe_occupancy", "cores.occupied", sysfs.core_flags) or ()
        cores = tuple(
            Core(
                index,
                clock_hertz=per_core[index] if index < len(per_core) else None,
                occupied=held[index] if index < len(held) else None,
                # A core that is not occupied runs nothing, and its counters may not be readable.
                utilization_ratio=0.0 if index < len(held) and not held[index] else None,
            )
            for index in range(max(len(per_core), len(held)))
        )
        free = {core.index for core in cores if core.occupied is False}
        folders = {core: path for core, path in _core_folders(entry, cores).items() if core not in free}
        uses = memory.rngd_cores.read(folders, now, attributes)
        measured = tuple(
            Core(
                core,
                utilization_ratio=use.ratio,
                cycles_total=use.counters.cycles,
                task_cycles_total=use.counters.task_cycles,
            )
            for core, use in uses.items()
        )
        clocks = (Clock("npu", hertz=max(per_core)),) if per_core else ()
        return joined_cores(cores, measured), clocks

    def _throttles(self, entry: Entry, attributes: Attributes) -> tuple[Throttle, ...]:
        try:
            listed = read_text(f"{entry.folder}/throttle_reason_list")
        except OSError:
            listed = ""  # an older driver: the bits that the vendor's library knows
        return (
            attributes.value(
                f"{entry.folder}/throttle_reason",
                "throttles",
                lambda reasons: sysfs.throttles(reasons, listed),
            )
            or ()
        )

    def _limits(self, entry: Entry) -> tuple[float | None, float | None]:
        """RNGD's in debugfs, which only root may read: the limit of drivers that have none among their
        sensors, and the usual one."""
        if entry.architecture != "rngd":
            return None, None
        folder = f"{self._debugfs}/mgmt{entry.index}"
        return _limit(f"{folder}/power_limit_mw"), _limit(f"{folder}/power_limit_default_mw")


def _core_folders(entry: Entry, cores: tuple[Core, ...]) -> dict[int, str]:
    """Of an RNGD, by core: `rngd!npu0pe3` beside `rngd!npu0mgmt`."""
    of_card = entry.folder.removesuffix("mgmt")
    return {core: f"{of_card}pe{core}" for core in range(len(cores) or sysfs.RNGD_CORES)}


def _limit(path: str) -> float | None:
    try:
        milliwatts = sysfs.whole(read_text(path))
    except OSError:
        return None  # not root, or debugfs is not mounted: as on most nodes
    return None if milliwatts is None or milliwatts <= 0 else milliwatts * _MILLI
