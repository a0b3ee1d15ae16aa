"""The chart's device plugin: privileges, settings and scheduling."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deploy.conftest import Render, Template
from tests.deploy.objects import (
    FOREIGN_ENVIRONMENT,
    container,
    device_plugin,
    environment,
    host_paths,
    of_kind,
    plugin_settings,
    rights,
)
from tests.deploy.values import NO_AGENTS
from tests.repository import CHART, REPOSITORY

from accelscope.config.settings import environment_name, flag_name, key_name, settings_of
from accelscope.deviceplugin.settings import EXCLUSIVE_SETTINGS, PluginSettings
from accelscope.vendors import declarations

ON = {"enabled": True}
KUBELET = {"/var/lib/kubelet/device-plugins", "/var/lib/kubelet/pod-resources"}
FULL: dict[str, Any] = {
    "devicePlugin": {
        **ON,
        "config": {
            "interval": 5,
            "defaultPe": "Single",
            "disabledDevices": [{"devName": "npu0", "nodeName": "node-1"}],
            "socketName": "npu",
            "resourceName": "furiosa.ai/warboy",
            "shares": 2,
        },
        "port": 9411,
    },
    "attribution": {"kubeletFolder": "/data/kubelet"},
}


def test_off_by_default(render: Render) -> None:
    assert not [each for each in render() if "device-plugin" in each["metadata"]["name"]]


@pytest.mark.parametrize("vendor", [each.name for each in declarations().values() if each.plugin])
def test_plugin_accepts_the_rendered_settings(render: Render, vendor: str, tmp_path: Path) -> None:
    objects = render(devicePlugin={**ON, "vendor": vendor})
    settings = plugin_settings(objects, tmp_path / "config.yaml")
    pod = device_plugin(objects)
    assert settings.vendor == vendor
    assert settings.node_name == "node-1"
    assert settings.exporter_port == container(pod)["ports"][0]["containerPort"] == 9401
    assert (settings.dev_root, settings.host_dev_root) == ("/host/dev", "/dev")
    assert (settings.sys_root, settings.roots.host_sys) == ("/sys", "/sys")
    known = {environment_name(declared.name) for declared in settings_of(PluginSettings)}
    assert set(environment(pod)) <= known | FOREIGN_ENVIRONMENT


def test_settings_are_taken_from_the_values(render: Render, tmp_path: Path) -> None:
    objects = render(**FULL)
    settings = plugin_settings(objects, tmp_path / "config.yaml")
    assert (settings.interval, settings.division_settings["default_pe"], settings.shares) == (5, "Single", 2)
    assert (settings.resource_name, settings.endpoint_name) == ("furiosa.ai/warboy", "npu.sock")
    assert [(each.name, each.node) for each in settings.disabled_devices] == [("npu0", "node-1")]
    assert settings.exporter_port == 9411


@pytest.mark.parametrize(
    ("values", "folder"),
    [
        ({}, "/var/lib/kubelet/device-plugins"),
        ({"attribution": {"kubeletFolder": "/data/kubelet"}}, "/data/kubelet/device-plugins"),
        ({"devicePlugin": {**ON, "config": {"pluginDir": "/elsewhere/plugins"}}}, "/elsewhere/plugins"),
    ],
)
def test_the_kubelet_folder_is_mounted_at_the_configured_path(
    render: Render, values: dict[str, Any], folder: str, tmp_path: Path
) -> None:
    objects = render(**{"devicePlugin": ON, **values})
    pod = device_plugin(objects)
    assert plugin_settings(objects, tmp_path / "config.yaml").plugin_dir == folder
    assert folder in host_paths(pod)
    [mount] = [each for each in container(pod)["volumeMounts"] if each["name"] == "device-plugins"]
    assert mount["mountPath"] == folder


@pytest.mark.parametrize(
    ("vendor", "privileged", "runtime", "folders"),
    [
        ("furiosa", False, None, set()),
        ("amd", False, None, set()),
        ("nvidia", False, "nvidia", set()),
        (
            "ascend",
            True,
            None,
            {"/usr/local/Ascend/driver", "/usr/local/sbin/npu-smi", "/usr/local/dcmi"},
        ),
    ],
)
def test_least_privilege(
    render: Render, vendor: str, privileged: bool, runtime: str | None, folders: set[str]
) -> None:
    noisy = {"openFiles": True, "tools": {"enabled": True}}  # of the agent, not of the plugin
    objects = render(
        devicePlugin={**ON, "vendor": vendor}, agents={**NO_AGENTS, "amd": {"enabled": False, **noisy}}
    )
    assert rights(objects) == set()
    pod = device_plugin(objects)
    assert host_paths(pod) == {*KUBELET, "/dev", *folders}
    assert pod["securityContext"]["runAsUser"] == 0
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert pod.get("runtimeClassName") == runtime
    assert not {"hostPID", "hostNetwork", "hostIPC"} & pod.keys()
    context = container(pod)["securityContext"]
    assert context["readOnlyRootFilesystem"] is True
    assert context.get("privileged", False) == privileged
    if not privileged:
        assert context["capabilities"] == {"drop": ["ALL"]}
    writable = {mount["name"] for mount in container(pod)["volumeMounts"] if not mount.get("readOnly")}
    assert writable == {"device-plugins", *(["scratch"] if vendor == "ascend" else [])}


def test_config_map_is_mounted_as_a_folder_so_that_changes_arrive(render: Render) -> None:
    pod = device_plugin(render(devicePlugin=ON))
    [mount] = [each for each in container(pod)["volumeMounts"] if each["name"] == "settings"]
    assert "subPath" not in mount
    [volume] = [each for each in pod["volumes"] if each["name"] == "settings"]
    assert volume["configMap"] == {"name": "npu-device-plugin"}, "no items: they would be as good, and more"


def test_without_agents_nothing_of_the_agents_is_rendered(render: Render) -> None:
    objects = render(
        agents=NO_AGENTS,
        devicePlugin=ON,
        scrape={"by": "serviceMonitor"},
        networkPolicy={"enabled": True},
        nodeObject={"npuAnnotation": True},
        http={"tokenReview": True},
    )
    names = {each["metadata"]["name"] for each in objects}
    assert names == {"accelscope-device-plugin", "npu-device-plugin"}


def test_agents_and_plugin_do_not_select_each_others_pods(render: Render) -> None:
    objects = render(devicePlugin=ON, scrape={"by": "serviceMonitor"}, networkPolicy={"enabled": True})
    chosen = [each["spec"]["selector"] for each in of_kind(objects, "Service")]
    chosen += [
        each["spec"]["selector"]["matchLabels"] for each in of_kind(objects, "ServiceMonitor", "DaemonSet")
    ]
    chosen += [each["spec"]["podSelector"]["matchLabels"] for each in of_kind(objects, "NetworkPolicy")]
    labels = [each["spec"]["template"]["metadata"]["labels"] for each in of_kind(objects, "DaemonSet")]
    for selector in chosen:
        hit = {each["app.kubernetes.io/component"] for each in labels if selector.items() <= each.items()}
        assert hit == {selector["app.kubernetes.io/component"]}
    assert {each["app.kubernetes.io/component"] for each in chosen} == {"agent", "device-plugin"}


@pytest.mark.parametrize(
    ("by", "annotated", "kinds"),
    [
        ("annotations", True, set()),
        ("none", False, set()),
        ("serviceMonitor", False, {"ServiceMonitor"}),
        ("podMonitor", False, {"PodMonitor"}),
    ],
)
def test_plugin_is_scraped_like_the_agents(render: Render, by: str, annotated: bool, kinds: set[str]) -> None:
    objects = render(agents=NO_AGENTS, devicePlugin=ON, scrape={"by": by})
    [daemonset] = of_kind(objects, "DaemonSet")
    annotations = daemonset["spec"]["template"]["metadata"]["annotations"]
    assert annotations.get("prometheus.io/port") == ("9401" if annotated else None)
    assert {each["kind"] for each in objects if each["kind"].endswith("Monitor")} == kinds


@pytest.mark.parametrize(
    ("nodes", "keys"),
    [
        (None, {"agents.accelscope.io/amd", "feature.node.kubernetes.io/amd-gpu"}),
        (["pool=npu"], {"pool"}),
    ],
)
def test_plugin_runs_on_nodes_of_its_vendor(render: Render, nodes: list[str] | None, keys: set[str]) -> None:
    plugin = {**ON, "vendor": "amd", "nodes": nodes}
    pod = device_plugin(render(devicePlugin=plugin, agents={"any": {"enabled": True}}))
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    found = {each["key"] for term in terms for each in term["matchExpressions"]}
    assert keys <= found
    assert "agents.accelscope.io/any" not in found, "nodes with cards of several vendors need plugins too"
    assert "affinity" not in device_plugin(render(devicePlugin={**ON, "nodes": []}))


def test_only_settings_that_need_a_restart_cause_a_rollout(render: Render) -> None:
    declared = (CHART / "templates" / "_device_plugin.tpl").read_text()
    [listed] = re.findall(r'define "accelscope.devicePlugin.reloadable" -}}\n(.+)\n', declared)
    reloadable = {
        key_name(each.name) for each in settings_of(PluginSettings) if each.reloadable and each.in_file
    }
    assert set(listed.split()) <= reloadable

    def stamp(**config: Any) -> Any:
        objects = render(agents=NO_AGENTS, devicePlugin={**ON, "config": config})
        [daemonset] = of_kind(objects, "DaemonSet")
        return daemonset["spec"]["template"]["metadata"]["annotations"]["accelscope.io/settings"]

    assert stamp() == stamp(defaultPe="Single", disabledDevices=[{"devName": "npu0"}])
    assert len({stamp(), stamp(resourceName="furiosa.ai/rngd"), stamp(partition="dual-core")}) == 3


@pytest.mark.parametrize(
    ("plugin", "complaint"),
    [
        ({"vendor": "intel"}, "vendor"),
        ({"defaultPe": "Single"}, "defaultPe"),
        ({"config": {"vendor": "amd"}}, "set devicePlugin.vendor instead"),
        ({"config": {"exporterPort": 9500}}, "set devicePlugin.port instead"),
        ({"config": {"podResourcesSocket": "/x"}}, "set attribution.kubeletFolder instead"),
        ({"config": {"pluginDir": "plugins"}}, "pluginDir"),
        ({"port": "9401"}, "port"),
        ({"extraArgs": ["interval=3"]}, "extraArgs"),
        ({"extraArgs": ["--vendor=amd"]}, "set devicePlugin.vendor instead"),
        ({"config": {"defaultPe": "Foo"}}, "defaultPe"),
        ({"config": {"default-pe": "Single"}}, "default-pe"),
        ({"config": {"intervall": 5}}, "intervall"),
        ({"configMapName": "accelscope"}, "configMapName: accelscope is already the ConfigMap of the agents"),
    ],
)
def test_invalid_values_are_rejected_by_name(
    template: Template, plugin: dict[str, Any], complaint: str
) -> None:
    done = template({"devicePlugin": {**ON, **plugin}})
    assert done.returncode != 0
    assert complaint in done.stderr


@pytest.mark.parametrize("name", EXCLUSIVE_SETTINGS)
def test_flags_that_conflict_with_the_file_are_rejected(template: Template, name: str) -> None:
    done = template({"devicePlugin": {**ON, "extraArgs": ["--log-level=debug", f"{flag_name(name)}=1"]}})
    assert done.returncode != 0
    instead = "devicePlugin.vendor" if name == "vendor" else f"devicePlugin.config.{key_name(name)}"
    assert f"set {instead} instead" in done.stderr


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"devicePlugin": {**ON, "env": {"DEFAULT_PE": "Single"}}}, "devicePlugin"),
        ({"devicePlugin": ON, "agents": {"furiosa": {"env": {"DEFAULT_PE": "Single"}}}}, "agents.furiosa"),
    ],
)
def test_variables_that_conflict_with_the_file_are_rejected(
    template: Template, values: dict[str, Any], place: str
) -> None:
    done = template(values)
    assert done.returncode != 0
    assert f"{place}.env.DEFAULT_PE cannot be combined with" in done.stderr


def test_other_flags_are_passed_on(render: Render) -> None:
    flags = ["--log-level=debug", "--interval-of-nothing"]
    pod = device_plugin(render(devicePlugin={**ON, "extraArgs": flags, "configMapName": "other"}))
    assert container(pod)["args"][-2:] == flags


@pytest.mark.parametrize("name", ["accelscope-fleet", "accelscope-fleet-clusters"])
def test_config_map_names_of_the_fleet_are_rejected(template: Template, name: str) -> None:
    fleet = {"enabled": True, "auth": {"insecureNoAuth": True}}
    done = template({"devicePlugin": {**ON, "configMapName": name}, "fleet": fleet})
    assert done.returncode != 0
    assert f"configMapName: {name} is already the ConfigMap of the fleet" in done.stderr


def test_fields_that_old_clusters_reject_are_left_out(template: Template) -> None:
    assert "recursiveReadOnly" not in template({"devicePlugin": ON}, kubernetes="1.29.4").stdout
    assert "recursiveReadOnly: IfPossible" in template({"devicePlugin": ON}, kubernetes="1.30.0").stdout


def test_example_pod_requests_the_offered_resource() -> None:
    [pod] = yaml.safe_load_all((REPOSITORY / "deploy" / "examples" / "npu-pod.yaml").read_text())
    [only] = pod["spec"]["containers"]
    assert only["resources"]["limits"] == {"beta.furiosa.ai/npu": 1}
