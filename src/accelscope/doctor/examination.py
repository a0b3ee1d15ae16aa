"""Runs the checks one after the other, each in a thread with a deadline, and survives them all."""

import logging
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

from accelscope import __version__
from accelscope.agent.runner import Result
from accelscope.agent.settings import AgentSettings
from accelscope.deadline import Overdue, call_with_deadline
from accelscope.doctor import http, node
from accelscope.doctor.attribution import attribution_area
from accelscope.doctor.check import Area, Check, Finding, Severity, Subject, counted, error, sentence
from accelscope.doctor.node_object import node_object_area
from accelscope.doctor.vendors import vendor_area
from accelscope.model import Vendor

# --- report ------------------------------------------------------------
# The findings as a text for people and as a document for programs.


_WIDTH = 80
_SEVERITY_WIDTH = max(map(len, Severity))
_NAME_WIDTH = 14  # longer names stand on their own and push their text to the right
_COMMAND = re.compile(r"`[^`]*`")
_HELD_BLANK = "\x00"  # not printable, so that no text holds it
_EXIT_CODES = {Severity.OK: 0, Severity.NOTE: 0, Severity.WARNING: 1, Severity.ERROR: 2}
_PLURALS = {Severity.NOTE: "notes", Severity.WARNING: "warnings", Severity.ERROR: "errors"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    version: str
    node: str
    findings: tuple[tuple[str, Finding], ...]  # with the name of the area, areas together

    @property
    def worst(self) -> Severity:
        return max((f.severity for _, f in self.findings), key=lambda s: s.rank, default=Severity.OK)

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self.worst]

    @property
    def hung(self) -> bool:
        """Calls were left behind: the process cannot end in the ordinary way."""
        return any(finding.hung for _, finding in self.findings)


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
    """For 80 columns. Nothing depends on colour, so that it can be pasted into a ticket."""
    lines = [f"accelscope {report.version} doctor on node {_printable(report.node)}"]
    for area, members in groupby(report.findings, key=lambda pair: pair[0]):
        lines += ["", area]
        given: dict[str, str] = {}  # advice -> name of the check that gave it first
        for _, finding in members:
            lines += _lines(finding, given)
    return "\n".join([*lines, "", _summary(report)])


def _lines(finding: Finding, given: dict[str, str]) -> list[str]:
    head = f"  {finding.severity:{_SEVERITY_WIDTH}}  {_printable(finding.name):{_NAME_WIDTH}}  "
    margin = " " * (2 + _SEVERITY_WIDTH + 2)
    lines = _wrapped(_printable(finding.found), head, " " * (len(margin) + _NAME_WIDTH + 2))
    if finding.advice is not None:
        first = given.get(finding.advice)
        given.setdefault(finding.advice, finding.name)
        todo = finding.advice if first is None else f"as for {first}, above"
        lines += _wrapped(_printable(todo), f"{margin}do: ", f"{margin}    ")
    return lines


def _wrapped(words: str, first: str, rest: str) -> list[str]:
    """Paths, options and commands in `backquotes` stay whole, so that they can be copied."""
    held = _COMMAND.sub(lambda command: command[0].replace(" ", _HELD_BLANK), words)
    lines = textwrap.wrap(
        held,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_HELD_BLANK, " ") for line in lines] or [first.rstrip()]


def _printable(words: str) -> str:
    """Drivers and files speak here: nothing of theirs may move the cursor."""
    return "".join(character if character.isprintable() else "?" for character in words)


def _summary(report: Report) -> str:
    counts = Counter(finding.severity for _, finding in report.findings)
    parts = [
        counted(counts[severity], severity, _PLURALS[severity])
        for severity in reversed(_PLURALS)
        if counts[severity]
    ]
    return f"{sentence(parts) or 'all fine'} (exit code {report.exit_code})"


_OUR_FAULT = "This is a fault in AccelScope, not in your node: please report it with this line."


def examine(subject: Subject, areas: Iterable[Area]) -> Report:
    with _quiet_log():
        findings = tuple((area.name, finding) for area in areas for finding in _of_area(area, subject))
    return Report(version=__version__, node=subject.node, findings=findings)


def _of_area(area: Area, subject: Subject) -> Iterator[Finding]:
    hung: set[str | None] = set()
    for check in area.checks:
        if check.unless_hung is not None and check.unless_hung in hung:
            continue
        findings = run(check, subject)
        if any(finding.hung for finding in findings):
            hung.add(check.name)
        yield from findings


def run(check: Check, subject: Subject) -> tuple[Finding, ...]:
    """What the check found within its time. One that raises or hangs has found an error."""
    found: list[Finding] = []
    seconds = check.seconds(subject.settings)
    try:
        call_with_deadline(f"doctor-{check.name}", partial(_look, check, subject, found), seconds)
    except Overdue:
        late = Finding(
            name=check.name,
            severity=Severity.ERROR,
            found=f"no answer within {seconds:g} s",
            advice=check.if_it_hangs,
            hung=True,
        )
        return (*found, late)
    return tuple(found)


def _look(check: Check, subject: Subject, found: list[Finding]) -> None:
    try:
        for finding in check.look(subject):
            found.append(finding)
    except Exception as fault:  # noqa: BLE001 - one check's fault must not cost the others their say
        found.append(error(check.name, f"the check failed: {type(fault).__name__}: {fault}", _OUR_FAULT))


@contextmanager
def _quiet_log() -> Iterator[None]:
    """The agent's modules log what they find; here the findings say it."""
    logger = logging.getLogger("accelscope")
    silent, propagate = logging.NullHandler(), logger.propagate
    logger.addHandler(silent)
    logger.propagate = False
    try:
        yield
    finally:
        logger.propagate = propagate
        logger.removeHandler(silent)


# --- areas ------------------------------------------------------------
# What is examined, in order: what everything else rests on comes first.


_EVERY_NODE = (
    Area("settings", node.SETTINGS_CHECKS),
    Area("http", (*http.FILE_CHECKS, *http.PORT_CHECKS)),
    Area("node", (*node.NODE_CHECKS, *node.VISIBILITY_CHECKS)),
)


def areas_for(chosen: AgentSettings) -> tuple[Area, ...]:
    """One area for each vendor that the agent would look for, whose what they found is, and what would be
    written about it."""
    results: dict[Vendor, Result] = {}
    vendors = [vendor_area(Vendor(name), results) for name in chosen.readers]
    return (*_EVERY_NODE, *vendors, attribution_area(results), node_object_area(results))
