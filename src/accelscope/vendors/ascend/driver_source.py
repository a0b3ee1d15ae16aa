"""All chips of a node: the table of `npu-smi info` at each pass, and what other commands add now and then.

The table tells of all chips at once, so it is read in the survey; reading a chip hands out its part, with
what the kernel tells of its place on the bus.
"""

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from accelscope.model import Device, ErrorCount, HealthState, Process, Reading
from accelscope.vendors.ascend import NPU_SMI, key_values, parse_info
from accelscope.vendors.ascend.details import (
    DetailRounds,
    Details,
    Enumeration,
    Questions,
    Who,
    with_board_power,
    with_details,
)
from accelscope.vendors.ascend.parse_info import Chip, chip_of
from accelscope.vendors.ascend.parse_values import ERROR_KIND
from accelscope.vendors.ascend.reader import DEVICE_FILE, has_device_files
from accelscope.vendors.ascend.smi import Answer, NpuSmi
from accelscope.vendors.common.contract import DriverAbsent, ReaderError, ReaderOptions, Survey
from accelscope.vendors.common.files import link_of, numa_node_of
from accelscope.vendors.common.tool import Background

# Errors with a code, counted by the agent: npu-smi shows which a chip has now, not how often it had them.

_MOST_CODES = 256  # of one chip


@dataclass(slots=True)
class _Log:
    counts: dict[str, int] = field(default_factory=dict)
    last_seen: dict[str, float] = field(default_factory=dict)
    present: frozenset[str] = frozenset()


class ErrorLog:
    """A code counts once from its appearing to its going away; it was last seen when it last was there."""

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}

    def note(self, device: str, codes: Iterable[str], at: float) -> None:
        """What the device showed at this time, by the clock since the epoch."""
        log = self._logs.setdefault(device, _Log())
        present = frozenset(codes)
        for code in sorted(present):
            if code not in log.counts and len(log.counts) >= _MOST_CODES:
                continue
            if code not in log.present:
                log.counts[code] = log.counts.get(code, 0) + 1
            log.last_seen[code] = at
        log.present = present

    def of(self, device: str) -> tuple[ErrorCount, ...]:
        log = self._logs.get(device)
        if log is None:
            return ()
        return tuple(
            ErrorCount(ERROR_KIND, code, count, log.last_seen[code])
            for code, count in sorted(log.counts.items())
        )


SOURCE = "npu-smi"

# Shares of a tool's time: what a survey may spend on who new chips are, and one run of it.
_IDENTIFYING = 0.3
_IDENTIFYING_RUN = 0.5
_LONGEST_DETAIL_SECONDS = 5.0
_DAMAGE = frozenset({"broken_line", "incomplete", "not_a_row", "unidentified"})  # of lines that were rows


class DriverSource:
    def __init__(self, options: ReaderOptions) -> None:
        self._paths = options.paths
        self._npu_smi = options.value(NPU_SMI)
        self._clock = options.clock
        turn = threading.Lock()
        timeout = options.tool_timeout_seconds
        self._smi = NpuSmi(options, turn, timeout_seconds=timeout)
        self._enumeration = Enumeration(
            NpuSmi(options, turn, timeout_seconds=_IDENTIFYING_RUN * timeout), _IDENTIFYING * timeout
        )
        self._errors = ErrorLog()
        self._questions = Questions()
        beside = NpuSmi(
            options,
            turn,
            timeout_seconds=min(timeout, _LONGEST_DETAIL_SECONDS),
            patience_seconds=timeout,
        )
        self._rounds = Background(
            DetailRounds(beside, lambda: self._questions, options.clock),
            options.tool_interval_seconds,
            name="npu-smi-details",
        )
        self._first_answer_seconds = options.first_answer_seconds
        self._noted = self._details = Details(0.0)  # the round whose errors were counted, and the last one
        self._lists_processes = False
        self._readings: Mapping[str, Reading] = {}

    def survey(self) -> Survey:
        until = time.monotonic() + self._first_answer_seconds
        answer = self._table()
        if answer is None:
            self._readings = {}
            return Survey(SOURCE, ())
        now = self._clock()
        devices = answer.parsed.devices
        warnings = ["tool_exit_code"] if answer.exit_code else []
        if key_values.driver_is_incomplete(answer.text):
            warnings.append("driver_incomplete")
        warnings += self._enumeration.learn(devices)
        has_process_table = parse_info.has_process_table(answer.text)
        self._questions = Questions(
            {chip_of(device): device.pci_address for device in devices},
            frozenset(chip_of(d) for d in devices if d.health.state is not HealthState.OK),
            processes=not has_process_table,
        )
        warnings += self._take_details(until)
        self._readings = self._made_readings(answer, now)
        complete = len(self._readings) == len(devices) and not self._is_damaged(
            answer, has_process_table=has_process_table
        )
        self._lists_processes = has_process_table
        return Survey(
            SOURCE,
            tuple(self._readings),
            next((d.driver_version for d in devices if d.driver_version), None),
            answer.parsed.rejected,
            warnings=tuple(warnings),
            complete=complete,
            expected=max(len(devices), self._enumeration.listed_chips),
        )

    def read(self, key: str) -> Reading:
        reading = self._readings[key]
        address = reading.device.pci_address
        if address is None:
            return reading
        folder = f"{self._paths.sys}/bus/pci/devices/{address}"
        placed = replace(reading.device, pcie=link_of(folder), numa_node=numa_node_of(folder))
        return replace(reading, device=placed)

    def close(self) -> None:
        self._rounds.close()

    def _table(self) -> Answer | None:
        """None: the driver is up and shows no chip."""
        if self._smi.find() is None:
            raise ReaderError("tool_missing", f"there are Ascend devices, but {self._npu_smi} is missing")
        try:
            return self._smi.ask([], parse_info.parse)
        except ReaderError as error:
            if error.reason == "no_devices":
                return None
            if error.reason == "other_tool" and not has_device_files(self._paths):
                raise DriverAbsent(str(error)) from None
            raise

    def _take_details(self, until: float) -> list[str]:
        latest = self._rounds.latest(until)
        warnings = list(latest.failures)
        details = latest.value
        if details is None:
            self._details = Details(0.0)
        elif details is not self._details:
            self._details = details
            warnings += details.failures
        return warnings

    def _made_readings(self, answer: Answer, now: float) -> dict[str, Reading]:
        details = self._details.about(answer.parsed.devices)
        who: dict[Chip, Who] = {}
        shown: dict[Chip, Device] = {}
        for device in answer.parsed.devices:
            known = self._enumeration.who(device)
            if known is not None:
                who[chip_of(device)] = known
                shown[chip_of(device)] = with_details(device, details)
        shown = with_board_power(shown, details)
        self._note_errors(details, who, shown)
        renamed = {device.id: who[chip_of(device)].id for device in shown.values()}
        processes = [
            replace(process, device=renamed.get(process.device or "", process.device))
            for process in answer.parsed.processes
        ]
        if self._questions.processes:
            asked = details.processes.items()
            processes = [
                replace(p, device=who[chip].id) for chip, found in asked if chip in who for p in found
            ]
        return {
            who[chip].id: self._reading(device, who[chip], processes, now) for chip, device in shown.items()
        }

    def _reading(self, device: Device, who: Who, processes: list[Process], now: float) -> Reading:
        numbers = self._enumeration.numbers(device)
        index = device.index if device.index is not None else numbers.index
        physical = device.physical_id if device.physical_id is not None else numbers.physical
        told = replace(
            device,
            id=who.id,
            uuid=who.die,
            serial=who.serial or device.serial,
            firmware_version=who.firmware_version or device.firmware_version,
            index=index,
            physical_id=physical,
            device_name=None if physical is None else f"{DEVICE_FILE}{physical}",
            read_at=now,
            errors=self._errors.of(who.id),
        )
        own = tuple(replace(p, device_index=index) for p in processes if p.device == who.id)
        return Reading(told, own)

    def _note_errors(self, details: Details, who: Mapping[Chip, Who], shown: Mapping[Chip, Device]) -> None:
        """What a round found counts once, however long it stays the last; a chip that is well has none."""
        is_new = self._noted is not self._details
        self._noted = self._details
        for chip, known in who.items():
            health = details.health.get(chip)
            if is_new and health is not None:
                codes = (error.code for error in health.errors)
                self._errors.note(known.id, codes, details.taken_at)
            if shown[chip].health.state is HealthState.OK:
                self._errors.note(known.id, (), details.taken_at)

    def _is_damaged(self, answer: Answer, *, has_process_table: bool) -> bool:
        """Whether rows may be missing that npu-smi wrote: its table has no end, or lines that are none."""
        return (
            not parse_info.is_whole(answer.text)
            or (self._lists_processes and not has_process_table)
            or any(rejection.reason in _DAMAGE for rejection in answer.parsed.rejected)
        )
