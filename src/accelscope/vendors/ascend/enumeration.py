"""Which chips there are and who they are: asked when the table shows others than before.

An id must not change once it was given, so a chip is shown only when it is known who it is. Each costs a run
of the tool; those that do not fit into the time of one survey follow in the next.

A driver that is in use or not ready refuses now and answers later. Who a chip is can wait for that only so
long; its numbers, on which no id depends, are asked for until they are told, one run a survey.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from accelscope.model import Device
from accelscope.vendors.ascend.draft import chip_device_id
from accelscope.vendors.ascend.parse_info import Chip, chip_of
from accelscope.vendors.ascend.parse_lists import boards_in, parse_list, parse_map
from accelscope.vendors.ascend.parse_values import parse_board
from accelscope.vendors.ascend.smi import NpuSmi, chip_arguments
from accelscope.vendors.common.contract import ReaderError

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
