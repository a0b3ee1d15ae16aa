"""The plugin's options: names, defaults, what excludes what, and one-line errors; and the command."""

import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.deviceplugin.fake_kubelet import FakeKubelet, wait_until

from accelscope.config import ConfigError
from accelscope.deviceplugin.disabled import Disabled, DisabledDevice
from accelscope.deviceplugin.endpoint import EndpointError, check_folder
from accelscope.deviceplugin.health import DeviceHealth
from accelscope.deviceplugin.offers import Policy, make_offers
from accelscope.deviceplugin.roots import Roots
from accelscope.deviceplugin.settings import PluginSettings, load_settings
from accelscope.deviceplugin.vendors import open_vendor
from accelscope.model import Device, Vendor

COMMAND = [sys.executable, "-m", "accelscope", "device-plugin"]
CLEAN = {"PATH": os.environ["PATH"]}


def loaded(**flags: object) -> PluginSettings:
    return load_settings(flags, {}).settings


def test_defaults_are_those_that_people_know() -> None:
    settings = loaded()
    assert (settings.default_pe, settings.interval, settings.disabled_devices) == ("Fusion", 10, ())
    assert settings.plugin_dir == "/var/lib/kubelet/device-plugins"
    assert settings.endpoint_name == "furiosa-npu.sock"
    assert (settings.vendor, settings.shares, settings.partition) == ("furiosa", 1, "none")
    assert settings.exporter_port == 9401


def test_the_file_has_the_keys_that_people_know(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "interval: 30\ndefaultPe: Single\npluginDir: /run/plugins\nsocketName: npus\n"
        "resourceName: alpha.furiosa.ai/npu\nvendor: furiosa\nshares: 2\npartition: none\n"
        "disabledDevices:\n- {devName: npu0, nodeName: a}\n- devName: npu1pe0\n- npu3\n"
    )
    settings = load_settings({"config_file": str(file)}, {}).settings
    assert (settings.interval, settings.default_pe, settings.shares) == (30, "Single", 2)
    assert (settings.plugin_dir, settings.endpoint_name) == ("/run/plugins", "npus.sock")
    assert settings.resource_name == "alpha.furiosa.ai/npu"
    assert settings.disabled_devices == (
        DisabledDevice("npu0", "a"),
        DisabledDevice("npu1pe0"),
        DisabledDevice("npu3"),
    )


EXCLUDED = [
    ("default_pe", "Fusion"),
    ("interval", "10"),
    ("disabled_devices", ["npu0"]),
    ("plugin_dir", "/x"),
    ("socket_name", "x"),
    ("resource_name", "a.b/c"),
    ("vendor", "furiosa"),
    ("shares", "1"),
    ("partition", "none"),
]


@pytest.mark.parametrize(("name", "value"), EXCLUDED)
@pytest.mark.parametrize("place", ["flag", "environment"])
def test_what_the_file_is_for_cannot_be_given_beside_it(
    tmp_path: Path, name: str, value: object, place: str
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("interval: 5\ndefaultPe: Single\n")
    given: dict[str, object] = {"config_file": str(file)}
    environ = {}
    if place == "flag":
        given[name] = value
    else:
        environ[name.upper()] = value if isinstance(value, str) else "npu0"
    with pytest.raises(ConfigError) as caught:
        load_settings(given, environ)
    spelling = f"--{name.replace('_', '-')}" if place == "flag" else name.upper()
    assert str(caught.value).startswith(f"{spelling} cannot be given beside --config-file")


def test_port_log_level_and_roots_may(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("interval: 5\n")
    flags = {"exporter_port": "1", "log_level": "debug", "dev_root": "/d", "container_sys_root": "/s"}
    settings = load_settings({"config_file": str(file), **flags}, {}).settings
    assert (settings.interval, settings.exporter_port, settings.log_level) == (5, 1, "debug")
    assert (settings.roots.host_dev, settings.roots.container_sys) == ("/d", "/s")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"default_pe": "Both"}, '--default-pe: "Both" is not one of Fusion, Single'),
        ({"interval": "0"}, '--interval: "0" is not a duration'),
        ({"vendor": "intel"}, '--vendor: "intel" is not one of'),
        ({"shares": "0"}, "--shares"),
        ({"resource_name": "npu"}, "--resource-name"),
        ({"resource_name": "a..b/c"}, '--resource-name: "a..b/c" is not a name such as vendor.com/device'),
        ({"resource_name": "a.-b/c"}, "--resource-name"),
        ({"resource_name": "A.b/c"}, "--resource-name"),
        ({"resource_name": "a.b/c/d"}, "--resource-name"),
        ({"resource_name": "a.b/-c"}, "--resource-name"),
        ({"resource_name": "a.b/" + "c" * 64}, "--resource-name"),
        ({"resource_name": "kubernetes.io/npu"}, "kubernetes.io is for Kubernetes' own"),
        ({"resource_name": "x.kubernetes.io/npu"}, "kubernetes.io is for Kubernetes' own"),
        ({"resource_name": "requests.x/y"}, "requests. is how quotas begin"),
        ({"resource_name": "a" * 300 + "/c"}, "longer than 244 characters"),
        ({"dev_root": "dev"}, '--dev-root: "dev" is not an absolute path'),
        ({"dev_root": ""}, "--dev-root"),
        ({"sys_root": "./sys"}, "--sys-root"),
        ({"proc_root": "proc"}, "--proc-root"),
        ({"host_dev_root": "dev"}, "--host-dev-root"),
        ({"host_sys_root": "sys"}, "--host-sys-root"),
        ({"container_dev_root": "dev"}, "--container-dev-root"),
        ({"container_sys_root": "sys"}, "--container-sys-root"),
        ({"container_sys_root": ""}, "--container-sys-root"),
        ({"ascend_driver_root": "driver"}, "--ascend-driver-root"),
        ({"pod_resources_socket": "kubelet.sock"}, "--pod-resources-socket"),
        ({"socket_name": "../x"}, "--socket-name"),
        ({"socket_name": "kubelet"}, "kubelet.sock is the kubelet's own"),
        ({"plugin_dir": "x"}, "an absolute path"),
        ({"plugin_dir": "/" + "x" * 100}, "longer than the 107 bytes"),
        ({"vendor": "amd", "default_pe": "Single"}, "--default-pe Single is for Furiosa"),
        ({"vendor": "amd", "partition": "dual-core"}, "--partition is for Furiosa"),
        ({"partition": "dual-core", "default_pe": "Single"}, "exclude each other"),
        ({"cdi": "true", "default_pe": "Single"}, "--cdi"),
        ({"cdi": "true", "vendor": "ascend"}, "--cdi"),
    ],
)
def test_a_bad_option_is_one_line(flags: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(**flags)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["a/b", "vendor.com/gpu", "beta.furiosa.ai/npu", "furiosa.ai/rngd-1core.6gb", "huawei.com/Ascend910",
     "a" * 244 + "/" + "b" * 63, "requests/x", "my-requests.x/y", "kubernetes.io.example.com/x"],
)  # fmt: skip
def test_what_kubelets_take_as_a_resource_is_taken(name: str) -> None:
    assert loaded(resource_name=name).resource_name == name


def test_roots_that_need_not_be_given_may_be_empty() -> None:
    settings = loaded(host_dev_root="", host_sys_root="", pod_resources_socket="", dev_root="/d")
    assert (settings.roots.host_dev, settings.pod_resources_socket) == ("/d", "")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("disabledDevices: [{nodeName: a}]", "has no devName"),
        ("disabledDevices: [{devName: a, node: b}]", '"node" is none of devName and nodeName'),
        ("disabledDevices: {devName: a}", "a mapping is not"),
        ("disabledDevices: [[a]]", "neither a name"),
        ('disabledDevices: [{devName: a, nodeName: ""}]', 'nodeName of "a" is not a name'),
        ("default-pe: Single", "did you mean defaultPe"),
        ("interval: [1]", "interval"),
        ("a: b: c", "not valid YAML"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_settings({"config_file": str(file)}, {})
    assert says in str(caught.value)
    assert str(caught.value).startswith(f"{file}:1: ")


def card(index: int, uuid: str) -> Device:
    return Device(
        vendor=Vendor.FURIOSA,
        id=f"furiosa:{index}",
        index=index,
        device_name=f"npu{index}",
        architecture="warboy",
        uuid=uuid,
        serial=f"S{index}",
        pci_address=f"0000:0{index}:00.0",
    )


def offered(tmp_path: Path, cores: int, *disabled: DisabledDevice, uuid: str | None = None) -> list[str]:
    for name in ("npu0", "npu0pe0", "npu0pe1", "npu0pe0-1", "npu1", "npu1pe0", "npu1pe1", "npu1pe0-1", "tty"):
        (tmp_path / name).touch()
    part = open_vendor(Vendor.FURIOSA, Roots(dev=tmp_path))
    policy = Policy("beta.furiosa.ai/npu", Disabled(disabled, "here"), cores)
    cards = [DeviceHealth(card(index, uuid or f"U{index}"), healthy=True) for index in (0, 1, 2)]
    made = make_offers(cards, part, policy, tmp_path)
    assert len(made.withheld) == 1  # the third card has no device files
    return [offer.id for offer in made.offers]


@pytest.mark.parametrize(
    ("disabled", "whole", "single"),
    [
        ([], ["U0", "U1"], ["U0_cores_0", "U0_cores_1", "U1_cores_0", "U1_cores_1"]),
        (["npu0"], ["U1"], ["U1_cores_0", "U1_cores_1"]),
        (["u1"], ["U0"], ["U0_cores_0", "U0_cores_1"]),
        (["S1", "0000:00:00.0"], [], []),
        (["npu0pe1"], ["U1"], ["U0_cores_0", "U1_cores_0", "U1_cores_1"]),
        (["npu0pe0-1"], ["U1"], ["U1_cores_0", "U1_cores_1"]),
        (["U0_cores_0"], ["U0", "U1"], ["U0_cores_1", "U1_cores_0", "U1_cores_1"]),
        (["npu9", ""], ["U0", "U1"], ["U0_cores_0", "U0_cores_1", "U1_cores_0", "U1_cores_1"]),
    ],
)
def test_what_is_disabled_is_not_offered(
    tmp_path: Path, disabled: list[str], whole: list[str], single: list[str]
) -> None:
    names = [DisabledDevice(name) for name in disabled]
    assert offered(tmp_path, 0, *names) == whole
    assert offered(tmp_path, 1, *names) == single


def test_what_is_disabled_elsewhere_is_offered_here(tmp_path: Path) -> None:
    assert offered(tmp_path, 0, DisabledDevice("npu0", "there"), DisabledDevice("npu1", "here")) == ["U0"]


def test_cards_with_one_uuid_are_told_apart_by_their_place(tmp_path: Path) -> None:
    assert offered(tmp_path, 0, uuid="U") == ["0000:00:00.0", "0000:01:00.0"]


def command(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**CLEAN, **environ},
    )


def test_help_teaches() -> None:
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
        "need a restart",
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
    """/proc takes no file, not even root's."""
    done = command("--plugin-dir", "/proc", "--exporter-port", "0")
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert "/proc is no folder to write in: give the kubelet's with --plugin-dir" in line


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.EACCES, "is not writable (Permission denied): run as root, and mount it without readOnly"),
        (errno.EROFS, "is not writable (Read-only file system): run as root"),
        (errno.ENOSPC, "cannot be written to (No space left on device)"),
    ],
)
def test_what_to_do_about_a_folder_depends_on_what_is_wrong_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, says: str
) -> None:
    def refuse(_: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "touch", refuse)
    with pytest.raises(EndpointError) as caught:
        check_folder(tmp_path)
    assert says in str(caught.value)
    assert ("run as root" in str(caught.value)) == (number != errno.ENOSPC)


def test_without_the_extra_it_says_which() -> None:
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


def test_the_command_serves_until_it_is_told_to_end(kubelet: FakeKubelet, tmp_path: Path) -> None:
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
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert "registered beta.furiosa.ai/npu" in said
    assert "Traceback" not in said
    assert not (kubelet.folder / "furiosa-npu.sock").exists()
