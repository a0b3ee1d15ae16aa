"""The page of each dialect, byte for byte, and what holds for all of them.

    UPDATE_GOLDEN=1 make test ARGS=tests/metrics/test_dialect_pages.py

writes the stored pages anew.
"""

import math
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client import parser as text_parser
from prometheus_client.openmetrics import parser as openmetrics_parser
from tests.metrics.dialect_nodes import ASCEND_910B, EVERYTHING, H100, LOST, NODES, later, node, on

from accelscope.metrics import dialects
from accelscope.metrics.catalogue import CATALOGUE
from accelscope.metrics.exposition import Exposition, Page
from accelscope.model import Process, Snapshot

Parse = Callable[[str], Iterable[Metric]]
parse_text: Parse = text_parser.text_string_to_metric_families
parse_openmetrics: Parse = openmetrics_parser.text_string_to_metric_families

PAGES = Path(__file__).parent / "golden"
UPDATE = bool(os.environ.get("UPDATE_GOLDEN"))
TOGETHER = tuple(name for name in dialects.NAMES if name not in ("furiosa", "furiosa-2024"))
each = pytest.mark.parametrize("name", dialects.NAMES)


def second_page(snapshot: Snapshot, *names: str, **options: object) -> Page:
    """That of the second collection: some values compare two readings. Without the native families."""
    exposition = Exposition(families=(), dialects=dialects.load(names), **options)  # type: ignore[arg-type]
    exposition.render(snapshot)
    return exposition.render(later(snapshot))


def samples(families: Iterable[Metric]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in families:
        for sample in family.samples:
            # The parser of the text format puts _total behind the name of every counter.
            key = (sample.name.removesuffix("_total"), frozenset(sample.labels.items()))
            assert key not in found, f"{key} is there twice"
            assert sample.timestamp is None
            found[key] = sample.value
    return found


@each
def test_the_page_of_a_dialect(name: str) -> None:
    golden, page = PAGES / f"{name}.prom", second_page(NODES[name], name).text.decode()
    if UPDATE:
        golden.write_text(page)
    assert page == golden.read_text()


@each
def test_both_formats_are_read_back_to_the_same_numbers(name: str) -> None:
    page = second_page(NODES[name], name)
    in_text = samples(parse_text(page.text.decode()))
    assert len(in_text) == page.series
    assert samples(parse_openmetrics(page.openmetrics.decode())) == in_text


@each
def test_no_name_is_on_the_page_twice(name: str) -> None:
    [dialect] = dialects.load((name,))
    names = [family.name for family in (*CATALOGUE, *dialect.families)]
    assert sorted(names) == sorted(set(names))


def test_no_name_is_on_the_page_twice_when_all_are_on() -> None:
    names = [f.name for d in dialects.load(TOGETHER) for f in d.families]
    assert sorted(names) == sorted(set(names))
    together = second_page(EVERYTHING, *TOGETHER).text.decode()
    declared = re.findall(r"^# TYPE (\S+)", together, re.MULTILINE)
    assert len(declared) == len(set(declared))


def test_several_dialects_are_made_in_one_pass_beside_the_native_families() -> None:
    native = Exposition().render(EVERYTHING).text
    page = Exposition(dialects=dialects.load(TOGETHER)).render(EVERYTHING)
    assert page.text.startswith(native)
    alone = [Exposition(families=(), dialects=dialects.load((n,))).render(EVERYTHING) for n in TOGETHER]
    assert page.text == native + b"".join(one.text for one in alone)
    assert len(samples(parse_openmetrics(page.openmetrics.decode()))) == page.series


@pytest.mark.parametrize(
    ("name", "shown"), [(n, s) for n in dialects.NAMES for s in NODES if s != "openshift"]
)
def test_a_dialect_shows_its_vendor_only(name: str, shown: str) -> None:
    devices = NODES[shown].devices
    [dialect] = dialects.load((name,))
    used = tuple(on(device, "train", memory_used_bytes=1) for device in devices)
    page = Exposition(families=(), dialects=[dialect]).render(replace(NODES[shown], pod_usages=used))
    assert bool(page.series) == any(not dialect.vendors or d.vendor in dialect.vendors for d in devices)


def test_an_empty_node_has_no_series_of_any_dialect() -> None:
    assert second_page(node(), *TOGETHER).series == 0


def test_allow_and_deny_hold_for_names_of_dialects() -> None:
    allowed = second_page(NODES["dcgm"], "dcgm", allow=("DCGM_FI_DEV_GPU_TEMP", "accelerator_*"))
    assert {family.name for family in parse_text(allowed.text.decode())} == {"DCGM_FI_DEV_GPU_TEMP"}
    denied = second_page(NODES["npu-exporter"], "npu-exporter", deny=("machine_*", "npu_*", "node_*"))
    assert denied.series == 0


def test_counters_without_total_are_unknown_to_openmetrics() -> None:
    page = second_page(NODES["dcgm"], "dcgm")
    assert "# TYPE DCGM_FI_DEV_PCIE_REPLAY_COUNTER counter\n" in page.text.decode()
    assert "# TYPE DCGM_FI_DEV_PCIE_REPLAY_COUNTER unknown\n" in page.openmetrics.decode()


def test_series_of_processes_are_capped_in_dialects_too() -> None:
    processes = tuple(
        Process(pid=pid, device=ASCEND_910B.id, memory_bytes=pid * 2**20) for pid in range(1, 11)
    )
    page = second_page(node(ASCEND_910B, processes=processes), "npu-exporter", max_process_series=3)
    lines = [
        line for line in page.text.decode().splitlines() if line.startswith("npu_chip_info_process_info{")
    ]
    assert [line.rsplit(" ", 1)[1] for line in lines] == ["8", "9", "10"]
    assert re.search(r"^npu_chip_info_process_info_num\{.*\} 10$", page.text.decode(), re.MULTILINE)


@each
def test_a_lost_device_has_no_measured_values(name: str) -> None:
    devices = tuple(
        replace(LOST, vendor=d.vendor, id=d.id, model=d.model, uuid=d.uuid) for d in NODES[name].devices
    )
    usages = tuple(on(device, "train", processes=1, memory_used_bytes=7) for device in devices)
    page = second_page(node(*devices, pod_usages=usages), name)
    left = {family.name for family in parse_text(page.text.decode())}
    assert left <= {
        "furiosa_npu_alive",
        "gpu_health",
        "gpu_nodes_total",
        "machine_card_nums",
        "machine_npu_nums",
        "npu_chip_info_health_status",
        "npu_chip_info_name",
        "npu_exporter_version_info",
    }


@each
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_costs_itself_only(name: str, number: float) -> None:
    devices = tuple(_spoilt(device, number) for device in NODES[name].devices)
    usages = _spoilt(NODES[name].pod_usages, number)
    page = second_page(replace(NODES[name], devices=devices, pod_usages=usages), name)
    assert all(math.isfinite(value) for value in samples(parse_text(page.text.decode())).values())


def _spoilt(value: Any, number: float) -> Any:
    """The same with this in the place of every number that is not whole."""
    if isinstance(value, float):
        return number
    if isinstance(value, tuple):
        return tuple(_spoilt(item, number) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        kept = ("read_at", "last_seen")
        changes = {
            f.name: _spoilt(getattr(value, f.name), number) for f in fields(value) if f.name not in kept
        }
        return replace(value, **changes)
    return value


def test_labels_are_escaped() -> None:
    page = second_page(node(replace(H100, model='odd "model" \\ of\ntwo lines')), "dcgm")
    labels = next(iter(parse_text(page.text.decode()))).samples[0].labels
    assert labels["modelName"] == 'odd "model" \\ of\ntwo lines'
