"""docs/benchmarks.md leaves nothing out: no node, no exporter, no subject, no contract."""

import pytest
from bench.__main__ import SUBJECTS
from bench.contracts import Contract
from bench.effort import USUAL
from bench.peers import OUT_OF_REACH, PEERS
from bench.scenes import scenes
from tests.repository import REPOSITORY

PAGE = (REPOSITORY / "docs" / "benchmarks.md").read_text()
TITLES: dict[str, tuple[str, ...]] = {
    "against": (),  # only measured on request
    "exporters": ("Exporters side by side", "The agent's forms"),
    "collection": ("CPU of one collection",),
    "start": ("Start to first page",),
    "memory-map": ("Memory by import",),
    "commands": ("Cost of every command",),
    "growth": ("Growth with devices", "Growth with processes"),
    "attribution": ("Attribution",),
    "rendering": ("Rendering one page",),
    "vendors": ("One collection of each vendor",),
    "fleet": ("Fleet: ",),
}


def test_every_subject_has_its_titles_here() -> None:
    assert set(TITLES) == set(SUBJECTS)


@pytest.mark.parametrize("title", [title for titles in TITLES.values() for title in titles])
def test_every_subject_is_on_the_page(title: str) -> None:
    assert f"\n## {title}" in PAGE


@pytest.mark.parametrize("scene", [scene.name for scene in scenes(USUAL)])
def test_every_node_is_on_the_page(scene: str) -> None:
    assert f"\n| {scene} | " in PAGE


@pytest.mark.parametrize("exporter", [*(peer.name for peer in PEERS), *OUT_OF_REACH])
def test_every_exporter_is_on_the_page_with_figures_or_a_reason(exporter: str) -> None:
    assert f" | {exporter} | " in PAGE


ON_REQUEST = {Contract.OTHER_RSS, Contract.OTHER_CPU}


@pytest.mark.parametrize("contract", [contract for contract in Contract if contract not in ON_REQUEST])
def test_every_contract_is_on_the_page(contract: Contract) -> None:
    what, *_ = contract.value
    assert f"| {what} | " in PAGE
