"""`accelscope doctor --cross-check`: the values of the readers beside those that the vendors' tools print.

The reader runs without the tools that it uses otherwise, so that no tool is compared with itself. It is read,
the tool runs, and it is read again. Where values differ, this is repeated: a value that changes quickly may
have been caught at a bad moment, and a mistake stays.
"""

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from accelscope.agent.assembly import make_runner, stored_errors
from accelscope.agent.collector import read_until_complete
from accelscope.agent.runner import Result
from accelscope.agent.settings import AgentSettings
from accelscope.doctor.check import Finding, Subject, join_words, note, ok, pluralize, warning
from accelscope.model import Device, Vendor
from accelscope.parsing import ParseResult
from accelscope.vendors.common.contract import ReaderError, ReaderOptions
from accelscope.vendors.common.cross_check import (
    Comparison,
    KnownDifference,
    Matcher,
    NotCompared,
    Value,
    compare,
    hint_of,
)
from accelscope.vendors.common.tool import Tool
from accelscope.vendors.common.values import first_line
from accelscope.vendors.declaration import VendorSetting

_MOST_ROUNDS = 3
_ROUNDS_SECONDS = 60.0  # no further round begins after that
_MOST_LISTED = 20  # differences, in the text
_MOST_IN_DETAILS = 1000
_NO_TOOL = "/dev/null/none"  # a path that cannot exist
_VERSION = re.compile(r"(?<![\w.])v?([0-9]+\.[0-9]+[0-9A-Za-z.+~-]*)")
_NUMBER = re.compile(r"\.(?:gi|ci)?[0-9]+(?=\.)")  # of a core, a link or a partition
_HANGS = frozenset({"tool_timeout", "tool_stuck"})
_NO_ANSWER = frozenset({"empty", "unrecognized"})  # then the reason may be on standard error
_WRONG_FORM = frozenset({*_NO_ANSWER, "unknown_option"})
_REPORT = (
    "Run it again. A difference that stays is a mistake of AccelScope or of the tool: please report it, with "
    "the archive of `accelscope capture`, which contains this comparison."
)


@dataclass(frozen=True, slots=True)
class ToolCommand:
    """A command whose output has values of devices. Versions of the tool may need different arguments for it:
    `forms` lists them, the best first."""

    forms: tuple[tuple[str, ...], ...]
    parse: Callable[[str], ParseResult]
    suits: Callable[[str | None], bool] = lambda _: True  # the versions of the tool that it is for
    # Words of an error that is a mistake of these versions, and the explanation.
    known_failure: tuple[re.Pattern[str], str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedTool:
    setting: VendorSetting
    commands: Callable[[Sequence[Device]], Sequence[ToolCommand]]  # by the devices of the reader
    commands_text: tuple[str, ...] = ()  # description of these commands, where they depend on the devices
    # Arguments with which it prints its version. Not all versions know them: the first that work count.
    version: tuple[tuple[str, ...], ...] = (("--version",),)
    version_pattern: re.Pattern[str] = _VERSION  # group 1
    covers: Callable[[Device], bool] = lambda _: True  # the devices that the tool supports
    known: tuple[KnownDifference, ...] = ()
    fields: tuple[str, ...] = ("*",)  # patterns of the places to compare

    @property
    def name(self) -> str:
        return self.setting.default

    def texts(self) -> tuple[str, ...]:
        """The commands as they are typed."""
        if self.commands_text:
            return self.commands_text
        return tuple(" ".join((self.name, *command.forms[0])) for command in self.commands(()))


def _own_environment(options: ReaderOptions) -> Mapping[str, str] | None:
    return options.environment


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossCheck:
    """What a vendor declares: the tools to compare its reader with."""

    tools: tuple[CheckedTool, ...]
    # Why reader and tool are one source; empty: the reader has sources of its own, and runs without tools.
    same_source: str = ""
    environment: Callable[[ReaderOptions], Mapping[str, str] | None] = _own_environment


@dataclass(slots=True)
class _ToolResult:
    """All rounds with one tool."""

    version: str | None = None
    comparisons: dict[tuple[int, str, str], Comparison] = field(default_factory=dict)
    left_out: NotCompared = field(default_factory=NotCompared)
    matched: set[str] = field(default_factory=set)  # ids of the reader's devices that the tool listed
    unknown: dict[str, str] = field(default_factory=dict)  # devices that only the tool lists: its command
    parts: int = 0  # further entries of a device: its partitions
    failures: list[ReaderError] = field(default_factory=list)
    known_failures: dict[str, str] = field(default_factory=dict)  # explanation by command


def cross_check(
    vendor: Vendor, declared: CrossCheck, advice: Callable[[str], str], subject: Subject
) -> Iterator[Finding]:
    """Findings named by tool and device. None where the node has neither devices nor a tool. `advice` is what
    to do about the reason of a tool's error."""
    reader = _RepeatedReading(vendor, _without_tools(subject.settings, declared))
    try:
        for finding in _compare_with_tools(reader, declared, advice, subject):
            yield replace(finding, hung=reader.hangs)
    finally:
        reader.close()


def _compare_with_tools(
    reader: "_RepeatedReading", declared: CrossCheck, advice: Callable[[str], str], subject: Subject
) -> Iterator[Finding]:
    options = subject.settings.reader_options
    programs = {tool.name: _program(tool, declared, options) for tool in declared.tools}
    found = [tool for tool in declared.tools if programs[tool.name].find() is not None]
    before = reader.read()
    devices = [device for device in before.devices if not device.stale]
    if not before.state.found and not found:
        return
    if not devices:
        names = join_words([tool.name for tool in found])
        own = "" if declared.same_source or not found else f"without {names}, "
        reason = before.state.reason or "it lists no device"
        yield note(reader.vendor.value, f"nothing to compare: {own}the reader has no values: {reason}")
        return
    uncovered = [device for device in devices if not any(tool.covers(device) for tool in found)]
    if uncovered:
        missing = [tool for tool in declared.tools if tool not in found and any(map(tool.covers, uncovered))]
        paths = " or ".join(f"--{tool.setting.name.replace('_', '-')}" for tool in missing)
        yield note(
            reader.vendor.value,
            f"{pluralize(len(uncovered), 'device', 'devices')} not compared: "
            f"{join_words([tool.name for tool in missing])} not found",
            f"Install the tool, or set {paths}. The agent does not need it for what it reads itself.",
        )
    for tool in found:
        if any(map(tool.covers, devices)):
            rounds = _Rounds(tool, programs[tool.name], reader, before)
            before = rounds.run()
            yield from _findings(tool, declared, rounds.result, before, advice)


def seconds(settings: AgentSettings) -> float:
    """Reader and tools have timeouts of their own: only a bug needs this one."""
    return 600.0 + 60 * (settings.reader_timeout + settings.device_timeout)


def _program(tool: CheckedTool, declared: CrossCheck, options: ReaderOptions) -> Tool:
    return Tool(
        options.value(tool.setting),
        timeout_seconds=options.tool_timeout_seconds,
        environment=declared.environment(options),
    )


def _without_tools(settings: AgentSettings, declared: CrossCheck) -> AgentSettings:
    if declared.same_source:
        return settings
    none = {tool.setting.name: _NO_TOOL for tool in declared.tools}
    return replace(settings, vendor_settings={**settings.vendor_settings, **none})


class _RepeatedReading:
    """Reads a vendor's devices several times with one reader, as the agent does: some values are differences
    between two readings."""

    def __init__(self, vendor: Vendor, settings: AgentSettings) -> None:
        self.vendor = vendor
        self.hangs = False  # a call was abandoned and may never return
        self._changed = threading.Condition()
        self._runner = make_runner(vendor, settings, self._changed, once=True, errors=stored_errors(settings))

    def read(self) -> Result:
        [result] = read_until_complete([self._runner], self._changed)
        self.hangs = self.hangs or result.state.abandoned_calls > 0
        return result

    def close(self) -> None:
        with self._changed:
            self._runner.stop()


# --- rounds ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Output:
    number: int  # of the command
    text: str  # the command as it is typed
    devices: tuple[Device, ...]


class _Rounds:
    """Reads, runs the tool's commands and reads again, until there is no unexplained difference."""

    def __init__(self, tool: CheckedTool, program: Tool, reader: _RepeatedReading, before: Result) -> None:
        self._tool = tool
        self._program = program
        self._reader = reader
        self._before = before
        self._forms: dict[int, int] = {}  # of each command, the form that this version understands
        self.result = _ToolResult()
        self.result.version = self._version()

    def run(self) -> Result:
        """Returns the last reading."""
        if self.result.failures:
            return self._before
        end = time.monotonic() + _ROUNDS_SECONDS
        for number in range(_MOST_ROUNDS):
            if not self._run_once(is_first=number == 0):
                break
            differing = (each for each in self.result.comparisons.values() if not each.agrees)
            if not _explained(self._tool, differing)[1] or time.monotonic() >= end:
                break
        return self._before

    def _version(self) -> str | None:
        for arguments in self._tool.version:
            try:
                output = self._program.run(arguments)
            except ReaderError as error:
                if error.reason in _HANGS:
                    self.result.failures.append(error)
                return None  # of another error, the commands report it
            match = self._tool.version_pattern.search(output.text[:10_000])
            if match and not output.exit_code:
                return match[1]
        return None

    def _run_once(self, *, is_first: bool) -> bool:
        """Whether another round may show more. Only the failures of the first round count."""
        outputs: list[_Output] = []
        devices = [device for device in self._before.devices if not device.stale]
        for number, command in enumerate(self._tool.commands(devices)):
            if not command.suits(self.result.version):
                continue
            try:
                outputs.append(self._output(number, command))
            except ReaderError as error:
                words, explanation = command.known_failure or (None, "")
                if words is not None and words.search(str(error)):
                    text = " ".join((self._tool.name, *command.forms[0]))
                    self.result.known_failures[text] = explanation
                elif is_first:
                    self.result.failures.append(error)
                if error.reason in _HANGS:
                    break
        before, self._before = self._before, self._reader.read()
        matcher = Matcher(self._before.devices)
        left_out = self.result.left_out if is_first else NotCompared()
        for output in outputs:
            self._compare(output, matcher, before, left_out)
        return bool(outputs)

    def _output(self, number: int, command: ToolCommand) -> _Output:
        forms = command.forms[self._forms.get(number, 0) :]
        failure: ReaderError | None = None
        for position, arguments in enumerate(forms, self._forms.get(number, 0)):
            text = " ".join((self._tool.name, *arguments))
            output = self._program.run(arguments)
            parsed = command.parse(output.text)
            if parsed.devices:
                self._forms[number] = position
                return _Output(number, text, parsed.devices)
            error = parsed.error
            reason, words = ("empty", "no devices") if error is None else (error.reason, error.text)
            if reason in _NO_ANSWER:
                words = first_line(output.complaint) or words
            failure = failure or ReaderError(reason, f"{text}: {words}")
            if reason not in _WRONG_FORM:
                break
        assert failure is not None  # a command has at least one form
        raise failure

    def _compare(self, output: _Output, matcher: Matcher, before: Result, left_out: NotCompared) -> None:
        result = self.result
        earlier = {device.id: device for device in before.devices}
        seen: set[str] = set()
        for entry in output.devices:
            device = matcher.match(entry)
            if device is None:
                name = entry.pci_address or entry.uuid or entry.device_name or entry.index
                result.unknown.setdefault(str(name), output.text)
                continue
            if device.id in seen:  # a partition: the first entry is that of the whole device
                result.parts += 1
                continue
            seen.add(device.id)
            result.matched.add(device.id)
            first = earlier.get(device.id, device)
            if device.stale or first.stale:
                continue
            for comparison in compare(first, device, entry, output.text, left_out):
                if not any(fnmatchcase(comparison.place, pattern) for pattern in self._tool.fields):
                    left_out.incomparable.add((device.id, comparison.place))
                    continue
                key = (output.number, device.id, comparison.place)
                known = result.comparisons.get(key)
                if known is None or not known.agrees:
                    result.comparisons[key] = comparison


# --- findings ------------------------------------------------------------


def _findings(
    tool: CheckedTool,
    declared: CrossCheck,
    result: _ToolResult,
    last: Result,
    advice: Callable[[str], str],
) -> Iterator[Finding]:
    for failure in result.failures:
        yield warning(
            tool.name,
            f"not compared: {failure}",
            advice(failure.reason),
            reason=failure.reason,
        )
    missing = [
        device
        for device in last.devices
        if not device.stale and tool.covers(device) and device.id not in result.matched
    ]
    differing = [comparison for comparison in result.comparisons.values() if not comparison.agrees]
    explained, unexplained = _explained(tool, differing)
    details = _details(declared, result, explained, unexplained, missing)
    if result.comparisons:
        yield ok(tool.name, _summary(tool, declared, result, explained, len(unexplained)), **details)
    elif not result.failures:
        yield note(tool.name, "nothing to compare: the reader has no value that the tool prints", **details)
    for comparison in unexplained[:_MOST_LISTED]:
        yield _difference(comparison)
    if len(unexplained) > _MOST_LISTED:
        more = pluralize(len(unexplained) - _MOST_LISTED, "more value differs", "more values differ")
        yield warning(tool.name, f"{more}; --json lists them", _REPORT)
    if missing and (result.comparisons or not result.failures):
        names = join_words([_name(device) for device in missing])
        yield warning(tool.name, f"does not list {names}, which the reader reads", _REPORT)
    # A device that could never be read may have no address: it must be one of these.
    unidentified = sum(device.stale and device.pci_address is None for device in last.devices)
    if len(result.unknown) > unidentified:
        names = join_words([f"{name} in `{command}`" for name, command in result.unknown.items()])
        yield warning(tool.name, f"lists devices that the reader does not have: {names}", _REPORT)


def _summary(
    tool: CheckedTool,
    declared: CrossCheck,
    result: _ToolResult,
    explained: Mapping[str, list[Comparison]],
    differing: int,
) -> str:
    compared = len(result.comparisons)
    devices = len({device for _, device, _ in result.comparisons})
    agreeing = compared - differing - sum(map(len, explained.values()))
    values = f"{compared} values" if agreeing == compared else f"{agreeing} of {compared} values"
    found = f"{values} of {pluralize(devices, 'device', 'devices')} agree with {_version(tool, result)}"
    for explanation, comparisons in explained.items():
        places = ", ".join(dict.fromkeys(_general(comparison.place) for comparison in comparisons))
        found += f"; {len(comparisons)} differ as expected, {places}: {explanation}"
    for command, explanation in result.known_failures.items():
        found += f"; `{command}` fails as expected: {explanation}"
    return f"{found}; {declared.same_source}" if declared.same_source else found


def _version(tool: CheckedTool, result: _ToolResult) -> str:
    return f"{tool.name} {result.version}" if result.version else f"{tool.name} of unknown version"


def _explained(
    tool: CheckedTool, differing: Iterable[Comparison]
) -> tuple[dict[str, list[Comparison]], list[Comparison]]:
    explained: dict[str, list[Comparison]] = {}
    unexplained = []
    for comparison in differing:
        known = next((known for known in tool.known if known.explains(comparison)), None)
        if known is None:
            unexplained.append(comparison)
        else:
            explained.setdefault(known.explanation, []).append(comparison)
    unexplained.sort(key=lambda comparison: (comparison.device.index is None, comparison.device.index or 0))
    return explained, unexplained


def _details(
    declared: CrossCheck,
    result: _ToolResult,
    explained: Mapping[str, list[Comparison]],
    unexplained: list[Comparison],
    missing: list[Device],
) -> dict[str, Any]:
    known = sum(map(len, explained.values()))
    compared = {(device, place) for _, device, place in result.comparisons}
    left_out = result.left_out
    return {
        "version": result.version,
        "independent": not declared.same_source,
        "devices": len({device for device, _ in compared}),
        "compared": len(result.comparisons),
        "agree": len(result.comparisons) - known - len(unexplained),
        "explained": known,
        "differ": len(unexplained),
        "fields": _counted(compared),
        "not_compared": {
            "only_reader": _counted(left_out.only_reader - compared - left_out.incomparable),
            "only_tool": _counted(left_out.only_tool - compared),
            "not_comparable": _counted(left_out.incomparable - compared),
            "partitions": result.parts,
        },
        "missing_in_tool": [device.id for device in missing],
        "missing_in_reader": list(result.unknown),
        "explanations": [
            {"explanation": explanation, "values": [_entry(comparison) for comparison in comparisons]}
            for explanation, comparisons in explained.items()
        ],
        "differences": [_entry(comparison) for comparison in unexplained[:_MOST_IN_DETAILS]],
    }


def _counted(values: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Number of values by place, without the numbers of cores and links."""
    return dict(sorted(Counter(_general(place) for _, place in values).items()))


def _general(place: str) -> str:
    return _NUMBER.sub(".*", place)


def _difference(comparison: Comparison) -> Finding:
    device = comparison.device
    reader = " and then ".join(map(_text, comparison.reader))
    tolerance = f", tolerance {_text(comparison.margin)}" if comparison.margin else ""
    return warning(
        f"device {'?' if device.index is None else device.index}",
        f"{device.id}: {comparison.place} is {reader} in the reader and {_text(comparison.tool)} in "
        f"`{comparison.command}`{tolerance}. Possibly: {hint_of(comparison)}",
        _REPORT,
        **_entry(comparison),
    )


def _entry(comparison: Comparison) -> dict[str, Any]:
    return {
        "device": comparison.device.id,
        "index": comparison.device.index,
        "pci_address": comparison.device.pci_address,
        "field": comparison.place,
        "reader": list(comparison.reader),
        "tool": comparison.tool,
        "command": comparison.command,
        "tolerance": comparison.margin,
        "hint": str(hint_of(comparison)),
    }


def _name(device: Device) -> str:
    return f"device {device.index} ({device.id})"


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.10g}" if isinstance(value, float) else str(value)
