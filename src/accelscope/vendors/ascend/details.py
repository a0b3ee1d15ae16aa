"""What `npu-smi info -t …` adds to the table: asked board by board, beside the collections.

Each run of the tool starts the driver's management library anew, and there are five or more runs a board, so
that this is done once in a while. A board that does not answer costs only itself.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from accelscope.model import Absence, AbsenceReason, Device, Health, HealthState, Process
from accelscope.parsing import Parsed
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
from accelscope.vendors.ascend.smi import NpuSmi, chip_arguments
from accelscope.vendors.common.contract import ReaderError

_OF_BOARDS = (
    ("usages", parse_usages),
    ("ecc", parse_ecc),
    ("memory", parse_memory),
    ("volt", parse_volt),
)
_MOST_SILENT_BOARDS = 2  # after these the tool itself is taken to hang, and the round ends

# Who a chip is and how it is, is said elsewhere; all else may be a detail.
_NO_DETAILS = frozenset(
    {
        *("vendor", "id", "uuid", "index", "model", "pci_address", "board_id", "chip_id", "physical_id"),
        *("health", "stale", "read_at", "errors", "absent"),
        "memory_used_ratio",  # the table has sizes
    }
)
_BY_NAME = {"sensors": "name", "clocks": "domain", "rails": "name"}  # lists, and what tells members apart
_DETAILS = tuple(f.name for f in fields(Device) if f.name not in _NO_DETAILS)


@dataclass(frozen=True, slots=True)
class Questions:
    """What to ask of, as the last table showed it."""

    chips: Mapping[Chip, str | None] = field(default_factory=dict)  # with their bus addresses
    unhealthy: frozenset[Chip] = frozenset()  # only these have error codes
    processes: bool = False  # the table has none

    @property
    def boards(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(board for board, _ in self.chips))

    def chips_of(self, board: int) -> tuple[Chip, ...]:
        return tuple(chip for chip in self.chips if chip[0] == board)

    def place_of(self, board: int) -> tuple[int, str | None]:
        return board, self.chips[self.chips_of(board)[0]]


@dataclass(slots=True)
class Details:
    """What a round brought: `boards` and `board_watts` by NPU id, the rest by chip. `addresses` are where the
    chips were then: after a reset the same numbers may be another's."""

    taken_at: float  # seconds since the epoch
    addresses: Mapping[Chip, str | None] = field(default_factory=dict)
    chips: dict[Chip, list[Device]] = field(default_factory=dict)
    health: dict[Chip, Device] = field(default_factory=dict)
    boards: Mapping[int, Device] = field(default_factory=dict)
    board_watts: dict[int, float] = field(default_factory=dict)
    processes: dict[Chip, tuple[Process, ...]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def about(self, devices: Iterable[Device]) -> "Details":
        """The part that is about these chips."""
        same = {chip_of(d) for d in devices if self.addresses.get(chip_of(d), "") == d.pci_address}
        boards = {board for board, _ in same}
        return Details(
            self.taken_at,
            self.addresses,
            chips={chip: told for chip, told in self.chips.items() if chip in same},
            health={chip: told for chip, told in self.health.items() if chip in same},
            boards={board: told for board, told in self.boards.items() if board in boards},
            board_watts={board: watts for board, watts in self.board_watts.items() if board in boards},
            processes={chip: found for chip, found in self.processes.items() if chip in same},
        )


class DetailRounds:
    """One round asks all boards. What a board does not support is not asked again."""

    def __init__(self, smi: NpuSmi, questions: Callable[[], Questions], clock: Callable[[], float]) -> None:
        self._smi = smi
        self._questions = questions
        self._clock = clock
        self._unsupported: set[tuple[str, int]] = set()
        # A board's facts do not change: asked once for a board in a place on the bus.
        self._boards: dict[tuple[int, str | None], Device] = {}

    def __call__(self) -> Details:
        questions = self._questions()
        details = Details(self._clock(), questions.chips)
        places = {questions.place_of(board) for board in questions.boards}
        self._boards = {place: told for place, told in self._boards.items() if place in places}
        silent = 0
        for asked, board in enumerate(questions.boards, start=1):
            try:
                self._ask_board(board, questions, details)
            except ReaderError as error:
                details.failures.append(error.reason)
                silent += 1
                if silent == asked == len(questions.boards) or silent == asked == _MOST_SILENT_BOARDS:
                    raise  # nobody answers: what was told before is better than nothing
                if silent >= _MOST_SILENT_BOARDS:
                    break
        details.boards = {board: told for (board, _), told in self._boards.items()}
        return details

    def _ask_board(self, board: int, questions: Questions, details: Details) -> None:
        """Raises ReaderError when the tool itself fails: it would at the next question too."""
        chips = questions.chips_of(board)
        if questions.place_of(board) not in self._boards:
            told = self._ask("board", board, None, parse_board, details)
            if told.devices:
                self._boards[questions.place_of(board)] = told.devices[0]
        for kind, parse in _OF_BOARDS:
            self._keep(self._ask(kind, board, None, parse, details), chips, details)
        self._keep(
            self._ask("common", board, None, lambda text: self._common(text, board, details), details),
            chips,
            details,
        )
        for chip in chips:
            if chip in questions.unhealthy:
                told = self._ask("health", board, chip[1], parse_health, details)
                if told.devices:
                    details.health[chip] = told.devices[0]
        if questions.processes:
            told = self._ask("proc-mem", board, None, parse_proc_mem, details)
            for device in told.devices:
                chip = _chip_of(device, chips)
                details.processes[chip] = tuple(p for p in told.processes if p.device == device.id)
            if len(chips) == 1 and not told.devices and told.processes:
                details.processes[chips[0]] = told.processes

    def _common(self, text: str, board: int, details: Details) -> Parsed:
        watts = board_power_watts(text)
        if watts is not None:
            details.board_watts[board] = watts
        return parse_common(text)

    def _ask(
        self,
        kind: str,
        board: int,
        chip: int | None,
        parse: Callable[[str], Parsed],
        details: Details,
    ) -> Parsed:
        if (kind, board) in self._unsupported:
            return Parsed()
        try:
            return self._smi.ask(chip_arguments(kind, board, chip), parse).parsed
        except ReaderError as error:
            if error.reason.startswith("tool_"):
                raise
            if error.reason in ("not_supported", "unknown_option"):
                self._unsupported.add((kind, board))
            else:
                details.failures.append(error.reason)
            return Parsed()

    @staticmethod
    def _keep(told: Parsed, chips: tuple[Chip, ...], details: Details) -> None:
        for device in told.devices:
            details.chips.setdefault(_chip_of(device, chips), []).append(device)


def with_details(device: Device, details: Details) -> Device:
    """The chip as the table shows it, with what only the details tell. The table is newer and finer, so that
    it is believed where both tell."""
    chip = chip_of(device)
    filled: dict[str, Any] = {}
    elsewhere = {absence.field for absence in device.absent if absence.reason is AbsenceReason.SHARED}
    board = details.boards.get(chip[0])
    for told in (*details.chips.get(chip, ()), *([board] if board is not None else ())):
        for name in _DETAILS:
            value, there = getattr(told, name), filled.get(name, getattr(device, name))
            if value in (None, ()) or name in elsewhere:
                continue
            if name in _BY_NAME:
                filled[name] = _joined(there, value, _BY_NAME[name])
            elif there in (None, ()):
                filled[name] = value
    absent = tuple(absence for absence in device.absent if absence.field not in filled)
    return replace(device, absent=absent, health=_health(device, details), **filled)


def _joined(there: tuple[Any, ...], more: tuple[Any, ...], name: str) -> tuple[Any, ...]:
    """Several commands tell of different clocks and sensors."""
    known = {getattr(member, name) for member in there}
    return (*there, *(member for member in more if getattr(member, name) not in known))


def with_board_power(devices: Mapping[Chip, Device], details: Details) -> dict[Chip, Device]:
    """Where no chip of a board measures its power but the board's controller does, it stands at the first."""
    measured = {chip[0] for chip, device in devices.items() if device.power_watts is not None}
    given: set[int] = set()
    changed: dict[Chip, Device] = {}
    for chip, device in devices.items():
        watts = details.board_watts.get(chip[0])
        if watts is None or chip[0] in measured:
            changed[chip] = device
            continue
        absent = tuple(absence for absence in device.absent if absence.field != "power_watts")
        if chip[0] in given:
            shared = Absence("power_watts", AbsenceReason.SHARED)
            changed[chip] = replace(device, absent=(*absent, shared))
        else:
            changed[chip] = replace(device, absent=absent, power_watts=watts)
            given.add(chip[0])
    return changed


def _health(device: Device, details: Details) -> Health:
    """The table has the newer word; what the driver says to it comes with its error codes."""
    told = details.health.get(chip_of(device))
    if told is None or device.health.state is HealthState.OK or device.health.vendor_word is None:
        return device.health
    if told.health.vendor_word != device.health.vendor_word:
        return device.health
    return told.health


def _chip_of(device: Device, chips: tuple[Chip, ...]) -> Chip:
    """Of a board with one chip the commands do not always say which."""
    if device.chip_id is None and len(chips) == 1:
        return chips[0]
    return (device.board_id if device.board_id is not None else chips[0][0], device.chip_id)


# --- enumeration ------------------------------------------------------------
# Which chips there are and who they are: asked when the table shows others than before.
#
# An id must not change once it was given, so a chip is shown only when it is known who it is. Each costs a
# run of the tool; those that do not fit into the time of one survey follow in the next.
#
# A driver that is in use or not ready refuses now and answers later. Who a chip is can wait for that only so
# long; its numbers, on which no id depends, are asked for until they are told, one run a survey.


_MOST_ATTEMPTS = 3  # a chip whose tool fails so often is known by its bus address
_FINAL = frozenset({"not_supported", "unknown_option", "no_permission"})  # asked again, it says the same

Place = tuple[int, int | None, str | None]  # NPU, chip and bus address: while these stay, so does the chip


@dataclass(frozen=True, slots=True)
class Who:
    id: str
    die: str | None = None
    serial: str | None = None
    firmware_version: str | None = None


@dataclass(frozen=True, slots=True)
class Numbers:
    index: int | None = None  # in the runtime
    physical: int | None = None  # in /dev


_NO_NUMBERS = Numbers()


@dataclass(slots=True)
class Enumeration:
    smi: NpuSmi
    budget_seconds: float
    monotonic: Callable[[], float] = time.monotonic
    listed_chips: int = 0  # that the driver counts, whether or not they have a row
    _shown: frozenset[Place] = frozenset()  # at the last survey
    _lacks_numbers: bool = False
    _lacks_list: bool = False
    _numbers: dict[Chip, Numbers] = field(default_factory=dict)
    _known: dict[Place, Who] = field(default_factory=dict)
    _repeated: set[str] = field(default_factory=set)  # ids that several chips had at one time
    _attempts: dict[Place | None, int] = field(default_factory=dict)  # None: at the list

    def learn(self, devices: Iterable[Device]) -> list[str]:
        """Ask about those that are new. Gives the reasons of what went wrong, to be counted."""
        shown = dict.fromkeys(place_of(device) for device in devices)
        until = self.monotonic() + self.budget_seconds
        warnings: list[str] = []
        are_others = frozenset(shown) != self._shown
        if are_others:
            self._shown = frozenset(shown)
            self._lacks_numbers = self._lacks_list = True
            self._attempts.pop(None, None)
            warnings += self._ask_numbers()
            if self.monotonic() < until:
                warnings += self._ask_list()
        for place in shown:
            if place not in self._known and self.monotonic() < until:
                warnings += self._ask_who(place)
        self._avoid_repeated_ids(shown)
        # Last, since a run that hangs each time would leave no time to ask who chips are.
        if not are_others and self.monotonic() < until:
            if self._lacks_numbers:
                warnings += self._ask_numbers()
            elif self._lacks_list:
                warnings += self._ask_list()
        return warnings

    def who(self, device: Device) -> Who | None:
        """None: not asked yet."""
        return self._known.get(place_of(device))

    def numbers(self, device: Device) -> Numbers:
        return self._numbers.get(place_of(device)[:2], _NO_NUMBERS)

    def _ask_numbers(self) -> list[str]:
        try:
            mapped = self.smi.ask(["-m"], parse_map).parsed.devices
        except ReaderError as error:
            self._lacks_numbers = error.reason not in _FINAL
            return [error.reason]
        # Where the table has no chips, the map has one, number 0, of each NPU.
        by_chip = {(d.board_id, d.chip_id): Numbers(d.index, d.physical_id) for d in mapped}
        self._numbers = {
            (board, chip): by_chip.get((board, 0 if chip is None else chip), _NO_NUMBERS)
            for board, chip, _ in self._shown
        }
        self._lacks_numbers = _NO_NUMBERS in self._numbers.values()
        return []

    def _ask_list(self) -> list[str]:
        try:
            listed = boards_in(self.smi.ask(["-l"], parse_list).text)
        except ReaderError as error:
            self._lacks_list = self._may_try_again(None, error)
            return [error.reason]
        self._lacks_list = False
        self.listed_chips = sum(listed.values())
        return ["npu_without_row"] if listed.keys() - {board for board, _, _ in self._shown} else []

    def _avoid_repeated_ids(self, shown: Iterable[Place]) -> None:
        """Chips that report the same die, or boards that report the same serial number, have ids from their
        addresses and numbers: all of them, and until the agent ends. So neither the order of the rows nor a
        chip that is added or removed later changes these ids.

        Two cases remain in which an id changes. A chip is identified before the other chip with its die: it
        has the id from the die until the other one is identified. And the agent starts while only one of the
        chips is listed: that one has the id from the die, as a chip with a die of its own would.
        """
        counts = Counter(self._known[place].id for place in shown if place in self._known)
        self._repeated.update(id_ for id_, count in counts.items() if count > 1)
        for place, who in self._known.items():
            if who.id in self._repeated:
                board, chip, address = place
                self._known[place] = replace(who, id=chip_device_id(pci=address, board=board, chip=chip))

    def _ask_who(self, place: Place) -> list[str]:
        board, chip, address = place
        warnings: list[str] = []
        die = serial = firmware = None
        for of_chip in dict.fromkeys((chip, None)):
            try:
                told = self.smi.ask(chip_arguments("board", board, of_chip), parse_board)
            except ReaderError as error:
                warnings.append(error.reason)
                if self._may_try_again(place, error):
                    return warnings
                continue
            devices = told.parsed.devices
            own = next((device for device in devices if device.chip_id == chip), None)
            is_of_chip = own is not None or of_chip is not None  # else it is the board's
            device = own or devices[0]
            die, serial = device.uuid if is_of_chip else None, device.serial
            firmware = device.firmware_version or firmware
            if die is not None or serial is not None:
                break
        id_ = chip_device_id(die=die, serial=serial, pci=address, board=board, chip=chip)
        self._known[place] = Who(id_, die, serial, firmware)
        return warnings

    def _may_try_again(self, place: Place | None, error: ReaderError) -> bool:
        """What is refused for good is no attempt: the same survey may ask something else of the place."""
        if error.reason in _FINAL:
            return False
        self._attempts[place] = self._attempts.get(place, 0) + 1
        return self._attempts[place] < _MOST_ATTEMPTS


def place_of(device: Device) -> Place:
    return (*chip_of(device), device.pci_address)
