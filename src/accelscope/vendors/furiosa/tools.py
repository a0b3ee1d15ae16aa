"""Running furiosa-smi and furiosactl: what they add to /sys, within a bounded time.

Older versions know no JSON, so each sub-command has several forms, tried from the best; the one that worked
is kept. A tool that hangs rests for a while: it would cost every pass its deadline.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace

from accelscope.model import Absence, AbsenceReason, Core, Device, Process, Rail, Rejection, Vendor
from accelscope.parsing import Parsed
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

# --- view ------------------------------------------------------------
# What one tool told in one pass: its cards, each with its processes.
#
# A card is found by PCI address, else by uuid, else by family and name. Names are good for one pass only, and
# not where address or uuid say otherwise.


_WARBOY_CORES = 2
_OF_CORES = tuple(field.name for field in fields(Core) if field.name != "index")
NO_DEVICE = Device(vendor=Vendor("furiosa"), id="")

# What one source tells where another does not; cores and health are joined by themselves.
JOINED = (
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
class Told:
    """Of one card. `missing` is why the tools did not tell what only they know."""

    device: Device = NO_DEVICE
    processes: tuple[Process, ...] = ()
    missing: AbsenceReason = AbsenceReason.NOT_KNOWN


@dataclass(frozen=True, slots=True)
class View:
    cards: tuple[Told, ...] = ()
    rejected: tuple[Rejection, ...] = field(default=())

    def of(self, card: Device) -> Told | None:
        for fits in (_same_place, _same_uuid, _same_name):
            for told in self.cards:
                if fits(told.device, card):
                    return told
        return None


def view_of(
    family: str, info: Iterable[Device], state: Iterable[Device], processes: Iterable[Process]
) -> View:
    """`info` and `state` are two outputs of one tool about the same cards; `family` is that of cards of which
    it does not say it."""
    cards: dict[tuple[str, str | None], Device] = {}
    for device in (*info, *state):
        architecture = device.architecture or family
        key = (architecture, device.device_name)
        device = replace(device, architecture=architecture)  # noqa: PLW2901 - the same card, more known
        cards[key] = joined(cards[key], device) if key in cards else device
    held: dict[tuple[str, str | None], list[Process]] = {}
    rejected: list[Rejection] = []
    for process in processes:
        owners = [key for key, device in cards.items() if device.index == process.device_index]
        if len(owners) > 1:
            owners = [key for key in owners if _fits(cards[key], process)]
        if not owners and not any(d.index == process.device_index for d in cards.values()):
            name = f"npu{process.device_index}"
            stub = replace(NO_DEVICE, architecture=family, device_name=name, index=process.device_index)
            cards[family, name] = stub
            owners = [(family, name)]
        if len(owners) == 1:
            held.setdefault(owners[0], []).append(process)
        else:
            rejected.append(Rejection(f"pid {process.pid}: npu{process.device_index}", "ambiguous_card"))
    return View(
        tuple(Told(device, tuple(held.get(key, ()))) for key, device in cards.items()), tuple(rejected)
    )


def joined(first: Device, second: Device) -> Device:
    """Two views of one card: the first's values, and the second's where it has none."""
    added = {
        name: getattr(second, name)
        for name in JOINED
        if getattr(first, name) in (None, ()) and getattr(second, name) not in (None, ())
    }
    health = first.health if first.health != NO_DEVICE.health else second.health
    absent = {absence.field: absence for absence in (*second.absent, *first.absent)}
    return replace(
        first,
        **added,
        health=health,
        cores=joined_cores(first.cores, second.cores),
        absent=tuple(absent.values()),
    )


def joined_cores(first: tuple[Core, ...], second: tuple[Core, ...]) -> tuple[Core, ...]:
    cores = {core.index: core for core in first}
    for other in second:
        core = cores.get(other.index, other)
        added = {name: getattr(other, name) for name in _OF_CORES if getattr(core, name) is None}
        cores[other.index] = replace(core, **added)
    return tuple(cores[index] for index in sorted(cores))


def _fits(device: Device, process: Process) -> bool:
    cores = len(device.cores) or (_WARBOY_CORES if device.architecture == "warboy" else 0)
    needed = max(process.cores, default=0)
    # A process that needs more cores than a Warboy has is not on one; one that needs fewer could be on both.
    return not cores or needed < cores


def _same_place(told: Device, card: Device) -> bool:
    return told.pci_address is not None and told.pci_address == card.pci_address


def _same_uuid(told: Device, card: Device) -> bool:
    """Cards may have been given the same one: their places tell them apart."""
    return told.uuid is not None and told.uuid == card.uuid and not _elsewhere(told, card)


def _same_name(told: Device, card: Device) -> bool:
    if (told.architecture, told.device_name) != (card.architecture, card.device_name):
        return False
    other = told.uuid is not None and card.uuid is not None and told.uuid != card.uuid
    return not other and not _elsewhere(told, card)


def _elsewhere(told: Device, card: Device) -> bool:
    return None not in (told.pci_address, card.pci_address) and told.pci_address != card.pci_address


_JSON = ("--format", "json")
_WRONG_FORM = frozenset({"unknown_option", "unrecognized", "empty"})
_HANGS = frozenset({"tool_timeout", "tool_stuck"})


@dataclass(frozen=True, slots=True)
class Command:
    parse: Callable[[str], Parsed]
    forms: tuple[tuple[str, ...], ...]  # arguments, the best form first


@dataclass(slots=True)
class Heard:
    """What the tools said in one pass, and what went wrong."""

    views: list[View] = field(default_factory=list)
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
        # Half of the time for a run and half to start it in: all runs of a pass keep within the whole.
        self._seconds = options.tool_timeout_seconds / 2
        self._rest_seconds = options.tool_interval_seconds
        self._tool = Tool(program, timeout_seconds=self._seconds, environment=options.environment)
        self._commands = commands
        self._forms = dict.fromkeys(commands, 0)
        self._monotonic = monotonic
        self._rests_until: float | None = None
        self.name = name
        self.family = family

    def found(self) -> bool:
        return self._tool.find() is not None

    def look(self, names: tuple[str, ...], started: float, heard: Heard) -> View:
        """Run these sub-commands. A failure costs what that run would have added, and is counted."""
        told = {name: self._ask(name, started, heard) for name in names}
        for parsed in told.values():
            heard.rejected += parsed.rejected
        state = told.get("status", told.get("list", Parsed()))
        view = view_of(
            self.family,
            told.get("info", Parsed()).devices,
            state.devices,
            told.get("ps", Parsed()).processes,
        )
        heard.rejected += view.rejected
        return view

    def driver_version(self, started: float, heard: Heard) -> str | None:
        try:
            return driver_version(self._run(("version",), started).text)
        except ReaderError as error:
            self._note(error, heard)
            return None

    def _ask(self, name: str, started: float, heard: Heard) -> Parsed:
        command = self._commands[name]
        failure: ReaderError | None = None
        for form in range(self._forms[name], len(command.forms)):
            try:
                parsed = self._answer(name, command.forms[form], started, heard)
            except ReaderError as error:
                failure = error
                if error.reason not in _WRONG_FORM:
                    break
            else:
                self._forms[name] = form
                return self._without_core_power(parsed) if name == "info" and form else parsed
        self._forms[name] = 0  # perhaps another version was installed
        if failure is not None:
            self._note(failure, heard)
        return Parsed()

    def _answer(self, name: str, form: tuple[str, ...], started: float, heard: Heard) -> Parsed:
        output = self._run((name, *form), started)
        parsed = self._commands[name].parse(output.text)
        if parsed.error is None:
            if output.exit_code:
                heard.warnings.append("tool_exit_code")
            return parsed
        # Messages go to either of the two outputs.
        error = parsed.error
        if error.reason in ("empty", "unrecognized"):
            error = documents.error_of(output.complaint) or error
        raise ReaderError(error.reason, f"{self.name} {name}: {error.text}")

    def _run(self, arguments: tuple[str, ...], started: float) -> ToolOutput:
        now = self._monotonic()
        if self._rests_until is not None and now < self._rests_until:
            raise ReaderError("tool_resting", f"{self.name} did not answer; it is asked again later")
        if now - started > self._seconds:
            raise ReaderError("tool_timeout", f"{self.name}: earlier runs used up the time of this pass")
        self._rests_until = None
        try:
            return self._tool.run(arguments)
        except ReaderError as error:
            if error.reason in _HANGS:
                self._rests_until = self._monotonic() + self._rest_seconds
            raise

    def _note(self, error: ReaderError, heard: Heard) -> None:
        if error.reason != "tool_resting":  # said when it began to rest
            heard.warnings.append(error.reason)
        heard.error = heard.error or error

    def _without_core_power(self, parsed: Parsed) -> Parsed:
        """Before it knew JSON (0.10), furiosactl showed the power of the cores, a tenth of the card's."""
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
    """Both of the vendor's tools. furiosa-smi knows RNGD and, in later versions, Warboy; furiosactl knows
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

    def look(self, found: tuple[str, ...], warboys: frozenset[str], *, info: bool) -> Heard:
        """`warboys` names those cards of /sys; furiosactl is run where furiosa-smi does not show them all."""
        heard = Heard()
        started = self._monotonic()
        first = ("info",) if info else ()
        shown: frozenset[str | None] = frozenset()
        if self._smi.name in found:
            view = self._smi.look((*first, "status", "ps"), started, heard)
            heard.views.append(view)
            shown = frozenset(
                told.device.device_name for told in view.cards if told.device.architecture == "warboy"
            )
        if self._ctl.name in found and (warboys - shown or self._smi.name not in found):
            heard.views.append(self._ctl.look((*first, "list", "ps"), started, heard))
        return heard

    def driver_version(self, found: tuple[str, ...], heard: Heard) -> str | None:
        """Only furiosa-smi tells it."""
        if self._smi.name not in found:
            return None
        return self._smi.driver_version(self._monotonic(), heard)
