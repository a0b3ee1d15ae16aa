"""Looking things up in rendered objects."""

from typing import Any

from accelscope.agent.settings import AgentSettings
from accelscope.config import load

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
    [configuration] = of_kind(objects, "ConfigMap")
    text = configuration["data"]["agent.yaml"]
    assert isinstance(text, str)
    return text


def rights(objects: Objects) -> set[tuple[str, str, str]]:
    """(API group, resource, verb) of every rule that is bound to the agents."""
    bound = {each["roleRef"]["name"] for each in of_kind(objects, "ClusterRoleBinding", "RoleBinding")}
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
