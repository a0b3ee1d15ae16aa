"""The page: labels, numbers, choice of families, cap on processes, both formats."""

import gzip
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from accelscope.metrics.exposition import Exposition
from accelscope.metrics.family import number_text
from accelscope.model import (
    Absence,
    AbsenceReason,
    AgentState,
    Device,
    EccCount,
    Health,
    HealthState,
    Partition,
    Process,
    ReaderState,
    Sensor,
    Snapshot,
    Vendor,
)

DEVICE = Device(
    vendor=Vendor("nvidia"),
    id="nvidia:GPU-1",
    index=0,
    model='H100 "80GB"',
    health=Health(HealthState.OK),
    utilization_ratio=0.35,
    memory_total_bytes=85899345920,
    energy_joules=1234.5,
    sensors=(Sensor("gpu", 40.0), Sensor("memory", 44.0)),
    ecc=(EccCount("corrected", lifetime=False, count=3), EccCount("corrected", False, 2, "dram")),
    partitions=(Partition(id="MIG-1", profile="1g.10gb", memory_total_bytes=10),),
    absent=(
        Absence("power_watts", AbsenceReason.NOT_SUPPORTED),
        Absence("fans", AbsenceReason.NOT_SUPPORTED),
    ),
)
SNAPSHOT = Snapshot(
    node="n1",
    taken_at=100.0,
    agent=AgentState(version="1", started_at=1.0),
    labels=(("rack", "7"),),
    readers=(ReaderState(vendor=Vendor("nvidia"), found=True, up=True),),
    devices=(DEVICE,),
    processes=(Process(pid=5, device="nvidia:GPU-1", name="train", memory_bytes=100),),
)


def lines(snapshot: Snapshot = SNAPSHOT, **options: object) -> list[str]:
    page = Exposition(**options).render(snapshot)  # type: ignore[arg-type]
    return [line for line in page.text.decode().splitlines() if not line.startswith("#")]


def test_a_device_series_has_few_labels_and_info_has_the_rest() -> None:
    page = lines()
    assert 'accelerator_utilization_ratio{vendor="nvidia",device="nvidia:GPU-1",index="0"} 0.35' in page
    info = next(line for line in page if line.startswith("accelerator_info{"))
    assert 'model="H100 \\"80GB\\""' in info
    assert info.endswith('node="n1",rack="7"} 1')


def test_absent_values_have_no_series_and_are_counted_by_reason() -> None:
    page = lines()
    assert not any(line.startswith("accelerator_power_watts") for line in page)
    assert 'accelscope_reader_absent_values{vendor="nvidia",reason="not_supported"} 2' in page


def test_health_is_one_of_all_states() -> None:
    shown = [line for line in lines() if line.startswith("accelerator_health{")]
    assert len(shown) == len(HealthState)
    assert [line for line in shown if line.endswith(" 1")] == [
        'accelerator_health{vendor="nvidia",device="nvidia:GPU-1",index="0",state="ok"} 1'
    ]


def test_totals_and_parts_are_different_families() -> None:
    page = lines()
    assert sum(line.startswith("accelerator_ecc_errors_total{") for line in page) == 1
    assert sum(line.startswith("accelerator_ecc_block_errors_total{") for line in page) == 1
    assert any(line.startswith("accelerator_partition_memory_total_bytes{") for line in page)


def test_allow_and_deny_are_patterns_over_names() -> None:
    assert {line.split("{")[0] for line in lines(allow=("accelerator_memory_*", "accelerator_up"))} == {
        "accelerator_memory_total_bytes",
        "accelerator_up",
    }
    assert not any("process" in line.split("{")[0] for line in lines(deny=("*process*",)))


def test_processes_are_capped_largest_first_and_what_is_dropped_is_counted() -> None:
    processes = tuple(
        Process(pid=pid, device="nvidia:GPU-1", name="p", memory_bytes=pid * 10) for pid in range(1, 11)
    )
    page = lines(replace(SNAPSHOT, processes=processes), max_process_series=6)
    kept = [line for line in page if line.startswith("accelerator_process_memory_bytes")]
    assert [line.rsplit(" ", 1)[1] for line in kept] == ["80", "90", "100"]
    assert "accelscope_process_series_dropped 14" in page


def test_no_series_of_a_gone_device_stays() -> None:
    exposition = Exposition()
    assert b"GPU-1" in exposition.render(SNAPSHOT).text
    assert b"GPU-1" not in exposition.render(replace(SNAPSHOT, devices=(), processes=())).text


def test_series_counts_the_lines() -> None:
    page = Exposition().render(SNAPSHOT)
    assert page.series == len(lines())


def test_gzip_is_the_same_page() -> None:
    page = Exposition().render(SNAPSHOT)
    assert gzip.decompress(page.text_gzip) == page.text
    assert gzip.decompress(page.openmetrics_gzip) == page.openmetrics


text_values = st.text(
    st.characters(codec="utf-8", exclude_characters="\r", exclude_categories=["Cs"]), max_size=30
)
numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(text_values, numbers, numbers.filter(lambda n: n >= 0))
def test_what_prometheus_reads_back_is_what_was_written(model: str, celsius: float, joules: float) -> None:
    device = replace(DEVICE, model=model, temperature_celsius=celsius, energy_joules=joules)
    page = Exposition(allow=("accelerator_info", "accelerator_temperature_celsius", "*energy*")).render(
        replace(SNAPSHOT, devices=(device,), processes=())
    )
    for parse, text in ((parse_text, page.text), (parse_openmetrics, page.openmetrics)):
        samples = {s.name: s for family in parse(text.decode()) for s in family.samples}
        assert samples["accelerator_info"].labels["model"] == model
        assert samples["accelerator_temperature_celsius"].value == celsius
        assert samples["accelerator_energy_joules_total"].value == joules


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.0, "0"), (1.0, "1"), (0.1, "0.1"), (-2.5, "-2.5"), (85899345920.0, "85899345920"), (1e300, "1e+300")],
)
def test_numbers(number: float, text: str) -> None:
    assert number_text(number) == text


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_no_reading(number: float) -> None:
    with pytest.raises(ValueError, match="is not finite"):
        number_text(number)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_no_number_costs_itself_only(number: float) -> None:
    device = replace(DEVICE, temperature_celsius=number)
    page = lines(replace(SNAPSHOT, devices=(device,)))
    assert not any(line.startswith("accelerator_temperature_celsius") for line in page)
    assert any(line.startswith("accelerator_utilization_ratio") for line in page)


def test_one_process_in_two_partitions_is_two_series() -> None:
    processes = tuple(
        Process(pid=5, device="nvidia:GPU-1", name="p", memory_bytes=7, partition=part) for part in ("a", "b")
    )
    page = lines(replace(SNAPSHOT, processes=(*processes, Process(pid=6, memory_bytes=1))))
    memory = [line for line in page if line.startswith("accelerator_process_memory_bytes")]
    assert len(set(memory)) == len(memory) == 3


def test_a_half_character_costs_itself_only() -> None:
    page = Exposition().render(replace(SNAPSHOT, devices=(replace(DEVICE, model="a\ud800"),)))
    assert b'model="a?"' in page.text
    assert b'model="a?"' in page.openmetrics
