"""One card: the driver's values in /sys, with those of the tools where the driver has none."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
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
from accelscope.vendors.common.files import link_limits_of, link_of, read_optional, read_text
from accelscope.vendors.common.values import CounterTimes, identifier, words
from accelscope.vendors.furiosa import draft, sysfs
from accelscope.vendors.furiosa.draft import stable_id
from accelscope.vendors.furiosa.sysfs import Attributes, Entry, Hwmon, RngdCores, Sensors, WarboyCores, whole
from accelscope.vendors.furiosa.tools import MERGED_FIELDS, ToolCard, merge_cores

_HARDWARE_SLOWDOWNS = frozenset({"thermal_slowdown", "hw_power_cap", "hw_bus_limit"})


def find_problems(
    *, alive: bool | None, reported: Health, throttles: Iterable[Throttle] = ()
) -> tuple[Health, ...]:
    """What driver and tool report now, the worst first. `alive` is the driver's value; `reported` is a
    tool's, used without the driver's."""
    word = reported.vendor_word
    action = "Drain the card, then reset it or reboot the node"
    if alive is False:
        reason = "the driver reports that the card is not alive"
        return (Health(HealthState.CRITICAL, reason, word, "not_alive", action=action, until="reset"),)
    if alive is None and reported.state is HealthState.CRITICAL:
        return (replace(reported, cause="not_alive", action=action, until="reset"),)
    if alive is None and reported.state is not HealthState.OK:
        reason = reported.reason or "neither the driver nor a tool reports whether the card is alive"
        return (Health(reported.state, reason, word, "not_reported", until="condition"),)
    slowed = sorted(t.reason for t in throttles if t.active and t.reason in _HARDWARE_SLOWDOWNS)
    if not slowed:
        return ()
    return (
        Health(
            HealthState.WARNING,
            f"slowed down by hardware: {', '.join(slowed)}",
            word,
            "throttled",
            action="Check fans, airflow and power supply",
            origin="environment",
            until="condition",
        ),
    )


def health_of(problems: tuple[Health, ...], reported: Health) -> Health:
    return problems[0] if problems else Health(HealthState.OK, vendor_word=reported.vendor_word)


# Values that every card has: absent with a reason if no source has them.
_EXPECTED = (
    "temperature_celsius",
    "power_watts",
    "utilization_ratio",
    "memory_total_bytes",
    "memory_used_bytes",
)
_NOTHING: tuple[object, ...] = (None, ())


def reading(
    card: Device,
    values: Mapping[str, Any],
    tool_card: ToolCard,
    attributes: Attributes,
    problems: tuple[Health, ...],
) -> Reading:
    """`card` has the identity, `values` are the driver's; `tool_card` fills the gaps."""
    whole = dict(values)
    for name in MERGED_FIELDS:
        if whole.get(name, getattr(card, name)) in _NOTHING:
            added = getattr(tool_card.device, name)
            if added not in _NOTHING:
                whole[name] = added
    whole["cores"] = merge_cores(values.get("cores", card.cores), tool_card.device.cores)
    whole["utilization_ratio"] = utilization(whole["cores"])
    absent = {absence.field: absence.reason for absence in tool_card.device.absent} | attributes.absent
    for field in _EXPECTED:
        absent.setdefault(field, tool_card.missing)
    whole["absent"] = tuple(_absences(card, whole, absent))
    processes = tuple(
        replace(process, device=card.id, device_index=card.index, type=ProcessType.COMPUTE)
        for process in tool_card.processes
    )
    return Reading(replace(card, **whole), processes, tuple(attributes.rejected), problems)


def utilization(cores: tuple[Core, ...]) -> float | None:
    """Of the whole card: the mean over its cores. A core that is not occupied counts as 0. With an occupied
    core that is not measured there is no mean."""
    ratios = [0.0 if core.occupied is False else core.utilization_ratio for core in cores]
    known = [ratio for ratio in ratios if ratio is not None]
    return round(sum(known) / len(known), 9) if known and len(known) == len(ratios) else None


def _absences(
    card: Device, values: Mapping[str, Any], reasons: Mapping[str, AbsenceReason]
) -> Iterator[Absence]:
    """Without the fields that the other source has filled."""
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


def is_gone(devices: str, address: str) -> bool:
    """Whether the bus is visible and the device is not on it. In a container the bus may appear empty."""
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
    attributes.absent.pop("numa_node", None)  # -1 or no file, as on a machine with one node
    return None


class CardMemory:
    """State of a card between passes: times of errors and last counters. By card and not by name, because
    names move up when a card fails."""

    def __init__(self) -> None:
        self.warboy_cores = WarboyCores()
        self.rngd_cores = RngdCores()
        self.has_use = False  # the driver alone has all that `furiosa-smi status` prints
        self._word: str | None = None
        self._growth = CounterTimes()

    def word(self, alive: bool | None, reported: str | None) -> str | None:
        """The tool's word for the state. While the driver reports that the card is alive, the tool is not
        asked again."""
        self._word = reported or (self._word if alive else None)
        return self._word

    def errors(self, counts: dict[str, int], now: float) -> tuple[ErrorCount, ...]:
        return tuple(
            ErrorCount(code.partition("_")[0], code, count, self._growth.last(code, count, now))
            for code, count in counts.items()
        )


_MILLI = 1e-3


@dataclass(frozen=True, slots=True)
class _Identity:
    """What does not change while the driver shows the same card in the same folder."""

    card: object
    device: Device  # of its PCIe link only the limits
    attributes: Attributes


class CardReader:
    def __init__(self, sys: Path) -> None:
        self._pci_devices = f"{sys}/bus/pci/devices"
        self._debugfs = f"{sys}/kernel/debug/rngd"
        self._hwmon = Hwmon()
        self._memories: dict[str, CardMemory] = {}
        self._identities: dict[str, _Identity] = {}  # by folder
        self._throttle_names: dict[str, str] = {}  # by folder: the driver's list, read with the identity

    def identity(self, entry: Entry, attributes: Attributes, uuid_text: str | None = None) -> Device:
        """Identity of the card. `uuid_text` is the text of its uuid, if that was read before. Raises
        DeviceLost."""
        folder = entry.folder
        try:
            inode = os.stat(folder).st_ino  # noqa: PTH116 - a string
        except OSError:
            raise DeviceLost(f"{folder} does not exist any more") from None
        uuid_file = f"{folder}/device_uuid"
        if uuid_text is None:
            uuid = attributes.value(uuid_file, "uuid", identifier)
        else:
            uuid = attributes.parsed(uuid_file, uuid_text, "uuid", identifier)
        firmware = attributes.value(f"{folder}/fw_version", "firmware_version", words)
        card = inode, uuid, firmware
        known = self._identities.get(folder)
        if known is None or known.card != card:
            found = Attributes()
            device = self._read_identity(entry, found, uuid, firmware)
            known = _Identity(card, device, found)
            # Without the list, as of an older driver, the names of the vendor's library apply.
            self._throttle_names[folder] = read_optional(f"{folder}/throttle_reason_list") or ""
            if all(reason is AbsenceReason.NOT_KNOWN for reason in found.absent.values()):
                self._identities[folder] = known
        address = known.device.pci_address
        if address is not None and is_gone(self._pci_devices, address):
            raise DeviceLost(f"{entry.name}: its PCI device {address} is gone")
        attributes.absent.update(known.attributes.absent)
        attributes.rejected += known.attributes.rejected
        return known.device

    def _read_identity(
        self, entry: Entry, attributes: Attributes, uuid: str | None, firmware: str | None
    ) -> Device:
        folder = entry.folder
        address = attributes.value(f"{folder}/busname", "pci_address", pci_address)
        pci_folder = f"{self._pci_devices}/{address or 'unknown'}"
        serial = attributes.value(f"{folder}/device_sn", "serial", identifier)
        kind = attributes.text(f"{folder}/device_type", "model")
        architecture = (draft.architecture(kind) if kind else None) or entry.architecture
        attributes.absent.pop("model", None)  # the driver's class has the family too
        revision = attributes.value(f"{folder}/soc_rev", "revision", words)
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
            numa_node=numa_node(pci_folder, attributes),
            pcie=link_limits_of(pci_folder),
            device_name=entry.name,
            device_number=number,
            driver_version=attributes.value(f"{folder}/version", "driver_version", words),
            firmware_version=firmware,
            revision=revision,
        )

    def sensors(self, entry: Entry, card: Device, attributes: Attributes) -> Sensors:
        has_limit = entry.architecture == "rngd"
        return self._hwmon.read(self._pci_device(card), attributes, has_limit=has_limit)

    def read(
        self,
        entry: Entry,
        card: Device,
        sensors: Sensors,
        attributes: Attributes,
        *,
        tool_card: ToolCard,
        now: float,
    ) -> Reading:
        """The card's values; `tool_card` fills those that the driver does not have."""
        memory = self._memories.setdefault(card.id, CardMemory())
        folder = entry.folder
        if entry.architecture == "warboy":
            alive = attributes.value(f"{folder}/alive", "health", sysfs.flag)
        else:
            alive = attributes.value(f"{folder}/device_state", "health", sysfs.is_alive_state)
        attributes.absent.pop("health", None)  # the health is unknown then
        counts = attributes.value(f"{folder}/atr_error", "errors", sysfs.error_counts)
        uptime = attributes.value(f"{folder}/heartbeat", "uptime_seconds", draft.count)
        total, used, governor = None, None, None
        if entry.architecture == "warboy":
            cores, clocks = self._warboy_cores(entry, attributes, memory)
        else:
            governor = attributes.value(f"{folder}/npu_governor", "governor", draft.governor)
            attributes.absent.pop("governor", None)  # not every driver has one
            cores, clocks = self._rngd_cores(entry, attributes, memory, now)
            free = {core.index for core in cores if core.occupied is False}
            total, used = sysfs.card_memory(_core_folders(entry, len(cores)), free, attributes)
        limit, default_limit = self._limits(entry, sensors.power_limit_watts)
        throttles = self._throttles(entry, attributes) if entry.architecture == "rngd" else ()
        errors = memory.errors(counts, now) if counts else ()
        reported = tool_card.device.health
        word = memory.word(alive, reported.vendor_word)
        if word != reported.vendor_word:
            reported = replace(reported, vendor_word=word)
        memory.has_use = bool(
            alive and total is not None and cores and all(c.utilization_ratio is not None for c in cores)
        )
        problems = find_problems(alive=alive, reported=reported, throttles=throttles)
        values = {
            "health": health_of(problems, reported),
            "read_at": now,
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
            "pcie": link_of(self._pci_device(card), card.pcie),
            "errors": errors,
        }
        return reading(card, values, tool_card, attributes, problems)

    def has_use(self, card: str) -> bool:
        """Whether the driver had state, memory and the use of all cores at the last reading."""
        return self._memories[card].has_use

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
        occupied = attributes.value(f"{folder}/pe_occupancy", "cores.occupied", sysfs.core_flags) or ()
        number = max(len(per_core), len(occupied))
        # A core that is not occupied runs nothing, and its counters may not be readable.
        free = {index for index, held in enumerate(occupied) if not held}
        folders = {core: path for core, path in _core_folders(entry, number).items() if core not in free}
        uses = memory.rngd_cores.read(folders, now, attributes)
        cores = []
        for index in sorted({*range(number), *uses}):
            use = uses.get(index)
            cores.append(
                Core(
                    index,
                    clock_hertz=per_core[index] if index < len(per_core) else None,
                    occupied=occupied[index] if index < len(occupied) else None,
                    utilization_ratio=0.0 if index in free else use.ratio if use is not None else None,
                    cycles_total=use.counters.cycles if use is not None else None,
                    task_cycles_total=use.counters.task_cycles if use is not None else None,
                )
            )
        clocks = (Clock("npu", hertz=max(per_core)),) if per_core else ()
        return tuple(cores), clocks

    def _throttles(self, entry: Entry, attributes: Attributes) -> tuple[Throttle, ...]:
        listed = self._throttle_names[entry.folder]
        return (
            attributes.value(
                f"{entry.folder}/throttle_reason",
                "throttles",
                lambda reasons: sysfs.throttles(reasons, listed),
            )
            or ()
        )

    def _limits(self, entry: Entry, limit: float | None) -> tuple[float | None, float | None]:
        """`limit`, as the sensors have it, and the default limit. Of RNGD in debugfs, which only root may
        read: the default limit, and the limit for drivers without one among their sensors."""
        if entry.architecture != "rngd":
            return limit, None
        folder = f"{self._debugfs}/mgmt{entry.index}"
        if limit is None:
            limit = _limit(f"{folder}/power_limit_mw")
        return limit, _limit(f"{folder}/power_limit_default_mw")


def _core_folders(entry: Entry, cores: int) -> dict[int, str]:
    """Of an RNGD, by core: `rngd!npu0pe3` beside `rngd!npu0mgmt`."""
    of_card = entry.folder.removesuffix("mgmt")
    return {core: f"{of_card}pe{core}" for core in range(cores or sysfs.RNGD_CORES)}


def _limit(path: str) -> float | None:
    try:
        milliwatts = sysfs.whole(read_text(path))
    except OSError:
        return None  # not root, or debugfs is not mounted: as on most nodes
    return None if milliwatts is None or milliwatts <= 0 else milliwatts * _MILLI
