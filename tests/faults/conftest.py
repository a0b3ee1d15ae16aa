"""Prints what was measured, after the tests of the matrix."""

import pytest
from tests.faults.matrix import MATRIX
from tests.faults.measured import Measured, table


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """From the tests' reports, which come here from other processes too."""
    reports = [
        report
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        if report.when == "call"
    ]
    found = [
        Measured(**told) for report in reports for name, told in report.user_properties if name == "fault"
    ]
    if found:
        names = [fault.name for fault in MATRIX]
        terminalreporter.section("back after the end of the fault")
        for line in table(sorted(found, key=lambda each: names.index(each.name)), MATRIX):
            terminalreporter.write_line(line)
