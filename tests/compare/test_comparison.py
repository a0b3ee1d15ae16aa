"""The page of another exporter beside ours: what is missing, what differs, and why."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.compare import published
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
from tests.metrics.dialect_nodes import ASCEND_910B, H100, NODES, RNGD, later, node, on

from accelscope.compare import Comparison, Scrape, compare, detect, document, known, parse, text
from accelscope.compare.comparison import tolerance_of, unit_factor
from accelscope.metrics import dialects
from accelscope.metrics.dialects import MIB
from accelscope.metrics.exposition import Exposition
from accelscope.model import Clock, ErrorCount, Pcie, RemappedRows, Sensor, Snapshot

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
    assert found.remarks == []
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


def test_a_page_whose_names_the_dialect_lacks_is_of_the_exporter_that_it_explains() -> None:
    detected = detect(page(gauge("DCGM_FI_DEV_GPU_TEMP_CELSIUS", (GPU, 40))))
    assert detected is not None
    assert detected.name == "dcgm"


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
        ("DCGM_FI_DEV_ENC_UTIL", "no device of the new page has a value"),
        ("DCGM_FI_PROF_DRAM_ACTIVE", "on boards before Hopper: their profiling counters"),
        ("DCGM_FI_DEV_GPU_TEMP_CELSIUS", "dcgm-exporter 4.9 and later renamed most metrics"),
        ("their_own", "dialect dcgm has no such name"),
        ("gpu_used_vram", "dialect dcgm has no such name; amd has it"),
    ],
)
def test_a_missing_name_is_reported_with_its_reason(name: str, reason: str) -> None:
    found = compared(OLD + gauge(name, (GPU, 1), (GPU_1, 1)), OLD)
    [missing] = document(found)["missing_names"]
    assert (missing["name"], missing["series"]) == (name, 2)
    assert missing["reason"].startswith(reason)
    assert found.differs


def test_a_page_without_the_dialect_says_how_to_enable_it() -> None:
    found = compared(OLD + gauge(LICENCE, (GPU, 0)), gauge("accelerator_up", ({}, 1)))
    reasons = {each["name"]: each["reason"] for each in document(found)["missing_names"]}
    not_enabled = "dialect dcgm is not enabled"
    assert reasons == {
        TEMPERATURE: not_enabled,
        POWER: not_enabled,
        LICENCE: "licences of virtual GPUs are not read",  # the dialect would not add it
    }
    assert "start the agent with --dialect dcgm" in text(found)


def test_missing_names_are_grouped_by_what_to_do() -> None:
    names = (LICENCE, "DCGM_FI_DEV_FAN_SPEED", "DCGM_FI_DEV_ENC_UTIL")
    report = text(compared(OLD + "".join(gauge(name, (GPU, 1)) for name in names), OLD)).splitlines()
    headings = ("  Added by an option", "  Available, but no device", "  Not available")
    places = [next(i for i, line in enumerate(report) if line.startswith(each)) for each in headings]
    assert places == sorted(places)
    assert [report[place + 1].split()[0] for place in places] == [names[1], names[2], names[0]]


def test_a_label_that_is_missing_is_explained() -> None:
    more = GPU | {"pod": "a", "pod_uid": "b", "team": "c", "hostname": "node1"}
    report = text(compared(gauge(TEMPERATURE, (more, 40)), gauge(TEMPERATURE, (GPU, 40))))
    for label, why in (
        ("pod", "no series of the new page has a value for it"),
        ("pod_uid", "labels that dcgm-exporter does not set by default"),
        ("team", "dialect dcgm has no such label"),
        ("hostname", "set --dcgm-hostname-label hostname"),
    ):
        assert any(line.split()[:2] == [label, "missing"] and why in line for line in report.splitlines())


def test_a_page_of_the_same_names_in_other_units_is_remarked() -> None:
    found = compared(ours(NODES["furiosa-2025"], "furiosa-2025"), ours(NODES["furiosa-2025"], "furiosa"))
    assert {each.reason.kind.value for each in found.missing} == {"dialect"}
    assert any("the new page is of dialect furiosa, which has the same" in each for each in found.remarks)
    assert "new   new (dialect furiosa): " in text(found)


def test_the_heading_names_the_dialect_of_the_new_page_only_if_it_has_that_dialect() -> None:
    assert "new   new (dialect dcgm): " in text(compared(OLD, OLD))
    assert "new   new (without dialect dcgm): " in text(compared(OLD, gauge("accelerator_up", ({}, 1))))


def test_a_block_without_error_counters_is_explained() -> None:
    found = compared(published.AMD, ours(NODES["amd"], "amd"))
    [missing] = [each for each in found.missing if each.name == "gpu_ecc_correct_fuse"]
    assert missing.reason.text == (
        "of blocks without error counters: unknown values are omitted; the exporter publishes 0"
    )


def test_a_page_of_two_nodes_is_remarked() -> None:
    other = gauge(TEMPERATURE, (GPU, 40), (GPU_1 | {"Hostname": "node2"}, 41))
    found = compared(other, gauge(TEMPERATURE, (GPU, 40)))
    assert any("the old page has series of 2 nodes, such as node1 and node2" in r for r in found.remarks)
    assert len(of_name(found).match.missing) == 1


def test_an_exporter_without_a_dialect_is_remarked() -> None:
    found = compared(gauge("nvidia_smi_power_draw_watts", ({"uuid": "1"}, 40)), OLD)
    assert "no dialect has the names of the old page" in found.remarks[0]
    assert document(found)["missing_names"][0]["reason"] == "no dialect has this name"


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
    assert (
        f"  hostname  missing  in {TEMPERATURE}; Hostname has its values; set --dcgm-hostname-label hostname"
    ) in report.splitlines()


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


def test_the_labels_of_a_value_that_differs_are_those_that_distinguish_the_series() -> None:
    found = compared(gauge(USED, (GPU, 40_000)), gauge(USED, (GPU, 60_000)))
    assert f"  {USED}: 40000 is 60000" in text(found).splitlines()
    found = compared(gauge(USED, (GPU, 40_000), (GPU_1, 1)), gauge(USED, (GPU, 60_000), (GPU_1, 1)))
    [line] = [each for each in text(found).splitlines() if "40000 is 60000" in each]
    assert GPU["UUID"] in line
    assert GPU["Hostname"] not in line


def test_the_tolerance_can_be_set() -> None:
    assert compared(gauge(POWER, (GPU, 100)), gauge(POWER, (GPU, 120)), tolerance=0.1).differs
    assert not compared(gauge(USED, (GPU, 40_000)), gauge(USED, (GPU, 60_000)), tolerance=0.5).differs


def test_values_of_other_devices_are_not_compared() -> None:
    found = compared(gauge(USED, (GPU, 40_000)), gauge(USED, (GPU_1 | {"gpu": "0"}, 60_000)))
    assert of_name(found, USED).values == []
    assert of_name(found, USED).values_compared == 0
    assert any("no device is on both pages" in remark for remark in found.remarks)


def test_pages_of_different_nodes_are_remarked_although_they_share_a_number_without_a_device() -> None:
    chip = {"id": "0", "vdie_id": "A-1", "pcie_bus_info": "0000:61:00.0"}
    other = {"id": "0", "vdie_id": "B-2", "pcie_bus_info": "0000:10:00.0"}
    count = gauge("machine_npu_nums", ({}, 8))
    name = "npu_chip_info_temperature"
    found = compared(count + gauge(name, (chip, 40)), count + gauge(name, (other, 40)))
    assert any("no device is on both pages" in remark for remark in found.remarks)


def test_devices_without_any_label_in_common_are_of_different_nodes() -> None:
    found = compared(
        gauge(USED, (GPU, 1)), gauge(USED, ({"gpu": "7", "UUID": "GPU-7", "pci_bus_id": "0000:99:00.0"}, 1))
    )
    assert of_name(found, USED).match.pairs == []
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


def test_a_counter_is_not_counted_as_a_compared_value() -> None:
    both = gauge(TEMPERATURE, (GPU, 40)) + counter(ENERGY, (GPU, 5_000))
    report = text(compared(both, both)).splitlines()
    assert report[-1].endswith("2 series matched, 1 value compared, 1 counter not (only with --interval).")
    assert f"  counters, whose rates are compared only with --interval: {ENERGY}" in report


def test_rates_are_counted_apart_from_values() -> None:
    found = compare(twice(0, 1000), twice(70_000, 71_100), known("dcgm"))
    assert text(found).endswith("1 series matched, 0 values compared, 1 rate of counters compared.")


def test_a_counter_that_is_declared_as_a_gauge_is_compared_by_its_rate() -> None:
    def moving(first: float, second: float) -> Scrape:
        pages = [page(gauge("gpu_energy_consumed", ({"gpu_id": "0"}, value))) for value in (first, second)]
        return Scrape(pages[0], pages[1], 10.0)

    assert not compare(moving(0, 1000), moving(50_000, 51_000), known("amd")).differs
    assert compare(moving(0, 1000), moving(0, 9000), known("amd")).differs


def test_a_total_that_is_a_gauge_is_compared_by_its_value() -> None:
    old, new = (gauge("gpu_nodes_total", ({"hostname": "node1"}, count)) for count in (8, 16))
    assert compared(old, new).differs


def test_one_event_between_the_readings_of_two_pages_is_no_difference() -> None:
    assert not compare(twice(5, 5), twice(5, 6), known("dcgm")).differs
    assert compare(twice(5, 5), twice(5, 7), known("dcgm")).differs


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
        {
            "name": LICENCE,
            "series": 1,
            "kind": "not_offered",
            "reason": "licences of virtual GPUs are not read",
        }
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


@pytest.mark.parametrize(
    ("old", "snapshot", "dialect"),
    [
        (published.DCGM, node(H100), "dcgm"),
        (published.AMD, NODES["amd"], "amd"),
        (published.ASCEND, NODES["npu-exporter"], "npu-exporter"),
    ],
)
def test_what_is_missing_of_a_published_page_is_explained(old: str, snapshot: Snapshot, dialect: str) -> None:
    found = compared(old, ours(snapshot, dialect))
    assert found.dialect is not None
    assert found.dialect.name == dialect
    unknown = [each["name"] for each in document(found)["missing_names"] if "no such name" in each["reason"]]
    assert unknown == []


# The devices of the published pages, as the agent would read them.
RTX_4000 = replace(
    H100,
    uuid=published.RTX_4000["UUID"],
    pci_address="0000:00:02.0",
    model=published.RTX_4000["modelName"],
    driver_version="580.95.05",
    utilization_ratio=0.0,
    memory_utilization_ratio=0.0,
    encoder_utilization_ratio=0.0,
    decoder_utilization_ratio=0.0,
    graphics_active_ratio=None,
    tensor_active_ratio=None,
    dram_active_ratio=None,
    memory_free_bytes=20015 * MIB,
    memory_used_bytes=1 * MIB,
    memory_reserved_bytes=457 * MIB,
    memory_total_bytes=20473 * MIB,
    temperature_celsius=48.0,
    sensors=(Sensor("gpu", 48.0),),
    power_watts=40.979,
    energy_joules=455497.156,
    clocks=(Clock("sm", 2.31e9), Clock("memory", 9.001e9)),
    pcie=Pcie(4, 4, 16, 16, 0, transmit_bytes_per_second=78398480.0, receive_bytes_per_second=45987793.0),
    links=(),
    remapped_rows=RemappedRows(correctable=0, uncorrectable=0, pending=False, failed=False),
    errors=(),
)


def test_a_published_page_of_dcgm_exporter_beside_ours_of_the_same_gpu() -> None:
    usage = on(RTX_4000, "cuda-75454ffb9f-8ljq7", "cuda", namespace="default", allocated=1)
    snapshot = node(RTX_4000, node=published.RTX_4000["Hostname"], pod_usages=(usage,))
    found = compared(published.DCGM, ours(snapshot, "dcgm"))
    assert not any(each.differs for each in found.names), text(found)
    assert {each.name: each.reason.kind.value for each in found.missing} == {
        "DCGM_FI_DEV_MEMORY_TEMP": "not_reported",
        "DCGM_FI_DEV_XID_ERRORS": "not_reported",
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": "not_reported",
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "not_reported",
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "not_reported",
        "DCGM_FI_PROF_DRAM_ACTIVE": "not_reported",
        LICENCE: "not_offered",
    }
    assert (sum(e.values_compared for e in found.names), sum(e.counters for e in found.names)) == (14, 4)


def test_a_published_page_of_npu_exporter_beside_ours_of_the_same_chips() -> None:
    chips = [
        replace(
            ASCEND_910B,
            id=f"ascend:{chip['vdie_id']}",
            index=int(chip["id"]),
            physical_id=int(chip["id"]),
            model="910A",
            uuid=chip["vdie_id"].replace("-", " "),
            pci_address=chip["pcie_bus_info"].lower(),
            clocks=(Clock("aicore", 1e9),),
        )
        for chip in published.CHIPS_910A
    ]
    found = compared(published.ASCEND, ours(node(*chips), "npu-exporter"))
    assert [each.name for each in found.missing] == ["npu_chip_info_bandwidth_rx"]
    assert not any(each.differs for each in found.names), text(found)
    assert sum(each.values_compared for each in found.names) == 9


def test_a_published_page_of_amds_exporter_beside_ours_of_the_same_card() -> None:
    card = replace(
        NODES["amd"].devices[0],
        index=2,
        id="amd:0xcce0c6d49f5b0d86",
        uuid="0xcce0c6d49f5b0d86",
        serial=published.MI300X["serial_number"],
        compute_partition="SPX",
        partitions=(),
        utilization_ratio=0.0,
    )
    found = compared(published.AMD, ours(node(card, node="tw038"), "amd"))
    activity = of_name(found, "gpu_gfx_activity")
    assert not activity.differs
    assert activity.match.extra_labels == ("cluster_name",)  # empty on the published page
    blocks = [each for each in found.missing if each.name.startswith("gpu_ecc_")]
    assert {each.reason.kind.value for each in blocks} == {"not_reported"}
    assert of_name(found, "gpu_clock").match.missing  # the video engine's clock is not read


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
