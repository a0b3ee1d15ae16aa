"""Settings of the device plugin: names, defaults, conflicts, and errors of one line."""

from pathlib import Path

import pytest

from accelscope.config import ConfigError
from accelscope.deviceplugin.settings import DisabledDevice, PluginSettings, load_settings


def loaded(**flags: object) -> PluginSettings:
    return load_settings(flags, {}).settings


def test_defaults() -> None:
    settings = loaded()
    assert (settings.division_settings["default_pe"], settings.interval, settings.disabled_devices) == (
        "Fusion",
        10,
        (),
    )
    assert settings.plugin_dir == "/var/lib/kubelet/device-plugins"
    assert settings.endpoint_name == "furiosa-npu.sock"
    assert (settings.vendor, settings.shares, settings.division_settings["partition"]) == (
        "furiosa",
        1,
        "none",
    )
    assert settings.exporter_port == 9401


def test_keys_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "interval: 30\ndefaultPe: Single\npluginDir: /run/plugins\nsocketName: npus\n"
        "resourceName: alpha.furiosa.ai/npu\nvendor: furiosa\nshares: 2\npartition: none\n"
        "disabledDevices:\n- {devName: npu0, nodeName: a}\n- devName: npu1pe0\n- npu3\n"
    )
    settings = load_settings({"config_file": str(file)}, {}).settings
    assert (settings.interval, settings.division_settings["default_pe"], settings.shares) == (30, "Single", 2)
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
def test_settings_of_the_file_are_rejected_as_flags_or_variables(
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
    assert str(caught.value).startswith(f"{spelling} cannot be combined with --config-file")


def test_port_log_level_and_roots_may_be_flags_beside_a_file(tmp_path: Path) -> None:
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
        ({"resource_name": "kubernetes.io/npu"}, "kubernetes.io is reserved for Kubernetes"),
        ({"resource_name": "x.kubernetes.io/npu"}, "kubernetes.io is reserved for Kubernetes"),
        ({"resource_name": "requests.x/y"}, "requests. is reserved for quotas"),
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
        ({"socket_name": "kubelet"}, "kubelet.sock is the kubelet's own socket"),
        ({"plugin_dir": "x"}, "an absolute path"),
        ({"plugin_dir": "/" + "x" * 100}, "longer than the 107 bytes"),
        (
            {"vendor": "amd", "default_pe": "Single"},
            "--default-pe Single is for --vendor furiosa; --vendor is amd",
        ),
        (
            {"vendor": "amd", "partition": "dual-core"},
            "--partition dual-core is for --vendor furiosa; --vendor is amd",
        ),
        ({"partition": "dual-core", "default_pe": "Single"}, "exclude each other"),
        ({"cdi": "true", "default_pe": "Single"}, "CDI names are for whole devices; remove --default-pe"),
        ({"cdi": "true", "vendor": "ascend"}, "--cdi"),
    ],
)
def test_a_bad_option_is_rejected_in_one_line(flags: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(**flags)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["a/b", "vendor.com/gpu", "beta.furiosa.ai/npu", "furiosa.ai/rngd-1core.6gb", "huawei.com/Ascend910",
     "a" * 244 + "/" + "b" * 63, "requests/x", "my-requests.x/y", "kubernetes.io.example.com/x"],
)  # fmt: skip
def test_resource_names_that_kubelets_accept_are_accepted(name: str) -> None:
    assert loaded(resource_name=name).resource_name == name


def test_optional_paths_may_be_empty() -> None:
    settings = loaded(host_dev_root="", host_sys_root="", pod_resources_socket="", dev_root="/d")
    assert (settings.roots.host_dev, settings.pod_resources_socket) == ("/d", "")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("disabledDevices: [{nodeName: a}]", "has no devName"),
        ("disabledDevices: [{devName: a, node: b}]", 'unknown key "node"'),
        ("disabledDevices: {devName: a}", "a mapping is not"),
        ("disabledDevices: [[a]]", "neither a name"),
        ('disabledDevices: [{devName: a, nodeName: ""}]', 'nodeName of "a" is not a name'),
        ("default-pe: Single", "did you mean defaultPe"),
        ("interval: [1]", "interval"),
        ("a: b: c", "not valid YAML"),
    ],
)
def test_a_bad_file_is_rejected_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_settings({"config_file": str(file)}, {})
    assert says in str(caught.value)
    assert str(caught.value).startswith(f"{file}:1: ")
