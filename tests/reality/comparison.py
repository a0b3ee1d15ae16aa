"""Compares what a program reports about a node with the agent's snapshot of the same node, field by field.

A vendor's module turns the output of a program into Reports, and has a table of Fields. Differences that are
known are in differences.py; every other difference fails the test.
"""

import fnmatch
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from accelscope.model import Device, EccCount, ErrorCount, Process, Snapshot

Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a program reports about one device. Without values that the program does not have."""

    device: str  # PCI address or another key that the vendor's module matches
    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Field:
    """A value that both have. `{}` in both names stands for the same word: the number of a core, a link, a
    pid."""

    theirs: str
    ours: str  # in the words of `flat`
    scale: float = 1.0  # ours = theirs * scale
    within: float = 0.0  # largest difference, in our unit
    within_ratio: float = 0.0  # the same, as a fraction of our value


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A difference that is known and explained."""

    program: str  # patterns of the shell
    versions: str = "*"
    nodes: str = "*"
    field: str
    right: str  # who is right: "accelscope", "program", "both"
    reason: str
    holds: Callable[["Finding"], bool]  # the values, and the state of our device, that the reason explains

    def applies(self, program: str, version: str, node: str) -> bool:
        return (
            fnmatch.fnmatchcase(program, self.program)
            and fnmatch.fnmatchcase(version, self.versions)
            and fnmatch.fnmatchcase(node, self.nodes)
        )

    def explains(self, finding: "Finding") -> bool:
        return (
            self.applies(finding.program, finding.version, finding.node)
            and fnmatch.fnmatchcase(finding.field, self.field)
            and self.holds(finding)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One compared value that is not the same."""

    program: str
    version: str
    node: str
    device: str
    field: str
    path: str  # of our value
    theirs: Value
    ours: Value
    values: Mapping[str, Value]  # all of our device

    def __str__(self) -> str:
        return f"{self.device} {self.field}: {self.program} {self.theirs!r}, snapshot {self.ours!r}"


@dataclass(slots=True, kw_only=True)
class Outcome:
    """One row of the table at the end."""

    program: str
    version: str
    node: str
    compared: list[tuple[str, str]] = field(default_factory=list)  # device and our field
    explained: list[tuple[Finding, Difference]] = field(default_factory=list)
    unexplained: list[Finding] = field(default_factory=list)

    @property
    def equal(self) -> int:
        return len(self.compared) - len(self.explained) - len(self.unexplained)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    program: str
    version: str
    node: str
    table: Sequence[Field]
    differences: Sequence[Difference] = ()

    def run(self, reports: Iterable[Report], ours: Mapping[str, Mapping[str, Value]]) -> Outcome:
        """`ours` are the flat values of the snapshot's devices by the key of the reports."""
        outcome = Outcome(program=self.program, version=self.version, node=self.node)
        for report in reports:
            values = ours.get(report.device)
            if values is None:
                self._note(outcome, report.device, "device", "device", True, {})
                continue
            for name, theirs in report.values.items():
                if (known := self.path(name)) is None:
                    continue
                match, path = known
                mine = values.get(path)
                if equal(match, theirs, mine):
                    outcome.compared.append((report.device, path))
                else:
                    self._note(outcome, report.device, name, path, theirs, values)
        return outcome

    def path(self, name: str) -> tuple[Field, str] | None:
        """The first entry of the table for a value of the program, and the name of our value."""
        for each in self.table:
            pattern = re.escape(each.theirs).replace(r"\{\}", "(.+)")
            found = re.fullmatch(pattern, name)
            if found is not None:
                return each, each.ours.replace("{}", found[1]) if found.groups() else each.ours
        return None

    def _note(
        self,
        outcome: Outcome,
        device: str,
        name: str,
        path: str,
        theirs: Value,
        values: Mapping[str, Value],
    ) -> None:
        outcome.compared.append((device, path))
        finding = Finding(
            program=self.program,
            version=self.version,
            node=self.node,
            device=device,
            field=name,
            path=path,
            theirs=theirs,
            ours=values.get(path),
            values=values,
        )
        for difference in self.differences:
            if difference.explains(finding):
                outcome.explained.append((finding, difference))
                return
        outcome.unexplained.append(finding)


def equal(match: Field, theirs: Value, ours: Value) -> bool:
    if isinstance(theirs, bool | str | None) or isinstance(ours, bool | str | None):
        return theirs == ours
    allowed = max(match.within, match.within_ratio * abs(ours), 1e-9 * abs(ours))
    return math.isfinite(theirs) and abs(theirs * match.scale - ours) <= allowed


def bent(value: Value, match: Field) -> Value:
    """Another value, outside of the tolerance."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 2 * (match.within + match.within_ratio * abs(value)) + max(1e-3, 1e-3 * abs(value))
    return f"{value or ''}-bent"


def overlooked(
    comparison: Comparison, reports: Sequence[Report], ours: Mapping[str, Mapping[str, Value]]
) -> list[str]:
    """The values of the snapshot, of those that are equal, that may change or be missing without an
    unexplained finding. The comparison's differences apply: one that is too wide explains such a value."""
    result = []
    for report in reports:
        values = ours.get(report.device, {})
        for name, theirs in report.values.items():
            if (known := comparison.path(name)) is None:
                continue
            match, path = known
            mine = values.get(path)
            if equal(match, theirs, mine):
                only = Report(device=report.device, values={name: theirs})
                for wrong in (bent(mine, match), None):
                    if not comparison.run([only], {report.device: {**values, path: wrong}}).unexplained:
                        result.append(f"{report.device} {path}: {wrong!r} for {mine!r}")
    return result


# --- the snapshot as flat values ------------------------------------------------------------

_KEYS = ("pid", "name", "domain", "field", "reason", "index", "block", "kind", "id")


def flat_devices(snapshot: Snapshot, key: Callable[[Device], str | None]) -> dict[str, dict[str, Value]]:
    """The values of all devices, with those of their processes below `processes.PID`. A stale device has its
    identity only."""
    result: dict[str, dict[str, Value]] = {}
    for device in snapshot.devices:
        own = key(device)
        if own is not None:
            processes = [process for process in snapshot.processes if process.device == device.id]
            result[own] = flat(device, processes)
    return result


def flat(device: Device, processes: Sequence[Process] = ()) -> dict[str, Value]:
    """`sensors.PEAK.celsius`, `cores.3.occupied`, `pcie.width`: names of fields joined with dots. A list is
    by the name or number of its entries, and has a `count`."""
    values = dict(_flat("", device))
    values.update(_flat("processes", processes))
    return values


def _flat(path: str, value: object) -> Iterator[tuple[str, Value]]:
    start = f"{path}." if path else ""
    if is_dataclass(value):
        for each in fields(value):
            yield from _flat(f"{start}{each.name}", getattr(value, each.name))
    elif isinstance(value, tuple | list):
        yield f"{start}count", len(value)
        for place, entry in enumerate(value):
            yield from _flat(f"{start}{_key(entry, place)}", entry)
    elif isinstance(value, str):
        yield path, str(value)
    elif value is None or isinstance(value, bool | int | float):
        yield path, value


def _key(entry: Any, place: int) -> str:
    if isinstance(entry, str | int):
        return str(entry)
    if isinstance(entry, ErrorCount):
        return f"{entry.kind}.{entry.code}"
    if isinstance(entry, EccCount):
        return ".".join((entry.severity, "lifetime" if entry.lifetime else "volatile", entry.block or "all"))
    found = next((getattr(entry, name) for name in _KEYS if getattr(entry, name, None) is not None), place)
    return str(found)


# --- the table at the end ------------------------------------------------------------


def table(outcomes: Iterable[Outcome]) -> list[str]:
    header = ("program", "version", "node", "compared", "equal", "explained", "unexplained")
    rows: list[tuple[str, ...]] = [header]
    for each in sorted(outcomes, key=lambda outcome: (outcome.program, outcome.version, outcome.node)):
        counts = (len(each.compared), each.equal, len(each.explained), len(each.unexplained))
        rows.append((each.program, each.version, each.node, *map(str, counts)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def unused(differences: Iterable[Difference], outcomes: Sequence[Outcome]) -> list[Difference]:
    """The differences that apply to one of the outcomes and explained nothing."""
    used = {difference for outcome in outcomes for _, difference in outcome.explained}
    return [
        difference
        for difference in differences
        if difference not in used and any(difference.applies(o.program, o.version, o.node) for o in outcomes)
    ]
