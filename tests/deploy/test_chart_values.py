"""The chart rejects invalid values and invalid nulls with the name of the value."""

import copy
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from tests.deploy.conftest import Render, Template
from tests.repository import CHART

from accelscope.agent.settings import AgentSettings
from accelscope.config.settings import key_name, settings_of
from accelscope.config.values import Duration
from accelscope.deviceplugin.settings import PluginSettings
from accelscope.fleet.settings import FleetSettings
from accelscope.vendors import declarations

Keys = tuple[str, ...]

DURATION = Duration()

# A null or an empty value means none.
MAY_BE_NONE = {"priorityClassName", "resources", "runtimeClassName", "tolerations", "updateStrategy"}
OF_THE_DRIVER = ("agents", "ascend", "driver")
ON: dict[str, Any] = {
    "agents": {"any": {"enabled": True}},
    "nodeObject": {"npuAnnotation": True},
    "devicePlugin": {"enabled": True},
    "fleet": {"enabled": True, "auth": {"insecureNoAuth": True}},
    "fleetReader": {"enabled": True},
    "scrape": {"by": "serviceMonitor"},
    "prometheusRule": {"enabled": True},
    "grafanaDashboards": {"enabled": True},
    "networkPolicy": {"enabled": True},
}


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"image": {}}, "image.registry"),
        ({"hostPID": False}, "hostPID"),
        ({"agents": {"intel": {"enabled": True}}}, "intel"),
        ({"agents": {"amd": {"driverRoot": "/x"}}}, "driverRoot"),
        ({"attribution": {"pods": "docker"}}, "pods"),
        ({"nodeObject": {"featureLabels": "yes"}}, "featureLabels"),
        ({"nodeObject": {"featureDomains": ["example.org"]}}, "featureDomains"),
        ({"http": {"port": "9400"}}, "port"),
        ({"config": {"npuAnnotation": True}}, "set nodeObject.npuAnnotation instead"),
        ({"config": {"tokenFile": "/x"}}, "set http.tokenSecretName instead"),
        ({"scrape": {"by": "magic"}}, "by"),
        ({"scrape": {"by": "serviceMonitor"}, "service": {"enabled": False}}, "service.enabled"),
        ({"http": {"tls": {"clientCASecretName": "ca"}}}, "http.tls.secretName"),
        ({"agents": {"any": {"enabled": True, "nodes": []}}}, "agents.any.nodes"),
        ({"config": {"intervall": "5s"}}, "intervall"),
        ({"config": {"collection_interval": "5s"}}, "collection_interval"),
        ({"config": {"configFile": "/x"}}, "configFile"),
        ({"config": {"logLevel": "loud"}}, "logLevel"),
        ({"config": {"dialect": ["dcgn"]}}, "dialect"),
        ({"config": {"collectionInterval": "5 s"}}, "collectionInterval"),
        ({"config": {"maxProcessSeries": "many"}}, "maxProcessSeries"),
        ({"fleet": {"config": {"refreshIntervall": "30s"}}}, "refreshIntervall"),
        *(
            ({"nodeObject": {"annotationInterval": value}}, "annotationInterval")
            for value in ("1.2.3", "", "3x", "s", "3 s", ".")
        ),
    ],
)
def test_invalid_values_are_rejected_by_name(
    template: Template, values: dict[str, Any], complaint: str
) -> None:
    done = template(values)
    assert done.returncode != 0
    assert complaint in done.stderr


@pytest.mark.parametrize("value", ["3s", "500ms", "1m30s", "0.5s", "1.5h", "2d", "3", 3, 2.5])
def test_schema_accepts_the_durations_of_the_agent(template: Template, value: str | float) -> None:
    DURATION.parse(str(value))
    done = template({"nodeObject": {"annotationHeartbeat": value}, "config": {"collectionInterval": value}})
    assert done.returncode == 0, done.stderr


SETTINGS = {"agentConfig": AgentSettings, "devicePluginConfig": PluginSettings, "fleetConfig": FleetSettings}


@pytest.mark.parametrize("name", SETTINGS)
def test_schema_has_every_key_of_the_settings_file(name: str) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    known = schema["definitions"][name]
    keys = {key_name(each.name) for each in settings_of(SETTINGS[name]) if each.in_file}
    assert known["additionalProperties"] is False
    assert known["properties"].keys() == keys, "run make manifests"


# Templates that list the settings for which the chart has its own values.
OWN_SETTINGS = {
    "accelscope.ownSettings": AgentSettings,
    "accelscope.devicePlugin.ownSettings": PluginSettings,
    "accelscope.fleet.ownSettings": FleetSettings,
}


def own_settings(name: str) -> dict[str, str]:
    """Key of each setting -> path of the value."""
    texts = "".join(path.read_text() for path in (CHART / "templates").glob("*.tpl"))
    [block] = re.findall(rf'define "{re.escape(name)}" -}}}}\n(.+?)\n{{{{- end', texts, re.DOTALL)
    found: dict[str, str] = yaml.safe_load(block)
    return found


@pytest.mark.parametrize("name", OWN_SETTINGS)
def test_every_value_that_replaces_a_setting_exists(name: str) -> None:
    known = {key_name(each.name) for each in settings_of(OWN_SETTINGS[name])}
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for key, path in own_settings(name).items():
        assert key in known
        place = values
        for part in path.split("."):
            place = place[part]


def test_schema_accepts_the_default_of_every_setting(template: Template) -> None:
    """Except settings without a default and settings that have their own value in the chart."""
    kept = {key for name in OWN_SETTINGS for key in own_settings(name)}

    def config(declared: type) -> dict[str, str]:
        written = {key_name(each.name): each.default_text for each in settings_of(declared) if each.in_file}
        return {key: text for key, text in written.items() if text and key not in kept}

    done = template(
        {
            "config": config(AgentSettings),
            "devicePlugin": {"enabled": True, "config": config(PluginSettings)},
            "fleet": {"enabled": True, "auth": {"insecureNoAuth": True}, "config": config(FleetSettings)},
        }
    )
    assert done.returncode == 0, done.stderr


def named(values: dict[str, Any], schema: dict[str, Any], above: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """Every value that the schema names, with its default."""
    for name, default in values.items():
        yield (*above, name), default
        inner = schema["properties"][name]
        if isinstance(default, dict) and inner.get("additionalProperties") is False:
            yield from named(default, inner, (*above, name))


def declared() -> list[tuple[Keys, Any]]:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    return list(named(values, json.loads((CHART / "values.schema.json").read_text())))


def may_be_none(path: Keys, default: Any) -> bool:
    none = default is None or (default is not False and default != 0 and not default)
    return none or path[-1] in MAY_BE_NONE or path[:-1] == OF_THE_DRIVER


def test_schema_rejects_null_for_required_values() -> None:
    """Helm removes the default for a null, and templates would fail with an unclear message."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    for path, default in declared():
        place = schema
        for name in path[:-1]:
            place = place["properties"][name]
        assert (path[-1] in place.get("required", [])) != may_be_none(path, default), path


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("http.tls", "tls"),
        ("agents.nvidia.nodes", "nodes"),
        ("nodeObject.admissionPolicy", "admissionPolicy"),
    ],
)
def test_rejected_null_is_named(template: Template, path: str, complaint: str) -> None:
    value: Any = None
    for name in reversed(path.split(".")):
        value = {name: value}
    done = template(value)
    assert done.returncode != 0
    assert "don't meet the specifications of the schema" in done.stderr
    assert complaint in done.stderr
    assert "nil pointer" not in done.stderr


def test_other_nulls_are_equal_to_empty_values(render: Render) -> None:
    def emptied(empty: Mapping[type, Any]) -> dict[str, Any]:
        values: dict[str, Any] = copy.deepcopy(ON)
        for path, default in declared():
            # Registry and account are required; an empty map keeps its defaults.
            filled = isinstance(default, dict) and default
            if path == ("image", "registry") or filled or not may_be_none(path, default):
                continue
            place = values
            for name in path[:-1]:
                place = place.setdefault(name, {})
            place[path[-1]] = empty.get(type(default))
        values.setdefault("image", {})["registry"] = "registry.test"
        return values

    nothing: dict[type, Any] = {str: "", list: [], dict: {}}
    assert render(**emptied({})) == render(**emptied(nothing))


def test_null_removes_a_default(render: Render) -> None:
    objects = render(resources={"limits": {"cpu": None}}, updateStrategy=None)
    [first, *_] = [each["spec"] for each in objects if each["kind"] == "DaemonSet"]
    assert "updateStrategy" not in first
    [container] = first["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"memory": "64Mi"}


def test_every_vendor_has_its_agent_in_values_and_schema() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(values["agents"]) == {*declarations(), "any"}
    schema = json.loads((CHART / "values.schema.json").read_text())
    agents = schema["properties"]["agents"]
    assert set(agents["required"]) == set(agents["properties"]) == {*declarations(), "any"}
    plugin = schema["definitions"]["devicePluginConfig"]["properties"]
    assert set(plugin["vendor"]["enum"]) == set(declarations())


# Set by the user, or broader than what shows that the node has an accelerator of the vendor.
NOT_DECLARED = {
    *(f"agents.accelscope.io/{vendor}" for vendor in declarations()),
    "feature.node.kubernetes.io/pci-1002.present",  # by vendor only: AMD makes other PCI devices too
}


@pytest.mark.parametrize("vendor", declarations())
def test_node_labels_of_an_agent_match_the_vendors_declaration(vendor: str) -> None:
    """The chart schedules agents by the same labels by which the fleet recognizes nodes with accelerators."""
    nodes = yaml.safe_load((CHART / "values.yaml").read_text())["agents"][vendor]["nodes"]
    keys = {node.partition("=")[0] for node in nodes} - NOT_DECLARED
    assert keys
    for key in keys:
        assert any(re.fullmatch(pattern, key) for pattern in declarations()[vendor].node_labels), key
