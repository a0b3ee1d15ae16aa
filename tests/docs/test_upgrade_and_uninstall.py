"""The page on Kubernetes: upgrades and the end cover all that the pages have people make."""

import re
from collections.abc import Iterator
from typing import Any

import yaml
from tests.repository import CHART, REPOSITORY

DOCS = REPOSITORY / "docs"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
BLOCK = re.compile(r"^( *)```sh\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def section(title: str) -> str:
    _, _, rest = (DOCS / "install.md").read_text().partition(f"\n## {title}\n")
    assert rest
    return rest.partition("\n## ")[0]


def commands() -> list[str]:
    """Lines of all blocks of commands."""
    blocks = [text for page in DOCS.rglob("*.md") for _, text in BLOCK.findall(page.read_text())]
    return [line.strip() for block in blocks for line in block.replace("\\\n", " ").splitlines()]


def repositories(values: dict[str, Any]) -> Iterator[str]:
    """Of images."""
    for key, value in values.items():
        if key == "repository":
            yield value
        elif isinstance(value, dict):
            yield from repositories(value)


def test_every_image_of_the_chart_is_built_before_an_upgrade() -> None:
    images = set(repositories(VALUES))
    assert images >= {"accelscope", "accelscope-fleet"}
    text, _, _ = section("Upgrade and roll back").partition("```sh")
    assert {each for each in images if f"`{each}`" not in text} == set()


def test_all_that_an_upgrade_rolls_is_waited_for() -> None:
    waited = re.findall(r"kubectl rollout status (\S+)", section("Upgrade and roll back"))
    assert {"deployment/accelscope-fleet", "daemonset/accelscope-device-plugin"} <= set(waited)


def test_every_binding_that_people_make_is_deleted() -> None:
    made = {
        name for line in commands() for name in re.findall(r"kubectl create clusterrolebinding (\S+)", line)
    }
    assert made
    deleted = re.findall(r"kubectl delete clusterrolebinding (.+)", section("Uninstall"))
    assert made <= {name for names in deleted for name in names.split()}


def test_every_label_that_agents_ask_nodes_for_is_taken_away() -> None:
    listed = [label for agent in VALUES["agents"].values() for label in agent["nodes"]]
    ours = {label.partition("=")[0] for label in listed if label.startswith("agents.accelscope.io/")}
    assert len(ours) == len(VALUES["agents"])
    assert set(re.findall(r"(agents\.accelscope\.io/\w+)-", section("Uninstall"))) == ours
