"""`accelscope files` in a clone, where it tells of the repository's own; installed ones are in
tests/packaging/test_installed.py."""

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.repository import CHART, REPOSITORY
from tests.waiting import PATIENCE_SECONDS

from accelscope.cli import files
from accelscope.cli.main import main


def test_lists_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["files"]) == 0
    assert re.findall(r"^  (\w+) ", capsys.readouterr().out, re.MULTILINE) == list(files.FILES)


@pytest.mark.parametrize("name", files.FILES)
def test_tells_a_path(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["files", name]) == 0
    told = Path(capsys.readouterr().out.removesuffix("\n"))
    assert told.is_dir()
    assert REPOSITORY / "deploy" in told.parents


def test_copies_a_folder_that_helm_takes(tmp_path: Path) -> None:
    assert main(["files", "chart", "--to", str(tmp_path / "new" / "chart")]) == 0
    assert (tmp_path / "new" / "chart" / "Chart.yaml").is_file()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rules", "--to", "."], "accelscope files: . already exists; choose another folder with --to\n"),
        (["--to", "x"], "accelscope files: --to requires a NAME: chart, dashboards, examples, "),
        (["rules", "--to", "/proc/x"], "accelscope files: cannot write /proc/x: "),
        (
            ["rules", "--runbook-base-url", "https://a"],
            "accelscope files: --runbook-base-url requires: rules",
        ),
        (
            ["rules", "--to", "x", "--runbook-base-url", "docs/alerts.md"],
            "accelscope files: --runbook-base-url docs/alerts.md: expected an http or https URL",
        ),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["files", *words]) == 2
    told = capsys.readouterr().err
    assert told.startswith(said)
    assert told.count("\n") == 1


def test_rules_have_links_to_runbooks_if_they_are_asked_for(tmp_path: Path) -> None:
    base = "https://wiki.example.org/alerts"
    assert main(["files", "rules", "--to", str(tmp_path / "rules"), "--runbook-base-url", base]) == 0
    groups = yaml.safe_load((tmp_path / "rules" / "alerts.yaml").read_text())["groups"]
    alerts = [rule for group in groups for rule in group["rules"]]
    assert alerts
    for alert in alerts:
        assert alert["annotations"].pop("runbook_url") == f"{base}#{alert['alert'].lower()}"
    assert groups == yaml.safe_load((CHART / "rules" / "alerts.yaml").read_text())["groups"]
    assert (tmp_path / "rules" / "recording.yaml").read_text() == (
        CHART / "rules" / "recording.yaml"
    ).read_text()


def test_half_a_copy_does_not_stay(tmp_path: Path) -> None:
    """Where no file may be larger than 2,000 bytes, a disk is full after some of them."""
    copy = tmp_path / "new" / "chart"
    unmeasured = {key: text for key, text in os.environ.items() if key != "COVERAGE_PROCESS_CONFIG"}
    done = subprocess.run(
        [sys.executable, "-m", "accelscope", "files", "chart", "--to", str(copy)],
        env=unmeasured,  # what is measured is written to a file, too
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)),
    )
    assert done.returncode == 2
    assert re.fullmatch(rf"accelscope files: cannot write {copy}/\S+: File too large\n", done.stderr)
    assert list(tmp_path.iterdir()) == []
    assert main(["files", "chart", "--to", str(copy)]) == 0


def test_a_copy_is_whole(tmp_path: Path) -> None:
    assert main(["files", "chart", "--to", str(tmp_path / "chart")]) == 0
    chart, copy = REPOSITORY / "deploy" / "chart", tmp_path / "chart"
    assert _contents(copy) == _contents(chart)


def _contents(folder: Path) -> dict[Path, bytes]:
    return {each.relative_to(folder): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def test_an_installation_without_them_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(files, "installed_files", lambda: None)
    assert main(["files", "chart"]) == 2
    assert capsys.readouterr().err.startswith("accelscope files: this installation, such as a container")
