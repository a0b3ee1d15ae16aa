"""Output of AMD's tools that differs by version and options."""

import json

import pytest

from accelscope.model import Link
from accelscope.vendors.amd import parse_amd_smi, parse_monitor, parse_rocm_smi

MIB, GIB = 2**20, 2**30
METRIC = {"gpu": 3, "power": {"socket_power": {"value": 61, "unit": "W"}}}


@pytest.mark.parametrize(
    "document",
    [
        [METRIC],
        {"gpu_data": [METRIC]},
        METRIC,
        {"another_name": [METRIC]},
        [[METRIC]],
        [{"gpu": "3", "power": {"socket_power": "61 W"}}],
        [{"gpu": 3, "power": {"current_socket_power": 61}}],
        [{"gpu": 3, "power": {"socket_power": "N/A", "average_socket_power": {"value": 61, "unit": "W"}}}],
    ],
)
def test_all_document_shapes_are_parsed(document: object) -> None:
    parsed = parse_amd_smi.parse_metric(json.dumps(document))
    assert parsed.error is None
    assert [(device.index, device.power_watts) for device in parsed.devices] == [(3, 61.0)]


def test_the_last_document_of_watch_mode_is_used() -> None:
    first = json.dumps([{"gpu": 0, "usage": {"gfx_activity": 10}}])
    last = json.dumps([{"gpu": 0, "usage": {"gfx_activity": 90}}], indent=4)
    [device] = parse_amd_smi.parse_metric(f"'CTRL' + 'C' to stop watching output:\n{first}\n{last}\n").devices
    assert device.utilization_ratio == 0.9


def test_a_truncated_document_gives_its_complete_gpus() -> None:
    gpus = [{"gpu": n, "power": {"socket_power": {"value": 100 + n, "unit": "W"}}} for n in range(4)]
    text = json.dumps({"gpu_data": gpus}, indent=4)
    for end in range(len(text)):
        parsed = parse_amd_smi.parse_metric(text[:end])
        assert [device.power_watts for device in parsed.devices] == [100.0, 101.0, 102.0, 103.0][
            : len(parsed.devices)
        ]
        assert parsed.error is not None or "truncated" in [r.reason for r in parsed.rejected]
    assert len(parse_amd_smi.parse_metric(text[: len(text) * 6 // 10]).devices) == 2
    assert parse_amd_smi.parse_metric('{"gpu_data": [').error is not None


def test_a_number_at_the_end_of_a_truncated_document_is_ignored() -> None:
    text = '{"card0": {"GPU use (%)": "5", "VRAM Total Memory (B)": "123", "Fan RPM": 12'
    [device] = parse_rocm_smi.parse_rocm_json(text).devices
    assert device.utilization_ratio == 0.05
    assert device.memory_total_bytes == 123
    assert device.fans == ()


def test_throttle_reasons_by_compute_die_are_combined() -> None:
    throttle = {
        "prochot_violation_status": {"xcp_0": ["NOT ACTIVE", "N/A"]},
        "gfx_clk_below_host_limit_power_violation_status": {"value": {"xcp_0": ["NOT ACTIVE", "ACTIVE"]}},
        "vr_thermal_violation_status": "N/A",
        "ppt_accumulated": 585613,
    }
    [device] = parse_amd_smi.parse_metric(json.dumps([{"gpu": 0, "throttle": throttle}])).devices
    assert {t.reason: t.active for t in device.throttles} == {
        "prochot": False,
        "gfx_clk_below_host_limit_power": True,
    }


def test_xgmi_errors_are_a_warning_with_the_drivers_word() -> None:
    for word, state in (("AMDSMI_XGMI_STATUS_MULTIPLE_ERRORS", "warning"), ("0", "unknown")):
        [device] = parse_amd_smi.parse_metric(json.dumps([{**METRIC, "xgmi_err": word}])).devices
        assert device.health.state == state
        assert device.health.vendor_word == (word if state == "warning" else None)


def test_a_maximum_clock_of_zero_is_unknown() -> None:
    clock = {"gfx_0": {"clk": {"value": 14, "unit": "MHz"}, "max_clk": {"value": 0, "unit": "MHz"}}}
    parsed = parse_amd_smi.parse_metric(json.dumps([{"gpu": 0, "clock": clock}]))
    assert parsed.devices[0].clocks[0].max_hertz is None
    assert parsed.rejected == ()


def test_compute_dies_have_clocks() -> None:
    gpu = {
        "gpu": 0,
        "usage": {"gfx_busy_inst": {"xcp_0": [{"value": 5, "unit": "%"}, "N/A"], "xcp_1": ["7 %"]}},
        "clock": {"gfx_0": {"clk": "100 MHz"}, "gfx_1": {"clk": "200 MHz"}, "gfx_2": {"clk": "N/A"}},
    }
    [device] = parse_amd_smi.parse_metric(json.dumps([gpu])).devices
    assert [(c.index, c.utilization_ratio, c.clock_hertz) for c in device.cores] == [
        (0, 0.05, 1e8),
        (1, 0.07, 2e8),
    ]
    assert [(clock.domain, clock.hertz) for clock in device.clocks] == [("graphics", 1e8)]


def test_one_unreadable_value_affects_only_itself() -> None:
    gpu = {"gpu": 0, "power": {"socket_power": "plenty"}, "usage": {"gfx_activity": 5}}
    parsed = parse_amd_smi.parse_metric(json.dumps([gpu]))
    assert parsed.devices[0].utilization_ratio == 0.05
    assert parsed.devices[0].power_watts is None
    assert [r.reason for r in parsed.rejected] == ["unreadable"]
    assert [(a.field, a.reason) for a in parsed.devices[0].absent] == [("power_watts", "unreadable")]


@pytest.mark.parametrize(
    ("values", "version"),
    [
        ({"driver": {"version": "6.19.14"}}, "6.19.14"),
        ({"driver": {"driver_version": "6.7.0"}}, "6.7.0"),
        ({"driver": {"version": "Linux version 6.8.0-31-generic (buildd@x) (gcc)"}}, "6.8.0-31-generic"),
        ({"driver": {"version": "N/A"}}, None),
    ],
)
def test_the_driver_version_is_read_from_all_versions(values: dict[str, object], version: str | None) -> None:
    gpu = {"gpu": 0, "asic": {"market_name": "MI300X OAM: 750W SKU"}, **values}
    [device] = parse_amd_smi.parse_static(json.dumps([gpu])).devices
    assert device.driver_version == version
    assert device.model == "MI300X OAM: 750W SKU"


def test_the_text_output_of_static_is_parsed() -> None:
    text = (
        "GPU: 0\n    ASIC:\n        MARKET_NAME: MI300X OAM: 750W SKU\n        ASIC_SERIAL: 0xAB12\n"
        "    BUS:\n        BDF: 0000:05:00.0\n    LIMIT:\n        PPT0:\n"
        "            SOCKET_POWER_LIMIT: 750 W\n    NUMA:\n        NODE: -1\n"
    )
    [device] = parse_amd_smi.parse_static(text).devices
    assert (device.model, device.uuid, device.pci_address) == (
        "MI300X OAM: 750W SKU",
        "0xab12",
        "0000:05:00.0",
    )
    assert device.power_limit_watts == 750.0
    assert device.numa_node is None


def info(pid: int, **values: object) -> dict[str, object]:
    return {"process_info": {"name": "python3", "pid": pid, **values}}


def held(value: int, unit: str = "B") -> dict[str, object]:
    return {"value": value, "unit": unit}


def test_the_memory_of_a_process_on_a_gpu_is_preferred() -> None:
    shared = {"memory_usage": {"vram_mem": held(19 * GIB)}}
    document = [
        {"gpu": 0, "process_list": [info(7, mem_usage=held(4 * GIB), **shared)]},
        {"gpu": 1, "process_list": [info(7, mem_usage=held(5 * GIB), **shared), info(8, mem_usage=held(0))]},
    ]
    parsed = parse_amd_smi.parse_process(json.dumps(document))
    assert [(p.device_index, p.pid, p.memory_bytes) for p in parsed.processes] == [
        (0, 7, 4 * GIB),
        (1, 7, 5 * GIB),
        (1, 8, 0),
    ]


def test_zero_memory_on_one_gpu_is_not_replaced_by_the_total() -> None:
    on_both = {"memory_usage": {"vram_mem": held(19 * GIB)}}
    document = [
        {"gpu": 0, "process_list": [info(7, mem_usage=held(0), **on_both)]},
        {"gpu": 1, "process_list": [info(7, mem_usage=held(19 * GIB), **on_both)]},
    ]
    parsed = parse_amd_smi.parse_process(json.dumps(document))
    assert [(p.device_index, p.memory_bytes) for p in parsed.processes] == [(0, 0), (1, 19 * GIB)]


@pytest.mark.parametrize("unknown", [{}, {"mem_usage": "N/A"}])
def test_a_total_over_several_gpus_is_not_used(unknown: dict[str, object]) -> None:
    summed = {**unknown, "memory_usage": {"vram_mem": held(19, "GB")}}
    document = [{"gpu": n, "process_list": [info(7, **summed)]} for n in range(2)]
    parsed = parse_amd_smi.parse_process(json.dumps(document))
    assert [p.memory_bytes for p in parsed.processes] == [None, None]
    parsed = parse_amd_smi.parse_process(json.dumps(document[:1]))
    assert [p.memory_bytes for p in parsed.processes] == [19 * GIB]


def test_zero_memory_in_the_monitor_table_is_zero() -> None:
    text = (
        "GPU  POWER\n  0  9 W\n  1  9 W\n\nPROCESS INFO:\n"
        "GPU     NAME  PID  VRAM_MEM  MEM_USAGE\n"
        "  0  python3    7   19.6 GB      0.0 B\n"
        "  1  python3    7   19.6 GB    20.0 GB\n"
    )
    parsed = parse_monitor.parse(text)
    assert [(p.device_index, p.memory_bytes) for p in parsed.processes] == [(0, 0), (1, 20 * GIB)]


def test_the_older_key_of_process_memory_is_read() -> None:
    document = [{"gpu": 0, "process_list": [info(7, mem=held(4 * GIB))]}]
    [process] = parse_amd_smi.parse_process(json.dumps(document)).processes
    assert process.memory_bytes == 4 * GIB


def test_processes_of_a_gpu_without_a_number_are_rejected() -> None:
    document = [{"gpu": "x", "process_list": [info(7)]}, {"gpu": 1, "process_list": [info(8), info(0)]}]
    parsed = parse_amd_smi.parse_process(json.dumps(document))
    assert [process.pid for process in parsed.processes] == [8]
    assert [(r.line, r.reason) for r in parsed.rejected] == [
        ("gpu: x", "no_identity"),
        ("pid: 0", "not_a_process"),
    ]


def test_no_running_processes_is_not_an_error() -> None:
    for gone in ([{"process_info": "No running processes detected"}], "N/A", []):
        parsed = parse_amd_smi.parse_process(json.dumps([{"gpu": 0, "process_list": gone}]))
        assert (parsed.processes, parsed.error, parsed.rejected) == ((), None, ())
    text = "GPU: 0\n    PROCESS_INFO: No running processes detected\n"
    assert parse_amd_smi.parse_process(text).error is None


def test_processes_are_parsed_from_older_and_text_output() -> None:
    older = [{"gpu": 0, "process_list": [{"pid": 9, "name": "a", "memory_usage": {"vram_mem": "256 MB"}}]}]
    [process] = parse_amd_smi.parse_process(json.dumps(older)).processes
    assert (process.pid, process.name, process.memory_bytes) == (9, "a", 256 * MIB)
    text = "GPU: 1\n" + "".join(
        f"    PROCESS_INFO:\n        NAME: p{n}\n        PID: {n}\n        MEM_USAGE: {n}.5 MB\n"
        for n in (4, 5)
    )
    found = parse_amd_smi.parse_process(text).processes
    assert [(p.device_index, p.pid, p.name, p.memory_bytes) for p in found] == [
        (1, 4, "p4", 4.5 * MIB),
        (1, 5, "p5", 5.5 * MIB),
    ]


@pytest.mark.parametrize(
    ("header", "row", "values"),
    [
        (
            "GPU  XCP  POWER  PWR_CAP",
            "  2    1  123 W    750 W",
            {"power_watts": 123, "power_limit_watts": 750},
        ),
        ("TIMESTAMP  GPU  POWER", "1753969973    2  750 W", {"power_watts": 750}),
        ("POWER  GPU  GFX%", "5 W  2  7 %", {"power_watts": 5, "utilization_ratio": 0.07}),
        ("GPU  HOTSPOT_TEMP  MEM_TEMP", "2  38 C  33 C", {"temperature_celsius": 38}),
        (
            "GPU  VRAM_USAGE  POWER",
            "2    2.9/ 15.9 GB  4 W",
            {"memory_used_bytes": round(2.9 * GIB), "memory_total_bytes": round(15.9 * GIB)},
        ),
        (
            "GPU  VRAM_USAGE  POWER",
            "2    1.5/ 16.0     4 W",
            {"memory_used_bytes": round(1.5 * GIB), "memory_total_bytes": 16 * GIB, "power_watts": 4},
        ),
        (
            "GPU  VRAM_USAGE  POWER",
            "2    512/ 2048 MB  4 W",
            {"memory_used_bytes": GIB // 2, "memory_total_bytes": 2 * GIB},
        ),
        (
            "GPU  VRAM_USAGE  POWER",
            "2    N/A  4 W",
            {"memory_used_bytes": None, "memory_total_bytes": None, "power_watts": 4},
        ),
        ("GPU  GTT_USAGE  POWER", "2    0.0/376.7 GB   4 W", {"memory_total_bytes": None, "power_watts": 4}),
        ("GPU  THROTTLE  POWER  PCIE_BW", "2  UNTHROTTLED  11 W  N/A Mb/s", {"power_watts": 11}),
        ("GPU  XCP  PVIOL  GFXCLK_PVIOL  POWER", "2  0  0 %  [0 %, 0 %, N/A]  9 W", {"power_watts": 9}),
        ("GPU  POWER  GPU_T", "2    N/A    N/A", {"power_watts": None, "temperature_celsius": None}),
        ("GPU  NEW_THING  POWER", "2  17 furlongs  9 W", None),
    ],
)
def test_columns_of_the_monitor_are_parsed(
    header: str, row: str, values: dict[str, float | None] | None
) -> None:
    parsed = parse_monitor.parse(f"AMDSMI Tool: 27.0.0 | ROCm version: 10.0.0\n{header}\n\n{row}\n")
    if values is None:
        assert parsed.devices == ()
        assert [r.reason for r in parsed.rejected] == ["not_a_row"]
        return
    [device] = parsed.devices
    assert device.index == 2
    assert {name: getattr(device, name) for name in values} == values


def test_a_process_name_with_blanks_in_the_monitor_is_parsed() -> None:
    text = (
        "GPU  POWER\n0  5 W\n\nPROCESS INFO:\n"
        "GPU  NAME  PID  GTT_MEM  VRAM_MEM  MEM_USAGE  GFX\n"
        "  0   tmux: 3 W x   77    0.0 B    1.5 GB   2.0 GB   0 ns\n"
    )
    [process] = parse_monitor.parse(text).processes
    assert (process.pid, process.name, process.memory_bytes) == (77, "tmux: 3 W x", 2 * GIB)
    [process] = parse_monitor.parse(text.replace("2.0 GB", "N/A    ")).processes
    assert process.memory_bytes == 1.5 * GIB
    alone = parse_monitor.parse(text[text.index("GPU  NAME") :])
    assert (len(alone.processes), alone.error) == (1, None)


def test_rocm_smi_publishes_the_power_of_a_module_once() -> None:
    die = {"Card series": "AMD INSTINCT MI250X (MCM) OAM", "Average Graphics Package Power (W)": "300.0"}
    cards = {f"card{n}": {**die, "Serial Number": f"S{n // 2}", "Unique ID": f"0x{n + 1}"} for n in range(4)}
    devices = parse_rocm_smi.parse_rocm_json(json.dumps(cards)).devices
    assert [device.power_watts for device in devices] == [300.0, None, 300.0, None]
    assert [a.reason for a in devices[1].absent] == ["shared"]


def test_dies_without_a_serial_number_are_paired_in_order() -> None:
    die = {"Device ID": "0x7408", "Average Graphics Package Power (W)": "300.0"}
    devices = parse_rocm_smi.parse_rocm_json(json.dumps({f"card{n}": die for n in range(4)})).devices
    assert [device.power_watts for device in devices] == [300.0, None, 300.0, None]
    [alone] = parse_rocm_smi.parse_rocm_json(json.dumps({"card1": die})).devices
    assert alone.power_watts == 300.0


def test_power_is_published_at_the_die_that_reports_it() -> None:
    cards = {
        f"card{n}": {"Device ID": "0x740c", "Serial Number": "S", "Average Graphics Package Power (W)": watts}
        for n, watts in enumerate(("0.0", "300.0"))
    }
    devices = parse_rocm_smi.parse_rocm_json(json.dumps(cards)).devices
    assert [device.power_watts for device in devices] == [None, 300.0]
    assert [a.reason for a in devices[0].absent] == ["shared"]


def test_power_and_memory_of_partitions_are_published_once() -> None:
    card = {"Current Socket Graphics Package Power (W)": "240.0", "VRAM Total Memory (B)": "4096"}
    cards = {f"card{n}": {**card, "PCI Bus": f"0000:0{n // 2}:00.{n % 2}"} for n in range(4)}
    devices = parse_rocm_smi.parse_rocm_json(json.dumps(cards)).devices
    assert [device.power_watts for device in devices] == [240.0, None, 240.0, None]
    assert [device.memory_total_bytes for device in devices] == [4096, None, 4096, None]
    assert {a.reason for a in devices[1].absent} == {"shared"}


@pytest.mark.parametrize("key", ["Device ID", "GPU ID"])
@pytest.mark.parametrize(("code", "reason"), [("0x7408", "shared"), ("0x73df", "not_supported")])
def test_secondary_die_means_shared_only_for_dual_die_chips(key: str, code: str, reason: str) -> None:
    card = {key: code, "Average Graphics Package Power (W)": "N/A (Secondary die)"}
    [device] = parse_rocm_smi.parse_rocm_json(json.dumps({"card0": card})).devices
    assert [(a.field, a.reason) for a in device.absent] == [("power_watts", reason)]


def test_partitions_with_equal_ids_stay_separate_devices() -> None:
    cards = {f"card{n}": {"Unique ID": "0xab", "PCI Bus": "0000:0C:00.0"} for n in range(3)}
    devices = parse_rocm_smi.parse_rocm_json(json.dumps(cards)).devices
    assert [device.id for device in devices] == ["amd:0xab", "amd:0xab/1", "amd:0xab/2"]


def test_process_names_may_contain_commas() -> None:
    system = {"PID12": "a, b, 2, 4096, 0, UNKNOWN", "PIDx": "?", "PID13": "too, few", "Driver version": "6.1"}
    parsed = parse_rocm_smi.parse_rocm_json(json.dumps({"card0": {"GPU use (%)": "1"}, "system": system}))
    [process] = parsed.processes
    assert (process.pid, process.name, process.memory_bytes) == (12, "a, b", 4096)
    assert process.utilization_ratio is None
    assert [r.reason for r in parsed.rejected] == ["not_a_process"]
    assert parsed.devices[0].driver_version == "6.1"


def test_both_power_keys_in_one_document_are_read() -> None:
    text = json.dumps(
        {
            "card0": {
                "Average Graphics Package Power (W)": "N/A",
                "Current Socket Graphics Package Power (W)": "9",
            },
            "card1": {"Average Graphics Package Power (W)": "20.0"},
            "card2": {"Input Graphics Package Power (W)": "30.0"},
        }
    )
    assert [d.power_watts for d in parse_rocm_smi.parse_rocm_json(text).devices] == [9.0, 20.0, 30.0]


def test_csv_with_several_tables_and_other_column_orders_is_parsed() -> None:
    text = (
        "WARNING: something, with commas\n\n"
        "GPU use (%),device,Card Series\n11,card1,Radeon X\n22,card0,Radeon Y\n\n"
        "device,Average Graphics Package Power (W)\ncard0,5.0\ncard1,N/A\ncard1\n\n"
        "device,Driver version\nsystem,6.2.4\nsystem\n"
    )
    parsed = parse_rocm_smi.parse_rocm_csv(text)
    values = [
        (d.index, d.utilization_ratio, d.power_watts, d.model, d.driver_version) for d in parsed.devices
    ]
    assert values == [(0, 0.22, 5.0, "Radeon Y", "6.2.4"), (1, 0.11, None, "Radeon X", "6.2.4")]
    assert [(r.line, r.reason) for r in parsed.rejected] == [("card1", "not_a_row"), ("system", "not_a_row")]


def test_a_card_without_numa_node_and_name_is_parsed() -> None:
    card = {
        "Card series": "0x740c",
        "(Topology) Numa Node": "-1",
        "Compute Partition": "SPX",
        "GPU use (%)": "5",
    }
    parsed = parse_rocm_smi.parse_rocm_json(json.dumps({"card0": card}))
    [device] = parsed.devices
    assert (device.model, device.numa_node) == (None, None)
    assert (device.compute_partition, device.utilization_ratio) == ("SPX", 0.05)
    assert [(a.field, a.reason) for a in device.absent] == [("model", "not_known")]
    assert parsed.rejected == ()


def test_clocks_of_static_are_read_from_their_levels() -> None:
    levels = {"Level 0": "500 MHz", "Level 1": {"value": 2100, "unit": "MHz"}, "Level 2": "N/A"}
    for key in ("current level", "current_level"):
        gpu = {"gpu": 0, "clock": {"sys": {key: 0, "frequency_levels": levels}, "mem": "N/A"}}
        [device] = parse_amd_smi.parse_static(json.dumps([gpu])).devices
        [clock] = device.clocks
        assert (clock.hertz, clock.max_hertz) == (5e8, 2.1e9)


def test_a_stopped_clock_of_static_is_zero() -> None:
    levels = {"Level 0": "0 MHz", "Level 1": "96 MHz"}
    gpu = {"gpu": 0, "clock": {"mem": {"current_level": 0, "frequency_levels": levels}}}
    [clock] = parse_amd_smi.parse_static(json.dumps([gpu])).devices[0].clocks
    assert (clock.hertz, clock.max_hertz) == (0.0, 96e6)
    gpu = {"gpu": 0, "clock": {"mem": {"current_level": 0, "frequency_levels": {"Level 0": "0 MHz"}}}}
    [clock] = parse_amd_smi.parse_static(json.dumps([gpu])).devices[0].clocks
    assert (clock.hertz, clock.max_hertz) == (0.0, None)


def links_of(text: str) -> dict[int | None, tuple[Link, ...]]:
    """By the index of the GPU, without GPUs that have none."""
    return {gpu.index: gpu.links for gpu in parse_amd_smi.parse_links(text).devices if gpu.links}


def test_links_are_parsed_with_their_states() -> None:
    entry = {
        "gpu": 0,
        "bdf": "0000:05:00.0",
        "link_metrics": {
            "max_bandwidth": {"value": 512, "unit": "Gb/s"},
            "links": [
                {"gpu": 0, "bdf": "0000:05:00.0", "read": "N/A", "write": "N/A"},
                {"gpu": 1, "bdf": "0000:26:00.0", "read": held(3, "KB"), "write": held(5, "KB")},
            ],
        },
    }
    states = {"gpu": 0, "bdf": "0000:05:00.0", "link_status": ["X", "D"]}
    link = Link(
        "xgmi",
        1,
        active=False,
        remote="0000:26:00.0",
        bytes_per_second=64e9,
        transmit_bytes_total=5120,
        receive_bytes_total=3072,
    )
    for document in (
        [{**entry, "link_status": ["X", "D"]}],
        {"xgmi_metric": [entry], "link_status": [states]},
    ):
        assert links_of(json.dumps(document)) == {0: (link,)}
    assert links_of(json.dumps([{"gpu": 0, "link_status": ["U"]}])) == {0: (Link("xgmi", 0, active=True),)}
    assert links_of("no JSON") == {}


def test_port_states_are_not_used_as_link_states() -> None:
    """From 27.1 on the tables are wrapped, and one of them is by port, not by GPU."""
    gpus = ["0000:05:00.0", "0000:26:00.0", "0000:46:00.0"]
    entries = [
        {
            "gpu": 0,
            "bdf": gpus[0],
            "link_metrics": {
                "max_bandwidth": held(512, "Gb/s"),
                "links": [
                    {"gpu": 0, "bdf": gpus[0], "read": "N/A", "write": "N/A"},
                    {"gpu": 1, "bdf": gpus[1], "read": held(3, "KB"), "write": held(5, "KB")},
                    {"gpu": 2, "bdf": gpus[2], "read": held(0, "KB"), "write": held(0, "KB")},
                ],
            },
        }
    ]
    ports = [{"gpu": 0, "bdf": gpus[0], "link_status": ["U", "D", "D"]}]
    links = [{"gpu": 0, "bdf": gpus[0], "link_status": ["SELF", "U", "D"]}]
    wrapped = {"xgmi_metric": [entries], "link_port_status": ports}
    found = links_of(json.dumps(wrapped))[0]
    assert [(link.remote, link.active) for link in found] == [(gpus[1], None), (gpus[2], None)]
    for document in (
        {**wrapped, "link_status": links},
        {"link_status": links, **wrapped},
        {**wrapped, "link_status": [links]},
    ):
        found = links_of(json.dumps(document))[0]
        assert [(link.remote, link.active) for link in found] == [(gpus[1], True), (gpus[2], False)]
    assert links_of(json.dumps({"link_port_status": ports})) == {}


def test_a_link_without_traffic_has_its_state() -> None:
    """The tool has no traffic for chips before MI300."""
    gpus = ["0000:05:00.0", "0000:26:00.0", "0000:46:00.0"]
    links = [{"gpu": n, "bdf": bdf, "read": "N/A", "write": "N/A"} for n, bdf in enumerate(gpus)]
    entry = {"gpu": 0, "bdf": gpus[0], "link_metrics": {"links": links}}
    document = {"xgmi_metric": [entry], "link_status": [{"gpu": 0, "link_status": ["SELF", "D", "N/A"]}]}
    [link] = links_of(json.dumps(document))[0]
    assert (link.index, link.remote, link.active) == (1, gpus[1], False)
    assert links_of(json.dumps({"xgmi_metric": [entry]})) == {}


def test_a_pci_id_is_not_a_model_name() -> None:
    document = {"gpu": 0, "asic": {"market_name": "0x1002"}, "board": {"product_name": "N/A"}}
    parsed = parse_amd_smi.parse_static(json.dumps([document]))
    assert parsed.devices[0].model is None
    assert {a.field: str(a.reason) for a in parsed.devices[0].absent}["model"] == "not_known"
    assert parsed.rejected == ()
    document["board"] = {"product_name": "AMD Instinct MI300X"}
    [device] = parse_amd_smi.parse_static(json.dumps([document])).devices
    assert device.model == "AMD Instinct MI300X"


def test_visible_vram_is_not_used_as_total_memory() -> None:
    usage = {
        "total_vram": "N/A",
        "used_vram": "N/A",
        "free_vram": "N/A",
        "total_visible_vram": held(512, "MB"),
        "used_visible_vram": held(20, "MB"),
        "free_visible_vram": held(492, "MB"),
    }
    [device] = parse_amd_smi.parse_metric(json.dumps([{"gpu": 0, "mem_usage": usage}])).devices
    assert (device.memory_total_bytes, device.memory_used_bytes, device.memory_free_bytes) == (None,) * 3
    assert {a.field: str(a.reason) for a in device.absent} == {
        "memory_total_bytes": "not_supported",
        "memory_used_bytes": "not_supported",
        "memory_free_bytes": "not_supported",
    }


@pytest.mark.parametrize(
    ("blocks", "enabled"),
    [
        ({"UMC": "DISABLED", "SDMA": "DISABLED", "GFX": "ENABLED"}, True),
        ({"UMC": "ENABLED", "SDMA": "DISABLED"}, True),
        ({"UMC": "DISABLED", "GFX": "DISABLED"}, False),
        ({"UMC": "N/A", "GFX": "DISABLED"}, False),
        ([{"block": "UMC", "status": "DISABLED"}, {"block": "GFX", "status": "ENABLED"}], True),
        ({"UMC": "N/A"}, None),
        ("N/A", None),
    ],
)
def test_ecc_is_enabled_if_any_block_has_it_enabled(blocks: object, enabled: bool | None) -> None:
    document = [{"gpu": 0, "ras": {"ecc_block_state": blocks}, "bus": {"bdf": "0000:05:00.0"}}]
    [device] = parse_amd_smi.parse_static(json.dumps(document)).devices
    assert device.ecc_enabled is enabled
    assert ("ecc_enabled" in {a.field for a in device.absent}) is (enabled is None)


@pytest.mark.parametrize("key", ["model_number", "product_number"])
def test_part_number_and_market_name_are_both_read(key: str) -> None:
    document = {
        "gpu": 0,
        "asic": {"market_name": "AMD Instinct MI300X OAM", "device_id": "0x74a1"},
        "board": {key: "102-G30211-0C", "product_name": "AMD Instinct MI300X OAM"},
        "vbios": {"part_number": "113-M3000100-102", "version": "022.040.003.043.000001"},
    }
    [device] = parse_amd_smi.parse_static(json.dumps([document])).devices
    assert (device.model, device.part_number) == ("AMD Instinct MI300X OAM", "102-G30211-0C")
    assert (device.firmware_version, device.vbios_version) == ("113-M3000100-102", "022.040.003.043.000001")
    assert device.pci_device_id == "0x74a1"


def test_engines_by_partition_are_read_if_the_lists_are_empty() -> None:
    usage: dict[str, object] = {
        "vcn_activity": ["N/A"] * 4,
        "jpeg_activity": ["N/A"] * 32,
        "vcn_busy": {"xcp_0": [held(10, "%"), held(30, "%"), "N/A"], "xcp_1": [held(80, "%")]},
        "jpeg_busy": {"xcp_0": [held(0, "%")] * 40},
    }
    [device] = parse_amd_smi.parse_metric(json.dumps([{"gpu": 0, "usage": usage}])).devices
    assert (device.decoder_utilization_ratio, device.jpeg_utilization_ratio) == (0.4, 0.0)
    usage["vcn_activity"] = [held(4, "%"), "N/A", "N/A", "N/A"]
    [device] = parse_amd_smi.parse_metric(json.dumps([{"gpu": 0, "usage": usage}])).devices
    assert device.decoder_utilization_ratio == 0.04


def test_a_compute_die_without_a_value_does_not_renumber_the_others() -> None:
    whole = {"gfx_busy_inst": {"xcp_0": [held(10, "%"), "N/A", held(30, "%"), "N/A"]}}
    [device] = parse_amd_smi.parse_metric(json.dumps([{"gpu": 0, "usage": whole}])).devices
    assert [(core.index, core.utilization_ratio) for core in device.cores] == [(0, 0.1), (2, 0.3)]
    halves = {"xcp_0": ["N/A", held(10, "%"), "N/A"], "xcp_1": [held(20, "%"), held(30, "%"), "N/A"]}
    [device] = parse_amd_smi.parse_metric(
        json.dumps([{"gpu": 0, "usage": {"gfx_busy_inst": halves}}])
    ).devices
    assert [(core.index, core.utilization_ratio) for core in device.cores] == [(1, 0.1), (2, 0.2), (3, 0.3)]


ZERO_ECC = {
    "total_correctable_count": 0,
    "total_uncorrectable_count": 0,
    "total_deferred_count": 0,
    "cache_correctable_count": "N/A",
    "cache_uncorrectable_count": "N/A",
}


@pytest.mark.parametrize("blocks", ["N/A", {}])
def test_a_card_without_ecc_has_no_ecc_counts(blocks: object) -> None:
    document = [{"gpu": 0, "ecc": ZERO_ECC, "ecc_blocks": blocks}]
    [device] = parse_amd_smi.parse_metric(json.dumps(document)).devices
    assert device.ecc == ()
    assert [(a.field, str(a.reason)) for a in device.absent] == [("ecc", "not_supported")]


def test_zero_ecc_counts_of_a_card_with_ecc_are_kept() -> None:
    block = {"correctable_count": 0, "uncorrectable_count": 0, "deferred_count": 0}
    for further in ({"ecc_blocks": {"UMC": block}}, {}):
        [device] = parse_amd_smi.parse_metric(json.dumps([{"gpu": 0, "ecc": ZERO_ECC, **further}])).devices
        totals = {(e.severity, e.count) for e in device.ecc if e.block is None}
        assert totals == {("corrected", 0), ("uncorrected", 0), ("deferred", 0)}
    counted = {**ZERO_ECC, "total_correctable_count": 3}
    [device] = parse_amd_smi.parse_metric(
        json.dumps([{"gpu": 0, "ecc": counted, "ecc_blocks": "N/A"}])
    ).devices
    assert ("corrected", 3) in {(e.severity, e.count) for e in device.ecc}


def test_pcie_traffic_is_read_in_both_directions() -> None:
    document = [{"gpu": 0, "pcie": {"bandwidth": held(100, "Mb/s"), "current_bandwidth_sent": "N/A"}}]
    [device] = parse_amd_smi.parse_metric(json.dumps(document)).devices
    assert device.pcie is not None
    assert device.pcie.bytes_per_second == 12.5e6


def test_occupancy_over_all_gpus_is_not_the_utilization_of_a_process() -> None:
    """rocm-smi divides the compute units that a process occupies by those of all GPUs of the node."""
    document = {"card0": {"GPU use (%)": "92"}, "system": {"PID7": "train, 1, 4096, 0, 11"}}
    [process] = parse_rocm_smi.parse_rocm_json(json.dumps(document)).processes
    assert (process.pid, process.memory_bytes, process.utilization_ratio) == (7, 4096, None)


def test_partitions_with_the_same_address_are_numbered() -> None:
    """All partitions have function 0 of the GPU's address, and from 27.1 on only the first has its number."""
    serial = "0xF1B3A4C1007197FB"
    for second in (serial, "N/A"):
        static = [
            {"gpu": n, "asic": {"asic_serial": serial if n % 2 == 0 else second}, "bus": {"bdf": address}}
            for n, address in enumerate(("0000:10:00.0", "0000:10:00.0", "0000:28:00.0", "0000:28:00.0"))
        ]
        static[2]["asic"] = {"asic_serial": "0xAB"}
        static[3]["asic"] = {"asic_serial": "0xAB" if second == serial else "N/A"}
        devices = parse_amd_smi.parse_static(json.dumps(static)).devices
        assert [device.id for device in devices] == [
            "amd:0xf1b3a4c1007197fb",
            "amd:0xf1b3a4c1007197fb/1",
            "amd:0xab",
            "amd:0xab/1",
        ]


PARTITIONS = ((0, "0000:10:00.0"), (1, "0000:10:00.0"), (2, "0000:10:00.0"))
PARTITIONS_BY_FUNCTION = ((0, "0000:10:00.0"), (1, "0000:10:00.1"), (2, "0000:10:00.2"))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0), (1,), (2,)])
@pytest.mark.parametrize("partitions", [PARTITIONS, PARTITIONS_BY_FUNCTION])
@pytest.mark.parametrize(
    ("serials", "gpu"),
    [(("0xAB", "0xAB", "0xAB"), "amd:0xab"), (("N/A", "N/A", "N/A"), "amd:0000:10:00.0")],
)
def test_the_id_of_a_partition_has_the_number_that_amd_smi_prints(
    order: tuple[int, ...], partitions: tuple[tuple[int, str], ...], serials: tuple[str, ...], gpu: str
) -> None:
    static = [
        {
            "gpu": index,
            "asic": {"asic_serial": serials[number]},
            "bus": {"bdf": partitions[number][1]},
            "partition": {"accelerator_partition": "TPX", "partition_id": number},
        }
        for index, number in enumerate(order)
    ]
    devices = parse_amd_smi.parse_static(json.dumps(static)).devices
    assert [device.id for device in devices] == [f"{gpu}/{number}" if number else gpu for number in order]


def test_the_first_partition_may_be_listed_last() -> None:
    static = [
        {"gpu": index, "asic": {"asic_serial": serial}, "bus": {"bdf": "0000:10:00.0"}, "partition": part}
        for index, (serial, part) in enumerate((("N/A", {"partition_id": 1}), ("0xAB", {"partition_id": 0})))
    ]
    devices = parse_amd_smi.parse_static(json.dumps(static)).devices
    assert [device.id for device in devices] == ["amd:0xab/1", "amd:0xab"]


@pytest.mark.parametrize("word", [0, "0", "N/A", "0, 1"])
def test_partitions_without_numbers_have_different_ids(word: object) -> None:
    static = [
        {"gpu": n, "asic": {"asic_serial": "0xAB"}, "partition": {"partition_id": word}} for n in range(3)
    ]
    devices = parse_amd_smi.parse_static(json.dumps(static)).devices
    assert [device.id for device in devices] == ["amd:0xab", "amd:0xab/1", "amd:0xab/2"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1,)])
def test_the_id_of_a_partition_has_the_number_that_rocm_smi_prints(order: tuple[int, ...]) -> None:
    head = "GPU  NODE  DID     GUID  GFX VER  GFX RAS  SDMA RAS  UMC RAS  VBIOS  BUS           PARTITION ID\n"
    rows = "".join(
        f"{n}  4  0x74a0  38  gfx942  ENABLED  ENABLED  DISABLED  N/A  0000:01:00.0  {part}\n"
        for n, part in enumerate(order)
    )
    ids = [device.id for device in parse_rocm_smi.parse_rocm_table(head + rows).devices]
    assert ids == ["amd:0000:01:00.0" + (f"/{part}" if part else "") for part in order]


def test_a_partition_identified_by_its_index_has_no_partition_number() -> None:
    ids = [device.id for device in parse_rocm_smi.parse_rocm_table(CUT_TABLE).devices]
    assert ids == [f"amd:unidentified-{number}" for number in range(5)]


OLDEST_TABLE = """
====================    ROCm System Management Interface    ====================
================================================================================
 GPU  Temp    AvgPwr   SCLK     MCLK     Fan      Perf    SCLK OD    MCLK OD
  0   35c     73.68W   1411Mhz  300Mhz   9.8%     auto      0%         0%
================================================================================
"""
OLD_TABLE = """
======================= ROCm System Management Interface =======================
================================= Concise Info =================================
GPU  Temp (DieEdge)  AvgPwr  SCLK    MCLK     Fan   Perf  PwrCap  VRAM%  GPU%
0    42.0c           38.0W   300Mhz  1200Mhz  9.8%  auto  290.0W    7%   20%
1    N/A             N/A     None    None     0%    auto  Unsupported  0%  Unsupported
================================================================================
============================= End of ROCm SMI Log ==============================
"""
STACKED_TABLE = """
Device  [Model : Revision]  Temp  Power  Partitions  SCLK  MCLK  Fan  Perf  PwrCap  VRAM%  GPU%
        Name (20 chars)       (Junction)  (Socket)  (Mem, Compute)
====================================================================================================
0  [0x74a1 : 0x00]  50.0°C  170.0W  NPS1, SPX  131Mhz  900Mhz  0%  auto  750.0W  3%  4%
        AMD Instinct MI300X
1  [0x0b0c : 0x00]  51.0°C  N/A  N/A, N/A  800Mhz  1600Mhz  0%  auto  0.0W  0%  0%
        AMD INSTINCT MI200 (
2  [0x5200 : 0xc8]  46.0°C  72.0W  N/A, N/A  21Mhz  1249Mhz  0%  auto  291.0W  4%  1%
        0x744c
====================================================================================================
"""
CUT_TABLE = """
Device  Node  IDs  Temp  Power  Partitions  SCLK  MCLK  Fan  Perf  PwrCap  VRAM%  GPU%
\x1b[3m   (DID,  GUID)  (Junction)  (Socket)  (Mem, Compute, ID)  \x1b[0m
====================================================================================================
0  1  0x74a1,  40211  48.0°C  253.0W  NPS4, CPX, 0  2100Mhz  1300Mhz  0%  n/a  750.0W  14%  19%
1  2  0x74a1,  14344  48.0°C  253.0W  NPS4, CPX, 1  2100Mhz  1300Mhz  0%  n/a  750.0W  14%  19%
2  3  N/A,  27906  N/A  N/A  N/A, N/A, 2  N/A  N/A  0%  n/a  N/A  N/A  N/A
3  4  0x7408,  59177  72.0°C  475.0W  N/A, N/A, 0  1700Mhz  1600Mhz  0%  n/a  560.0W  47%  84%
4  5  0x7408,  53520  72.0°C  475.0W  N/A, N/A, 0  1700Mhz  1600Mhz  0%  n/a  560.0W  47%  86%
5       6     0x7408,   9418   72.0°C      475.
"""


def test_the_oldest_tables_of_rocm_smi_are_parsed() -> None:
    [device] = parse_rocm_smi.parse_rocm_table(OLDEST_TABLE).devices
    assert (device.index, device.temperature_celsius, device.power_watts) == (0, 35.0, 73.68)
    assert [(c.domain, c.hertz) for c in device.clocks] == [("graphics", 1411e6), ("memory", 300e6)]
    assert (device.power_limit_watts, device.utilization_ratio) == (None, None)
    first, second = parse_rocm_smi.parse_rocm_table(OLD_TABLE).devices
    assert (first.temperature_celsius, first.power_watts, first.power_limit_watts) == (42.0, 38.0, 290.0)
    assert (first.utilization_ratio, first.fans[0].speed_ratio) == (0.2, 0.098)
    assert (second.index, second.temperature_celsius, second.power_watts) == (1, None, None)
    assert (second.utilization_ratio, second.power_limit_watts, second.clocks) == (None, None, ())


def test_a_table_of_rocm_smi_has_the_used_fraction_of_memory() -> None:
    assert [device.memory_used_ratio for device in parse_rocm_smi.parse_rocm_table(OLD_TABLE).devices] == [
        0.07,
        0.0,
    ]
    *others, unmeasured = parse_rocm_smi.parse_rocm_table(CUT_TABLE).devices[:3]
    assert [device.memory_used_ratio for device in others] == [0.14, 0.14]
    assert unmeasured.memory_used_ratio is None
    assert "memory_used_ratio" in {absence.field for absence in unmeasured.absent}
    assert {device.memory_used_bytes for device in others} == {None}


def test_names_below_the_rows_of_rocm_smi_are_parsed() -> None:
    parsed = parse_rocm_smi.parse_rocm_table(STACKED_TABLE)
    whole, die, radeon = parsed.devices
    assert (whole.model, whole.memory_partition, whole.compute_partition) == (
        "AMD Instinct MI300X",
        "NPS1",
        "SPX",
    )
    assert [(sensor.name, sensor.celsius) for sensor in whole.sensors] == [("junction", 50.0)]
    # A name of twenty characters may be cut, a number is none, and a cap of 0 W is no limit.
    assert (die.model, radeon.model) == (None, None)
    assert (die.power_watts, die.power_limit_watts, radeon.power_watts) == (None, None, 72.0)
    assert parsed.rejected == ()


def test_rocm_smi_tables_publish_shared_power_once() -> None:
    parsed = parse_rocm_smi.parse_rocm_table(CUT_TABLE)
    assert [device.power_watts for device in parsed.devices] == [253.0, None, None, 475.0, None]
    reasons = [{a.field: str(a.reason) for a in device.absent} for device in parsed.devices]
    assert [values.get("power_watts") for values in reasons] == [None, "shared", "shared", None, "shared"]
    assert [device.pci_device_id for device in parsed.devices] == [
        "0x74a1",
        "0x74a1",
        None,
        "0x7408",
        "0x7408",
    ]
    assert [device.utilization_ratio for device in parsed.devices] == [0.19, 0.19, None, 0.84, 0.86]
    assert [rejection.reason for rejection in parsed.rejected] == ["not_a_row"]


def test_a_later_table_of_rocm_smi_updates_an_earlier_one() -> None:
    later = OLD_TABLE.replace("42.0c", "N/A  ").replace("38.0W", "55.0W")
    hardware = (
        "GPU  DID     GFX RAS   SDMA RAS  UMC RAS   VBIOS             BUS\n"
        "0    0x738c  DISABLED  DISABLED  DISABLED  113-D3431401-101  0000:83:00.0\n"
    )
    first, _ = parse_rocm_smi.parse_rocm_table(OLD_TABLE + later + hardware).devices
    assert (first.id, first.firmware_version, first.ecc_enabled) == (
        "amd:0000:83:00.0",
        "113-D3431401-101",
        False,
    )
    assert (first.temperature_celsius, first.power_watts) == (None, 55.0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("WARNING: No AMD GPUs specified\n" + STACKED_TABLE.partition("====")[0], "no_devices"),
        (STACKED_TABLE.partition("====")[0], "truncated"),
        ("GPU  POWER\n0    5 W\n", "unrecognized"),
        ('{"card0": {"GPU use (%)": "5"}}', "unrecognized"),
    ],
)
def test_other_text_is_not_a_table_of_rocm_smi(text: str, reason: str) -> None:
    parsed = parse_rocm_smi.parse_rocm_table(text)
    assert (parsed.devices, parsed.error and parsed.error.reason) == ((), reason)


def test_a_power_cap_of_zero_is_absent() -> None:
    document = {"card0": {"GPU use (%)": "5", "Max Graphics Package Power (W)": "0.0"}}
    [device] = parse_rocm_smi.parse_rocm_json(json.dumps(document)).devices
    assert device.power_limit_watts is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ERROR:root:Driver not initialized (amdgpu not found in modules)", "driver_not_loaded"),
        ("Driver not loaded (amdgpu not found in modules)", "driver_not_loaded"),
        ("WARNING: No JSON data to report", "nothing_to_report"),
        ("WARNING: AMD GPU device(s) is/are in a low-power state. Check power control", "suspended"),
        ("AMD GPUs visible, but data is inaccessible. Check power control/runtime_status", "suspended"),
        ("NOT_SUPPORTED: Cannot print JSON/CSV output for concise output", "not_supported"),
        ("bash: rocm-smi: command not found", "tool_missing"),
        (
            "Traceback (most recent call last):\n  x\nModuleNotFoundError: No module named 'amdsmi'",
            "library_missing",
        ),
        ("Traceback (most recent call last):\n  x\nZeroDivisionError: y", "tool_failed"),
        ("libamd_smi.so: cannot open shared object file: No such file", "library_missing"),
        ("ERROR: Permission denied", "no_permission"),
        ("usage: rocm-smi\nrocm-smi: error: unrecognized arguments: --json", "unknown_option"),
        ("ERROR: Unable to detect any GPU devices", "no_devices"),
        ("ERROR: GPU[0] : Unable to get GPU memory use.", "driver_error"),
        ("something else", "unrecognized"),
        ("   ", "empty"),
        ('{"error": "AMDSMI_STATUS_NO_PERM - Permission Denied", "code": 10}', "no_permission"),
        ('{"error": "a new one", "code": 99}', "driver_error"),
    ],
)
def test_error_messages_of_the_tools_have_reasons(text: str, reason: str) -> None:
    for parse in (parse_amd_smi.parse_metric, parse_rocm_smi.parse_rocm_json):
        error = parse(text).error
        assert error is not None
        assert error.reason == reason


def test_partitions_in_the_monitor_complete_their_gpu() -> None:
    text = "GPU  XCP  POWER   GPU_T   GFX%\n  0    0  293 W   49 °C   97 %\n  0    1    N/A     N/A    N/A\n"
    [device] = parse_monitor.parse(text).devices
    assert (device.power_watts, device.utilization_ratio) == (293.0, 0.97)
    second_partition = "GPU  XCP  POWER   GPU_T\n  0    0  293 W     N/A\n  0    1  100 W   49 °C\n"
    [device] = parse_monitor.parse(second_partition).devices
    assert (device.power_watts, device.temperature_celsius, device.absent) == (293.0, 49.0, ())
