"""Runs the checks one after the other, each in a thread with a deadline, and survives them all."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from accelscope import __version__
from accelscope.deadline import Overdue, call_with_deadline
from accelscope.doctor.check import Area, Check
from accelscope.doctor.finding import Finding, Severity, error
from accelscope.doctor.report import Report
from accelscope.doctor.subject import Subject

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
