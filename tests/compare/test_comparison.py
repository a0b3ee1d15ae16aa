"""The page of another exporter beside ours: what is missing, what differs, and why."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.compare.pages import (
    ENERGY,
    GPU,
    GPU_1,
    LICENCE,
    POWER,
    TEMPERATURE,
    USED,
    compared,
    counter,
    gauge,
    line,
    page,
)
from tests.metrics.dialect_nodes import H100, NODES, RNGD, later, node

from accelscope.compare import Comparison, Scrape, compare, detect, document, known, parse, text
from accelscope.compare.comparison import tolerance_of, unit_factor
from accelscope.metrics import dialects
from accelscope.metrics.exposition import Exposition
from accelscope.model import ErrorCount, Sensor, Snapshot

OLD = gauge(TEMPERATURE, (GPU, 40), (GPU_1, 41)) + gauge(POWER, (GPU, 100), (GPU_1, 110))


def ours(snapshot: Snapshot, dialect: str, **options: str) -> str:
    exposition = Exposition(dialects=dialects.load((dialect,), **options))
    exposition.render(snapshot)
    return exposition.render(later(snapshot)).text.decode()


def of_name(found: Comparison, name: str = TEMPERATURE):  # type: ignore[no-untyped-def]
    return next(each for each in found.names if each.name == name)


# --- nothing to report


@pytest.mark.parametrize("name", dialects.NAMES)
def test_a_page_does_not_differ_from_itself(name: str) -> None:
    found = compared(ours(NODES[name], name), ours(NODES[name], name))
    assert not found.differs
    assert text(found).splitlines()[-1].startswith("Nothing is missing: ")


def test_the_order_of_labels_and_series_does_not_matter() -> None:
    turned = dict(reversed(GPU.items()))
    assert not compared(
        OLD, gauge(POWER, (GPU_1, 110), (turned, 100)) + gauge(TEMPERATURE, (GPU_1, 41), (turned, 40))
    ).differs


def test_an_empty_label_and_none_are_the_same() -> None:
    assert not compared(gauge(POWER, (GPU | {"pod": ""}, 1)), gauge(POWER, (GPU, 1))).differs


def test_further_names_labels_and_help_texts_do_not_count() -> None:
    new = gauge(TEMPERATURE, (GPU | {"zone": "a"}, 40), text="Heat") + gauge("further", ({}, 1))
    found = compared(gauge(TEMPERATURE, (GPU, 40)), new)
    assert not found.differs
    report = text(found)
    assert "further names on the new page: further" in report
    assert "further labels on the new page: zone" in report
    assert "help texts that differ: 1 name" in report


def test_native_names_are_not_further_ones() -> None:
    found = compared(gauge(POWER, (GPU, 1)), gauge(POWER, (GPU, 1)) + gauge("accelerator_up", ({}, 1)))
    assert (found.native, found.extra) == (1, [])


def test_names_of_the_exporter_itself_are_ignored() -> None:
    own = "".join(line(name, {}, 1) for name in ("go_goroutines", "process_open_fds", "promhttp_x_total"))
    found = compared(OLD + own, OLD)
    assert not found.differs
    assert found.ignored == ["go_goroutines", "process_open_fds", "promhttp_x_total"]


# --- detection of the dialect


@pytest.mark.parametrize("name", dialects.NAMES)
def test_the_dialect_of_a_page_is_detected(name: str) -> None:
    families = Exposition(families=(), dialects=dialects.load((name,)))
    detected = detect(parse(families.render(NODES[name]).text.decode(), "page"))
    assert detected is not None
    assert detected.name == name


def test_a_page_of_an_unknown_exporter_is_compared_without_a_dialect() -> None:
    found = compared(gauge("their_watts", ({"gpu": "0"}, 1)), gauge("their_watts", ({"gpu": "0"}, 1)))
    assert found.dialect is None
    assert not found.differs


# --- missing names and their reasons


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (LICENCE, "licences of virtual GPUs are not read"),
        ("DCGM_FI_DEV_FAN_SPEED", "needs --dcgm-counters with this field"),
        ("DCGM_EXP_XID_ERRORS_COUNT", "counts within a time window"),
        ("DCGM_FI_DEV_POWER_VIOLATION", "AccelScope reads which throttle reasons are active"),
        ("DCGM_FI_DEV_SOMETHING", "AccelScope does not read it"),
        ("DCGM_FI_DEV_ENC_UTIL", "dialect dcgm has it, but no device of the new page reports it"),
        ("their_own", "dialect dcgm has no such name"),
    ],
)
def test_a_missing_name_is_reported_with_its_reason(name: str, reason: str) -> None:
    found = compared(OLD + gauge(name, (GPU, 1), (GPU_1, 1)), OLD)
    [missing] = found.missing
    assert (missing.name, missing.series) == (name, 2)
    assert missing.reason.startswith(reason)
    assert found.differs


def test_a_page_without_the_dialect_says_how_to_enable_it() -> None:
    found = compared(OLD, gauge("accelerator_up", ({}, 1)))
    assert {each.reason for each in found.missing} == {"dialect dcgm is not enabled"}
    assert "start the agent with --dialect dcgm" in text(found)


def test_another_prefix_is_reported_and_the_rest_compared() -> None:
    plain = ours(NODES["amd"], "amd")
    prefixed = ours(NODES["amd"], "amd", amd_dialect_prefix="amd_")
    found = compared(prefixed, plain)
    assert (found.old_prefix, found.new_prefix) == ("amd_", "")
    assert found.missing == []
    assert not any(each.differs for each in found.names)
    assert found.differs
    assert "set --amd-dialect-prefix 'amd_'" in text(found)


def test_ignored_names_and_labels_do_not_count() -> None:
    old = OLD + gauge(LICENCE, (GPU, 0))
    new = OLD.replace("node1", "node1.example.org")
    assert compared(old, new).differs
    assert not compared(old, new, ignore=["*_VGPU_*"], ignore_labels=["Hostname"]).differs


def test_swapped_pages_are_remarked() -> None:
    found = compared(ours(node(H100), "dcgm"), OLD)
    assert any("name the old exporter's page first" in remark for remark in found.remarks)


# --- series and labels


def test_a_missing_and_a_further_series_are_reported() -> None:
    found = compared(gauge(TEMPERATURE, (GPU, 40), (GPU_1, 41)), gauge(TEMPERATURE, (GPU, 40)))
    assert [dict(series.labels) for series in of_name(found).match.missing] == [GPU_1]
    found = compared(gauge(TEMPERATURE, (GPU, 40)), gauge(TEMPERATURE, (GPU, 40), (GPU_1, 41)))
    assert [dict(series.labels) for series in of_name(found).match.extra] == [GPU_1]
    assert found.differs


def test_a_label_that_is_missing_is_reported() -> None:
    less = {name: value for name, value in GPU.items() if name != "modelName"}
    found = compared(gauge(TEMPERATURE, (GPU, 40)), gauge(TEMPERATURE, (less, 40)))
    assert of_name(found).match.missing_labels == ("modelName",)
    assert of_name(found).match.missing == []
    assert found.differs


def test_a_label_that_has_another_name_is_reported() -> None:
    renamed = {name.replace("Hostname", "hostname"): value for name, value in GPU.items()}
    report = text(compared(gauge(TEMPERATURE, (renamed, 40)), gauge(TEMPERATURE, (GPU, 40))))
    assert f"  hostname  missing  in {TEMPERATURE}; Hostname has its values" in report.splitlines()


@pytest.mark.parametrize("label", GPU)
def test_another_value_of_one_label_is_reported_and_the_series_still_match(label: str) -> None:
    new = gauge(TEMPERATURE, (GPU | {label: "other"}, 40), (GPU_1, 41))
    found = of_name(compared(gauge(TEMPERATURE, (GPU, 40), (GPU_1, 41)), new))
    assert found.label_values == [(label, GPU[label], "other")]
    assert (found.match.missing, found.match.extra) == ([], [])


def test_several_labels_may_differ_at_once() -> None:
    changed = {"Hostname": "node1.example.org", "modelName": "H100"}
    new = gauge(TEMPERATURE, (GPU | changed, 40), (GPU_1 | changed, 41))
    found = of_name(compared(gauge(TEMPERATURE, (GPU, 40), (GPU_1, 41)), new))
    assert len(found.match.pairs) == 2
    assert {label for label, _, _ in found.label_values} == set(changed)


def test_series_of_a_pod_match_where_one_page_names_no_pod() -> None:
    pod = {"pod": "train-0", "namespace": "ml", "container": "main"}
    found = of_name(
        compared(
            gauge(TEMPERATURE, (GPU | pod, 40), (GPU_1 | pod, 41)),
            gauge(TEMPERATURE, (GPU, 40), (GPU_1 | pod, 41)),
        )
    )
    assert sorted(found.label_values) == [
        ("container", "main", ""),
        ("namespace", "ml", ""),
        ("pod", "train-0", ""),
    ]
    assert len(found.match.pairs) == 2


def test_parts_of_a_device_are_not_mixed_up() -> None:
    cores = [(GPU | {"core": str(i)}, i) for i in range(8)]
    renamed = [(GPU | {"core": f"core{i}"}, i) for i in range(8)]
    found = of_name(compared(gauge(TEMPERATURE, *cores), gauge(TEMPERATURE, *renamed)))
    assert (len(found.match.missing), len(found.match.extra)) == (8, 8)


def test_ids_in_another_form_belong_to_the_same_device() -> None:
    other_form = GPU | {"UUID": GPU["UUID"].removeprefix("GPU-").upper(), "pci_bus_id": "0000:1b:00.0"}
    found = compared(gauge(TEMPERATURE, (GPU, 40), (GPU_1, 41)), gauge(TEMPERATURE, (other_form, 40)))
    [pair] = of_name(found).match.pairs
    assert pair.same_device
    assert {label for label, _, _ in of_name(found).label_values} == {"UUID", "pci_bus_id"}


def test_a_label_value_is_reported_once_for_all_names() -> None:
    report = text(compared(OLD, OLD.replace("node1", "node2")))
    assert '  Hostname  differs  in all 2 names: "node1" is "node2"' in report.splitlines()


def test_another_type_is_reported() -> None:
    found = compared(counter(POWER, (GPU, 1)), gauge(POWER, (GPU, 1)))
    assert f"  {POWER}  counter is gauge" in text(found).splitlines()
    assert found.differs
    assert not compared(line(POWER, GPU, 1), gauge(POWER, (GPU, 1))).differs


def test_control_characters_of_a_page_do_not_reach_the_terminal() -> None:
    new = gauge(TEMPERATURE, (GPU | {"modelName": "\x1b[2J"}, 40))
    assert "\x1b" not in text(compared(gauge(TEMPERATURE, (GPU, 40)), new))


# --- values


def test_values_within_the_tolerance_are_equal() -> None:
    assert not compared(gauge(POWER, (GPU, 100)), gauge(POWER, (GPU, 120))).differs


def test_a_value_that_differs_is_reported() -> None:
    [value] = of_name(compared(gauge(USED, (GPU, 40_000)), gauge(USED, (GPU, 60_000))), USED).values
    assert (value.old_value, value.new_value) == (40_000, 60_000)


def test_the_tolerance_can_be_set() -> None:
    assert compared(gauge(POWER, (GPU, 100)), gauge(POWER, (GPU, 120)), tolerance=0.1).differs
    assert not compared(gauge(USED, (GPU, 40_000)), gauge(USED, (GPU, 60_000)), tolerance=0.5).differs


def test_values_of_other_devices_are_not_compared() -> None:
    found = compared(gauge(USED, (GPU, 40_000)), gauge(USED, (GPU_1 | {"gpu": "0"}, 60_000)))
    assert of_name(found, USED).values == []
    assert of_name(found, USED).values_compared == 0
    assert any("no device is on both pages" in remark for remark in found.remarks)


@pytest.mark.parametrize(("factor", "report"), [(1000, "1000"), (0.001, "0.001"), (1024**2, "1.04858e+06")])
def test_another_unit_is_recognised(factor: float, report: str) -> None:
    found = compared(
        OLD,
        gauge(TEMPERATURE, (GPU, 40 * factor), (GPU_1, 43 * factor)) + gauge(POWER, (GPU, 100), (GPU_1, 110)),
    )
    assert of_name(found).unit_factor == pytest.approx(factor)
    assert of_name(found).values == []
    assert found.differs
    assert "another unit: new values are old ones times " in text(found)


@pytest.mark.parametrize(
    ("values", "factor"),
    [
        ([(1, 1000), (2, 2000)], 1000),
        ([(1, 1)], None),
        ([(1, 2)], None),
        ([(0, 0)], None),
        ([(1, 1000), (2, 2)], None),
        ([(1, -1000)], None),
        ([(0.9, 90)], 100),
        ([], None),
    ],
)
def test_a_unit_factor_holds_for_all_values(values: list[tuple[float, float]], factor: float | None) -> None:
    assert unit_factor(values) == factor


@pytest.mark.parametrize(
    ("name", "help_text", "old", "new", "equal"),
    [
        ("x_util", None, 40, 54, True),
        ("x_util", None, 40, 60, False),
        ("x", "Utilisation of the cores, in %.", 40, 54, True),
        ("x", "Power draw (in W).", 100, 125, True),
        ("x", "Power draw (in W).", 100, 160, False),
        ("x_total_memory", "Total memory, in MB of 2^20 bytes.", 81559, 85521, False),  # MiB and MB
        ("x_used", "Used memory, in MB of 2^20 bytes.", 40_000, 41_000, True),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", None, 0.2, 0.3, True),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", None, 0.2, 0.9, False),
        ("x_health", None, 1, 0, False),
        ("x", None, float("nan"), float("nan"), True),
        ("x", None, float("nan"), 1, False),
        ("x", None, float("inf"), float("inf"), True),
        ("x", None, float("inf"), 1, False),
    ],
)
def test_the_tolerance_follows_the_unit(
    name: str, help_text: str | None, old: float, new: float, equal: bool
) -> None:
    assert tolerance_of(name, help_text).allows(old, new) is equal


# --- counters


def twice(first: float, second: float, unit: float = 1) -> Scrape:
    pages = [page(counter(ENERGY, (GPU, value * unit))) for value in (first, second)]
    return Scrape(pages[0], pages[1], 10.0)


def test_counters_that_began_at_different_times_do_not_differ() -> None:
    assert not compared(counter(ENERGY, (GPU, 5_000)), counter(ENERGY, (GPU, 20_000))).differs


def test_counters_of_another_unit_differ() -> None:
    found = compared(counter(ENERGY, (GPU, 5_000)), counter(ENERGY, (GPU, 5)))
    assert of_name(found, ENERGY).unit_factor == 0.001


def test_rates_are_compared_between_two_readings() -> None:
    same = compare(twice(0, 1000), twice(70_000, 71_100), known("dcgm"))
    assert not same.differs
    other = compare(twice(0, 1000), twice(70_000, 73_000), known("dcgm"))
    [value] = of_name(other, ENERGY).values
    assert (value.what, value.old_value, value.new_value) == ("rate", 100.0, 300.0)
    assert "100 is 300 (rate per second)" in text(other)


def test_a_counter_that_decreases_is_reported() -> None:
    found = compare(twice(10, 20), twice(20, 10), known("dcgm"))
    assert of_name(found, ENERGY).decreased == ["new"]
    assert found.differs


def test_a_rate_of_type_counter_may_decrease() -> None:
    def moving(first: float, second: float) -> Scrape:
        name = "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"
        return Scrape(page(counter(name, (GPU, first))), page(counter(name, (GPU, second))), 10.0)

    assert not compare(moving(900, 700), moving(700, 850), known("dcgm")).differs
    assert compare(moving(900, 700), moving(9000, 7000), known("dcgm")).differs


def test_a_gauge_is_compared_by_the_mean_of_two_readings() -> None:
    def moving(first: float, second: float) -> Scrape:
        return Scrape(page(gauge(USED, (GPU, first))), page(gauge(USED, (GPU, second))), 10.0)

    assert not compare(moving(10_000, 30_000), moving(30_000, 10_000), known("dcgm")).differs


# --- documents


def test_the_document_contains_what_the_text_does() -> None:
    old = OLD + gauge(LICENCE, (GPU, 0)) + gauge(USED, (GPU, 40_000), (GPU_1, 1))
    new = OLD.replace("node1", "node2") + gauge(USED, (GPU, 60_000)) + gauge("further", ({}, 1))
    found = document(compared(old, new))
    assert found["differs"] is True
    assert (found["dialect"], found["exporter"]) == ("dcgm", "dcgm-exporter")
    assert found["old"] == {"source": "old", "names": 4, "series": 7, "prefix": ""}
    assert found["missing_names"] == [
        {"name": LICENCE, "series": 1, "reason": "licences of virtual GPUs are not read"}
    ]
    assert found["extra_names"] == [{"name": "further", "series": 1}]
    used = next(each for each in found["names"] if each["name"] == USED)
    assert used["missing_series"] == [GPU_1]
    [value] = used["values"]
    assert (value["old"], value["new"], value["kind"]) == (40_000, 60_000, "value")
    assert value["labels"] == GPU
    first = next(each for each in found["names"] if each["name"] == TEMPERATURE)
    assert first["label_values"] == [{"label": "Hostname", "old": "node1", "new": "node2", "series": 2}]


# --- published pages


@pytest.fixture
def furiosa_page(captures: Path) -> str:
    return (captures / "furiosa" / "metrics-exporter_2024.1.prom").read_text()


# The card of that page, which has no uuid.
CARD = replace(
    RNGD,
    device_name="npu0",
    uuid="uuid",
    power_watts=4.795,
    sensors=(Sensor("PEAK", 39.0), Sensor("AMBIENT", 35.0)),
    cores=tuple(replace(core, utilization_ratio=0.9) for core in RNGD.cores),
    errors=(
        *(
            ErrorCount("axi", f"{bus}_{kind}", 0)
            for bus in ("axi", "pcie")
            for kind in ("post_error", "fetch_error", "discard_error", "doorbell_done")
        ),
        ErrorCount("device", "device_error", 0),
    ),
)


def test_nothing_is_missing_of_the_published_page_of_furiosa(furiosa_page: str) -> None:
    found = compared(furiosa_page, ours(node(CARD, node="node"), "furiosa-2024"))
    assert found.dialect is not None
    assert found.dialect.name == "furiosa-2024"
    assert not found.differs, text(found)
    assert sum(each.values_compared for each in found.names) == 21


@pytest.mark.parametrize(
    ("dialect", "name", "factor"),
    [("furiosa", "furiosa_npu_hw_temperature", 1000), ("furiosa-2025", "furiosa_npu_hw_power", 1e-6)],
)
def test_the_other_dialects_of_furiosa_have_another_unit(
    furiosa_page: str, dialect: str, name: str, factor: float
) -> None:
    found = compared(furiosa_page, ours(node(CARD, node="node"), dialect))
    assert {each.name: each.unit_factor for each in found.names if each.unit_factor} == {
        name: pytest.approx(factor)
    }
