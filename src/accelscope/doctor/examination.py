"""Runs the checks, each with a deadline, and renders their findings as text and as JSON."""

import logging
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

from accelscope import __version__
from accelscope.agent.runner import Result
from accelscope.agent.settings import AgentSettings
from accelscope.deadline import DeadlineError, DeadlineExceeded, call_with_deadline
from accelscope.doctor import http, node
from accelscope.doctor.attribution import attribution_area
from accelscope.doctor.check import Area, Check, Finding, Severity, Subject, error, join_words, pluralize
from accelscope.doctor.node import node_object_area
from accelscope.doctor.vendors import cross_check_area, vendor_area
from accelscope.model import Vendor

_EXIT_CODES = {Severity.OK: 0, Severity.NOTE: 0, Severity.WARNING: 1, Severity.ERROR: 2}
_BUG_ADVICE = "This is a bug in AccelScope, not a problem of this node: please report it with this line."
_NO_THREAD_ADVICE = (
    "Too many threads or processes run on this node or in this container: raise the limit (`ulimit -u`, "
    "TasksMax of the unit, the container's pids limit)."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    version: str
    node: str
    findings: tuple[tuple[str, Finding], ...]  # each with the name of its area, grouped by area

    @property
    def worst(self) -> Severity:
        return max((f.severity for _, f in self.findings), key=lambda s: s.rank, default=Severity.OK)

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self.worst]

    @property
    def hung(self) -> bool:
        """Calls were abandoned: the process must exit without waiting for its threads."""
        return any(finding.hung for _, finding in self.findings)


_COMMON_AREAS = (
    Area("settings", node.SETTINGS_CHECKS),
    Area("http", (*http.FILE_CHECKS, *http.PORT_CHECKS)),
    Area("node", node.NODE_CHECKS),
)


def areas_for(settings: AgentSettings, *, cross_check: bool = False) -> tuple[Area, ...]:
    """All areas, in the order of the report. The vendors' checks fill `results`, which attribution and Node
    object use."""
    results: dict[Vendor, Result] = {}
    vendors = [vendor_area(Vendor(name), results) for name in settings.readers]
    last = (cross_check_area(map(Vendor, settings.readers)),) if cross_check else ()
    return (*_COMMON_AREAS, *vendors, attribution_area(results), node_object_area(results), *last)


def examine(subject: Subject, areas: Iterable[Area]) -> Report:
    with _quiet_log():
        findings = tuple((area.name, finding) for area in areas for finding in _examine_area(area, subject))
    return Report(version=__version__, node=subject.node, findings=findings)


def _examine_area(area: Area, subject: Subject) -> Iterator[Finding]:
    hung: set[str | None] = set()
    for check in area.checks:
        if check.skip_if_hung is not None and check.skip_if_hung in hung:
            continue
        findings = run(check, subject)
        if any(finding.hung for finding in findings):
            hung.add(check.name)
        yield from findings


def run(check: Check, subject: Subject) -> tuple[Finding, ...]:
    """The check's findings. A check that raises, hangs or cannot start adds an error."""
    found: list[Finding] = []
    seconds = check.seconds(subject.settings)
    try:
        call_with_deadline(f"doctor-{check.name}", partial(_collect, check, subject, found), seconds)
    except DeadlineExceeded:
        overdue = error(check.name, f"no answer within {seconds:g} s", check.timeout_advice)
        return (*found, replace(overdue, hung=True))
    except DeadlineError as problem:
        return (error(check.name, f"the check did not run: {problem}", _NO_THREAD_ADVICE),)
    return tuple(found)


def _collect(check: Check, subject: Subject, found: list[Finding]) -> None:
    try:
        for finding in check.look(subject):
            found.append(finding)
    except Exception as bug:  # noqa: BLE001 - the other checks still run
        found.append(error(check.name, f"the check failed: {type(bug).__name__}: {bug}", _BUG_ADVICE))


@contextmanager
def _quiet_log() -> Iterator[None]:
    """Suppress the log of the agent's modules: the findings replace it."""
    logger = logging.getLogger("accelscope")
    silent, propagate = logging.NullHandler(), logger.propagate
    logger.addHandler(silent)
    logger.propagate = False
    try:
        yield
    finally:
        logger.propagate = propagate
        logger.removeHandler(silent)


_WIDTH = 80
_SEVERITY_WIDTH = max(map(len, Severity))
_NAME_WIDTH = 14  # a longer name moves its text to the right
_COMMAND = re.compile(r"`[^`]*`")
_KEPT_SPACE = "\x00"  # not printable, so no text contains it
_PLURALS = {Severity.NOTE: "notes", Severity.WARNING: "warnings", Severity.ERROR: "errors"}


def document(report: Report) -> dict[str, Any]:
    return {
        "version": report.version,
        "node": report.node,
        "worst": report.worst.value,
        "checks": [_entry(area, finding) for area, finding in report.findings],
    }


def _entry(area: str, finding: Finding) -> dict[str, Any]:
    advice = {} if finding.advice is None else {"advice": finding.advice}
    return {
        "area": area,
        "name": finding.name,
        "severity": finding.severity.value,
        "found": finding.found,
        **advice,
        "details": dict(finding.details),
    }


def text(report: Report) -> str:
    """For 80 columns and without colour, so that it can be pasted into a ticket."""
    lines = [f"accelscope {report.version} doctor on node {_printable(report.node)}"]
    for area, members in groupby(report.findings, key=lambda pair: pair[0]):
        lines += ["", area]
        printed: dict[str, str] = {}  # advice -> name of the first finding that has it
        for _, finding in members:
            lines += _lines(finding, printed)
    return "\n".join([*lines, "", _summary(report)])


def _lines(finding: Finding, printed: dict[str, str]) -> list[str]:
    head = f"  {finding.severity:{_SEVERITY_WIDTH}}  {_printable(finding.name):{_NAME_WIDTH}}  "
    margin = " " * (2 + _SEVERITY_WIDTH + 2)
    lines = _wrap(_printable(finding.found), head, " " * (len(margin) + _NAME_WIDTH + 2))
    if finding.advice is not None:
        first = printed.get(finding.advice)
        printed.setdefault(finding.advice, finding.name)
        advice = finding.advice if first is None else f"see {first} above"
        lines += _wrap(_printable(advice), f"{margin}do: ", f"{margin}    ")
    return lines


def _wrap(words: str, first: str, rest: str) -> list[str]:
    """Commands in `backquotes` are not broken, so that they can be copied."""
    lines = textwrap.wrap(
        _COMMAND.sub(lambda command: command[0].replace(" ", _KEPT_SPACE), words),
        _WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_KEPT_SPACE, " ") for line in lines] or [first.rstrip()]


def _printable(words: str) -> str:
    """Text from drivers and files may contain control characters; the terminal must not see them."""
    return "".join(character if character.isprintable() else "?" for character in words)


def _summary(report: Report) -> str:
    counts = Counter(finding.severity for _, finding in report.findings)
    parts = [
        pluralize(counts[severity], severity, _PLURALS[severity])
        for severity in reversed(_PLURALS)
        if counts[severity]
    ]
    return f"{join_words(parts) or 'no problems'} (exit code {report.exit_code})"
