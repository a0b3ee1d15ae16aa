"""The commands and values in the documentation: the chart accepts them, and the objects that they name exist.
The end-to-end tests run them on a real cluster (tests/e2e/test_install_page.py, test_other_pages.py)."""

import dataclasses
import re
import shlex
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deploy.clusters_file_keys import SECTIONS, keys_of
from tests.deploy.conftest import Render, Renderings
from tests.deploy.objects import (
    Objects,
    agent_settings,
    agents,
    device_plugin,
    fleet_clusters,
    of_kind,
    read_objects,
    settings_text,
)
from tests.repository import CHART, REPOSITORY

from accelscope.agent.settings import AgentSettings
from accelscope.config.settings import flag_name, key_name, settings_of
from accelscope.deviceplugin.settings import PluginSettings
from accelscope.fleet.api.access import read_tokens
from accelscope.fleet.clusters import AgentsEntry, ExecEntry, PrometheusEntry, load_clusters
from accelscope.fleet.settings import FleetSettings

DOCS = REPOSITORY / "docs"
SWITCHING = sorted((DOCS / "switching").glob("*.md"))
PAGES = [
    *(DOCS / f"{name}.md" for name in ("install", "security", "node-object", "device-plugin", "fleet")),
    *(DOCS / f"{name}.md" for name in ("alerts", "dashboards")),
    *SWITCHING,
]

VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
REGISTRY = "image.registry=registry.example.org/monitoring"
# Options of helm that only matter for an existing release.
OF_UPGRADES = {"--install", "--reset-then-reuse-values"}

# Charts of others, which are skipped.
THEIR_OBJECTS = {
    "clusterpolicy/cluster-policy",
    "configmap/NAME of NAMESPACE",
    "configmap/npu-device-plugin of NAMESPACE",
    "deviceconfig/NAME",
}
KINDS = {
    "clusterpolicy",
    "clusterrole",
    "configmap",
    "daemonset",
    "deployment",
    "deviceconfig",
    "rolebinding",
    "secret",
}


def commands(page: Path) -> list[list[str]]:
    """Commands in blocks and text, each as a list of words."""
    text = page.read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    lines += re.findall(r"`((?:helm|kubectl) [^`]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


def of_helm(page: Path) -> list[list[str]]:
    """Commands that install the chart: release and options."""
    found = []
    for words in commands(page):
        if words[0] == "helm" and "deploy/chart" in words:
            [release, *options] = [word for word in words[2:] if word not in OF_UPGRADES]
            options.remove("deploy/chart")
            found.append([release, *options])
    return found


HELM_COMMANDS = [(page.name, words) for page in PAGES for words in of_helm(page)]


def rendered(renderings: Renderings, words: list[str], folder: Path) -> Objects:
    [release, *options] = words
    if not any(word.startswith("image.registry=") for word in options):
        options += ["--set", REGISTRY]  # it was given to the release before, and is used again
    if "my-values.yaml" in options:
        file = folder / "my-values.yaml"
        file.write_text("{}")
        options[options.index("my-values.yaml")] = str(file)
    if "dcgmCounters=counters.csv" in options:
        counters = folder / "counters.csv"
        counters.write_text("DCGM_FI_DEV_GPU_TEMP, gauge, Temperature\n")
        options[options.index("dcgmCounters=counters.csv")] = f"dcgmCounters={counters}"
    return renderings.objects(renderings.template(release, *options))


def understood(objects: Objects, file: Path) -> None:
    """Agents and fleet accept the rendered settings. Raises ConfigError."""
    for vendor in agents(objects):
        file.write_text(settings_text(objects))
        agent_settings(objects, vendor, str(file))
    if of_kind(objects, "Deployment"):
        assert fleet_clusters(objects, file.parent)


def identities(objects: Objects) -> set[str]:
    return {f"{each['kind'].lower()}/{each['metadata']['name']}" for each in objects}


def test_pages_contain_commands() -> None:
    assert {page for page, _ in HELM_COMMANDS} >= {"furiosa.md", "npu-exporter.md", "device-plugin.md"}
    assert len(HELM_COMMANDS) >= 14


@pytest.mark.parametrize(
    ("page", "words"), HELM_COMMANDS, ids=[f"{page}-{words[0]}" for page, words in HELM_COMMANDS]
)
def test_command_is_valid_and_changes_the_rendering(
    renderings: Renderings, tmp_path: Path, page: str, words: list[str]
) -> None:
    made = rendered(renderings, words, tmp_path)
    understood(made, tmp_path / "agent.yaml")
    settings = {at + 1 for at, word in enumerate(words) if word in ("--set", "--set-file")}
    plain = [word for at, word in enumerate(words) if at not in settings and at + 1 not in settings]
    if {words[at].partition(".")[0] for at in settings} - {"image"}:
        assert made != rendered(renderings, plain, tmp_path), "it is said to do something"


def named_objects(words: list[str]) -> set[str]:
    """kind/name of the object of a kubectl command, except nodes and pods."""
    found = {word for word in words if word.partition("/")[0] in KINDS and "/" in word}
    match words:
        case [_, verb, kind, name, *_] if verb != "create" and kind in KINDS:
            found.add(f"{kind}/{name}")
    found |= {f"clusterrole/{name}" for name in re.findall(r"--clusterrole=(\S+)", " ".join(words))}
    return {f"{each} of NAMESPACE" for each in found} if "NAMESPACE" in words else found


def test_objects_of_kubectl_commands_exist(renderings: Renderings, tmp_path: Path) -> None:
    there = set(THEIR_OBJECTS)
    for _, words in HELM_COMMANDS:
        there |= identities(rendered(renderings, words, tmp_path))
    for manifest in sorted((REPOSITORY / "deploy" / "manifests").glob("*.yaml")):
        there |= identities(read_objects(manifest.read_text()))
    asked = {
        (page.name, each)
        for page in PAGES
        for words in commands(page)
        if words[0] == "kubectl"
        for each in named_objects(words)
    }
    assert {"daemonset/accelscope-device-plugin", "configmap/npu-device-plugin"} <= {
        each for _, each in asked
    }
    assert not {(page, each) for page, each in asked if each not in there}


# --- names in the text ------------------------------------------------------------------------------------


def keys(settings: Any) -> set[str]:
    return {key_name(each.name) for each in settings_of(settings)}


def is_value(path: str) -> bool:
    """Whether values.yaml, or the settings of a program below `config`, has the key."""
    place: Any = VALUES
    parts = path.split(".")
    for at, name in enumerate(parts):
        if parts[:at] == ["config"]:
            return name in keys(AgentSettings)
        if parts[:at] == ["devicePlugin", "config"]:
            return name in keys(PluginSettings)
        if parts[:at] == ["fleet", "config"]:
            return name in keys(FleetSettings)
        if name == "<vendor>":
            return all(
                is_value(".".join(["agents", vendor, *parts[at + 1 :]])) for vendor in ("amd", "ascend")
            )
        if not isinstance(place, dict) or (place and name not in place):
            return False
        place = place.get(name, {})
    return True


NAMED = re.compile(rf"(?:--set )?'?((?:{'|'.join(VALUES)})(?:\.(?:<vendor>|\w+))+)(?:[=:].*)?")


def named_values(page: Path) -> set[str]:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    found = (NAMED.fullmatch(code) for code in re.findall(r"`([^`\n]+)`", text))
    files = {"config.yaml"}
    return {match[1] for match in found if match} - files


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_values_in_the_text_exist(page: Path) -> None:
    unknown = {each for each in named_values(page) if not is_value(each)}
    assert not unknown


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("agents.amd.tools.enabled", True),
        ("agents.<vendor>.nodes", True),
        ("config.dialect", True),
        ("scrape.labels.release", True),
        ("agents.amd.tool.enabled", False),
        ("config.dialects", False),
        ("nodeObject.npuAnnotations", False),
    ],
)
def test_unknown_value_is_detected(path: str, known: bool) -> None:
    assert is_value(path) is known


def value_blocks(page: Path) -> list[dict[str, Any]]:
    """YAML blocks that contain values of the chart."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    read = [yaml.safe_load(block) for block in blocks]
    return [each for each in read if isinstance(each, dict) and set(each) <= set(VALUES)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_values_blocks_are_valid(render: Render, tmp_path: Path, page: Path) -> None:
    for values in value_blocks(page):
        understood(render(**values), tmp_path / "agent.yaml")


def test_quota_in_the_docs_uses_the_plugins_priority_class(render: Render) -> None:
    text = (DOCS / "device-plugin.md").read_text()
    blocks = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", text, re.M | re.S)]
    [quota] = [each for each in blocks if each.get("kind") == "ResourceQuota"]
    [expression] = quota["spec"]["scopeSelector"]["matchExpressions"]
    assert expression["values"] == [
        device_plugin(render(devicePlugin={"enabled": True}))["priorityClassName"]
    ]
    without = render(devicePlugin={"enabled": True, "priorityClassName": ""})
    assert "priorityClassName" not in device_plugin(without)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_in_the_text_exist(page: Path) -> None:
    named = set(re.findall(r"\bdeploy/[\w./-]+\w", page.read_text()))
    made_by_the_reader = {"deploy/image/wheels"}
    assert not {each for each in named - made_by_the_reader if not (REPOSITORY / each).exists()}


@pytest.mark.parametrize(
    ("page", "settings", "others"),
    [
        ("node-object", AgentSettings, {"--apply", "--show-managed-fields"}),
        ("device-plugin", PluginSettings, set()),
        ("fleet", FleetSettings, {"--token-file", "--force"}),  # of the agent, of pipx
    ],
)
def test_flags_in_the_text_exist(page: str, settings: Any, others: set[str]) -> None:
    named = set(re.findall(r"`(--[a-z-]+)", (DOCS / f"{page}.md").read_text()))
    known = {flag_name(each.name) for each in settings_of(settings)}
    assert named
    assert not named - known - others


# --- fleet ------------------------------------------------------------------------------------------------


def blocks_with(page: Path, key: str) -> list[str]:
    """YAML blocks, also within lists, whose only key is this."""
    found = re.findall(r"^( *)```yaml\n(.*?)^\1```$", page.read_text(), re.MULTILINE | re.DOTALL)
    texts = [textwrap.dedent(text) for _, text in found]
    return [text for text in texts if set(yaml.safe_load(text)) == {key}]


@pytest.mark.parametrize("page", ["fleet", "switching/exec-collector"])
def test_lists_of_clusters_are_valid(page: str, tmp_path: Path) -> None:
    blocks = blocks_with(DOCS / f"{page}.md", "clusters")
    assert blocks
    for block in blocks:
        (tmp_path / "clusters.yaml").write_text(block)
        assert load_clusters(str(tmp_path / "clusters.yaml"))


def test_token_files_are_valid(tmp_path: Path) -> None:
    [block] = blocks_with(DOCS / "fleet.md", "tokens")
    (tmp_path / "tokens.yaml").write_text(block)
    [token] = read_tokens(str(tmp_path / "tokens.yaml"))
    assert token.caller.clusters == frozenset({"berlin", "paris"})


def documented_keys() -> dict[str, str]:
    """Keys of the clusters file with their defaults."""
    text = (DOCS / "fleet.md").read_text()
    [table] = re.findall(r"^\| key \| default \|.*?\n\n", text, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| `([\w.]+)` \|(.*?)\|.*\|$", table, re.MULTILINE)
    return {key: default.strip() for key, default in rows}


def test_every_key_of_the_clusters_file_is_documented(tmp_path: Path) -> None:
    wanted = {".".join([*place, key]) for place in SECTIONS for key in keys_of(place, tmp_path)}
    inner = {".".join(place) for place in SECTIONS}
    assert documented_keys().keys() == wanted - inner


@pytest.mark.parametrize("entry", [AgentsEntry(), ExecEntry(), PrometheusEntry(url="https://x")])
def test_defaults_of_sources_are_documented(entry: Any) -> None:
    told = documented_keys()
    source = type(entry).__name__.removesuffix("Entry").lower()
    for field in dataclasses.fields(entry):
        name = field.name.removesuffix("_seconds") if field.name != "ttl_seconds" else "ttl"
        default = getattr(entry, field.name)
        if not default or name == "url":
            continue
        shown = told[f"sources.{source}.{key_name(name)}"]
        if field.name.endswith("_seconds"):
            default = f"{default:g}s"
        texts = default if isinstance(default, tuple) else [default]
        plain = (f"{text:g}" if isinstance(text, float) else str(text) for text in texts)
        assert shown == ", ".join(f"`{text}`" for text in plain)
