"""Helpers to find things in rendered objects."""

from pathlib import Path
from typing import Any

import yaml

from accelscope.agent.settings import AgentSettings
from accelscope.config import load
from accelscope.deviceplugin.settings import PluginSettings, load_settings
from accelscope.fleet.clusters import ClusterEntry, load_clusters
from accelscope.fleet.settings import FleetSettings

Objects = list[dict[str, Any]]

# Variables of the driver's runtime, the shell and the chart; all others must be settings of the agent.
FOREIGN_ENVIRONMENT = {
    "HOME",
    "LD_LIBRARY_PATH",
    "NODE_IP",
    "NVIDIA_DRIVER_CAPABILITIES",
    "NVIDIA_VISIBLE_DEVICES",
}


_LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader  # ten times faster, or there


def read_objects(text: str) -> Objects:
    return [each for each in yaml.load_all(text, Loader=_LOADER) if each is not None]


def of_kind(objects: Objects, *kinds: str) -> Objects:
    return [each for each in objects if each["kind"] in kinds]


def agents(objects: Objects) -> dict[str, dict[str, Any]]:
    """Pod specifications of the agents by vendor."""
    return {
        each["metadata"]["labels"]["accelscope.io/agent"]: each["spec"]["template"]["spec"]
        for each in of_kind(objects, "DaemonSet")
        if "accelscope.io/agent" in each["metadata"]["labels"]
    }


def container(pod: dict[str, Any]) -> dict[str, Any]:
    [only] = pod["containers"]
    assert isinstance(only, dict)
    return only


def environment(pod: dict[str, Any]) -> dict[str, str]:
    """Environment of the container; variables set by the node have example values."""
    made_up = {"spec.nodeName": "node-1", "status.hostIP": "192.0.2.1"}
    found: dict[str, str] = {}
    for each in container(pod)["env"]:
        given = each.get("value")
        if given is None:
            given = made_up[each["valueFrom"]["fieldRef"]["fieldPath"]]
        for name, value in found.items():
            given = given.replace(f"$({name})", value)
        found[each["name"]] = given
    return found


def host_paths(pod: dict[str, Any]) -> set[str]:
    return {volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}


def settings_text(objects: Objects) -> str:
    [text] = [
        each["data"]["agent.yaml"] for each in of_kind(objects, "ConfigMap") if "agent.yaml" in each["data"]
    ]
    assert isinstance(text, str)
    return text


def device_plugin(objects: Objects) -> dict[str, Any]:
    """Pod specification of the device plugin."""
    [found] = [
        each["spec"]["template"]["spec"]
        for each in of_kind(objects, "DaemonSet")
        if each["metadata"]["labels"]["app.kubernetes.io/component"] == "device-plugin"
    ]
    assert isinstance(found, dict)
    return found


def plugin_settings(objects: Objects, file: Path) -> PluginSettings:
    """Settings that the plugin reads from its arguments, its environment and the file, which is written to
    `file`. Raises ConfigError for unknown keys and for options that cannot be combined with a file."""
    pod = device_plugin(objects)
    [volume] = [each["configMap"]["name"] for each in pod["volumes"] if each["name"] == "settings"]
    [text] = [
        each["data"]["config.yaml"]
        for each in of_kind(objects, "ConfigMap")
        if each["metadata"]["name"] == volume
    ]
    file.write_text(text)
    [command, *words] = container(pod)["args"]
    assert command == "device-plugin"
    given = {}
    for name, _, value in (word.partition("=") for word in words):
        given[name.removeprefix("--").replace("-", "_")] = value
    mounted = [each["mountPath"] for each in container(pod)["volumeMounts"] if each["name"] == "settings"]
    assert [given.pop("config_file")] == [f"{folder}/config.yaml" for folder in mounted]
    return load_settings({**given, "config_file": str(file)}, environment(pod)).settings


def fleet(objects: Objects) -> dict[str, Any]:
    """Pod specification of the fleet."""
    [found] = [each["spec"]["template"]["spec"] for each in of_kind(objects, "Deployment")]
    assert isinstance(found, dict)
    return found


def mounted(pod: dict[str, Any], volume: str) -> str:
    """Where."""
    [path] = [each["mountPath"] for each in container(pod)["volumeMounts"] if each["name"] == volume]
    assert isinstance(path, str)
    return path


def fleet_settings(objects: Objects, folder: Path) -> FleetSettings:
    """Settings that the fleet reads from its arguments and the file, which is written to `folder`. Raises
    ConfigError for unknown keys."""
    pod = fleet(objects)
    [command, *words] = container(pod)["args"]
    assert command == "fleet"
    given = dict(word.removeprefix("--").replace("-", "_").split("=") for word in words)
    assert given.pop("config_file") == f"{mounted(pod, 'settings')}/fleet.yaml"
    file = folder / "fleet.yaml"
    file.write_text(_data(objects, pod, "settings")["fleet.yaml"])
    return load(FleetSettings, {**given, "config_file": str(file)}, {}).settings


def fleet_clusters(objects: Objects, folder: Path) -> dict[str, ClusterEntry]:
    """Clusters by id, as the fleet parses the list. Raises ConfigError."""
    pod = fleet(objects)
    assert fleet_settings(objects, folder).clusters_file == f"{mounted(pod, 'clusters')}/clusters.yaml"
    file = folder / "clusters.yaml"
    file.write_text(_data(objects, pod, "clusters")["clusters.yaml"])
    return {entry.id: entry for entry in load_clusters(str(file))}


def _data(objects: Objects, pod: dict[str, Any], volume: str) -> dict[str, str]:
    """Content of the mounted ConfigMap."""
    [name] = [each["configMap"]["name"] for each in pod["volumes"] if each["name"] == volume]
    [data] = [each["data"] for each in of_kind(objects, "ConfigMap") if each["metadata"]["name"] == name]
    assert isinstance(data, dict)
    return data


def local_rights(objects: Objects, account: str) -> dict[str, set[tuple[str, str]]]:
    """(resource, verb) of every rule bound to this account by namespace; "": cluster-wide. Roles are looked
    up in the namespace of the binding."""
    found: dict[str, set[tuple[str, str]]] = {}
    for binding in of_kind(objects, "ClusterRoleBinding", "RoleBinding"):
        if account not in (subject["name"] for subject in binding["subjects"]):
            continue
        namespace = binding["metadata"].get("namespace", "")
        [role] = [
            each
            for each in of_kind(objects, binding["roleRef"]["kind"])
            if each["metadata"]["name"] == binding["roleRef"]["name"]
            and each["metadata"].get("namespace", "") == namespace
        ]
        pairs = {
            (name, verb) for rule in role["rules"] for name in rule["resources"] for verb in rule["verbs"]
        }
        found.setdefault(namespace, set()).update(pairs)
    return found


def rights(objects: Objects, account: str | None = None) -> set[tuple[str, str, str]]:
    """(API group, resource, verb) of every rule bound to this account; None: to any account."""
    bound = {
        each["roleRef"]["name"]
        for each in of_kind(objects, "ClusterRoleBinding", "RoleBinding")
        if account in (None, *(subject["name"] for subject in each["subjects"]))
    }
    return {
        (group, resource, verb)
        for role in of_kind(objects, "ClusterRole", "Role")
        if role["metadata"]["name"] in bound
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def agent_settings(objects: Objects, vendor: str, file: str) -> AgentSettings:
    """Settings that the agent reads from its environment and `file`. Raises ConfigError for unknown keys."""
    return load(AgentSettings, {}, environment(agents(objects)[vendor]), file).settings
