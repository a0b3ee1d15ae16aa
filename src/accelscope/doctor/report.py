"""The findings as a text for people and as a document for programs."""

import re
import textwrap
from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from accelscope.doctor.finding import Finding, Severity, counted, sentence

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
