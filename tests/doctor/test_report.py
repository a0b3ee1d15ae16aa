"""The report as text and as JSON."""

import json

import pytest

from accelscope.doctor.check import Finding, error, join_words, note, ok, warning
from accelscope.doctor.examination import Report, document, text


def report(*findings: Finding, area: str = "nvidia") -> Report:
    return Report(version="1.2.3", node="gpu-17", findings=tuple((area, f) for f in findings))


@pytest.mark.parametrize(
    ("findings", "worst", "code"),
    [
        ((), "ok", 0),
        ((ok("a", "x"),), "ok", 0),
        ((ok("a", "x"), note("b", "y")), "note", 0),
        ((warning("a", "x", "do it"), note("b", "y")), "warning", 1),
        ((warning("a", "x", "do it"), error("b", "y", "do that"), ok("c", "z")), "error", 2),
    ],
)
def test_the_worst_finding_determines_the_exit_code(
    findings: tuple[Finding, ...], worst: str, code: int
) -> None:
    made = report(*findings)
    assert made.worst == worst
    assert made.exit_code == code


def test_the_text_has_a_line_per_finding_and_its_advice_below() -> None:
    made = report(ok("module", "nvidia 550 is loaded"), error("nvml", "does not start", "Reboot the node."))
    assert text(made) == (
        "accelscope 1.2.3 doctor on node gpu-17\n"
        "\n"
        "nvidia\n"
        "  ok       module          nvidia 550 is loaded\n"
        "  error    nvml            does not start\n"
        "           do: Reboot the node.\n"
        "\n"
        "1 error (exit code 2)"
    )


def test_the_text_fits_80_columns_and_does_not_break_commands() -> None:
    command = "`nvidia-smi -q -i 1 -d PERFORMANCE,TEMPERATURE`"
    made = report(
        warning("device 0", "word " * 60, f"{'Look well, ' * 3} then run {command} {'again ' * 30}")
    )
    lines = text(made).splitlines()
    assert max(map(len, lines)) <= 80
    assert any(command in line for line in lines)


def test_repeated_advice_refers_to_the_first() -> None:
    made = report(error("nvml", "x", "Reboot."), error("reading", "y", "Reboot."), error("z", "z", "Sit."))
    written = text(made)
    assert written.count("Reboot.") == 1
    assert "do: see nvml above" in written
    assert [check["advice"] for check in document(made)["checks"]] == ["Reboot.", "Reboot.", "Sit."]


def test_control_characters_are_replaced() -> None:
    written = text(report(note("device 0", "\x1b[2Jmodel\nok \x00name")))
    assert written.isprintable() or all(line.isprintable() for line in written.split("\n"))
    assert "?[2Jmodel?ok ?name" in written


def test_the_summary_counts_notes_warnings_and_errors() -> None:
    made = report(note("a", ""), note("b", ""), warning("c", "", "d"), error("e", "", "f"), ok("g", ""))
    assert text(made).splitlines()[-1] == "1 error, 1 warning and 2 notes (exit code 2)"
    assert text(report(ok("a", "b"))).splitlines()[-1] == "no problems (exit code 0)"


def test_the_json_document() -> None:
    made = report(ok("module", "loaded", version="550"), error("nvml", "no", "Reboot."))
    assert json.loads(json.dumps(document(made))) == {
        "version": "1.2.3",
        "node": "gpu-17",
        "worst": "error",
        "checks": [
            {
                "area": "nvidia",
                "name": "module",
                "severity": "ok",
                "found": "loaded",
                "details": {"version": "550"},
            },
            {
                "area": "nvidia",
                "name": "nvml",
                "severity": "error",
                "found": "no",
                "advice": "Reboot.",
                "details": {},
            },
        ],
    }


@pytest.mark.parametrize(
    ("parts", "joined"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_join_words(parts: list[str], joined: str) -> None:
    assert join_words(parts) == joined
