"""Looking things up in rendered objects."""

from pathlib import Path
from typing import Any

from accelscope.agent.settings import AgentSettings
from accelscope.config import load
from accelscope.deviceplugin.settings import PluginSettings, load_settings

Objects = list[dict[str, Any]]

# Of the driver's runtime, of the shell, and the chart's own; all else must be a setting of the agent.
FOREIGN_ENVIRONMENT = {"HOME", "NODE_IP", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_VISIBLE_DEVICES"}


def of_kind(objects: Objects, *kinds: str) -> Objects:
    return [each for each in objects if each["kind"] in kinds]


def agents(objects: Objects) -> dict[str, dict[str, Any]]:
    """The pods' specifications by vendor."""
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
    """Variables as the container gets them; those that the node decides have made-up values."""
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
    """The pods' specification."""
    [found] = [
        each["spec"]["template"]["spec"]
        for each in of_kind(objects, "DaemonSet")
        if each["metadata"]["labels"]["app.kubernetes.io/component"] == "device-plugin"
    ]
    assert isinstance(found, dict)
    return found


def plugin_settings(objects: Objects, file: Path) -> PluginSettings:
    """What the plugin itself makes of its arguments, its environment and the settings file, which is written
    to `file`. Raises ConfigError for a key that it does not know and for what may not stand beside a file."""
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


def rights(objects: Objects, account: str | None = None) -> set[tuple[str, str, str]]:
    """(API group, resource, verb) of every rule that is bound to this account; None: to anybody."""
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
    """What the agent itself makes of its environment and of the settings file, which was written to `file`.
    Raises ConfigError for a key that it does not know."""
    return load(AgentSettings, {}, environment(agents(objects)[vendor]), file).settings
