"""The command `accelscope device-plugin`: help, errors in one line, from start to end."""

import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.deviceplugin.fake_kubelet import FakeKubelet
from tests.processes import signal_another_thread
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.deviceplugin.kubelet import PluginSocketError, check_folder

COMMAND = [sys.executable, "-m", "accelscope", "device-plugin"]
CLEAN = {"PATH": os.environ["PATH"]}


def command(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**CLEAN, **environ},
    )


def test_help_lists_options_and_an_example() -> None:
    text = re.sub(r"\s+", " ", command("--help", COLUMNS="200").stdout)
    for words in (
        "beta.furiosa.ai/npu: 1",
        "Default: Fusion.",
        "Default: furiosa-npu.",
        "Default: beta.furiosa.ai/npu.",
        "Default: /var/lib/kubelet/device-plugins.",
        "Default: 10s.",
        "Default: 9401.",
        "disabledDevices: - {devName: npu1, nodeName: node-7}",
        "require a restart",
    ):
        assert words in text


def test_bad_options_files_and_folders_end_the_command(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("interval: never\n")
    cases = {
        ("--interval", "never"): '--interval: "never" is not a duration',
        ("--config-file", str(bad)): f'{bad}:1: interval: "never" is not a duration',
        ("--config-file", str(tmp_path / "none")): "cannot be read: No such file or directory",
        ("--plugin-dir", str(tmp_path / "none"), "--exporter-port", "0"): "is not a folder",
    }
    for arguments, says in cases.items():
        done = command(*arguments)
        assert done.returncode == 2
        [line] = done.stderr.splitlines()
        assert line.startswith("accelscope device-plugin: ")
        assert says in line


def test_a_folder_that_cannot_be_written_ends_the_command() -> None:
    """Not even root can create a file in /proc."""
    done = command("--plugin-dir", "/proc", "--exporter-port", "0")
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert "no file can be created in /proc: set --plugin-dir to the kubelet's folder" in line


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.EACCES, "is not writable (Permission denied): run as root, and mount it without readOnly"),
        (errno.EROFS, "is not writable (Read-only file system): run as root"),
        (errno.ENOSPC, "cannot be written to (No space left on device)"),
    ],
)
def test_the_error_about_a_folder_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, says: str
) -> None:
    def refuse(_: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "touch", refuse)
    with pytest.raises(PluginSocketError) as caught:
        check_folder(tmp_path)
    assert says in str(caught.value)
    assert ("run as root" in str(caught.value)) == (number != errno.ENOSPC)


def test_without_the_extra_the_error_names_it() -> None:
    """An interpreter that finds no grpcio, as a bare install has none."""
    script = (
        "import sys; sys.modules['grpc'] = None\n"
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'grpc' else find(name, *a)\n"
        "from accelscope.cli.main import main; sys.exit(main(['device-plugin']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False, env=CLEAN
    )
    assert done.returncode == 2
    assert "pip install 'accelscope[device-plugin]'" in done.stderr


def test_settings_and_help_need_no_extra() -> None:
    script = "import sys; import accelscope.cli.device_plugin; print('grpc' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True, env=CLEAN
    )
    assert done.stdout == "False\n"


@pytest.mark.parametrize("reached", ["the process", "a thread"])
def test_the_command_serves_until_a_signal_ends_it(
    kubelet: FakeKubelet, tmp_path: Path, reached: str
) -> None:
    """Whichever thread receives the signal."""
    (tmp_path / "sys/class/npu_mgmt/npu0_mgmt").mkdir(parents=True)
    for name, text in {"device_uuid": "U0", "alive": "1", "busname": "0000:01:00.0"}.items():
        (tmp_path / "sys/class/npu_mgmt/npu0_mgmt" / name).write_text(f"{text}\n")
    (tmp_path / "npu0pe0").touch()
    arguments = {
        "sys-root": tmp_path / "sys",
        "dev-root": tmp_path,
        "plugin-dir": kubelet.folder,
        "pod-resources-socket": kubelet.pod_resources,
        "exporter-port": 0,
        "exporter-host": "127.0.0.1",
        "furiosa-smi-path": tmp_path / "none",
        "furiosactl-path": tmp_path / "none",
    }
    flags = [f"--{name}={value}" for name, value in arguments.items()]
    process = subprocess.Popen([*COMMAND, *flags], stderr=subprocess.PIPE, text=True, env=CLEAN)
    try:
        wait_until(lambda: kubelet.health("beta.furiosa.ai/npu") == {"U0": "Healthy"}, "a card")
        if reached == "the process":
            process.send_signal(signal.SIGTERM)
        else:
            signal_another_thread(process.pid, signal.SIGTERM)
        _, logged = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert "registered beta.furiosa.ai/npu" in logged
    assert "Traceback" not in logged
    assert not (kubelet.folder / "furiosa-npu.sock").exists()
