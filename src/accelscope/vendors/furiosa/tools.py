"""Runs furiosa-smi and furiosactl for values that /sys does not have, within a limited time.

Older versions have no JSON, so each sub-command has several forms. The best is tried first, and the one that
works is remembered. A tool that hangs is not run for a while: it would use up the time of every pass.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace

from accelscope.model import Absence, AbsenceReason, Core, Device, Process, Rail, Rejection, Vendor
from accelscope.parsing import ParseResult
from accelscope.vendors.common.contract import ReaderError, ReaderOptions
from accelscope.vendors.common.tool import Tool, ToolOutput
from accelscope.vendors.furiosa import FURIOSA_SMI, FURIOSACTL, documents
from accelscope.vendors.furiosa.parse_tools import (
    driver_version,
    parse_info,
    parse_list,
    parse_ps,
    parse_status,
)

_WARBOY_CORES = 2
_CORE_FIELDS = tuple(field.name for field in fields(Core) if field.name != "index")
NO_DEVICE = Device(vendor=Vendor("furiosa"), id="")

# Fields that one source may have and another not; cores and health are merged separately.
MERGED_FIELDS = (
    "model",
    "uuid",
    "serial",
    "pci_address",
    "driver_version",
    "firmware_version",
    "runtime_version",
    "device_number",
    "device_files",
    "governor",
    "memory_total_bytes",
    "memory_used_bytes",
    "temperature_celsius",
    "power_watts",
    "clocks",
    "rails",
)


@dataclass(frozen=True, slots=True)
class ToolCard:
    """One card in the outputs of a tool."""

    device: Device = NO_DEVICE
    processes: tuple[Process, ...] = ()
    missing: AbsenceReason = AbsenceReason.NOT_KNOWN  # why values that only tools have are absent


@dataclass(frozen=True, slots=True)
class ToolView:
    """The cards in the outputs of one tool, in one pass."""

    cards: tuple[ToolCard, ...] = ()
    rejected: tuple[Rejection, ...] = ()

    def find(self, card: Device) -> ToolCard | None:
        """By PCI address, else by uuid, else by family and name. A name is valid for one pass only, and does
        not count if address or uuid contradict it."""
        for is_same in (_same_address, _same_uuid, _same_name):
            for candidate in self.cards:
                if is_same(candidate.device, card):
                    return candidate
        return None


def view_of(
    family: str, info: Iterable[Device], state: Iterable[Device], processes: Iterable[Process]
) -> ToolView:
    """`info` and `state` are two outputs of one tool about the same cards. `family` is the default for cards
    whose family the outputs do not contain."""
    cards: dict[tuple[str, str | None], Device] = {}
    for device in (*info, *state):
        architecture = device.architecture or family
        key = (architecture, device.device_name)
        device = replace(device, architecture=architecture)  # noqa: PLW2901 - the same card
        cards[key] = merge_cards(cards[key], device) if key in cards else device
    by_card: dict[tuple[str, str | None], list[Process]] = {}
    rejected: list[Rejection] = []
    for process in processes:
        owners = [key for key, device in cards.items() if device.index == process.device_index]
        if len(owners) > 1:
            owners = [key for key in owners if _has_enough_cores(cards[key], process)]
        if not owners and not any(d.index == process.device_index for d in cards.values()):
            name = f"npu{process.device_index}"
            stub = replace(NO_DEVICE, architecture=family, device_name=name, index=process.device_index)
            cards[family, name] = stub
            owners = [(family, name)]
        if len(owners) == 1:
            by_card.setdefault(owners[0], []).append(process)
        else:
            rejected.append(Rejection(f"pid {process.pid}: npu{process.device_index}", "ambiguous_card"))
    return ToolView(
        tuple(ToolCard(device, tuple(by_card.get(key, ()))) for key, device in cards.items()), tuple(rejected)
    )


def merge_cards(first: Device, second: Device) -> Device:
    """The values of the first, and those of the second where the first has none."""
    added = {
        name: getattr(second, name)
        for name in MERGED_FIELDS
        if getattr(first, name) in (None, ()) and getattr(second, name) not in (None, ())
    }
    health = first.health if first.health != NO_DEVICE.health else second.health
    absent = {absence.field: absence for absence in (*second.absent, *first.absent)}
    return replace(
        first,
        **added,
        health=health,
        cores=merge_cores(first.cores, second.cores),
        absent=tuple(absent.values()),
    )


def merge_cores(first: tuple[Core, ...], second: tuple[Core, ...]) -> tuple[Core, ...]:
    cores = {core.index: core for core in first}
    for other in second:
        core = cores.get(other.index, other)
        added = {name: getattr(other, name) for name in _CORE_FIELDS if getattr(core, name) is None}
        cores[other.index] = replace(core, **added)
    return tuple(cores[index] for index in sorted(cores))


def _has_enough_cores(device: Device, process: Process) -> bool:
    cores = len(device.cores) or (_WARBOY_CORES if device.architecture == "warboy" else 0)
    needed = max(process.cores, default=0)
    return not cores or needed < cores


def _same_address(reported: Device, card: Device) -> bool:
    return reported.pci_address is not None and reported.pci_address == card.pci_address


def _same_uuid(reported: Device, card: Device) -> bool:
    """Several cards may report the same uuid: their addresses distinguish them."""
    return reported.uuid is not None and reported.uuid == card.uuid and not _at_other_address(reported, card)


def _same_name(reported: Device, card: Device) -> bool:
    if (reported.architecture, reported.device_name) != (card.architecture, card.device_name):
        return False
    other = reported.uuid is not None and card.uuid is not None and reported.uuid != card.uuid
    return not other and not _at_other_address(reported, card)


def _at_other_address(reported: Device, card: Device) -> bool:
    return None not in (reported.pci_address, card.pci_address) and reported.pci_address != card.pci_address


_JSON = ("--format", "json")
_WRONG_FORM = frozenset({"unknown_option", "unrecognized", "empty"})
_HANGS = frozenset({"tool_timeout", "tool_stuck"})


@dataclass(frozen=True, slots=True)
class Command:
    parse: Callable[[str], ParseResult]
    forms: tuple[tuple[str, ...], ...]  # arguments, the best form first


@dataclass(slots=True)
class ToolPass:
    """The outputs and errors of the tools in one pass."""

    views: list[ToolView] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)
    error: ReaderError | None = None  # the first one

    @property
    def missing(self) -> AbsenceReason:
        if self.error is None:
            return AbsenceReason.NOT_KNOWN
        return AbsenceReason.TIMEOUT if self.error.reason in _HANGS else AbsenceReason.DRIVER_ERROR


class VendorTool:
    def __init__(
        self,
        name: str,
        program: str,
        options: ReaderOptions,
        *,
        family: str,
        commands: dict[str, Command],
        monotonic: Callable[[], float],
    ) -> None:
        # Runs start in the first half of the time, and each may take the other half.
        self._seconds = options.tool_timeout_seconds / 2
        self._pause_seconds = options.tool_interval_seconds
        self._tool = Tool(program, timeout_seconds=self._seconds, environment=options.environment)
        self._commands = commands
        self._forms = dict.fromkeys(commands, 0)
        self._monotonic = monotonic
        self._paused_until: float | None = None
        self.name = name
        self.family = family

    def found(self) -> bool:
        return self._tool.find() is not None

    def run(self, names: tuple[str, ...], started: float, outcome: ToolPass) -> ToolView:
        """Run these sub-commands. After a failure, only the values of that run are missing; it is counted."""
        outputs = {name: self._run_best_form(name, started, outcome) for name in names}
        for parsed in outputs.values():
            outcome.rejected += parsed.rejected
        state = outputs.get("status", outputs.get("list", ParseResult()))
        view = view_of(
            self.family,
            outputs.get("info", ParseResult()).devices,
            state.devices,
            outputs.get("ps", ParseResult()).processes,
        )
        outcome.rejected += view.rejected
        return view

    def driver_version(self, started: float, outcome: ToolPass) -> str | None:
        try:
            return driver_version(self._run(("version",), started).text)
        except ReaderError as error:
            self._note(error, outcome)
            return None

    def _run_best_form(self, name: str, started: float, outcome: ToolPass) -> ParseResult:
        command = self._commands[name]
        failure: ReaderError | None = None
        for form in range(self._forms[name], len(command.forms)):
            try:
                parsed = self._run_form(name, command.forms[form], started, outcome)
            except ReaderError as error:
                failure = error
                if error.reason not in _WRONG_FORM:
                    break
            else:
                self._forms[name] = form
                return self._without_core_power(parsed) if name == "info" and form else parsed
        self._forms[name] = 0  # another version may have been installed
        if failure is not None:
            self._note(failure, outcome)
        return ParseResult()

    def _run_form(self, name: str, form: tuple[str, ...], started: float, outcome: ToolPass) -> ParseResult:
        output = self._run((name, *form), started)
        parsed = self._commands[name].parse(output.text)
        if parsed.error is None:
            if output.exit_code:
                outcome.warnings.append("tool_exit_code")
            return parsed
        # Messages may be in either of the two outputs.
        error = parsed.error
        if error.reason in ("empty", "unrecognized"):
            error = documents.error_of(output.complaint) or error
        raise ReaderError(error.reason, f"{self.name} {name}: {error.text}")

    def _run(self, arguments: tuple[str, ...], started: float) -> ToolOutput:
        now = self._monotonic()
        if self._paused_until is not None and now < self._paused_until:
            raise ReaderError("tool_resting", f"{self.name} did not answer; it is run again later")
        if now - started > self._seconds:
            raise ReaderError("tool_timeout", f"{self.name}: earlier runs used up the time")
        self._paused_until = None
        try:
            return self._tool.run(arguments)
        except ReaderError as error:
            if error.reason in _HANGS:
                self._paused_until = self._monotonic() + self._pause_seconds
            raise

    def _note(self, error: ReaderError, outcome: ToolPass) -> None:
        if error.reason != "tool_resting":  # counted when the pause began
            outcome.warnings.append(error.reason)
        outcome.error = outcome.error or error

    def _without_core_power(self, parsed: ParseResult) -> ParseResult:
        """furiosactl before 0.10, which has no JSON, shows the power of the cores: a tenth of the card's."""
        if self.name != "furiosactl":
            return parsed
        return replace(parsed, devices=tuple(map(_core_power_as_rail, parsed.devices)))


def _core_power_as_rail(device: Device) -> Device:
    if device.power_watts is None:
        return device
    return replace(
        device,
        power_watts=None,
        rails=(Rail("core", watts=device.power_watts),),
        absent=(*device.absent, Absence("power_watts", AbsenceReason.NOT_KNOWN)),
    )


class Tools:
    """Both tools of the vendor. furiosa-smi supports RNGD and, in later versions, Warboy; furiosactl supports
    Warboy only."""

    def __init__(self, options: ReaderOptions, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._smi = VendorTool(
            "furiosa-smi",
            options.value(FURIOSA_SMI),
            options,
            family="rngd",
            commands={
                "info": Command(
                    lambda text: parse_info(text, "furiosa-smi info"),
                    (_JSON, ("--format", "full"), ("--full",), ()),
                ),
                "status": Command(parse_status, (_JSON, ())),
                "ps": Command(lambda text: parse_ps(text, "furiosa-smi ps"), (_JSON, ())),
            },
            monotonic=monotonic,
        )
        self._ctl = VendorTool(
            "furiosactl",
            options.value(FURIOSACTL),
            options,
            family="warboy",
            commands={
                "info": Command(lambda text: parse_info(text, "furiosactl info"), (_JSON, ("--full",), ())),
                "list": Command(parse_list, (_JSON, ())),
                "ps": Command(lambda text: parse_ps(text, "furiosactl ps"), (_JSON, ())),
            },
            monotonic=monotonic,
        )

    def found(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in (self._smi, self._ctl) if tool.found())

    def run(
        self, found: tuple[str, ...], warboys: frozenset[str], *, info: bool, status: bool = True
    ) -> ToolPass:
        """`warboys` are the names in /sys; furiosactl is run if furiosa-smi does not list all of them.
        `info` and `status`: whether these commands of furiosa-smi are run."""
        outcome = ToolPass()
        started = self._monotonic()
        first = ("info",) if info else ()
        shown: frozenset[str | None] = frozenset()
        if self._smi.name in found:
            state = ("status",) if status else ()
            view = self._smi.run((*first, *state, "ps"), started, outcome)
            outcome.views.append(view)
            shown = frozenset(
                card.device.device_name for card in view.cards if card.device.architecture == "warboy"
            )
        if self._ctl.name in found and (warboys - shown or self._smi.name not in found):
            outcome.views.append(self._ctl.run((*first, "list", "ps"), started, outcome))
        return outcome

    def driver_version(self, found: tuple[str, ...], outcome: ToolPass) -> str | None:
        """From furiosa-smi: furiosactl does not print it."""
        if self._smi.name not in found:
            return None
        return self._smi.driver_version(self._monotonic(), outcome)
