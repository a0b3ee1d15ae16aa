"""A check that fails or hangs does not stop the others."""

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


def test_a_check_that_raises_is_an_error(subject: Subject) -> None:
    def broken(_: Subject) -> Iterator[Finding]:
        yield ok("first", "was found before")
        raise ZeroDivisionError("oh")

    report = examine(subject, [Area("a", (Check("broken", broken), Check("fine", fine)))])
    names = [(finding.name, finding.severity.value) for _, finding in report.findings]
    assert names == [("first", "ok"), ("broken", "error"), ("fine", "ok")]
    assert "ZeroDivisionError: oh" in report.findings[1][1].found
    assert report.exit_code == 2
    assert not report.hung


def test_a_check_that_hangs_keeps_its_earlier_findings(subject: Subject) -> None:
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


def test_a_check_without_a_thread_is_an_error(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    report = examine(subject, [Area("a", (Check("first", fine), Check("second", fine)))])
    found = {finding.name: finding for _, finding in report.findings}
    assert found.keys() == {"first", "second"}
    assert found["first"].severity == "error"
    assert found["first"].found == "the check did not run: can't start new thread"
    assert report.exit_code == 2
    assert not report.hung


def test_a_check_that_depends_on_a_hung_one_is_skipped(subject: Subject) -> None:
    gate = threading.Event()

    def stuck(_: Subject) -> Iterator[Finding]:
        gate.wait(20)
        yield from ()

    def forbidden(_: Subject) -> Iterator[Finding]:
        raise AssertionError("was run")
        yield

    area = Area("a", (Check("stuck", stuck, at_once), Check("next", forbidden, skip_if_hung="stuck")))
    try:
        report = examine(subject, [area, Area("b", (Check("fine", fine, skip_if_hung="stuck"),))])
    finally:
        gate.set()
    assert [(area, finding.name) for area, finding in report.findings] == [("a", "stuck"), ("b", "fine")]


def test_the_log_is_suppressed_during_the_examination(
    subject: Subject, caplog: pytest.LogCaptureFixture
) -> None:
    log = logging.getLogger("accelscope.agent.runner")

    def logs(_: Subject) -> Iterator[Finding]:
        log.error("driver error")
        yield ok("a", "b")

    examine(subject, [Area("a", (Check("logs", logs),))])
    assert [record for record in caplog.records if record.name == log.name] == []
    log.error("after the examination")
    assert len([record for record in caplog.records if record.name == log.name]) == 1
