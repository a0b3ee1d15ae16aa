"""Checks that fail or hang cost themselves, not the examination."""

import logging
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from accelscope.doctor.check import Area, Check, Finding, Subject, ok
from accelscope.doctor.examination import examine

if TYPE_CHECKING:
    from tests.doctor.node_folder import NodeFolder


@pytest.fixture
def subject(node: "NodeFolder") -> Subject:
    return node.subject()


def at_once(_: object) -> float:
    return 1


def fine(_: Subject) -> Iterator[Finding]:
    yield ok("fine", "yes")


def test_a_check_that_raises_becomes_an_error_line(subject: Subject) -> None:
    def broken(_: Subject) -> Iterator[Finding]:
        yield ok("first", "was found before")
        raise ZeroDivisionError("oh")

    report = examine(subject, [Area("a", (Check("broken", broken), Check("fine", fine)))])
    names = [(finding.name, finding.severity.value) for _, finding in report.findings]
    assert names == [("first", "ok"), ("broken", "error"), ("fine", "ok")]
    assert "ZeroDivisionError: oh" in report.findings[1][1].found
    assert report.exit_code == 2
    assert not report.hung


def test_a_check_that_hangs_is_left_behind_with_what_it_had_found(subject: Subject) -> None:
    gate = threading.Event()

    def stuck(_: Subject) -> Iterator[Finding]:
        yield ok("first", "was found before")
        gate.wait(20)
        yield ok("second", "too late")

    area = Area("a", (Check("stuck", stuck, at_once, "Kick it."), Check("fine", fine)))
    try:
        report = examine(subject, [area])
    finally:
        gate.set()
    first, late, after = (finding for _, finding in report.findings)
    assert first.name == "first"
    assert (late.found, late.advice) == ("no answer within 1 s", "Kick it.")
    assert after.name == "fine"
    assert report.hung
    assert report.exit_code == 2


def test_what_would_hang_too_is_not_tried(subject: Subject) -> None:
    gate = threading.Event()

    def stuck(_: Subject) -> Iterator[Finding]:
        gate.wait(20)
        yield from ()

    def forbidden(_: Subject) -> Iterator[Finding]:
        raise AssertionError("was tried")
        yield

    area = Area("a", (Check("stuck", stuck, at_once), Check("next", forbidden, unless_hung="stuck")))
    try:
        report = examine(subject, [area, Area("b", (Check("fine", fine, unless_hung="stuck"),))])
    finally:
        gate.set()
    assert [(area, finding.name) for area, finding in report.findings] == [("a", "stuck"), ("b", "fine")]


def test_the_log_stays_silent(subject: Subject, caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("accelscope.agent.runner")

    def talkative(_: Subject) -> Iterator[Finding]:
        log.error("driver says no")
        yield ok("a", "b")

    examine(subject, [Area("a", (Check("talkative", talkative),))])
    assert [record for record in caplog.records if record.name == log.name] == []
    log.error("and afterwards it is heard")
    assert len([record for record in caplog.records if record.name == log.name]) == 1
