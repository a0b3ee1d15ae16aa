"""Queries besides the table of `npu-smi info`: details of each board, and the identity of new chips.

Each run of npu-smi initialises the driver's management library, and a board needs five or more runs. So
details are read in the background at intervals. A board that does not answer does not affect the others.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from accelscope.model import Absence, AbsenceReason, Device, Health, HealthState, Process
from accelscope.parsing import ParseError, ParseResult
from accelscope.vendors.ascend import DRIVER_ROOT, NPU_SMI, key_values
from accelscope.vendors.ascend.draft import chip_device_id
from accelscope.vendors.ascend.parse_info import Chip, chip_of
from accelscope.vendors.ascend.parse_values import (
    board_power_watts,
    boards_in,
    parse_board,
    parse_common,
    parse_ecc,
    parse_health,
    parse_list,
    parse_map,
    parse_memory,
    parse_proc_mem,
    parse_usages,
    parse_volt,
)
from accelscope.vendors.common.contract import ReaderError, ReaderOptions
from accelscope.vendors.common.tool import Tool, ToolOutput

# --- npu-smi --------------------------------------------------------------
# Runs npu-smi with the driver's libraries in its path, and checks its output.


_LIBRARY_FOLDERS = ("lib64/driver", "lib64/common", "lib64")  # of the driver's own folder
_DCMI = Path("/usr/local/dcmi")  # the management library is installed outside the driver's folder
_PATH = "LD_LIBRARY_PATH"


def library_folders(driver: Path) -> tuple[Path, ...]:
    """Folders of npu-smi's libraries. The driver's installer adds them to login shells only."""
    return (*(driver / folder for folder in _LIBRARY_FOLDERS), _DCMI)


def environment(options: ReaderOptions) -> Mapping[str, str]:
    base = os.environ if options.environment is None else options.environment
    folders = [str(folder) for folder in library_folders(Path(options.value(DRIVER_ROOT)))]
    return {**base, _PATH: ":".join([*folders, *filter(None, [base.get(_PATH)])])}


@dataclass(frozen=True, slots=True)
class SmiResult:
    parsed: ParseResult
    text: str
    exit_code: int


class NpuSmi:
    """Runs npu-smi. The lock serialises runs, since the driver may refuse a second client (-8020). After
    `patience_seconds` a run starts without the lock: the other run may hang."""

    def __init__(
        self,
        options: ReaderOptions,
        lock: threading.Lock,
        *,
        timeout_seconds: float,
        patience_seconds: float = 1.0,
    ) -> None:
        self._tool = Tool(
            options.value(NPU_SMI), timeout_seconds=timeout_seconds, environment=environment(options)
        )
        self._lock = lock
        self._patience = patience_seconds

    def find(self) -> str | None:
        return self._tool.find()

    def query(self, arguments: Sequence[str], parse: Callable[[str], ParseResult]) -> SmiResult:
        """Run `npu-smi info` with these arguments. Raises ReaderError if the output has no values."""
        output = self._run(arguments)
        text = _whole_lines(output.text)
        parsed = parse(text)
        if parsed.error is not None:
            error = _explain(parsed.error, f"{text}\n{output.complaint}", arguments)
            raise ReaderError(error.reason, f"npu-smi: {error.text}")
        return SmiResult(parsed, text, output.exit_code)

    def _run(self, arguments: Sequence[str]) -> ToolOutput:
        locked = self._lock.acquire(timeout=self._patience)
        try:
            return self._tool.run(["info", *arguments])
        finally:
            if locked:
                self._lock.release()


def chip_arguments(kind: str, board: int, chip: int | None = None) -> list[str]:
    """`chip` is None if the command or the board does not distinguish chips."""
    arguments = ["-t", kind, "-i", str(board)]
    return arguments if chip is None else [*arguments, "-c", str(chip)]


def _whole_lines(text: str) -> str:
    """Without the last line if it is not terminated: it could end within a number."""
    return text[: text.rfind("\n") + 1]


def _explain(error: ParseError, output: str, arguments: Sequence[str]) -> ParseError:
    """A more specific error, if standard error contains one."""
    if error.reason not in ("empty", "unrecognized"):
        return error
    specific = key_values.no_values_error(output, " ".join(["npu-smi info", *arguments]))
    return specific if specific.reason not in ("empty", "unrecognized") else error


# --- details --------------------------------------------------------------


_BOARD_QUERIES = (
    ("usages", parse_usages),
    ("ecc", parse_ecc),
    ("memory", parse_memory),
    ("volt", parse_volt),
)
_MOST_FAILED_BOARDS = 2  # then the tool itself probably hangs, and the round ends

# Identity and state of a chip come from other queries.
_NO_DETAILS = frozenset(
    {
        *("vendor", "id", "uuid", "index", "model", "pci_address", "board_id", "chip_id", "physical_id"),
        *("health", "stale", "read_at", "errors", "absent"),
        "memory_used_ratio",  # the table has sizes
    }
)
_NAME_FIELDS = {"sensors": "name", "clocks": "domain", "rails": "name"}  # of the members of lists
_DETAILS = tuple(f.name for f in fields(Device) if f.name not in _NO_DETAILS)


@dataclass(frozen=True, slots=True)
class DetailQuery:
    """What the next round of details queries, according to the last table."""

    chips: Mapping[Chip, str | None] = field(default_factory=dict)  # with their bus addresses
    unhealthy: frozenset[Chip] = frozenset()  # only these have error codes
    processes: bool = False  # whether to query processes, because the table has none

    @property
    def boards(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(board for board, _ in self.chips))

    def chips_of(self, board: int) -> tuple[Chip, ...]:
        return tuple(chip for chip in self.chips if chip[0] == board)

    def board_key(self, board: int) -> tuple[int, str | None]:
        return board, self.chips[self.chips_of(board)[0]]


@dataclass(slots=True)
class Details:
    """The result of a round: `boards` and `board_watts` by NPU id, the rest by chip. `addresses` are the bus
    addresses of the chips: after a reset, another chip may have the same numbers."""

    taken_at: float  # seconds since the epoch
    addresses: Mapping[Chip, str | None] = field(default_factory=dict)
    chips: dict[Chip, list[Device]] = field(default_factory=dict)
    health: dict[Chip, Device] = field(default_factory=dict)
    boards: Mapping[int, Device] = field(default_factory=dict)
    board_watts: dict[int, float] = field(default_factory=dict)
    processes: dict[Chip, tuple[Process, ...]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def restricted_to(self, devices: Iterable[Device]) -> "Details":
        same = {chip_of(d) for d in devices if self.addresses.get(chip_of(d), "") == d.pci_address}
        boards = {board for board, _ in same}
        return Details(
            self.taken_at,
            self.addresses,
            chips={chip: found for chip, found in self.chips.items() if chip in same},
            health={chip: device for chip, device in self.health.items() if chip in same},
            boards={board: device for board, device in self.boards.items() if board in boards},
            board_watts={board: watts for board, watts in self.board_watts.items() if board in boards},
            processes={chip: found for chip, found in self.processes.items() if chip in same},
        )


class DetailCollector:
    """Queries all boards in one round. A query that a board does not support is not repeated."""

    def __init__(self, smi: NpuSmi, query: Callable[[], DetailQuery], clock: Callable[[], float]) -> None:
        self._smi = smi
        self._query = query
        self._clock = clock
        self._unsupported: set[tuple[str, int]] = set()
        # The output of `-t board` does not change, so it is read once for a board at a bus address.
        self._boards: dict[tuple[int, str | None], Device] = {}

    def collect(self) -> Details:
        query = self._query()
        details = Details(self._clock(), query.chips)
        keys = {query.board_key(board) for board in query.boards}
        self._boards = {key: device for key, device in self._boards.items() if key in keys}
        failed = 0
        for tried, board in enumerate(query.boards, start=1):
            try:
                self._collect_board(board, query, details)
            except ReaderError as error:
                details.failures.append(error.reason)
                failed += 1
                if failed == tried == len(query.boards) or failed == tried == _MOST_FAILED_BOARDS:
                    raise  # no board answers: the details of the previous round stay in use
                if failed >= _MOST_FAILED_BOARDS:
                    break
        details.boards = {board: device for (board, _), device in self._boards.items()}
        return details

    def _collect_board(self, board: int, query: DetailQuery, details: Details) -> None:
        """Raises ReaderError if the tool itself fails, since the next run would fail too."""
        chips = query.chips_of(board)
        if query.board_key(board) not in self._boards:
            parsed = self._run("board", board, None, parse_board, details)
            if parsed.devices:
                self._boards[query.board_key(board)] = parsed.devices[0]

        def parse_common_and_power(text: str) -> ParseResult:
            watts = board_power_watts(text)
            if watts is not None:
                details.board_watts[board] = watts
            return parse_common(text)

        for kind, parse in (*_BOARD_QUERIES, ("common", parse_common_and_power)):
            for device in self._run(kind, board, None, parse, details).devices:
                details.chips.setdefault(_chip_of(device, chips), []).append(device)
        for chip in chips:
            if chip in query.unhealthy:
                parsed = self._run("health", board, chip[1], parse_health, details)
                if parsed.devices:
                    details.health[chip] = parsed.devices[0]
        if query.processes:
            parsed = self._run("proc-mem", board, None, parse_proc_mem, details)
            for device in parsed.devices:
                chip = _chip_of(device, chips)
                details.processes[chip] = tuple(p for p in parsed.processes if p.device == device.id)
            if len(chips) == 1 and not parsed.devices and parsed.processes:
                details.processes[chips[0]] = parsed.processes

    def _run(
        self,
        kind: str,
        board: int,
        chip: int | None,
        parse: Callable[[str], ParseResult],
        details: Details,
    ) -> ParseResult:
        if (kind, board) in self._unsupported:
            return ParseResult()
        try:
            return self._smi.query(chip_arguments(kind, board, chip), parse).parsed
        except ReaderError as error:
            if error.reason.startswith("tool_"):
                raise
            if error.reason in ("not_supported", "unknown_option"):
                self._unsupported.add((kind, board))
            else:
                details.failures.append(error.reason)
            return ParseResult()


def add_details(device: Device, details: Details) -> Device:
    """The chip of the table, with values that only the details have. The table is newer and more precise, so
    its values are preferred."""
    chip = chip_of(device)
    added: dict[str, Any] = {}
    shared = {absence.field for absence in device.absent if absence.reason is AbsenceReason.SHARED}
    board = details.boards.get(chip[0])
    for source in (*details.chips.get(chip, ()), *([board] if board is not None else ())):
        for name in _DETAILS:
            value, present = getattr(source, name), added.get(name, getattr(device, name))
            if value in (None, ()) or name in shared:
                continue
            if name in _NAME_FIELDS:
                added[name] = _merge(present, value, _NAME_FIELDS[name])
            elif present in (None, ()):
                added[name] = value
    absent = tuple(absence for absence in device.absent if absence.field not in added)
    return replace(device, absent=absent, health=_health(device, details), **added)


def _merge(present: tuple[Any, ...], more: tuple[Any, ...], name_field: str) -> tuple[Any, ...]:
    """Commands report different clocks and sensors."""
    names = {getattr(member, name_field) for member in present}
    return (*present, *(member for member in more if getattr(member, name_field) not in names))


def add_board_power(devices: Mapping[Chip, Device], details: Details) -> dict[Chip, Device]:
    """If no chip of a board measures its power but the board's controller does, publish it at the first
    chip."""
    measured = {chip[0] for chip, device in devices.items() if device.power_watts is not None}
    published: set[int] = set()
    changed: dict[Chip, Device] = {}
    for chip, device in devices.items():
        watts = details.board_watts.get(chip[0])
        if watts is None or chip[0] in measured:
            changed[chip] = device
            continue
        absent = tuple(absence for absence in device.absent if absence.field != "power_watts")
        if chip[0] in published:
            shared = Absence("power_watts", AbsenceReason.SHARED)
            changed[chip] = replace(device, absent=(*absent, shared))
        else:
            changed[chip] = replace(device, absent=absent, power_watts=watts)
            published.add(chip[0])
    return changed


def _health(device: Device, details: Details) -> Health:
    """The state in the table is newer. The driver's text comes with the error codes, and is used if it
    belongs to the same state."""
    detail = details.health.get(chip_of(device))
    if detail is None or device.health.state is HealthState.OK or device.health.vendor_word is None:
        return device.health
    if detail.health.vendor_word != device.health.vendor_word:
        return device.health
    return detail.health


def _chip_of(device: Device, chips: tuple[Chip, ...]) -> Chip:
    """For a board with one chip, not all commands print the chip's number."""
    if device.chip_id is None and len(chips) == 1:
        return chips[0]
    return (device.board_id if device.board_id is not None else chips[0][0], device.chip_id)


_MOST_ATTEMPTS = 3  # then the id of a chip is made from its bus address
_FINAL = frozenset({"not_supported", "unknown_option", "no_permission"})  # a retry would fail as well

ChipKey = tuple[int, int | None, str | None]  # NPU, chip and bus address: another chip has another key


@dataclass(frozen=True, slots=True)
class ChipIdentity:
    id: str
    die: str | None = None
    serial: str | None = None
    firmware_version: str | None = None


@dataclass(frozen=True, slots=True)
class ChipNumbers:
    index: int | None = None  # in the runtime
    physical: int | None = None  # in /dev


_NO_NUMBERS = ChipNumbers()


@dataclass(slots=True)
class ChipRegistry:
    """The chips of the node with their ids and numbers, updated when the table lists other chips than before.

    An id must not change, so a chip is published only after it is identified. That takes a run of npu-smi for
    each chip; chips that do not fit into the time of one survey follow in the next.

    A driver that is in use or not ready refuses a query and answers it later. The identity of a chip is
    queried a limited number of times. Its numbers, on which no id depends, are queried until they are known,
    with one run in each survey."""

    smi: NpuSmi
    budget_seconds: float
    monotonic: Callable[[], float] = time.monotonic
    listed_chips: int = 0  # according to the driver, including chips without a row in the table
    _chips: frozenset[ChipKey] = frozenset()  # in the last survey
    _lacks_numbers: bool = False
    _lacks_list: bool = False
    _numbers: dict[Chip, ChipNumbers] = field(default_factory=dict)
    _identities: dict[ChipKey, ChipIdentity] = field(default_factory=dict)
    _repeated: set[str] = field(default_factory=set)  # ids that several chips had at the same time
    _attempts: dict[ChipKey | None, int] = field(default_factory=dict)  # None is the list

    def update(self, devices: Iterable[Device]) -> list[str]:
        """Identify new chips. Returns the reasons of failures."""
        chips = dict.fromkeys(key_of(device) for device in devices)
        until = self.monotonic() + self.budget_seconds
        warnings: list[str] = []
        changed = frozenset(chips) != self._chips
        if changed:
            self._chips = frozenset(chips)
            self._lacks_numbers = self._lacks_list = True
            self._attempts.pop(None, None)
            warnings += self._query_numbers()
            if self.monotonic() < until:
                warnings += self._query_list()
        for key in chips:
            if key not in self._identities and self.monotonic() < until:
                warnings += self._identify(key)
        self._avoid_repeated_ids(chips)
        # Last, since a run that hangs each time would leave no time to identify chips.
        if not changed and self.monotonic() < until:
            if self._lacks_numbers:
                warnings += self._query_numbers()
            elif self._lacks_list:
                warnings += self._query_list()
        return warnings

    def identity(self, device: Device) -> ChipIdentity | None:
        """None if the chip is not identified yet."""
        return self._identities.get(key_of(device))

    def numbers(self, device: Device) -> ChipNumbers:
        return self._numbers.get(key_of(device)[:2], _NO_NUMBERS)

    def _query_numbers(self) -> list[str]:
        try:
            mapped = self.smi.query(["-m"], parse_map).parsed.devices
        except ReaderError as error:
            self._lacks_numbers = error.reason not in _FINAL
            return [error.reason]
        # If the table has no chip numbers, the map has chip 0 for each NPU.
        by_chip = {(d.board_id, d.chip_id): ChipNumbers(d.index, d.physical_id) for d in mapped}
        self._numbers = {
            (board, chip): by_chip.get((board, 0 if chip is None else chip), _NO_NUMBERS)
            for board, chip, _ in self._chips
        }
        self._lacks_numbers = _NO_NUMBERS in self._numbers.values()
        return []

    def _query_list(self) -> list[str]:
        try:
            listed = boards_in(self.smi.query(["-l"], parse_list).text)
        except ReaderError as error:
            self._lacks_list = self._should_retry(None, error)
            return [error.reason]
        self._lacks_list = False
        self.listed_chips = sum(listed.values())
        return ["npu_without_row"] if listed.keys() - {board for board, _, _ in self._chips} else []

    def _avoid_repeated_ids(self, chips: Iterable[ChipKey]) -> None:
        """Chips that report the same die, or boards that report the same serial number, have ids from their
        addresses and numbers: all of them, and until the agent ends. So neither the order of the rows nor a
        chip that is added or removed later changes these ids.

        Two cases remain in which an id changes. A chip is identified before the other chip with its die: it
        has the id from the die until the other one is identified. And the agent starts while only one of the
        chips is listed: that one has the id from the die, as a chip with a die of its own would.
        """
        counts = Counter(self._identities[key].id for key in chips if key in self._identities)
        self._repeated.update(id_ for id_, count in counts.items() if count > 1)
        for key, identity in self._identities.items():
            if identity.id in self._repeated:
                board, chip, address = key
                id_ = chip_device_id(pci=address, board=board, chip=chip)
                self._identities[key] = replace(identity, id=id_)

    def _identify(self, key: ChipKey) -> list[str]:
        board, chip, address = key
        warnings: list[str] = []
        die = serial = firmware = None
        for argument in dict.fromkeys((chip, None)):
            try:
                result = self.smi.query(chip_arguments("board", board, argument), parse_board)
            except ReaderError as error:
                warnings.append(error.reason)
                if self._should_retry(key, error):
                    return warnings
                continue
            devices = result.parsed.devices
            own = next((device for device in devices if device.chip_id == chip), None)
            is_chip = own is not None or argument is not None  # otherwise the output is about the board
            device = own or devices[0]
            die, serial = device.uuid if is_chip else None, device.serial
            firmware = device.firmware_version or firmware
            if die is not None or serial is not None:
                break
        id_ = chip_device_id(die=die, serial=serial, pci=address, board=board, chip=chip)
        self._identities[key] = ChipIdentity(id_, die, serial, firmware)
        return warnings

    def _should_retry(self, key: ChipKey | None, error: ReaderError) -> bool:
        """A final refusal does not count as an attempt: the same survey may try another query for the
        chip."""
        if error.reason in _FINAL:
            return False
        self._attempts[key] = self._attempts.get(key, 0) + 1
        return self._attempts[key] < _MOST_ATTEMPTS


def key_of(device: Device) -> ChipKey:
    return (*chip_of(device), device.pci_address)
