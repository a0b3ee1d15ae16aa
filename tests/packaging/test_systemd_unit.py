"""The systemd unit: valid to systemd itself, sandboxed, and still able to reach what the agent reads.

Everything is checked offline; no test starts the unit.
"""

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.programs import script
from tests.repository import REPOSITORY

UNIT = REPOSITORY / "deploy" / "systemd" / "accelscope-agent.service"
INSTALLED = "/usr/local/bin/accelscope"
EXPOSURE_LIMIT = 20  # tenths on systemd's scale of 0 (closed) to 10.0 (open)


@pytest.fixture
def systemd_analyze() -> str:
    command = shutil.which("systemd-analyze")
    if command is None:
        pytest.skip("systemd-analyze is not on this machine (Debian: apt-get install systemd)")
    return command


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a command that exists: systemd complains about one that does not, and a machine that
    runs tests need not have AccelScope installed."""
    command = script(tmp_path / "accelscope", "")
    text = UNIT.read_text()
    assert text.count(INSTALLED) == 1
    rendered = tmp_path / UNIT.name
    rendered.write_text(text.replace(INSTALLED, str(command)))
    return rendered


def analyze(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def test_systemd_finds_nothing_wrong(systemd_analyze: str, unit: Path) -> None:
    done = analyze(systemd_analyze, "verify", "--man=no", str(unit))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_verify_would_notice_a_misspelt_setting(systemd_analyze: str, unit: Path) -> None:
    unit.write_text(unit.read_text().replace("ProtectSystem=", "ProtectSytsem="))
    done = analyze(systemd_analyze, "verify", "--man=no", str(unit))
    assert "ProtectSytsem" in done.stderr


def test_sandbox_is_as_tight_as_promised(systemd_analyze: str, unit: Path) -> None:
    done = analyze(
        systemd_analyze,
        "security",
        "--offline=true",
        f"--threshold={EXPOSURE_LIMIT}",
        "--no-pager",
        str(unit),
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def service() -> dict[str, list[str]]:
    """The settings of [Service]; a unit file may give one several times."""
    settings: dict[str, list[str]] = {}
    section = UNIT.read_text().split("[Service]")[1].split("[Install]")[0]
    for line in section.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.partition("=")
            settings.setdefault(name, []).append(value)
    return settings


def test_the_agent_is_what_runs(service: dict[str, list[str]]) -> None:
    assert service["ExecStart"] == [f"{INSTALLED} agent"]


def test_a_bad_setting_does_not_restart_for_ever(service: dict[str, list[str]]) -> None:
    assert service["Restart"] == ["on-failure"]
    assert service["RestartPreventExitStatus"] == ["2"]


def test_nvidia_device_files_stay_reachable(service: dict[str, list[str]]) -> None:
    assert "PrivateDevices" not in service
    assert service["DeviceAllow"] == ["char-195 rw", "char-nvidia-caps r"]


@pytest.mark.parametrize("setting", ["ProtectProc", "ProcSubset", "PrivateUsers"])
def test_processes_of_other_users_stay_visible(service: dict[str, list[str]], setting: str) -> None:
    assert setting not in service
