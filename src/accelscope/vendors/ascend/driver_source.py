"""All chips of a node: the table of `npu-smi info` in each survey, and details from other commands at
intervals.

The table contains all chips, so the survey reads it. Reading a chip returns its part of the table, with its
PCIe link and NUMA node from the kernel.
"""

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from accelscope.model import Device, ErrorCount, HealthState, Process, Reading
from accelscope.vendors.ascend import NPU_SMI, key_values, parse_info
from accelscope.vendors.ascend.details import (
    ChipIdentity,
    ChipRegistry,
    DetailCollector,
    DetailQuery,
    Details,
    NpuSmi,
    SmiResult,
    add_board_power,
    add_details,
)
from accelscope.vendors.ascend.parse_info import Chip, chip_of
from accelscope.vendors.ascend.parse_values import ERROR_KIND
from accelscope.vendors.ascend.reader import DEVICE_FILE, has_device_files
from accelscope.vendors.common.contract import DriverAbsent, ReaderError, ReaderOptions, Survey
from accelscope.vendors.common.files import link_of, numa_node_of
from accelscope.vendors.common.tool import PeriodicRunner

_MOST_CODES = 256  # of one chip


@dataclass(slots=True)
class _ChipErrors:
    counts: dict[str, int] = field(default_factory=dict)
    last_seen: dict[str, float] = field(default_factory=dict)
    present: frozenset[str] = frozenset()


class ErrorLog:
    """Counts error codes. npu-smi prints the codes that a chip has now, not how often it had them. A code
    counts once from its appearance to its disappearance."""

    def __init__(self) -> None:
        self._chips: dict[str, _ChipErrors] = {}

    def record(self, device: str, codes: Iterable[str], at: float) -> None:
        """Record the codes that the device has at a time, in seconds since the epoch."""
        errors = self._chips.setdefault(device, _ChipErrors())
        present = frozenset(codes)
        for code in sorted(present):
            if code not in errors.counts and len(errors.counts) >= _MOST_CODES:
                continue
            if code not in errors.present:
                errors.counts[code] = errors.counts.get(code, 0) + 1
            errors.last_seen[code] = at
        errors.present = present

    def counts(self, device: str) -> tuple[ErrorCount, ...]:
        errors = self._chips.get(device)
        if errors is None:
            return ()
        return tuple(
            ErrorCount(ERROR_KIND, code, count, errors.last_seen[code])
            for code, count in sorted(errors.counts.items())
        )


SOURCE = "npu-smi"

# Fractions of the tool timeout: for identifying new chips in one survey, and for one run of that.
_IDENTIFYING = 0.3
_IDENTIFYING_RUN = 0.5
_LONGEST_DETAIL_SECONDS = 5.0
_DAMAGE = frozenset({"broken_line", "incomplete", "not_a_row", "unidentified"})  # of rows


class DriverSource:
    def __init__(self, options: ReaderOptions) -> None:
        self._paths = options.paths
        self._npu_smi = options.value(NPU_SMI)
        self._clock = options.clock
        lock = threading.Lock()
        timeout = options.tool_timeout_seconds
        self._smi = NpuSmi(options, lock, timeout_seconds=timeout)
        self._registry = ChipRegistry(
            NpuSmi(options, lock, timeout_seconds=_IDENTIFYING_RUN * timeout), _IDENTIFYING * timeout
        )
        self._errors = ErrorLog()
        self._query = DetailQuery()
        background_smi = NpuSmi(
            options,
            lock,
            timeout_seconds=min(timeout, _LONGEST_DETAIL_SECONDS),
            patience_seconds=timeout,
        )
        self._background = PeriodicRunner(
            DetailCollector(background_smi, lambda: self._query, options.clock).collect,
            options.tool_interval_seconds,
            name="npu-smi-details",
        )
        self._first_answer_seconds = options.first_answer_seconds
        self._details = Details(0.0)  # the last ones
        self._recorded = self._details  # those whose errors are in the error log
        self._lists_processes = False
        self._readings: Mapping[str, Reading] = {}

    def survey(self) -> Survey:
        until = time.monotonic() + self._first_answer_seconds
        table = self._read_table()
        if table is None:
            self._readings = {}
            return Survey(SOURCE, ())
        now = self._clock()
        devices = table.parsed.devices
        warnings = ["tool_exit_code"] if table.exit_code else []
        if key_values.driver_is_incomplete(table.text):
            warnings.append("driver_incomplete")
        warnings += self._registry.update(devices)
        has_process_table = parse_info.has_process_table(table.text)
        self._query = DetailQuery(
            {chip_of(device): device.pci_address for device in devices},
            frozenset(chip_of(d) for d in devices if d.health.state is not HealthState.OK),
            processes=not has_process_table,
        )
        warnings += self._update_details(until)
        self._readings = self._make_readings(table, now)
        complete = len(self._readings) == len(devices) and not self._is_damaged(
            table, has_process_table=has_process_table
        )
        self._lists_processes = has_process_table
        return Survey(
            SOURCE,
            tuple(self._readings),
            next((d.driver_version for d in devices if d.driver_version), None),
            table.parsed.rejected,
            warnings=tuple(warnings),
            complete=complete,
            expected=max(len(devices), self._registry.listed_chips),
        )

    def read(self, key: str) -> Reading:
        reading = self._readings[key]
        address = reading.device.pci_address
        if address is None:
            return reading
        folder = f"{self._paths.sys}/bus/pci/devices/{address}"
        device = replace(reading.device, pcie=link_of(folder), numa_node=numa_node_of(folder))
        return replace(reading, device=device)

    def close(self) -> None:
        self._background.close()

    def _read_table(self) -> SmiResult | None:
        """None if the driver works and has no chip."""
        if self._smi.find() is None:
            raise ReaderError("tool_missing", f"Ascend devices found, but {self._npu_smi} is not installed")
        try:
            return self._smi.query([], parse_info.parse)
        except ReaderError as error:
            if error.reason == "no_devices":
                return None
            if error.reason == "other_tool" and not has_device_files(self._paths):
                raise DriverAbsent(str(error)) from None
            raise

    def _update_details(self, until: float) -> list[str]:
        latest = self._background.latest(until)
        warnings = list(latest.failures)
        details = latest.value
        if details is None:
            self._details = Details(0.0)
        elif details is not self._details:
            self._details = details
            warnings += details.failures
        return warnings

    def _make_readings(self, table: SmiResult, now: float) -> dict[str, Reading]:
        details = self._details.restricted_to(table.parsed.devices)
        identities: dict[Chip, ChipIdentity] = {}
        devices: dict[Chip, Device] = {}
        for device in table.parsed.devices:
            identity = self._registry.identity(device)
            if identity is not None:
                identities[chip_of(device)] = identity
                devices[chip_of(device)] = add_details(device, details)
        devices = add_board_power(devices, details)
        self._record_errors(details, identities, devices)
        if self._query.processes:
            processes = [
                replace(process, device=identities[chip].id)
                for chip, found in details.processes.items()
                if chip in identities
                for process in found
            ]
        else:
            ids = {device.id: identities[chip].id for chip, device in devices.items()}
            processes = [
                replace(process, device=ids.get(process.device or "", process.device))
                for process in table.parsed.processes
            ]
        return {
            identities[chip].id: self._make_reading(device, identities[chip], processes, now)
            for chip, device in devices.items()
        }

    def _make_reading(
        self, device: Device, identity: ChipIdentity, processes: list[Process], now: float
    ) -> Reading:
        numbers = self._registry.numbers(device)
        index = device.index if device.index is not None else numbers.index
        physical = device.physical_id if device.physical_id is not None else numbers.physical
        device = replace(
            device,
            id=identity.id,
            uuid=identity.die,
            serial=identity.serial or device.serial,
            firmware_version=identity.firmware_version or device.firmware_version,
            index=index,
            physical_id=physical,
            device_name=None if physical is None else f"{DEVICE_FILE}{physical}",
            read_at=now,
            errors=self._errors.counts(identity.id),
        )
        own = tuple(replace(p, device_index=index) for p in processes if p.device == identity.id)
        return Reading(device, own)

    def _record_errors(
        self, details: Details, identities: Mapping[Chip, ChipIdentity], devices: Mapping[Chip, Device]
    ) -> None:
        """Record the errors of each round of details once. A healthy chip has no errors."""
        is_new = self._recorded is not self._details
        self._recorded = self._details
        for chip, identity in identities.items():
            health = details.health.get(chip)
            if is_new and health is not None:
                codes = (error.code for error in health.errors)
                self._errors.record(identity.id, codes, details.taken_at)
            if devices[chip].health.state is HealthState.OK:
                self._errors.record(identity.id, (), details.taken_at)

    def _is_damaged(self, table: SmiResult, *, has_process_table: bool) -> bool:
        """Whether rows may be missing: the table is truncated, or some of its lines are unreadable."""
        return (
            not parse_info.is_complete(table.text)
            or (self._lists_processes and not has_process_table)
            or any(rejection.reason in _DAMAGE for rejection in table.parsed.rejected)
        )
